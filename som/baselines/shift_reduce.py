"""A SOM whose look-ahead parser shifts and reduces."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from configuration_som import SOMConfig
from modeling_som import SOMForCausalLM
from modeling_som.modeling_som import LookAheadParser
from som.training import TrainSettings, make_model


class ShiftReduceParser(LookAheadParser):
    """Decides one reduction at a time: from the last word upward, each subtree is reduced with its left sibling or
    becomes the left sibling of the next word, which is then shifted.

    A decision compares the subtree as it is with what a reduction would make of it, and so sees both of its parts."""

    def logits(self, scores: Tensor) -> Tensor:
        """log p(e) = log σ(score_e - score_{e - 1}), that the subtree at e is kept, + Σ log σ(score_{i - 1} - score_i)
        over all i > e, that none of them is; where nothing is left to reduce with, it is kept.

        >>> parser = ShiftReduceParser(SOMConfig(vocab_size=5, hidden_size=4))
        >>> parser.logits(torch.tensor([[9.0, 9.0, 9.0, -torch.inf]])).exp().tolist()
        [[0.25, 0.25, 0.5, 0.0]]
        """
        live = scores != -torch.inf  # NaN is live, and stays NaN
        known = scores.masked_fill(~live, 0)
        gain = known.diff(dim=-1)  # of keeping the subtree at e + 1
        keep = F.pad(F.logsigmoid(gain), (1, 0))
        reduce = F.pad(F.logsigmoid(-gain), (1, 0)).masked_fill(~live, 0)
        below = reduce.flip(-1).cumsum(-1).flip(-1) - reduce
        return (keep + below).masked_fill(~live, -torch.inf)


class ShiftReduce(SOMForCausalLM):
    """A SOM whose look-ahead parser shifts and reduces: the same words, subtrees and scores."""

    def __init__(self, config: SOMConfig):
        super().__init__(config)
        self.model.parser = ShiftReduceParser(config)
        self.post_init()


def shift_reduce(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new parser that predicts no words, if the settings say so."""
    return make_model(settings, tokenizer, ShiftReduce)
