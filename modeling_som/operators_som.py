"""Numerical operators that compute what stock ones do, faster or with less memory."""

from typing import Any, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .layout_som import NONE

CHUNK = 2**21  # logits that are worked on at a time: few enough for a processor's cache
FEW = 16  # rows that `linear` divides among threads


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
        exact, height = torch.promote_types(hidden.dtype, torch.float32), max(CHUNK // len(weight), 1)
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
        width = max(CHUNK // max(len(hidden), 1), 512)
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


class Dropout(nn.Dropout):
    """Dropout that on a CPU draws one 64-bit number for four elements; the rate is met to 1 / 65,536.

    Drawing one number per element costs more than the matrix product that follows."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0 or x.device.type != "cpu":
            return super().forward(x)
        bits = torch.empty(x.numel() // 4 + 1, dtype=torch.int64).random_(-(2**63), 2**63 - 1)
        bits = bits.view(torch.int16)[: x.numel()].view(x.shape)
        dropped = min(round(self.p * 2**16), 2**16 - 1)
        # written as numbers, since booleans multiply slowly
        keep = torch.ge(bits, dropped - 2**15, out=torch.empty_like(x, requires_grad=False))
        return x * keep.mul_(2**16 / (2**16 - dropped))


def linear(layer: nn.Module, x: Tensor) -> Tensor:
    """`layer(x)`, quick for few rows too: on a CPU each thread computes a share of the outputs, where the stock layer
    leaves a single row to one thread and divides a few rows badly.

    This is a function because tools for adapters and quantization look for layers of the type `nn.Linear` itself. What
    they put in its place is called as it is."""
    few = x.ndim == 2 and len(x) <= FEW and x.device.type == "cpu"
    if not few or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling():
        return layer(x)
    threads = torch.get_num_threads()
    if threads == 1 or not is_plain(layer):
        return layer(x)
    weight, bias = layer.weight, layer.bias
    even = len(weight) // threads * threads
    shares = weight[:even].unflatten(0, (threads, -1))  # (threads, outputs / threads, inputs)
    shares = shares.bmm(x.T.expand(threads, -1, -1)).flatten(0, 1)  # (outputs, R)
    y = torch.cat([shares, weight[even:] @ x.T]).T.contiguous()
    return y if bias is None else y + bias


def is_plain(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a layer is its weights and nothing else: no adapter, no hook, no quantized or sharded weights."""
    hooked = layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer)
    return type(layer) is nn.Linear and type(layer.weight) in (nn.Parameter, Tensor) and not hooked


def mean(total: Tensor, labels: Tensor, num_items: Tensor | int | None) -> Tensor:
    """A sum over the labelled items, divided by their number, or by the caller's."""
    return total / ((labels != NONE).sum().clamp(min=1) if num_items is None else num_items)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Summed over the labelled rows, in at least single precision."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits, labels.long(), ignore_index=NONE, reduction="sum")
