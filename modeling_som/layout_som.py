"""Bookkeeping: where every token and every subtree of a batch lies, and what each subtree is made of.

Sizes are those of `modeling_som`. Names tell shapes: `depths`, `starts`, … are (P,), one number per real token, row
after row; `depth_grid`, `start_grid`, … are (B, columns), with column 0 for the state that was brought along.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction, FunctionCtx, once_differentiable

from .sentences_som import NONE
from .state_som import SOMState


class Batch(NamedTuple):
    """The real tokens of a padded batch, row after row, so that padding costs nothing and disturbs nothing."""

    real: Tensor  # (B, T) where they are; this and the next three on the CPU
    row: Tensor  # (P,)
    column: Tensor  # (P,) place of each token among the real tokens of its row
    lengths: Tensor  # (B,) real tokens of each row
    position: Tensor  # (P,) place of each token in the flattened (B, T) batch
    followed: Tensor  # (P',) the same of those tokens that another one follows in their row
    following: Tensor  # (P',) and of these others
    has_holes: bool  # masked tokens between real ones

    @classmethod
    def of(cls, mask: Tensor | None, shape: torch.Size, device: torch.device) -> "Batch":
        real = torch.ones(shape, dtype=torch.bool) if mask is None else mask
        row, _ = real.nonzero(as_tuple=True)
        position = real.flatten().nonzero().flatten()
        goes_on = row[1:] == row[:-1]
        followed, following = position[:-1][goes_on], position[1:][goes_on]
        has_holes = bool((following > followed + 1).any())
        position, followed, following = on_device(device, position, followed, following)
        column, lengths = (real.cumsum(1) - 1)[real], real.sum(1)
        return cls(real, row, column, lengths, position, followed, following, has_holes)

    def by_time(self) -> tuple[Tensor, Tensor, list[int]]:
        """Rows (B,), longest first; tokens (P,), the first of every row, then the second, …; how many rows have a
        first, a second, …"""
        order = self.lengths.argsort(descending=True, stable=True)
        first = (self.lengths.cumsum(0) - self.lengths)[order]
        columns = torch.arange(int(self.lengths.max()))
        read = columns[:, None] < self.lengths[order]  # (longest, B)
        return order, (first + columns[:, None])[read], read.sum(1).tolist()

    def pack(self, padded: Tensor) -> Tensor:  # (B, T, …) → (P, …)
        packed = padded.flatten(0, 1)
        return packed if len(packed) == len(self.position) else packed.index_select(0, self.position)

    def shift(self, padded: Tensor) -> Tensor:
        """(B, T): the value of the row's next real token at every real token; NONE where there is none."""
        following = padded.flatten().index_select(0, self.following)
        shifted = padded.new_full((padded.numel(),), NONE).index_copy(0, self.followed, following)
        return shifted.view_as(padded)

    def unpack(self, packed: Tensor) -> Tensor:  # (P, …) → (B, T, …), NONE at masked positions
        shape, size = self.real.shape, self.real.numel()
        if len(packed) == size:
            return packed.unflatten(0, shape)
        padded = packed.new_full((size, *packed.shape[1:]), NONE)
        return padded.index_copy(0, self.position, packed).unflatten(0, shape)

    def justify(self, packed: Tensor, width: int = 0, fill: int = NONE) -> Tensor:
        """(P,) → (B, width + longest row), on the CPU: every row's real tokens from column `width` on."""
        grid = packed.new_full((len(self.lengths), width + int(self.lengths.max())), fill)
        grid[self.row, self.column + width] = packed
        return grid

    def unjustify(self, grid: Tensor) -> Tensor:  # (B, longest row) → (P,)
        return grid[self.row, self.column]


def spans(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Owner and place of each of sum(counts) items.

    >>> spans(torch.tensor([1, 0, 2]))
    (tensor([0, 2, 2]), tensor([0, 0, 1]))
    """
    owner = torch.arange(len(counts)).repeat_interleave(counts)
    return owner, torch.arange(len(owner)) - (counts.cumsum(0) - counts)[owner]


def shift(values: Tensor, row: Tensor) -> Tensor:
    """The value of the next token of the same row, NONE after the last.

    >>> shift(torch.tensor([5, 6, 7]), row=torch.tensor([0, 0, 1]))
    tensor([   6, -100, -100])
    """
    shifted = torch.full_like(values, NONE)
    shifted[:-1] = torch.where(row[1:] == row[:-1], values[1:], NONE)
    return shifted


def on_host(tensors: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
    """Numbers (B, T) on the CPU as 64-bit integers, without those that are None; fetched with one wait."""
    given = {name: tensor.long() for name, tensor in tensors.items() if tensor is not None}
    if all(tensor.device.type == "cpu" for tensor in given.values()):
        return given
    device = next(tensor.device for tensor in given.values() if tensor.device.type != "cpu")
    together = torch.stack([tensor.to(device) for tensor in given.values()])
    return dict(zip(given, together.cpu(), strict=True))


def on_device(device: torch.device, *indices: Tensor) -> Sequence[Tensor]:
    """Indices of the CPU, sent to the device together, without waiting for it."""
    if device.type == "cpu":
        return indices
    buffer = torch.cat([index.flatten() for index in indices])
    buffer = (buffer.pin_memory() if device.type == "cuda" else buffer).to(device, non_blocking=True)
    parts = buffer.split([index.numel() for index in indices])
    return [part.view(index.shape) for part, index in zip(parts, indices, strict=True)]


class PrefixPlan(NamedTuple):
    """How prefix states are made: rows of one matrix, first those of the state, then subtrees, then the new ones."""

    subtree: Tensor  # rows of the subtrees among all
    children: Tensor  # of each new one the prefix state it extends and the subtree it is extended by
    sizes: list[int]  # how many at a time
    place: Tensor  # the rows of the prefix states, those of the state and the new ones
    made: Tensor  # (R,) the rows of what was wanted besides


class Layout:
    """Where every subtree of a batch lies and what it is made of, once all decisions are known.

    Subtrees are numbered: first the candidates and memories that the state brought along (B * K each), then for each
    token t its candidates at depths 0…d_t, the last being its leaf. They are rows of one matrix, `place` says which:
    first the state's, then the leaves, then all others in the order in which they are made. In the grids (B, columns)
    below, column 0 stands for the state, column t + 1 for token t. All index arithmetic is done on the CPU.
    """

    place: Tensor  # (total,) the row of each subtree

    def __init__(
        self,
        batch: Batch,
        state: SOMState,
        state_depth: Tensor | None,
        depths: Tensor,
        num_slots: int,
        inside: Tensor | None = None,
    ):
        """`state_depth` is that of the state on the CPU, None for the empty state."""
        self.device = state.memory.device
        self.batch, self.depths, self.num_slots = batch, depths, num_slots
        self.B, self.K = state.memory.shape[:2]
        self.row, self.column = batch.row, batch.column + 1
        rows = torch.arange(self.B)
        self.depth_grid = batch.justify(depths, width=1, fill=-2)
        self.depth_grid[:, 0] = -1 if state_depth is None else state_depth
        self.starts = 2 * self.B * self.K + (depths + 1).cumsum(0) - (depths + 1)  # (P,) first row of each token
        self.start_grid = batch.justify(self.starts, width=1)
        self.start_grid[:, 0] = rows * self.K
        self.total = 2 * self.B * self.K + int((depths + 1).sum())
        # last[b, c, e]: the last token up to column c written at depth e, 0 if that was before this batch
        columns = torch.arange(self.depth_grid.shape[1])
        at_depth = self.depth_grid[..., None] == torch.arange(max(int(self.depth_grid.max()), 0) + 1)
        self.last = torch.where(at_depth, columns[:, None], 0).cummax(1).values
        # the depth of each token's word: a piece that continues a word lies one below it
        self.word_depths = depths if inside is None else depths - inside.long()  # (P,)
        self.word_depth_grid = batch.justify(self.word_depths, width=1, fill=-2)
        self.word_depth_grid[:, 0] = self.depth_grid[:, 0]
        self.previous = self.word_depth_grid[self.row, self.column - 1]  # (P,) depth of the word before each token
        by_depth = depths.argsort(stable=True)
        self.prefix_order = by_depth[int((depths == 0).sum()) :]  # tokens that make a prefix state, shallow ones first
        self.prefix_ranks = torch.full_like(depths, NONE)
        self.prefix_ranks[self.prefix_order] = torch.arange(len(self.prefix_order))
        self.prefix_rank_grid = batch.justify(self.prefix_ranks, width=1)

    def live(self, depth: Tensor) -> Tensor:
        """How many attachments are possible from this depth: 0…depth, but none at N or deeper."""
        return depth.clamp(max=self.num_slots - 1) + 1

    def memory_row(self, row: Tensor, column: Tensor, depth: Tensor) -> Tensor:
        """The number of memory[depth]: a candidate of the token before the last one written just below it."""
        written = self.last[row, column, depth + 1]
        before = (self.B + row) * self.K + depth
        return torch.where(written > 0, self.start_grid[row, written - 1] + depth, before)

    def prefix_row(self, row: Tensor, column: Tensor, depth: Tensor) -> Tensor:
        """The number of prefix[depth]: made by the last token written at that depth; prefix[0] is zero."""
        written = self.last[row, column, depth]
        made = (written > 0) & (depth > 0)
        return torch.where(made, self.B * self.K + self.prefix_rank_grid[row, written], row * self.K + depth)

    def settle(self, made: Tensor) -> None:
        """Gives every subtree its row; `made` are the numbers of those that are composed, in this order."""
        leaves = self.starts + self.depths
        new = torch.cat([leaves, made])
        self.place = torch.arange(self.total)
        self.place[new] = torch.arange(self.total - len(new), self.total)

    def levels(self) -> tuple[Tensor, Tensor, list[int]]:
        """Subtrees to compose (Σd,), their left and right children (Σd, 2), and how many at a time: those of a level,
        whose children are leaves or of earlier levels."""
        token, depth = spans(self.depths)
        row, column = self.row[token], self.column[token]
        made = self.starts[token] + depth
        children = torch.stack([self.memory_row(row, column, depth), made + 1], dim=1)
        height = self.heights()[row, column, depth]
        order = height.argsort(stable=True)
        return made[order], children[order], height.bincount()[1:].tolist() if len(height) else []

    def heights(self) -> Tensor:
        """(B, columns, depths): height of every candidate; leaves and what the state brought have height 0."""
        slots = torch.arange(self.last.shape[2])
        heights = torch.zeros_like(self.last)
        memory = torch.zeros_like(self.last[:, 0])
        for column in range(1, self.last.shape[1]):
            depth = self.depth_grid[:, column, None]
            above = (depth - 1).clamp(min=0)
            memory.scatter_(1, above, heights[:, column - 1].gather(1, above))
            # height[e] = 1 + max(memory[e], height[e + 1]), unrolled
            below = torch.where(slots < depth, memory + slots + 1, depth)
            heights[:, column] = below.flip(1).cummax(1).values.flip(1) - slots
        return heights

    def attachments(self) -> tuple[Tensor, Tensor, Tensor]:
        """(token, depth, row of the subtree) of every attachment each token could have chosen."""
        token, depth = spans(self.live(self.previous))
        return token, depth, self.place[self.start_grid[self.row[token], self.column[token] - 1] + depth]

    def branches(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(token, depth, row of the subtree, prefix state) of every attachment that the token after each token could
        choose."""
        token, depth = spans(self.live(self.word_depths))
        subtree = self.place[self.starts[token] + depth]
        return token, depth, subtree, self.prefix_row(self.row[token], self.column[token], depth)

    def prefix_levels(self) -> tuple[Tensor, Tensor, list[int]]:
        """(prefix state to extend, row of the subtree to extend it by) of the new prefix state of every token, and how
        many at a time: those of a depth.

        A step changes only memory[d - 1], so each token makes one prefix state and shares all shallower ones."""
        token = self.prefix_order
        row, column, above = self.row[token], self.column[token], self.depths[token] - 1
        source = self.prefix_row(row, column, above)
        subtree = self.place[self.start_grid[row, column - 1] + above]
        return source, subtree, self.depths.bincount()[1:].tolist() if len(self.depths) else []

    def prefix_plan(self, wanted: Tensor) -> "PrefixPlan":
        """How to make all new prefix states, and then those that `wanted` branches (R,) lead to."""
        _, _, subtree, source = self.branches()
        extended, subtrees, sizes = self.prefix_levels()
        source, subtree = torch.cat([extended, source[wanted]]), torch.cat([subtrees, subtree[wanted]])
        brought, count = self.B * self.K, len(source)
        made = brought + count + torch.arange(count)
        place = torch.cat([torch.arange(brought), made[: len(extended)]])
        children = torch.stack([place[source], brought + torch.arange(count)], dim=1).flatten()
        sizes = [size for size in (*sizes, len(wanted)) if size]
        return PrefixPlan(subtree, children, sizes, place, made[len(extended) :])

    def following(self) -> tuple[Tensor, Tensor]:
        """Depth and new prefix state of the token after each token."""
        return shift(self.depths, self.row), shift(self.B * self.K + self.prefix_ranks, self.row)

    def next_word_depth(self) -> Tensor:
        """Depth of the token after each token, where that one begins a word."""
        return shift(torch.where(self.depths == self.word_depths, self.depths, NONE), self.row)

    def state_rows(self, state: SOMState) -> Tensor:
        """The rows the state brings along."""
        return torch.cat([state.candidates.flatten(0, 1), state.memory.flatten(0, 1)])

    def final_state(self, nodes: "Forest", prefix: "Forest | None", prefix_place: Tensor | None) -> SOMState:
        """The state after the batch; dead slots are zero. `prefix_place` has the row of each prefix state."""
        column = self.batch.lengths
        depth = self.word_depth_grid[torch.arange(self.B), column]
        live = self.live(depth)
        row, slot = spans(live)
        gather = partial(self.gather, width=max(int(live.max()), 1))
        candidates = gather(nodes, row, slot, self.place[self.start_grid[row, column[row]] + slot])
        prefix_slots = torch.zeros_like(candidates)
        if prefix is not None and prefix_place is not None:
            prefix_slots = gather(prefix, row, slot, prefix_place[self.prefix_row(row, column[row], slot)])
        row, slot = spans(depth.clamp(min=0))
        memory = gather(nodes, row, slot, self.place[self.memory_row(row, column[row], slot)])
        return SOMState(memory, candidates, prefix_slots, *on_device(self.device, depth))

    def gather(self, source: "Forest", row: Tensor, slot: Tensor, index: Tensor, width: int) -> Tensor:
        """(B, width, D) with source[index] at (row, slot)."""
        index, place = on_device(self.device, index, row * width + slot)
        values = source.pick(index)
        slots = values.new_zeros(self.B * width, values.shape[1])
        return slots.index_copy(0, place, values).unflatten(0, (self.B, width))


class Forest:
    """Subtrees as rows of one matrix that is filled level by level, with one matrix for all their gradients.

    Selecting and writing rows by the stock operators is differentiated at the cost of the whole matrix each time.
    Compilers leave both alone: traced, rows written in place would get no gradient."""

    def __init__(self, rows: Tensor):
        self.rows = rows

    @classmethod
    def of(cls, known: Tensor, total: int) -> "Forest":
        """The first of `total` subtrees; room for the others."""
        return cls(torch.cat([known, known.new_empty(total - len(known), known.shape[1])]))

    @torch.compiler.disable
    def pick(self, index: Tensor) -> Tensor:
        self.rows, picked = PickRows.apply(self.rows, index)
        return picked

    @torch.compiler.disable
    def plant(self, first: int, subtrees: Tensor) -> None:
        self.rows = PlantRows.apply(self.rows, first, subtrees)


class PickRows(torch.autograd.Function):
    """Rows of a matrix, and the matrix itself, so that its next user passes the gradient through here."""

    @staticmethod
    def forward(ctx: FunctionCtx, matrix: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(index)
        ctx.mark_dirty(matrix)
        return matrix, matrix.index_select(0, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: BackwardCFunction, matrix_gradient: Tensor, gradient: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return matrix_gradient.index_add_(0, index, gradient), None


class PlantRows(torch.autograd.Function):
    """The matrix with rows written into it that have not been read before."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, first: int, rows: Tensor) -> Tensor:
        ctx.some = slice(first, first + len(rows))
        ctx.mark_dirty(matrix)
        matrix[ctx.some] = rows
        return matrix

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, Tensor]:
        return gradient, None, gradient[ctx.some].clone()
