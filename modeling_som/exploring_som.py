"""What exploring keeps of a batch, how it chooses attachments, and which of them there are."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .operators_som import Composed


class Growth(NamedTuple):
    """What exploring found: decisions, the logits they were drawn from, and every subtree it composed."""

    depths: Tensor  # (P,) on the CPU, as are the next two
    token: Tensor  # (rows,) the token each subtree ends at
    at: Tensor  # (rows,) its depth
    attach_logits: Tensor  # (P, N)
    subtrees: Tensor  # (rows, D)
    composed: Composed | None  # of the rows, if they are to be learnt from and the cell gives it


class Climbed(NamedTuple):
    """Candidates above the leaves of n tokens, from the deepest depth up to the root."""

    order: Tensor  # (n,) the tokens, deepest first
    depths: Tensor  # (n,) of the tokens, on the CPU
    counts: list[int]  # how many of the first tokens have a candidate at depth 0, 1, …
    candidates: list[Tensor]  # (counts[e], D) each
    composed: list[Composed]  # the same with what gradients need, if they are to be learnt from and the cell gives it

    def tables(self, leaf_places: Tensor, leaves: Tensor, first_places: Tensor) -> tuple[Tensor, Tensor]:
        """Where leaves and candidates lie in tables of all slots (N + 1, B), and what these are; `first_places` (N, 1)
        are those of the first token."""
        if not self.counts:
            return leaf_places, leaves
        grid = first_places[: len(self.counts)] + self.order  # (depths, n)
        places = [places[:count] for places, count in zip(grid, self.counts, strict=True)]
        return torch.cat([leaf_places, *reversed(places)]), torch.cat([leaves, *self.candidates])


def collect_growth(
    climbs: list[Climbed], x: Tensor, attach_logits: Tensor, tokens: Tensor, token_of: Tensor
) -> Growth:
    """What exploring found, token by token again."""
    taken, token, at, first = [tokens[:0]], [tokens[:0]], [tokens[:0]], 0
    for climbed in climbs:
        taken.append(climbed.depths)
        order = first + climbed.depths.argsort(descending=True, stable=True)
        for e, count in reversed(list(enumerate(climbed.counts))):
            token.append(order[:count])
            at.append(torch.full((count,), e))
        first += len(order)
    depths = torch.empty_like(tokens).index_copy_(0, tokens, torch.cat(taken))
    logits = torch.empty_like(attach_logits).index_copy_(0, token_of, attach_logits)
    made = [composed for climbed in climbs for composed in climbed.composed]
    composed = Composed.joined(made) if made else None
    candidates = [x[:0], *(subtrees for climbed in climbs for subtrees in climbed.candidates)]
    subtrees = torch.cat(candidates) if composed is None else composed.subtrees
    return Growth(depths, tokens[torch.cat(token)], torch.cat(at), logits, subtrees, composed)


def certain(attach_logits: Tensor, e: Tensor, inside: Tensor) -> Tensor:
    """Logits (R, N) of p that leave pieces inside of words no choice but to attach at e (R,)."""
    only = torch.full_like(attach_logits, -torch.inf).scatter(1, e[:, None], 0)
    return torch.where(inside[:, None], only, attach_logits)


def choose(logits: Tensor, sample: bool) -> Tensor:
    """Index of the largest logit, or of one drawn from their softmax, without waiting for the device."""
    return (logits + gumbel_noise(logits) if sample else logits).argmax(dim=-1)


def gumbel_noise(like: Tensor) -> Tensor:
    """Noise that makes the largest of some logits a draw from their softmax."""
    return torch.empty_like(like).exponential_().log_().neg_()


def slices(sizes: Sequence[int]) -> Iterator[slice]:
    """Pieces of these sizes, one after the other.

    >>> list(slices([2, 1]))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    end = 0
    for size in sizes:
        yield slice(end, end + size)
        end += size


def live_slots(depth: Tensor, slots: int) -> Tensor:
    """(…, slots): the attachments that are possible from a depth, whatever their scores; none at masked tokens.

    >>> live_slots(torch.tensor([0, 5, -100]), 3).int().tolist()
    [[1, 0, 0], [1, 1, 1], [0, 0, 0]]
    """
    return torch.arange(slots, device=depth.device) <= depth[..., None]
