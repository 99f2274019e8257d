"""A shift-reduce parser that is also a language model: the SOM paper's second parser to compare with.

It is a SOM in all but its look-ahead parser, which decides one reduction at a time (see `som.baselines.shift_reduce`):
the same prediction network, LM loss and dynamic oracle. The parser alone, without words to predict, is the system
`shift-reduce`.
"""

from __future__ import annotations

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from som.baselines.shift_reduce import ShiftReduce
from som.training import TrainSettings, make_model


class ShiftReduceLM(ShiftReduce):
    """A class of its own, by which a saved model tells which of the two systems it is."""


def shift_reduce_lm(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new parser that predicts words, too."""
    return make_model(settings, tokenizer, ShiftReduceLM)
