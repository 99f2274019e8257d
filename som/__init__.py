"""Syntactic Ordered Memory: a language model that parses while it reads.

With this package imported, the Auto classes of transformers load SOM checkpoints without remote code."""

from importlib import import_module

from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer
from transformers.models.auto.tokenization_auto import REGISTERED_TOKENIZER_CLASSES

from configuration_som import SOMConfig
from modeling_som import SOMForCausalLM, SOMModel, SOMTokenizer
from modeling_som.tokenization_som import SAVED_CLASS

AutoConfig.register(SOMConfig.model_type, SOMConfig, exist_ok=True)
AutoModel.register(SOMConfig, SOMModel, exist_ok=True)
AutoModelForCausalLM.register(SOMConfig, SOMForCausalLM, exist_ok=True)
AutoTokenizer.register(SOMConfig, tokenizer_class=SOMTokenizer, exist_ok=True)
REGISTERED_TOKENIZER_CLASSES[SAVED_CLASS] = SOMTokenizer

EXPORTS = {  # loaded when first asked for: `import som` stays quick
    "load": "inference",
    "log_likelihood": "inference",
    "score": "inference",
    "parse": "parsing",
    "parse_all": "parsing",
    "surprisals": "surprisal",
    "surprisals_all": "surprisal",
    "generate": "generation",
    "evaluate": "evaluation",
}


def __getattr__(name: str):
    if name not in EXPORTS:
        raise AttributeError(f"module 'som' has no attribute {name!r}")
    return getattr(import_module(f"som.{EXPORTS[name]}"), name)
