"""The two ends that recurrent language models share: words in, logits of the next words out."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from som.training import TrainSettings


class LanguageModel(PreTrainedModel):
    """Embeddings, tied to the output layer; subclasses read them and call `post_init` when they are complete.

    Words and last states are normalised, as in a SOM: without, Adam takes long to get beyond the
    frequencies of the words."""

    _tied_weights_keys = {"lm_head.weight": "embed_tokens.weight"}

    def __init__(self, config: Any):
        super().__init__(config)
        D = config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, D)
        self.norm, self.output_norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.lm_head = nn.Linear(D, config.vocab_size)

    def _init_weights(self, module: nn.Module) -> None:
        """Layers keep PyTorch's initialisation; embeddings, which are the output layer too, start small."""
        if isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -0.1, 0.1)

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def words(self, input_ids: Tensor) -> Tensor:
        """(B, T, D): the embeddings of words."""
        return F.dropout(self.norm(self.embed_tokens(input_ids)), self.config.embedding_dropout, self.training)

    def predict(self, states: Tensor, labels: Tensor | None, **kwargs: Any) -> CausalLMOutput:
        """Logits of the word after each state (B, T, D), and the loss of the words that are labels."""
        states = F.dropout(self.output_norm(states), self.config.output_dropout, self.training)
        logits = self.lm_head(states)  # (B, T, V)
        size = self.config.vocab_size
        loss = None if labels is None else self.loss_function(logits, labels, vocab_size=size, **kwargs)
        return CausalLMOutput(loss=loss, logits=logits)


def dropouts(settings: TrainSettings) -> dict[str, Any]:
    """The part of a configuration that says how much is dropped where, validated before a run begins."""
    rates = {name: float(getattr(settings, name)) for name in ("embedding_dropout", "dropout", "output_dropout")}
    for name, rate in rates.items():
        if not 0 <= rate < 1:
            raise ValueError(f"{name} must be in [0, 1), got {rate}")
    return rates
