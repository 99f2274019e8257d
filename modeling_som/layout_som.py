"""Bookkeeping: where every token and every subtree of a batch lies, and what each subtree is made of.

Sizes are those of `modeling_som`. Names tell shapes: `depths`, `starts`, … are (P,), one number per real token, row
after row; `depth_grid`, `start_grid`, … are (B, columns), with column 0 for the state that was brought along.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction, FunctionCtx, once_differentiable

from .state_som import SOMState

NONE = -100  # "no label" and "masked" in every integer tensor, as everywhere in transformers


class Batch(NamedTuple):
    """The real tokens of a padded batch, row after row, so that padding costs nothing and disturbs nothing."""

    position: Tensor  # (P,) place of each token in the flattened (B, T) batch
    row: Tensor  # (P,)
    column: Tensor  # (P,) place of each token among the real tokens of its row
    lengths: Tensor  # (B,) real tokens of each row; like row and column on the CPU
    shape: tuple[int, int]  # (B, T)

    @classmethod
    def of(cls, mask: Tensor | None, shape: torch.Size, device: torch.device) -> "Batch":
        B, T = shape
        mask = torch.ones(shape, dtype=torch.bool) if mask is None else mask.cpu()
        row, _ = mask.nonzero(as_tuple=True)
        position = mask.flatten().nonzero().flatten()
        return cls(position.to(device), row, (mask.cumsum(1) - 1)[mask], mask.sum(1), (B, T))

    def pack(self, padded: Tensor) -> Tensor:  # (B, T, …) → (P, …)
        return padded.flatten(0, 1).index_select(0, self.position)

    def unpack(self, packed: Tensor) -> Tensor:  # (P, …) → (B, T, …), NONE at masked positions
        B, T = self.shape
        if len(packed) == B * T:
            return packed.unflatten(0, (B, T))
        padded = packed.new_full((B * T, *packed.shape[1:]), NONE)
        return padded.index_copy(0, self.position, packed).unflatten(0, (B, T))

    def justify(self, packed: Tensor, width: int = 0, fill: int = NONE) -> Tensor:
        """(P,) → (B, width + longest row): every row's real tokens from column `width` on."""
        grid = packed.new_full((len(self.lengths), width + int(self.lengths.max())), fill)
        grid[self.row.to(packed.device), self.column.to(packed.device) + width] = packed
        return grid

    def unjustify(self, grid: Tensor) -> Tensor:  # (B, longest row) → (P,)
        return grid[self.row.to(grid.device), self.column.to(grid.device)]


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


class Growth(NamedTuple):
    """What exploring found: decisions, the logits they were drawn from, and every subtree built."""

    depths: Tensor  # (P,)
    attach_logits: Tensor  # (P, N)
    token: Tensor  # (rows,) the token each subtree ends at
    at: Tensor  # (rows,) its depth
    subtrees: Tensor  # (rows, D)


class Layout:
    """Where every subtree of a batch lies and what it is made of, once all decisions are known.

    Subtrees are rows of one matrix: first the candidates and memories that the state brought along (B * K rows each),
    then for each token t its candidates at depths 0…d_t, the last being its leaf. In the grids (B, columns) below,
    column 0 stands for the state, column t + 1 for token t. All index arithmetic is done on the CPU.
    """

    def __init__(self, batch: Batch, state: SOMState, depths: Tensor, num_slots: int, inside: Tensor | None = None):
        self.device, depths = depths.device, depths.cpu()
        self.batch, self.depths, self.num_slots = batch, depths, num_slots
        self.B, self.K = state.memory.shape[:2]
        self.row, self.column = batch.row, batch.column + 1
        rows = torch.arange(self.B)
        self.depth_grid = batch.justify(depths, width=1, fill=-2)
        self.depth_grid[:, 0] = state.depth.cpu()
        self.starts = 2 * self.B * self.K + (depths + 1).cumsum(0) - (depths + 1)  # (P,) first row of each token
        self.start_grid = batch.justify(self.starts, width=1)
        self.start_grid[:, 0] = rows * self.K
        self.total = 2 * self.B * self.K + int((depths + 1).sum())
        # last[b, c, e]: the last token up to column c written at depth e, 0 if that was before this batch
        columns = torch.arange(self.depth_grid.shape[1])
        at_depth = self.depth_grid[..., None] == torch.arange(max(int(self.depth_grid.max()), 0) + 1)
        self.last = torch.where(at_depth, columns[:, None], 0).cummax(1).values
        # the depth of each token's word: a piece that continues a word lies one below it
        self.word_depths = depths if inside is None else depths - inside.cpu().long()  # (P,)
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
        """memory[depth] is the candidate of the token before the last one that was written just below it."""
        written = self.last[row, column, depth + 1]
        before = (self.B + row) * self.K + depth
        return torch.where(written > 0, self.start_grid[row, written - 1] + depth, before)

    def prefix_row(self, row: Tensor, column: Tensor, depth: Tensor) -> Tensor:
        """prefix[depth] was made by the last token written at that depth; prefix[0] is the zero state."""
        written = self.last[row, column, depth]
        made = (written > 0) & (depth > 0)
        return torch.where(made, self.B * self.K + self.prefix_rank_grid[row, written], row * self.K + depth)

    def levels(self) -> list[tuple[Tensor, Tensor]]:
        """(rows, left and right children), such that children lie in earlier levels or are leaves."""
        token, depth = spans(self.depths)
        row, column = self.row[token], self.column[token]
        nodes = self.starts[token] + depth
        children = torch.stack([self.memory_row(row, column, depth), nodes + 1])  # (2, Σd)
        height = self.heights()[row, column, depth]
        order = height.argsort(stable=True)
        sizes = height.bincount()[1:].tolist() if len(height) else []
        return list(zip(nodes[order].split(sizes), children[:, order].split(sizes, dim=1), strict=True))

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
        """(token, depth, subtree) of every attachment each token could have chosen."""
        token, depth = spans(self.live(self.previous))
        return token, depth, self.start_grid[self.row[token], self.column[token] - 1] + depth

    def branches(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(token, depth, subtree, prefix state) of every attachment that the token after each token could choose."""
        token, depth = spans(self.live(self.word_depths))
        return token, depth, self.starts[token] + depth, self.prefix_row(self.row[token], self.column[token], depth)

    def prefix_levels(self) -> list[tuple[Tensor, Tensor]]:
        """(prefix state to extend, subtree to extend it by) of the new prefix state of every token, by depth.

        A step changes only memory[d - 1], so each token makes one prefix state and shares all shallower ones."""
        token = self.prefix_order
        row, column, above = self.row[token], self.column[token], self.depths[token] - 1
        source = self.prefix_row(row, column, above)
        subtree = self.start_grid[row, column - 1] + above
        sizes = self.depths.bincount()[1:].tolist()
        return list(zip(source.split(sizes), subtree.split(sizes), strict=True))

    def following(self) -> tuple[Tensor, Tensor]:
        """Depth and new prefix state of the token after each token."""
        return shift(self.depths, self.row), shift(self.B * self.K + self.prefix_ranks, self.row)

    def next_word_depth(self) -> Tensor:
        """Depth of the token after each token, where that one begins a word."""
        return shift(torch.where(self.depths == self.word_depths, self.depths, NONE), self.row)

    def state_rows(self, state: SOMState) -> Tensor:
        """The rows the state brings along."""
        return torch.cat([state.candidates.flatten(0, 1), state.memory.flatten(0, 1)])

    def place(self, growth: Growth, state: SOMState) -> "Forest":
        """The subtrees that exploring has built."""
        forest = Forest.of(self.state_rows(state), self.total)
        forest.plant(self.starts.to(self.device)[growth.token] + growth.at, growth.subtrees)
        return forest

    def final_state(self, nodes: "Forest", prefix: "Forest | None") -> SOMState:
        """The state after the batch; dead slots are zero."""
        column = self.batch.lengths
        depth = self.word_depth_grid[torch.arange(self.B), column]
        live = self.live(depth)
        row, slot = spans(live)
        gather = partial(self.gather, width=max(int(live.max()), 1))
        candidates = gather(nodes, row, slot, self.start_grid[row, column[row]] + slot)
        prefix_slots = (
            torch.zeros_like(candidates)
            if prefix is None
            else gather(prefix, row, slot, self.prefix_row(row, column[row], slot))
        )
        row, slot = spans(depth.clamp(min=0))
        memory = gather(nodes, row, slot, self.memory_row(row, column[row], slot))
        return SOMState(memory, candidates, prefix_slots, depth.to(self.device))

    def gather(self, source: "Forest", row: Tensor, slot: Tensor, index: Tensor, width: int) -> Tensor:
        """(B, width, D) with source[index] at (row, slot)."""
        values = source.pick(index.to(self.device))
        slots = values.new_zeros(self.B * width, values.shape[1])
        return slots.index_copy(0, (row * width + slot).to(self.device), values).unflatten(0, (self.B, width))


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
    def plant(self, index: Tensor, subtrees: Tensor) -> None:
        self.rows = PlantRows.apply(self.rows, index, subtrees)


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
    def forward(ctx: FunctionCtx, matrix: Tensor, index: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.mark_dirty(matrix)
        return matrix.index_copy_(0, index, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: BackwardCFunction, gradient: Tensor) -> tuple[Tensor, None, Tensor]:
        (index,) = ctx.saved_tensors
        return gradient, None, gradient.index_select(0, index)
