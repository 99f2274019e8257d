"""ON-LSTM (Shen et al. 2019, "Ordered Neurons") and ONLSTM-SYD (Du et al. 2020), of a SOM's size.

From the papers: the cell, three layers, distances from the master forget gate of the middle one; of Du et al. the
"split head", a second master forget gate that no cell uses, whose distances learn the treebank's by a ranking loss
while the first one is left to the words. Choices: sizes; plain dropout between layers in place of the papers' dropout
of weights and of whole columns; normalised words and outputs as in the other systems here; the split head in the
middle layer; trees binarised to the left, as all trees here, where Du et al. binarise to the right; trees by splitting
at the largest distance, see `som.baselines.distances`.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import CausalLMOutput

from modeling_som.operators_som import mean
from som.baselines.distances import ranking_loss
from som.baselines.language_model import LanguageModel, dropouts
from som.training import TrainSettings, vocabulary

CHUNK_SIZE = 10  # the paper's; if it does not divide the hidden size, the next smaller number that does


@strict
class ONLSTMConfig(PreTrainedConfig):
    model_type = "onlstm"
    vocab_size: int = 10_000
    hidden_size: int = 200
    wide_size: int = 320  # of the two lower layers; the last has the hidden size
    chunk_size: int = 10  # neurons that share one unit of the master gates
    embedding_dropout: float = 0.1
    dropout: float = 0.2
    output_dropout: float = 0.3
    tie_word_embeddings: bool = True

    def validate_architecture(self) -> None:
        if self.hidden_size % self.chunk_size or self.wide_size % self.chunk_size:
            found = f"{self.chunk_size} for {self.hidden_size} and {self.wide_size}"
            raise ValueError(f"chunk_size must divide hidden_size and wide_size, got {found}")


@strict
class ONLSTMSYDConfig(ONLSTMConfig):
    model_type = "onlstm_syd"
    lm_loss_weight: float = 1.0
    structure_loss_weight: float = 1.0


def cumax(logits: Tensor) -> Tensor:
    """Gates that rise from 0 to 1: the probability that the split point is at a unit or before it.

    >>> cumax(torch.zeros(4)).tolist()
    [0.25, 0.5, 0.75, 1.0]
    """
    return logits.softmax(dim=-1).cumsum(dim=-1)


def split_distance(forget: Tensor) -> Tensor:
    """The expected number of units before the split point, from master forget gates (…, M): what is forgotten."""
    return forget.shape[-1] - forget.sum(dim=-1)


class OrderedLayer(nn.Module):
    """One layer: an LSTM whose high neurons keep what low ones forget, in chunks that share their master gates."""

    def __init__(self, input_size: int, size: int, chunk_size: int):
        super().__init__()
        self.size, self.chunk_size, self.units = size, chunk_size, size // chunk_size
        self.input = nn.Linear(input_size, 4 * size + 2 * self.units)
        self.hidden = nn.Linear(size, 4 * size + 2 * self.units, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """States (B, T, H) and master forget gates (B, T, M), from inputs (B, T, I)."""
        hidden = cell = x.new_zeros(len(x), self.size)
        states, gates = [], []
        for row in self.input(x).unbind(dim=1):
            hidden, cell, forget = self.step(row + self.hidden(hidden), cell)
            states.append(hidden)
            gates.append(forget)
        return torch.stack(states, dim=1), torch.stack(gates, dim=1)

    def step(self, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The state, cell (B, H) and master forget gate (B, M) after a token, from its gates' logits."""
        H, M, C = self.size, self.units, self.chunk_size
        master_forget, master_input, update, inner = gates.split([M, M, H, 3 * H], dim=1)
        forget_from, input_up_to = cumax(master_forget)[..., None], 1 - cumax(master_input)[..., None]  # (B, M, 1)
        overlap = forget_from * input_up_to
        forget, write, output = inner.sigmoid().view(-1, 3, M, C).unbind(dim=1)  # (B, M, C)
        forget = forget * overlap + (forget_from - overlap)
        write = write * overlap + (input_up_to - overlap)
        cell = forget * cell.view(-1, M, C) + write * update.tanh().view(-1, M, C)
        return (output * cell.tanh()).flatten(1), cell.flatten(1), forget_from[..., 0]


class ONLSTMForCausalLM(LanguageModel):
    """Three layers, D → wide → wide → D."""

    config_class = ONLSTMConfig

    def __init__(self, config: ONLSTMConfig):
        super().__init__(config)
        sizes = (config.hidden_size, config.wide_size, config.wide_size, config.hidden_size)
        pairs = zip(sizes[:-1], sizes[1:], strict=True)
        self.layers = nn.ModuleList(OrderedLayer(*pair, config.chunk_size) for pair in pairs)
        self.post_init()

    def read(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """States of the last layer (B, T, D) and distances (B, T), of which token t's has seen the tokens up to t."""
        low, middle, high = self.layers
        drop = nn.Dropout(self.config.dropout).train(self.training)
        x = drop(low(self.words(input_ids))[0])
        states, forget = middle(x)
        return high(drop(states))[0], self.middle_distances(x, states, forget)

    def middle_distances(self, x: Tensor, states: Tensor, forget: Tensor) -> Tensor:
        """Distances (B, T) from the inputs, states and master forget gates of the middle layer."""
        return split_distance(forget)

    def distances(self, input_ids: Tensor) -> Tensor:
        return self.read(input_ids)[1]

    def forward(self, input_ids: Tensor, labels: Tensor | None = None, **kwargs: Any) -> CausalLMOutput:
        kwargs.pop("first_sibling", None)  # learns without trees
        return self.predict(self.read(input_ids)[0], labels, **kwargs)


class ONLSTMSYDForCausalLM(ONLSTMForCausalLM):
    """An ON-LSTM whose middle layer has a second master forget gate, which learns the treebank's distances."""

    config_class = ONLSTMSYDConfig

    def __init__(self, config: ONLSTMSYDConfig):
        super().__init__(config)
        self.split_head = nn.Linear(2 * config.wide_size, config.wide_size // config.chunk_size)
        self.post_init()

    def middle_distances(self, x: Tensor, states: Tensor, forget: Tensor) -> Tensor:
        before = F.pad(states[:, :-1], (0, 0, 1, 0))  # (B, T, H): the gates of a token see the state before it
        return split_distance(cumax(self.split_head(torch.cat([x, before], dim=-1))))

    def forward(
        self, input_ids: Tensor, labels: Tensor | None = None, first_sibling: Tensor | None = None, **kwargs: Any
    ) -> CausalLMOutput:
        """With labels and trees, the loss is the weighted sum of both."""
        states, distances = self.read(input_ids)
        output = self.predict(states, labels, **kwargs)
        if labels is not None and first_sibling is not None:
            order = mean(ranking_loss(distances, first_sibling), labels[:, 1:], kwargs.get("num_items_in_batch"))
            output.loss = self.config.lm_loss_weight * output.loss + self.config.structure_loss_weight * order
        return output


def sizes(settings: TrainSettings) -> dict[str, Any]:
    """The three layers have (4 + 2 / C) (3 wide² + 2 wide D + D²) weights, the cells and parsers of a SOM 51 D²."""
    D = settings.hidden_size
    chunk = next(size for size in range(min(CHUNK_SIZE, D), 0, -1) if D % size == 0)
    target = 51 / (4 + 2 / chunk)
    wide = D * (-1 + (1 + 3 * (target - 1)) ** 0.5) / 3
    return {"hidden_size": D, "wide_size": max(1, round(wide / chunk)) * chunk, "chunk_size": chunk}


def onlstm(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    return ONLSTMForCausalLM(ONLSTMConfig(**sizes(settings), **vocabulary(tokenizer), **dropouts(settings)))


def onlstm_syd(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    weights = {name: getattr(settings, name) for name in ("lm_loss_weight", "structure_loss_weight")}
    values = {**sizes(settings), **vocabulary(tokenizer), **dropouts(settings), **weights}
    return ONLSTMSYDForCausalLM(ONLSTMSYDConfig(**values))
