"""What a SOM keeps of the text read so far, and the cache that carries it between calls."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


class SOMState(NamedTuple):
    """What is kept of the text read so far; it does not grow with it."""

    memory: Tensor  # (B, K, D) finished subtrees on the left of the current path, live below depth
    candidates: Tensor  # (B, K, D) subtrees that end at the last token, live up to depth
    prefix: Tensor  # (B, K, D) prediction-network states over memory[:e], live up to depth; prefix[0] = 0
    depth: Tensor  # (B,) deepest node that can be attached to: the last word, whole; -1 before the first token

    @classmethod
    def empty(cls, batch_size: int, like: Tensor) -> "SOMState":
        slots = like.new_zeros(batch_size, 1, like.shape[-1])
        return cls(slots, slots, slots, torch.full((batch_size,), -1, device=like.device))

    def select(self, rows: Tensor) -> "SOMState":
        return SOMState(*(part.index_select(0, rows.to(part.device)) for part in self))


class SOMCacheLayer(CacheLayerMixin):
    """Holds a `SOMState` where generate expects keys and values."""

    is_compileable = False
    supports_early_init = False

    def __init__(self) -> None:
        super().__init__()
        self.state: SOMState | None = None
        self.cumulative_length = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """The first state brings its own sizes."""

    def update(self, state: SOMState, tokens: int) -> None:  # type: ignore[override]  # a state, not keys and values
        self.state, self.is_initialized = state, True
        self.cumulative_length += tokens

    def get_seq_length(self) -> int:
        return self.cumulative_length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.cumulative_length + query_length, 0

    def get_max_length(self) -> int:
        return -1

    def select(self, rows: Tensor) -> None:
        if self.state is not None:
            self.state = self.state.select(rows)

    reorder_cache = batch_select_indices = select  # type: ignore[assignment]  # the same under another argument's name

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.state is not None:
            self.select(torch.arange(len(self.state.depth)).repeat_interleave(repeats))

    def move(self, device: torch.device | str) -> None:
        if self.state is not None:
            self.state = SOMState(*(part.to(device, non_blocking=True) for part in self.state))

    def offload(self) -> None:
        if self.state is not None:
            self.device = self.state.depth.device
            self.move("cpu")

    def prefetch(self) -> None:
        if self.state is not None and hasattr(self, "device"):
            self.move(self.device)

    def reset(self) -> None:
        self.state, self.is_initialized, self.cumulative_length = None, False, 0

    def crop(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("a SOM keeps only its current state, so what was read cannot be taken back")


class SOMCache(Cache):
    """The `past_key_values` of a SOM: one recurrent state, updated in place as the library's own caches are."""

    layers: list[SOMCacheLayer]  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(layers=[SOMCacheLayer()])

    @property
    def state(self) -> SOMState | None:
        return self.layers[0].state

    def update(self, state: SOMState, tokens: int) -> None:  # type: ignore[override]
        self.layers[0].update(state, tokens)
