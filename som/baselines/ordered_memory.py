"""Ordered Memory (OM) as a language model: what SOM comes from, with soft decisions and no tree labels.

Shen, Tan, Hosseini, Lin, Sordoni & Courville, "Ordered Memory" (NeurIPS 2019). Slots are counted as in a SOM, from
the root, 0, downward. Where a SOM attaches a word at one depth e, an OM has a distribution p over all depths, and
mixes what each of them would write:

    β(e) = exp(score(x, C[e])) · P(the word before is at depth e or deeper),   p = β / Σ β
    M[e] ← P(attached at e or above) · C[e] + P(below) · M[e]
    C[e] ← P(attached at e or below) · cell(M[e], C[e + 1]) + P(above) · x,    from the deepest slot to the root

The cell and the attention are those of a SOM. The paper has no language model: here the next word is predicted from
the root C[0] and the word itself, composed by a second cell. The tree is read off the most probable depths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast, initialization
from transformers.modeling_outputs import CausalLMOutput

from modeling_som.modeling_som import Cell, LookAheadParser
from modeling_som.scoring_som import BATCH_TOKENS, batches, evaluating
from modeling_som.sentences_som import Sentence
from som.baselines.language_model import LanguageModel, dropouts
from som.syntax import Tree, tree_from_depths
from som.training import TrainSettings, vocabulary


@strict
class OrderedMemoryConfig(PreTrainedConfig):
    model_type = "ordered_memory"
    vocab_size: int = 10_000
    hidden_size: int = 200
    num_slots: int = 15
    embedding_dropout: float = 0.1
    dropout: float = 0.2
    output_dropout: float = 0.3
    layer_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True

    @property
    def semantic_size(self) -> int:
        """All of a vector: cells and parsers of a SOM ask for it."""
        return self.hidden_size

    @property
    def syntactic_size(self) -> int:
        return 0


class Memory(NamedTuple):
    """The state after some words; K grows by one with each word, up to N, since deeper slots cannot be reached yet."""

    memory: Tensor  # (B, K, D)
    candidates: Tensor  # (B, K + 1, D), the last one is the word itself
    reached: Tensor  # (B, K + 1) log P(the word is at this depth or deeper)


class OrderedMemoryForCausalLM(LanguageModel):
    """An OM and its output layer."""

    config_class = OrderedMemoryConfig

    def __init__(self, config: OrderedMemoryConfig):
        super().__init__(config)
        self.cell, self.predict_cell = Cell(config), Cell(config)  # type: ignore[arg-type]  # the same fields
        self.parser = LookAheadParser(config)  # type: ignore[arg-type]
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """As in a SOM, so that decisions differ from the start."""
        super()._init_weights(module)
        if isinstance(module, nn.Linear):
            initialization.normal_(module.weight, mean=0.0, std=module.weight.shape[1] ** -0.5)

    def forward(
        self, input_ids: Tensor, labels: Tensor | None = None, first_sibling: Tensor | None = None, **kwargs: Any
    ) -> CausalLMOutput:
        """Trees are no input; padding stands on the right, where it changes nothing."""
        hidden, _ = self.read(input_ids)
        return self.predict(hidden, labels, **kwargs)

    def read(self, input_ids: Tensor) -> tuple[Tensor, list[Tensor]]:
        """States that predict the next words (B, T, D), and log p of each word after the first, (B, K) each."""
        x = self.words(input_ids)  # (B, T, D)
        queries = self.parser.queries(x)
        state = Memory(x[:, :0], x[:, :1], x.new_zeros(len(x), 1))
        roots, attachments = [x[:, 0]], []
        for t in range(1, x.shape[1]):
            log_p = self.attachment(queries[:, t], state)
            state = self.write(x[:, t], log_p.exp(), state)
            roots.append(state.candidates[:, 0])
            attachments.append(log_p)
        hidden = self.predict_cell(torch.stack(roots, dim=1).flatten(0, 1), x.flatten(0, 1))
        return hidden.unflatten(0, x.shape[:2]), attachments

    def attachment(self, query: Tensor, state: Memory) -> Tensor:
        """(B, K): log p, where the next word attaches."""
        slots = min(state.candidates.shape[1], self.config.num_slots)
        scores = self.parser(query[:, None], self.parser.keys(state.candidates[:, :slots]))
        return (scores + state.reached[:, :slots]).log_softmax(dim=1)

    def write(self, x: Tensor, p: Tensor, state: Memory) -> Memory:
        """The state after the word x (B, D), which is attached with the probabilities p (B, K)."""
        above = p.cumsum(1)[..., None]  # (B, K, 1) attached at this depth or above it
        below = p.flip(1).cumsum(1).flip(1)  # (B, K) … or below it
        slots = p.shape[1]
        grown = F.pad(state.memory, (0, 0, 0, slots - state.memory.shape[1]))
        memory = grown + above * (state.candidates[:, :slots] - grown)
        candidates = [x]
        for e in reversed(range(slots)):
            composed = self.cell(memory[:, e], candidates[-1])
            candidates.append(x + below[:, e, None] * (composed - x))
        known = below.clamp(min=torch.finfo(p.dtype).tiny).log()  # 0 has no gradient
        reached = F.pad(known.masked_fill(below == 0, -torch.inf), (1, 0))
        return Memory(memory, torch.stack(candidates[::-1], dim=1), reached)


@torch.inference_mode()
def ordered_memory_trees(model: OrderedMemoryForCausalLM, sentences: Sequence[Sentence]) -> Iterator[Tree]:
    """The binary tree of each sentence, from the most probable depths of its words."""
    depths: dict[int, list[int]] = {}
    with evaluating(model):  # type: ignore[arg-type]  # only switches to evaluation
        for batch in batches([sentence.ids for sentence in sentences], None, BATCH_TOKENS // 4, model.device):
            _, attachments = model.read(batch.ids)
            chosen = torch.stack([log_p.argmax(dim=1) + 1 for log_p in attachments], dim=1).tolist()
            depths.update((place, [0, *row]) for place, row in zip(batch.places, chosen, strict=True))
    for place, sentence in enumerate(sentences):
        yield tree_from_depths(sentence.of_words(depths[place]), sentence.words)


def ordered_memory(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new OM: its two cells and its parser are those of a SOM."""
    sizes = {"hidden_size": settings.hidden_size, "num_slots": settings.num_slots, **vocabulary(tokenizer)}
    return OrderedMemoryForCausalLM(OrderedMemoryConfig(**sizes, **dropouts(settings)))
