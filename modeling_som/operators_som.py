"""Numerical operators that compute what stock ones do, faster or with less memory."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .sentences_som import NONE

CHUNK = 2**21  # logits that are worked on at a time: few enough for a processor's cache
LARGE_CHUNK = 2**24  # the same on a device, where launches count: 64 MB in single precision
FEW = 16  # rows for which `linear` has the outputs divided
CACHED = 2**22  # elements of a weight that a processor's cache may hold


class NextWords(torch.autograd.Function):
    """Logits of the next word after P tokens and the sum of their cross-entropies, with nothing else of their size:
    what the loss and the gradients need of the logits is made a chunk at a time, in the cache.

    `targets` (P,) are NONE where there is no label. In the `rows` of logits returned the tokens stand at `position`,
    the others are NONE; None says that there are no others."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        position: Tensor | None,
        rows: int,
    ) -> tuple[Tensor, Tensor]:
        exact, height = torch.promote_types(hidden.dtype, torch.float32), max(chunk_on(hidden) // len(weight), 1)
        if position is None:
            logits = F.linear(hidden, weight, bias)
            totals = [words.to(exact).logsumexp(dim=1) for words in logits.split(height)]
        else:
            logits, totals = hidden.new_full((rows, len(weight)), NONE), [hidden.new_empty(0, dtype=exact)]
            for some, place in zip(hidden.split(height), position.split(height), strict=True):
                words = F.linear(some, weight, bias)
                totals.append(words.to(exact).logsumexp(dim=1))
                logits[place] = words
        log_total = torch.cat(totals)
        where = torch.arange(rows, device=hidden.device) if position is None else position
        chosen = logits[where, targets.clamp(min=0)].to(exact)
        ctx.save_for_backward(hidden, weight, targets, position, logits, log_total)
        ctx.set_materialize_grads(False)
        return logits, torch.where(targets != NONE, log_total - chosen, 0).sum()

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, logits_gradient: Tensor | None, loss_gradient: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None, None]:
        hidden, weight, targets, _, _, log_total = ctx.saved_tensors
        labelled = (targets != NONE)[:, None]  # (P, 1)
        scale = None if loss_gradient is None else labelled * loss_gradient.to(log_total.dtype)
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        to_hidden = torch.zeros_like(hidden, dtype=log_total.dtype) if wants_hidden else None
        to_weight = torch.empty_like(weight) if wants_weight else None
        to_bias = weight.new_empty(len(weight)) if wants_bias else None
        width = max(chunk_on(hidden) // max(len(hidden), 1), 512)
        for some in (slice(first, first + width) for first in range(0, len(weight), width)):
            gradient = NextWords.logits_gradient(ctx, some, scale, logits_gradient)  # (P, some)
            if to_bias is not None:
                to_bias[some] = gradient.sum(0)
            gradient = gradient.to(hidden.dtype)
            if to_hidden is not None:
                to_hidden += gradient @ weight[some]
            if to_weight is not None:
                torch.mm(gradient.T, hidden, out=to_weight[some])
        to_hidden = None if to_hidden is None else to_hidden.to(hidden.dtype)
        return to_hidden, to_weight, to_bias, None, None, None

    @staticmethod
    def logits_gradient(ctx: Any, some: slice, scale: Tensor | None, further: Tensor | None) -> Tensor:
        """(P, some): gradient of some words' logits, by the loss and by whatever else was made of the logits."""
        _, _, targets, position, logits, log_total = ctx.saved_tensors
        packed = (lambda x: x) if position is None else (lambda x: x.index_select(0, position))
        if scale is None:
            return packed(further[:, some])  # type: ignore[index]  # autograd calls only with one of the two
        gradient = torch.sub(packed(logits[:, some]), log_total[:, None]).exp_()  # probabilities
        place = targets[:, None] - some.start
        here = (place >= 0) & (place < gradient.shape[1])
        gradient.scatter_add_(1, place.clamp(0, gradient.shape[1] - 1), -here.to(gradient.dtype)).mul_(scale)
        return gradient if further is None else gradient.add_(packed(further[:, some]))


def chunk_on(like: Tensor) -> int:
    """How many logits to work on at a time where this tensor is."""
    return CHUNK if like.device.type == "cpu" else LARGE_CHUNK


class Dropout(nn.Dropout):
    """Dropout that on a CPU draws one 64-bit number for four elements; the rate is met to 1 / 65,536.

    4,000 × 1,600 elements take 36 ms on two cores instead of 63 ms (the product that follows takes 104 ms)."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        return x * self.kept(x).mul_(self.factor(x)) if x.device.type == "cpu" else super().forward(x)

    def draw(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """What is left of x, multiplied by `factor`, and where something is left; None where nothing is dropped."""
        if not self.training or self.p == 0:
            return x, None
        if x.device.type != "cpu":
            return torch.native_dropout(x, self.p, True)
        kept = self.kept(x)
        return (x * kept).mul_(self.factor(x)), kept

    def kept(self, x: Tensor) -> Tensor:
        """Zeros and ones in the shape of x, as numbers, since booleans multiply slowly."""
        bits = torch.empty(x.numel() // 4 + 1, dtype=torch.int64).random_(-(2**63), 2**63 - 1)
        bits = bits.view(torch.int16)[: x.numel()].view(x.shape)
        return torch.ge(bits, self.dropped - 2**15, out=torch.empty_like(x, requires_grad=False))

    @property
    def dropped(self) -> int:
        """How many of 65,536 elements a CPU drops."""
        return min(round(self.p * 2**16), 2**16 - 1)

    def factor(self, x: Tensor) -> float:
        """What keeps the expected value of x as it was."""
        if not self.training or self.p == 0:
            return 1.0
        return 2**16 / (2**16 - self.dropped) if x.device.type == "cpu" else 1 / (1 - self.p)


class Composed(NamedTuple):
    """What a cell made of R pairs of vectors, and what its gradients need to know."""

    subtrees: Tensor  # (R, D)
    hidden: Tensor  # (R, 4 D) its hidden layer, after dropout
    gates: Tensor  # (R, 4, D) σ(f), σ(i), σ(c), u
    kept: Tensor | None  # (R, 2 D) where dropout has left something of the pairs

    @classmethod
    def joined(cls, parts: Sequence["Composed"]) -> "Composed":
        subtrees, hidden, gates, kept = zip(*parts, strict=True)
        drawn = None if kept[0] is None else torch.cat(kept)
        return cls(torch.cat(subtrees), torch.cat(hidden), torch.cat(gates), drawn)

    def select(self, rows: Tensor) -> "Composed":
        kept = None if self.kept is None else self.kept.index_select(0, rows)
        subtrees, hidden, gates = (part.index_select(0, rows) for part in self[:3])
        return Composed(subtrees, hidden, gates, kept)


def gated_sum(gates: Tensor, pairs: Tensor) -> Tensor:
    """(R, D): σ(f) a + σ(i) b + σ(c) u, of gates (R, 4, D) and pairs (R, 2, D)."""
    (f, i, c, u), (a, b) = gates.unbind(1), pairs.unbind(1)
    return (f * a).addcmul_(i, b).addcmul_(c, u)


def compose_levels(
    compose: Callable[[Tensor], Composed], known: Tensor, children: Tensor, sizes: Sequence[int]
) -> tuple[Tensor, list[Composed]]:
    """The known rows and, level by level, new ones: what is composed of two `children` each, which are rows above."""
    matrix = torch.cat([known, known.new_empty(sum(sizes), known.shape[1])])
    end, parts = len(known), []
    for size, some in zip(sizes, children.split([2 * size for size in sizes]), strict=True):
        parts.append(compose(matrix.index_select(0, some).unflatten(0, (-1, 2))))
        matrix[end : end + size] = parts[-1].subtrees
        end += size
    return matrix, parts


class ComposeRows(torch.autograd.Function):
    """`compose_levels` of a cell, whose gradients take a dozen operators per level, and those of its weights a dozen
    for all levels together. What has been `composed` before, in the same order, is not computed again."""

    @staticmethod
    def forward(
        ctx: Any,
        cell: Any,
        children: Tensor,
        sizes: list[int],
        composed: Composed | None,
        known: Tensor,
        *weights: Any,
    ) -> Tensor:
        if composed is None:
            matrix, parts = compose_levels(cell.compose, known, children, sizes)
            composed = Composed.joined(parts)
        else:
            matrix = torch.cat([known, composed.subtrees])
        ctx.sizes, ctx.known = sizes, len(known)
        ctx.eps, ctx.factor = cell.norm.semantic.eps, cell.dropout.factor(known)
        # pairs, since the matrix itself is handed on from user to user and counts as changed
        ctx.save_for_backward(matrix.index_select(0, children), children, *composed[1:], *weights)
        return matrix

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        pairs, children, hidden, gates, kept, first, _, second, *norm = ctx.saved_tensors
        pairs, second = pairs.unflatten(0, (-1, 2)), second if ctx.factor == 1 else second * ctx.factor
        gated, size = gated_sum(gates, pairs), pairs.shape[-1:]
        moments = torch.native_layer_norm(gated, size, None, None, ctx.eps)[1:]
        to_gates, to_hidden = torch.empty_like(gates), torch.empty_like(hidden)
        end = len(pairs)
        for count in reversed(ctx.sizes):
            some, end = slice(end - count, end), end - count
            here = gradient[ctx.known + some.start : ctx.known + some.stop]
            center, spread = (moment[some] for moment in moments)
            layer_norm = gated[some], size, center, spread, *norm[1:], [True, False, False]
            back = torch.ops.aten.native_layer_norm_backward(here, *layer_norm)[0]  # (R, D)
            to_pairs = back[:, None] * gates[some, :2]
            gates_backward(back, gates[some], pairs[some], to_gates[some])
            back = torch.mm(to_gates[some].flatten(1), second)
            torch.ops.aten.threshold_backward(back, hidden[some], 0, grad_input=to_hidden[some])
            if kept is None:
                to_pairs.flatten(1).addmm_(to_hidden[some], first)
            else:
                to_pairs += left_over(to_hidden[some] @ first, kept[some], ctx.factor).view_as(to_pairs)
            gradient.index_add_(0, children[2 * some.start : 2 * some.stop], to_pairs.flatten(0, 1))
        pairs = pairs.flatten(1) if kept is None else left_over(pairs.flatten(1), kept, ctx.factor)
        to_gates, layer_norm = to_gates.flatten(1), (gated, size, *moments, *norm[1:], [False, True, True])
        to_norm = torch.ops.aten.native_layer_norm_backward(gradient[ctx.known :], *layer_norm)[1:]
        to_maps = to_hidden.T @ pairs, to_hidden.sum(0), to_gates.T @ hidden, to_gates.sum(0)
        return None, None, None, None, gradient[: ctx.known], *to_maps, *to_norm


def gates_backward(gradient: Tensor, gates: Tensor, pairs: Tensor, to_gates: Tensor) -> None:
    """Writes the gradient (R, 4, D) of what the gates were before their sigmoids, from that of `gated_sum` (R, D)."""
    torch.mul(gradient[:, None], pairs, out=to_gates[:, :2])
    torch.mul(gradient, gates[:, 3], out=to_gates[:, 2])
    torch.ops.aten.sigmoid_backward(to_gates[:, :3], gates[:, :3], grad_input=to_gates[:, :3])
    torch.mul(gradient, gates[:, 2], out=to_gates[:, 3])


def left_over(x: Tensor, kept: Tensor, factor: float) -> Tensor:
    """What dropout makes of x, or of its gradient, where it has left something of x."""
    if kept.dtype == torch.bool:
        return torch.ops.aten.native_dropout_backward(x, kept, factor)
    return (x * kept).mul_(factor)


def linear(layer: nn.Module, x: Tensor) -> Tensor:
    """`layer(x)`, quick for few rows too.

    This is a function because tools for adapters and quantization look for layers of the type `nn.Linear` itself. What
    they put in its place is called as it is."""
    stock = torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling()
    return layer(x) if stock or x.ndim != 2 or not is_plain(layer) else product(layer, x)


def product(layer: nn.Linear, x: Tensor) -> Tensor:
    """What a plain layer makes of rows (R, inputs), without gradient: on a CPU the outputs are computed in shares,
    where the stock layer leaves a single row to one thread and divides a few rows badly: 0.9 instead of 3.7 ms for one
    row, 400 → 23,815."""
    weight, bias, rows = layer.weight, layer.bias, x.shape[0]
    if rows > FEW or x.device.type != "cpu" or (parts := shares_of(weight, rows)) == 1:
        return F.linear(x, weight, bias)
    even = weight.shape[0] // parts * parts
    shares = weight[:even].unflatten(0, (parts, -1))  # (parts, outputs / parts, inputs)
    shares = shares.bmm(x.T.expand(parts, -1, -1)).flatten(0, 1)  # (outputs, R)
    y = torch.cat([shares, weight[even:] @ x.T]).T.contiguous()
    return y if bias is None else y.add_(bias)


def shares_of(weight: Tensor, rows: int) -> int:
    """In how many parts `linear` computes the outputs: one per thread, with two exceptions.

    A weight that no cache holds is computed in two parts by one thread, too, as it is then read once instead of once
    per row: 1.0 and 1.6 instead of 2.1 and 3.1 ms for one and four rows, 400 → 23,815. A single row of a small weight
    is computed as a whole, as sharing it takes longer."""
    threads = torch.get_num_threads()
    if weight.numel() <= CACHED:
        return 1 if rows == 1 else threads
    return max(threads, 2) if threads > 1 or rows <= FEW // 2 else 1


def is_plain(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a layer is its weights and nothing else: no adapter, no hook, no quantized or sharded weights."""
    if type(layer) is not nn.Linear or is_hooked(layer):
        return False
    return not hasattr(layer.weight, "__tensor_flatten__")  # sharded and quantized weights are made of other tensors


def is_hooked(module: nn.Module) -> bool:
    """Whether others want to know when the module or its gradient is computed, or are called in its place."""
    called = module._forward_hooks or module._forward_pre_hooks or "forward" in module.__dict__
    return bool(called or module._backward_hooks or module._backward_pre_hooks)


def mean(total: Tensor, labels: Tensor, num_items: Tensor | int | None) -> Tensor:
    """A sum over the labelled items, divided by their number, or by the caller's."""
    return total / ((labels != NONE).sum().clamp(min=1) if num_items is None else num_items)


def cross_entropy(logits: Tensor, labels: Tensor, normalised: bool = False) -> Tensor:
    """Summed over the labelled rows, in at least single precision; `normalised` logits are log-probabilities."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    loss = F.nll_loss if normalised else F.cross_entropy
    return loss(logits, labels.long(), ignore_index=NONE, reduction="sum")


def groups_of_rows(sizes: Tensor, most: int) -> tuple[list[int], list[int]]:
    """How many groups, and how many rows in all, to take together: about so many rows, and no group is divided.

    >>> groups_of_rows(torch.tensor([2, 1, 3, 2]), most=3)
    ([2, 1, 1], [3, 3, 2])
    """
    first = sizes.cumsum(0) - sizes  # row of each group
    groups = (first // max(most, 1)).unique_consecutive(return_counts=True)[1].tolist()
    return groups, [int(part.sum()) for part in sizes.split(groups)]


def weighted_sums(rows: Tensor, sizes: Tensor, weights: Tensor) -> Tensor:
    """(groups, V): sums of groups of rows (R, V) that follow each other, each row times its weight (R,)."""
    sizes = sizes.to(rows.device)
    places, first = torch.arange(len(rows), device=rows.device), sizes.cumsum(0) - sizes
    return F.embedding_bag(places, rows, first, mode="sum", per_sample_weights=weights.to(rows.dtype))
