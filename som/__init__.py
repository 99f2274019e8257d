"""Syntactic Ordered Memory: a language model that parses while it reads.

    >>> import som
    >>> model, tokenizer = som.load()
    >>> print(som.parse(model, tokenizer, "The dog barks.").brackets())
    (root (nsubj (det The) (head dog)) (head barks) (punct .))

With this package imported, the Auto classes of transformers load SOM checkpoints without remote code. Names are
imported when they are first used, so that `import som` and `som --help` stay quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from som.registration import register_with_transformers

if TYPE_CHECKING:
    from modeling_som.scoring_som import Method as Method
    from modeling_som.scoring_som import log_likelihood as log_likelihood
    from modeling_som.scoring_som import score as score
    from som.data import SOMCollator as SOMCollator
    from som.data import prepare as prepare
    from som.data import treebank_dataset as treebank_dataset
    from som.evaluation import evaluate as evaluate
    from som.inference import Comparison as Comparison
    from som.inference import Generated as Generated
    from som.inference import Parse as Parse
    from som.inference import PartialParse as PartialParse
    from som.inference import WordSurprisal as WordSurprisal
    from som.inference import compare as compare
    from som.inference import generate as generate
    from som.inference import load as load
    from som.inference import parse as parse
    from som.inference import parse_all as parse_all
    from som.inference import parse_each as parse_each
    from som.inference import partial_parses as partial_parses
    from som.inference import surprisal_table as surprisal_table
    from som.inference import surprisals as surprisals
    from som.inference import surprisals_all as surprisals_all
    from som.inference import surprisals_each as surprisals_each
    from som.syntax import Tree as Tree
    from som.syntax import read_treebank as read_treebank
    from som.training import train as train

    __version__: str

ROOMS = {
    "modeling_som.scoring_som": ("Method", "log_likelihood", "score"),
    "som.data": ("SOMCollator", "prepare", "treebank_dataset"),
    "som.evaluation": ("evaluate",),
    "som.inference": (
        "Comparison",
        "Generated",
        "Parse",
        "PartialParse",
        "WordSurprisal",
        "compare",
        "generate",
        "load",
        "parse",
        "parse_all",
        "parse_each",
        "partial_parses",
        "surprisal_table",
        "surprisals",
        "surprisals_all",
        "surprisals_each",
    ),
    "som.syntax": ("Tree", "read_treebank"),
    "som.training": ("train",),
}
HOMES = {name: room for room, names in ROOMS.items() for name in names}
__all__ = sorted([*HOMES, "__version__"])

register_with_transformers()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("som-lm")
    if name not in HOMES:
        raise AttributeError(f"module 'som' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
