"""An LSTM language model of a SOM's size."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import CausalLMOutput

from som.baselines.language_model import LanguageModel, dropouts
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


class LSTMForCausalLM(LanguageModel):
    """An LSTM in two layers, D → wide → D."""

    config_class = LSTMConfig

    def __init__(self, config: LSTMConfig):
        super().__init__(config)
        D, wide = config.hidden_size, config.wide_size
        self.wide, self.narrow = nn.LSTM(D, wide, batch_first=True), nn.LSTM(wide, D, batch_first=True)
        self.post_init()

    def forward(self, input_ids: Tensor, labels: Tensor | None = None, **kwargs: Any) -> CausalLMOutput:
        x, _ = self.wide(self.words(input_ids))
        x, _ = self.narrow(F.dropout(x, self.config.dropout, self.training))
        return self.predict(x, labels, **kwargs)


def lstm(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new LSTM: its two layers have 4 (D + wide)² weights, the two cells and two parsers of a SOM 51 D²."""
    wide = round(settings.hidden_size * ((51 / 4) ** 0.5 - 1))
    sizes = {"hidden_size": settings.hidden_size, "wide_size": wide, **vocabulary(tokenizer)}
    return LSTMForCausalLM(LSTMConfig(**sizes, **dropouts(settings)))
