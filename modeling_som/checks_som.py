"""Where inputs contradict themselves: (B, T) masks of what the model refuses."""

import torch
import torch.nn.functional as F
from torch import Tensor


def wrong_siblings(first_sibling: Tensor, mask: Tensor | None) -> Tensor:
    """(B, T): where a real token's label does not point at an earlier token of its row."""
    real = torch.ones_like(first_sibling, dtype=torch.bool) if mask is None else mask.to(first_sibling.device)
    column = real.cumsum(1) - 1
    return real & torch.where(column == 0, first_sibling != -1, (first_sibling < 0) | (first_sibling >= column))


def unreachable(
    depths: Tensor, mask: Tensor | None, state_depth: Tensor | None, num_slots: int, inside: Tensor | None = None
) -> Tensor:
    """(B, T): where a real token's depth cannot follow the depth of the word before it."""
    inside = torch.zeros_like(depths, dtype=torch.bool) if inside is None else inside.to(depths.device)
    B, T = depths.shape
    real = torch.ones_like(depths, dtype=torch.bool) if mask is None else mask.to(depths.device)
    before = depths.new_full((B, 1), -1) if state_depth is None else state_depth[:, None].to(depths.device)
    taken = torch.cat([before, depths - inside.long()], dim=1)
    columns = torch.arange(1, T + 1, device=depths.device)
    last = torch.where(real, columns, 0).cummax(1).values  # column of `taken` with the last real token up to here
    last = F.pad(last[:, :-1], (1, 0))
    before = taken.gather(1, last)
    deepest = (before + 1).clamp(max=num_slots)
    lowest = torch.where(inside, deepest, torch.where(before < 0, 0, 1))
    return real & ((depths < lowest) | (depths > deepest))


def restarts(positions: Tensor, mask: Tensor | None, state_depth: Tensor | None) -> Tensor:
    """(B, T): where a real token's position is not after those before it; one of position 0 follows nothing."""
    real = torch.ones_like(positions, dtype=torch.bool) if mask is None else mask.to(positions.device)
    begun = positions.new_full((len(positions),), -1) if state_depth is None else state_depth.to(positions)
    before = torch.cat([begun[:, None].clamp(max=0), torch.where(real, positions, -1)], dim=1)
    before = before.cummax(1).values[:, :-1]  # the largest position so far
    return real & (positions <= before)
