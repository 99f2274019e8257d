"""An LSTM language model of a SOM's size."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import CausalLMOutput

from som.baselines.language_model import dropouts
from som.training import TrainSettings, vocabulary


@strict
class LSTMConfig(PreTrainedConfig):
    model_type = "lstm_lm"
    vocab_size: int = 10_000
    hidden_size: int = 200
    wide_size: int = 514
    embedding_dropout: float = 0.1
    dropout: float = 0.2
    output_dropout: float = 0.3
    tie_word_embeddings: bool = True


class LSTMForCausalLM(PreTrainedModel):
    """An LSTM with tied embeddings in two layers, D → wide → D.

    Words and last states are normalised, as in a SOM: without, Adam stays long at the frequencies of the words."""

    config_class = LSTMConfig
    _tied_weights_keys = {"lm_head.weight": "embed_tokens.weight"}

    def __init__(self, config: LSTMConfig):
        super().__init__(config)
        D, wide = config.hidden_size, config.wide_size
        self.embed_tokens = nn.Embedding(config.vocab_size, D)
        self.norm, self.output_norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.wide, self.narrow = nn.LSTM(D, wide, batch_first=True), nn.LSTM(wide, D, batch_first=True)
        self.lm_head = nn.Linear(D, config.vocab_size)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Layers keep PyTorch's own beginning; embeddings, which are the output layer too, begin small."""
        if isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -0.1, 0.1)

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Tensor, labels: Tensor | None = None, **kwargs: Any) -> CausalLMOutput:
        config, training = self.config, self.training
        x = F.dropout(self.norm(self.embed_tokens(input_ids)), config.embedding_dropout, training)  # (B, T, D)
        x, _ = self.wide(x)
        x, _ = self.narrow(F.dropout(x, config.dropout, training))
        logits = self.lm_head(F.dropout(self.output_norm(x), config.output_dropout, training))  # (B, T, V)
        loss = None if labels is None else self.loss_function(logits, labels, vocab_size=config.vocab_size, **kwargs)
        return CausalLMOutput(loss=loss, logits=logits)


def lstm(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new LSTM: its two layers have 4 (D + wide)² weights, the two cells and two parsers of a SOM 51 D²."""
    wide = round(settings.hidden_size * ((51 / 4) ** 0.5 - 1))
    sizes = {"hidden_size": settings.hidden_size, "wide_size": wide, **vocabulary(tokenizer)}
    return LSTMForCausalLM(LSTMConfig(**sizes, **dropouts(settings)))
