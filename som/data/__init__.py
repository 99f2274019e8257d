"""From treebanks to batches: vocabularies, data sets on disk, the collator."""

from typing import TYPE_CHECKING, Any

from som.data.datasets import (
    SPLITS,
    add_word_counts,
    count_words,
    fingerprint,
    prepare,
    token_siblings,
    treebank_dataset,
)
from som.data.sources import hub_sentences
from som.data.summary import SUMMARY, Typical, row_tags, summary_table, tag_names, typical_tree, vocabulary_advice
from som.data.vocabularies import make_tokenizer, set_word_rules

if TYPE_CHECKING:
    from som.data.collator import SOMCollator as SOMCollator

__all__ = [
    "treebank_dataset",
    "SOMCollator",
    "SPLITS",
    "SUMMARY",
    "Typical",
    "add_word_counts",
    "count_words",
    "fingerprint",
    "hub_sentences",
    "make_tokenizer",
    "prepare",
    "row_tags",
    "set_word_rules",
    "summary_table",
    "tag_names",
    "token_siblings",
    "typical_tree",
    "vocabulary_advice",
]


def __getattr__(name: str) -> Any:
    """What needs torch is imported when it is asked for: preparing data does without."""
    if name != "SOMCollator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from som.data.collator import SOMCollator

    return SOMCollator
