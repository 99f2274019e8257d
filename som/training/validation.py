"""What is measured on the validation split between epochs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from modeling_som.sentences_som import NONE
from som.syntax import Accuracy, Perplexity


def sentence_counts(outputs: Tensor | tuple[Tensor, ...], labels: Tensor) -> Tensor:
    """(B, 4 + 2 a parser): nats and tokens, those of EOS alone, and each parser's correct and all decisions.

    A model without parsers has only logits to show."""
    if isinstance(outputs, Tensor):
        return torch.stack(word_counts(outputs, labels[:, 1:]), dim=1)
    logits, _, _, depths, best, attach_logits, *next_attach_logits = outputs
    targets = labels[:, 1:].masked_fill(depths[:, :-1] == NONE, NONE)  # nothing predicts BOS
    counts, label = word_counts(logits, targets), best[:, 1:] - 1
    for guess in (attach_logits[:, 1:], *(one[:, :-1] for one in next_attach_logits)):
        counts += [((guess.argmax(-1) == label) & (label >= 0)).sum(1), (label >= 0).sum(1)]
    return torch.stack([count.double() for count in counts], dim=1)


def word_counts(logits: Tensor, targets: Tensor) -> list[Tensor]:
    """Four of (B,): nats and tokens, those of EOS alone."""
    nll = torch.zeros(targets.shape, dtype=torch.float64, device=targets.device)
    seen = targets != NONE
    nll[seen] = F.cross_entropy(logits[:, :-1][seen].float(), targets[seen], reduction="none").double()
    last = seen & (seen.flip(1).cumsum(1).flip(1) == 1)  # EOS
    return [nll.sum(1), seen.sum(1).double(), (nll * last).sum(1), last.sum(1).double()]


def validation_metrics(prediction: Any) -> dict[str, float | None]:
    """Perplexity with and without EOS, and the accuracy of p and, where there is one, of p'."""
    nll, tokens, eos_nll, sentences, *accuracies = prediction.predictions.sum(0).tolist()
    pairs = zip(("p_acc", "p_next_acc"), zip(accuracies[::2], accuracies[1::2], strict=True), strict=False)
    return {
        "ppl": Perplexity(nll, tokens).value,
        "ppl_without_eos": Perplexity(nll - eos_nll, tokens - sentences).value,
        **{name: Accuracy(*pair).value for name, pair in pairs},
    }
