"""Syntactic Ordered Memory: a language model that parses while it reads.

With this package imported, the Auto classes of transformers load SOM checkpoints without remote code."""

from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from configuration_som import SOMConfig
from modeling_som import SOMForCausalLM, SOMModel

AutoConfig.register(SOMConfig.model_type, SOMConfig, exist_ok=True)
AutoModel.register(SOMConfig, SOMModel, exist_ok=True)
AutoModelForCausalLM.register(SOMConfig, SOMForCausalLM, exist_ok=True)
