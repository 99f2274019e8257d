"""A GPT-2 of a SOM's size."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel, PreTrainedTokenizerFast

from som.training import TrainSettings, vocabulary


class GPT2(GPT2LMHeadModel):
    """The library's GPT-2, for which trees are no input."""

    def forward(self, *args: Any, first_sibling: Tensor | None = None, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)


def gpt2(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new GPT-2 of four layers, 12 D² weights each."""
    sizes = {"n_embd": settings.hidden_size, "n_layer": 4, "n_head": 4, "n_positions": 512, **vocabulary(tokenizer)}
    dropout: dict[str, Any] = {f"{place}_pdrop": settings.dropout for place in ("resid", "embd", "attn")}
    return GPT2(GPT2Config(**sizes, **dropout))
