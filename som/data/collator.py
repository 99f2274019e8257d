"""Rows of a data set to padded batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from modeling_som.sentences_som import NONE


@dataclass(frozen=True)
class SOMCollator:
    """Pads rows on the tokenizer's side to one length.

    `first_sibling` counts the row's own tokens, as if it stood alone: padding on the left does not shift it. A row's
    labels are what it reads, unless it has others; its first token has none, as nothing predicts it.
    """

    tokenizer: PreTrainedTokenizerFast

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        batch = {  # (B, T) each
            "input_ids": self.pad([row["input_ids"] for row in rows], self.tokenizer.pad_token_id),
            "attention_mask": self.pad([[1] * len(row["input_ids"]) for row in rows], 0),
            "labels": self.pad([[NONE, *row.get("labels", row["input_ids"])[1:]] for row in rows], NONE),
        }
        for name in ("first_sibling", "leaf_tag", "node_tag"):
            if name in rows[0]:
                batch[name] = self.pad([row[name] for row in rows], NONE)
        return batch

    def pad(self, rows: Sequence[Sequence[int]], value: int) -> Tensor:
        length = max(map(len, rows))
        left = self.tokenizer.padding_side == "left"
        padding = [[value] * (length - len(row)) for row in rows]
        return torch.tensor([[*p, *row] if left else [*row, *p] for p, row in zip(padding, rows, strict=True)])
