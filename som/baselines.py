"""What a SOM is compared with: language models trained on the same data in the same way, n-grams, and simple trees.

An LSTM and a GPT-2 are made with about as many parameters as a SOM of the same hidden size and vocabulary:
`train(data, run, build=lstm)`. Everything that predicts words is a scorer, sequences of ids to `Scored`, and can be
measured like a SOM: `evaluate_words`, `som.targeted.judge_suites`, `som.targeted.judge_pairs`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log
from pathlib import Path
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import CausalLMOutput

from configuration_som import SOMConfig
from modeling_som import SOMForCausalLM
from modeling_som.modeling_som import LookAheadParser
from som.evaluation import Counts, Report, count_brackets, count_words, sums_by_length
from som.inference import BATCH_TOKENS, Scored, batches, encode, evaluating, load_weights
from som.metrics import left_branching, random_branching, right_branching
from som.targeted import Scorer
from som.training import TrainSettings, make_config, vocabulary
from som.treebanks import Example
from som.trees import Tree, binarise
from som.vocabularies import load_tokenizer

# Neural language models


@strict
class LSTMConfig(PreTrainedConfig):
    model_type = "lstm_lm"
    vocab_size: int = 10_000
    hidden_size: int = 200
    wide_size: int = 514
    embedding_dropout: float = 0.1
    dropout: float = 0.2
    output_dropout: float = 0.3
    tie_word_embeddings: bool = True


class LSTMForCausalLM(PreTrainedModel):
    """An LSTM with tied embeddings in two layers, D → wide → D.

    Words and last states are normalised, as in a SOM: without, Adam stays long at the frequencies of the words."""

    config_class = LSTMConfig
    _tied_weights_keys = {"lm_head.weight": "embed_tokens.weight"}

    def __init__(self, config: LSTMConfig):
        super().__init__(config)
        D, wide = config.hidden_size, config.wide_size
        self.embed_tokens = nn.Embedding(config.vocab_size, D)
        self.norm, self.output_norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.wide, self.narrow = nn.LSTM(D, wide, batch_first=True), nn.LSTM(wide, D, batch_first=True)
        self.lm_head = nn.Linear(D, config.vocab_size)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Layers keep PyTorch's own beginning; embeddings, which are the output layer too, begin small."""
        if isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -0.1, 0.1)

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Tensor, labels: Tensor | None = None, **kwargs: Any) -> CausalLMOutput:
        config, training = self.config, self.training
        x = F.dropout(self.norm(self.embed_tokens(input_ids)), config.embedding_dropout, training)  # (B, T, D)
        x, _ = self.wide(x)
        x, _ = self.narrow(F.dropout(x, config.dropout, training))
        logits = self.lm_head(F.dropout(self.output_norm(x), config.output_dropout, training))  # (B, T, V)
        loss = None if labels is None else self.loss_function(logits, labels, vocab_size=config.vocab_size, **kwargs)
        return CausalLMOutput(loss=loss, logits=logits)


def lstm(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new LSTM: its two layers have 4 (D + wide)² weights, the two cells and two parsers of a SOM 51 D²."""
    wide = round(settings.hidden_size * ((51 / 4) ** 0.5 - 1))
    dropout = {name: getattr(settings, name) for name in ("embedding_dropout", "dropout", "output_dropout")}
    sizes = {"hidden_size": settings.hidden_size, "wide_size": wide, **vocabulary(tokenizer)}
    return LSTMForCausalLM(LSTMConfig(**sizes, **dropout))


class GPT2(GPT2LMHeadModel):
    """The library's GPT-2, for which trees are no input."""

    def forward(self, *args: Any, first_sibling: Tensor | None = None, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)


def gpt2(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new GPT-2 of four layers, 12 D² weights each."""
    sizes = {"n_embd": settings.hidden_size, "n_layer": 4, "n_head": 4, "n_positions": 512, **vocabulary(tokenizer)}
    dropout: dict[str, Any] = {f"{place}_pdrop": settings.dropout for place in ("resid", "embd", "attn")}
    return GPT2(GPT2Config(**sizes, **dropout))


BUILDERS = {"lstm": lstm, "gpt2": gpt2}
CLASSES: dict[str, type[PreTrainedModel]] = {"lstm_lm": LSTMForCausalLM, "gpt2": GPT2}


def load_baseline(run: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """A trained LSTM or GPT-2 and its tokenizer."""
    model_type = PreTrainedConfig.get_config_dict(run)[0].get("model_type")
    if model_type not in CLASSES:
        raise ValueError(f"{run}: expected a model of type {' or '.join(CLASSES)}, got {model_type!r}")
    return load_weights(run, CLASSES[model_type]).eval(), load_tokenizer(run)


@torch.inference_mode()
def score_neural(model: PreTrainedModel, sequences: Sequence[Sequence[int]]) -> Iterator[Scored]:
    """Scores sequences of ids, in their order; padding on the right, which causal models do not see."""
    results: dict[int, Scored] = {}
    with evaluating(model):  # type: ignore[arg-type]  # only switches to evaluation
        for batch in batches(sequences, None, BATCH_TOKENS // 4, model.device):
            logits = model(input_ids=batch.ids).logits[:, :-1].float()  # (B, T - 1, V)
            nats = F.cross_entropy(logits.transpose(1, 2), batch.ids[:, 1:], reduction="none")
            for place, row in zip(batch.places, (-nats).tolist(), strict=True):
                results[place] = Scored(row[: len(sequences[place]) - 1], depths=[])
    for place in range(len(sequences)):
        yield results.pop(place)


# Parsers


class ShiftReduceParser(LookAheadParser):
    """Decides one reduction at a time: from the last word upward, each subtree is reduced with its left sibling or
    becomes the left sibling of the next word, which is then shifted."""

    def logits(self, scores: Tensor) -> Tensor:
        """log p(e) = log σ(score_e), that the subtree at e is kept, + Σ log σ(-score) of all below, that none of them
        is; where nothing is left to reduce with, it is kept.

        >>> parser = ShiftReduceParser(SOMConfig(vocab_size=5, hidden_size=4))
        >>> parser.logits(torch.tensor([[9.0, 0.0, 0.0, -torch.inf]])).exp().tolist()
        [[0.25, 0.25, 0.5, 0.0]]
        """
        live = scores != -torch.inf  # NaN is live, and stays NaN
        known = scores.masked_fill(~live, 0)
        keep = F.pad(F.logsigmoid(known)[..., 1:], (1, 0))
        reduce = F.logsigmoid(-known).masked_fill(~live, 0)
        below = reduce.flip(-1).cumsum(-1).flip(-1) - reduce
        return (keep + below).masked_fill(~live, -torch.inf)


class ShiftReduce(SOMForCausalLM):
    """A SOM whose look-ahead parser shifts and reduces: the same words, subtrees and scores."""

    def __init__(self, config: SOMConfig):
        super().__init__(config)
        self.model.parser = ShiftReduceParser(config)
        self.post_init()


def shift_reduce(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new parser that predicts no words, if the settings say so."""
    return ShiftReduce(make_config(settings, tokenizer))


# N-grams


class KneserNey:
    """An n-gram model with interpolated Kneser-Ney smoothing, one discount an order, down to equal probabilities.

    Below the highest order, an n-gram counts as often as there are different words before it; only those that begin
    with BOS, which nothing can precede, count as often as they occur.

    >>> model = KneserNey([[0, 1, 2, 3], [0, 1, 3]], vocab_size=5, order=3)
    >>> [round(sum(model.probability(word, context) for word in range(5)), 6) for context in [(), (0, 1), (4, 4)]]
    [1.0, 1.0, 1.0]
    """

    def __init__(self, sentences: Iterable[Sequence[int]], vocab_size: int, order: int):
        if order < 1:
            raise ValueError(f"order must be at least 1, got {order}")
        self.vocab_size, self.order = vocab_size, order
        self.followers: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for ids in sentences:
            for t in range(1, len(ids)):
                self.followers[tuple(ids[max(0, t - order + 1) : t])][ids[t]] += 1
        self.count_continuations()
        self.totals = {context: words.total() for context, words in self.followers.items()}
        self.discounts = [self.discount(length) for length in range(order)]

    def count_continuations(self) -> None:
        for length in reversed(range(1, self.order)):
            for context in [context for context in self.followers if len(context) == length]:
                for word in self.followers[context]:
                    self.followers[context[1:]][word] += 1

    def discount(self, length: int) -> float:
        """What is taken off every count after contexts of a length: n1 / (n1 + 2 n2) of counts 1 and 2."""
        tables = [words for context, words in self.followers.items() if len(context) == length]
        kinds = Counter(count for words in tables for count in words.values())
        return kinds[1] / (kinds[1] + 2 * kinds[2]) if kinds[1] and kinds[2] else 0.75

    def probability(self, word: int, context: Sequence[int]) -> float:
        """Of a word after others; of these, at most the last `order - 1` matter."""
        probability = 1 / self.vocab_size
        context = tuple(context)[max(0, len(context) - self.order + 1) :]
        for start in reversed(range(len(context) + 1)):
            seen = context[start:]
            if seen not in self.followers:
                break  # nor were longer ones
            words, discount = self.followers[seen], self.discounts[len(seen)]
            kept, freed = max(words[word] - discount, 0), discount * len(words)
            probability = (kept + freed * probability) / self.totals[seen]
        return probability

    def __call__(self, sequences: Sequence[Sequence[int]]) -> Iterator[Scored]:
        """Scores sequences of ids."""
        for ids in sequences:
            contexts = ((ids[t], ids[max(0, t - self.order + 1) : t]) for t in range(1, len(ids)))
            yield Scored([log(self.probability(word, context)) for word, context in contexts], depths=[])


# Measures


def evaluate_words(
    scorer: Scorer, tokenizer: PreTrainedTokenizerFast, examples: Sequence[Example], method: str, name: str
) -> Report:
    """Perplexity on a treebank of what knows no trees."""
    scored = scorer([encode(tokenizer, example.words).ids for example in examples])
    counts = (Counts(sentences=1) + count_words(*one) for one in zip(examples, scored, strict=True))
    return Report(name, method, False, sums_by_length(examples, counts))


def evaluate_trees(parse: Callable[[Example], Tree], examples: Sequence[Example], method: str, name: str) -> Report:
    """Brackets on a treebank of what predicts no words."""
    counts = (Counts(sentences=1) + count_brackets(example, parse(example)) for example in examples)
    return Report(name, method, False, sums_by_length(examples, counts))


def tree_baselines(seed: int = 0) -> dict[str, Callable[[Example], Tree]]:
    """Trees that need no learning, and the best that binary trees can be."""
    random = Random(seed)
    return {
        "left-branching trees": lambda example: left_branching(example.words),
        "right-branching trees": lambda example: right_branching(example.words),
        "random trees": lambda example: random_branching(example.words, random),
        "oracle binary trees": lambda example: binarise(example.tree),
    }
