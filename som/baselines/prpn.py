"""PRPN, the parsing-reading-predict network, of a SOM's size: Shen et al. (2018), "Neural Language Modeling by Jointly
Learning Syntax and Lexicon".

From the paper: a convolution over the last words gives each word a syntactic distance; gates made of distances limit
which earlier words may be attended to; the reading network is an LSTM whose state is attended to instead of being
passed on; the prediction attends with gates of a distance that is guessed for the next word. Window, memory and
temperature are the paper's. Choices: sizes; no batch normalisation in the convolution; distances without a ReLU,
which only their order needs (and one that is 0 for all words would never learn); attention that sums to one after the
gates, too; a prediction by one layer with tanh; normalised words and outputs as in the other systems here; trees by
splitting at the largest distance, see `som.baselines.distances`.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import CausalLMOutput

from som.baselines.language_model import LanguageModel, dropouts
from som.training import TrainSettings, vocabulary


@strict
class PRPNConfig(PreTrainedConfig):
    model_type = "prpn"
    vocab_size: int = 10_000
    hidden_size: int = 200
    wide_size: int = 380  # of the first of two reading layers; the second has the hidden size
    lookback: int = 5  # words before a word that its distance depends on
    memory_size: int = 15  # words before a word that can be attended to
    temperature: float = 10.0  # how sharply the gates compare distances
    embedding_dropout: float = 0.1
    dropout: float = 0.2
    output_dropout: float = 0.3
    tie_word_embeddings: bool = True


class DistanceParser(nn.Module):
    """The parsing network: distances, and the gates that they make."""

    def __init__(self, config: PRPNConfig):
        super().__init__()
        D = config.hidden_size
        self.lookback, self.temperature = config.lookback, config.temperature
        self.window = nn.Conv1d(D, D, kernel_size=config.lookback + 1)
        self.distance, self.next_distance = nn.Linear(D, 1), nn.Linear(D, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Distances (B, T) of words, and those guessed for the word after each, from embeddings (B, T, D)."""
        windows = self.window(F.pad(x.mT, (self.lookback, 0))).relu().mT  # (B, T, D)
        return self.distance(windows)[..., 0], self.next_distance(windows)[..., 0]

    def reading_gates(self, distances: Tensor) -> Tensor:
        """(B, T, T): how far word t may attend to word i < t: the product over the words j between, i < j < t, of how
        surely the distance of t is larger than that of j."""
        return self.gates(distances, distances, diagonal=-1)

    def predicting_gates(self, next_distances: Tensor, distances: Tensor) -> Tensor:
        """(B, T, T): the same for the word after t, where t itself lies between, too."""
        return self.gates(next_distances, distances, diagonal=0)

    def gates(self, later: Tensor, distances: Tensor, diagonal: int) -> Tensor:
        difference = later[:, :, None] - distances[:, None, :]  # (B, T, T)
        larger = (F.hardtanh(difference * self.temperature) + 1) / 2
        larger = torch.where(torch.ones_like(larger, dtype=torch.bool).tril(diagonal), larger, 1)
        from_here = larger.flip(2).cumprod(2).flip(2)  # Π over j ≥ i
        return F.pad(from_here[:, :, 1:], (0, 1), value=1).tril(-1)


class ReadingLayer(nn.Module):
    """An LSTM over (x, and what the gates let it see of its own states at earlier words)."""

    def __init__(self, input_size: int, size: int, memory_size: int):
        super().__init__()
        self.size, self.memory_size = size, memory_size
        self.input = nn.Linear(input_size, 5 * size)  # four gates of the LSTM, and the key
        self.hidden, self.key = nn.Linear(size, 4 * size, bias=False), nn.Linear(size, size, bias=False)

    def forward(self, x: Tensor, gates: Tensor) -> Tensor:
        """States (B, T, H), from inputs (B, T, I) and gates (B, T, T)."""
        memory: list[Tensor] = []  # state and cell (B, 2 H) of each word
        for t, row in enumerate(self.input(x).unbind(dim=1)):
            from_input, key = row.split([4 * self.size, self.size], dim=1)
            seen = x.new_zeros(len(x), 2 * self.size)
            if memory:
                recent = torch.stack(memory[-self.memory_size :], dim=1)  # (B, n, 2 H)
                key = key + self.key(memory[-1][:, : self.size])
                seen = attend(key, recent[..., : self.size], recent, gates[:, t, max(0, t - self.memory_size) : t])
            memory.append(self.step(from_input, seen))
        return torch.stack(memory, dim=1)[..., : self.size]

    def step(self, from_input: Tensor, seen: Tensor) -> Tensor:
        """State and cell (B, 2 H) after a word."""
        state, cell = seen.split(self.size, dim=1)
        update, inner = (from_input + self.hidden(state)).split([self.size, 3 * self.size], dim=1)
        forget, write, output = inner.sigmoid().chunk(3, dim=1)
        cell = forget * cell + write * update.tanh()
        return torch.cat([output * cell.tanh(), cell], dim=1)


def attend(query: Tensor, keys: Tensor, values: Tensor, gates: Tensor) -> Tensor:
    """The mean of values (B, n, V), weighted by gates (B, n) times the attention of queries (B, D) to keys (B, n, D).

    Queries (B, T, D) with gates (B, T, n) are T at once. Where all gates are 0, so is the result."""
    several = query.ndim == 3
    query, gates = (query, gates) if several else (query[:, None], gates[:, None])
    scores = query @ keys.mT / keys.shape[-1] ** 0.5  # (B, T, n)
    scores = scores.masked_fill(gates == 0, torch.finfo(scores.dtype).min)  # else they could outweigh the others
    mixed = F.normalize(scores.softmax(dim=-1) * gates, p=1, dim=-1) @ values
    return mixed if several else mixed[:, 0]


class PRPNForCausalLM(LanguageModel):
    """Parser, two reading layers D → wide → D, and the prediction from the last state and those that it attends to."""

    config_class = PRPNConfig

    def __init__(self, config: PRPNConfig):
        super().__init__(config)
        D, wide = config.hidden_size, config.wide_size
        self.parser = DistanceParser(config)
        self.low, self.high = (ReadingLayer(*pair, config.memory_size) for pair in ((D, wide), (wide, D)))
        self.query, self.combine = nn.Linear(D, D, bias=False), nn.Linear(2 * D, D)
        self.post_init()

    def distances(self, input_ids: Tensor) -> Tensor:
        """(B, T)"""
        return self.parser(self.words(input_ids))[0]

    def forward(self, input_ids: Tensor, labels: Tensor | None = None, **kwargs: Any) -> CausalLMOutput:
        kwargs.pop("first_sibling", None)  # learns without trees
        x = self.words(input_ids)
        distances, next_distances = self.parser(x)
        gates = self.parser.reading_gates(distances)
        states = self.low(x, gates)
        states = self.high(F.dropout(states, self.config.dropout, self.training), gates)  # (B, T, D)
        recent = torch.ones_like(gates, dtype=torch.bool).triu(-self.config.memory_size)
        gates = self.parser.predicting_gates(next_distances, distances) * recent
        seen = attend(self.query(states), states, states, gates)
        return self.predict(self.combine(torch.cat([seen, states], dim=-1)).tanh(), labels, **kwargs)


def prpn(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new PRPN: 6 D² weights in the convolution, 5 (D + wide)² in reading, 3 D² in prediction; a SOM has 51 D²."""
    wide = round(settings.hidden_size * (((51 - 9) / 5) ** 0.5 - 1))
    sizes: dict[str, Any] = {"hidden_size": settings.hidden_size, "wide_size": wide}
    return PRPNForCausalLM(PRPNConfig(**sizes, **vocabulary(tokenizer), **dropouts(settings)))
