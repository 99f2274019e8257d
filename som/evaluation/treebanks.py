"""How good a model is on a treebank: perplexity, the accuracy of its two parsers, brackets; by length of sentence.

Conventions:
- perplexity is of each sentence on its own, with EOS counted (`ppl`) and without; per token, and per word;
- accuracy of p and p' is against the label of the *dynamic* oracle at the states that the model itself reached, for
  every token after BOS, EOS included; also where the model was trained with another oracle;
- UF1 is of the words' tree, without BOS and EOS, against the treebank's trees binarised and against them as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from rich.table import Table
from transformers import PreTrainedTokenizerFast

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Method, Scored, score
from modeling_som.sentences_som import Sentence, encode
from som.data import token_siblings
from som.evaluation.display import cell, table_of_numbers
from som.syntax import (
    Accuracy,
    Brackets,
    Example,
    Perplexity,
    Tree,
    binarise,
    first_siblings,
    gold_depths,
    oracle_labels,
    tree_from_depths,
)

LENGTHS = {"1–10": 10, "11–20": 20, "21–30": 30, "31–40": 40, "41+": float("inf")}  # words at most


@dataclass(frozen=True)
class Counts:
    """What is counted on some sentences: counts add, and `measures` takes the ratios last."""

    sentences: int = 0
    with_eos: Perplexity = Perplexity()
    without_eos: Perplexity = Perplexity()
    words_with_eos: Perplexity = Perplexity()
    words_without_eos: Perplexity = Perplexity()
    p: Accuracy = Accuracy()
    p_next: Accuracy = Accuracy()
    binarised: Brackets = Brackets()
    nary: Brackets = Brackets()

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def measures(self) -> dict[str, float | None]:
        """The figures by name; None where nothing was counted."""
        return {
            "ppl": self.with_eos.value,
            "ppl_without_eos": self.without_eos.value,
            "ppl_per_word": self.words_with_eos.value,
            "ppl_per_word_without_eos": self.words_without_eos.value,
            "p_acc": self.p.value,
            "p_next_acc": self.p_next.value,
            "uf1_binarised": self.binarised.f1,
            "uf1_nary": self.nary.f1,
        }

    def to_json(self) -> dict[str, Any]:
        return {"measures": self.measures(), "counts": asdict(self)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Counts:
        empty, counts = cls(), {}
        for name, value in data["counts"].items():
            counts[name] = type(getattr(empty, name))(**value) if isinstance(value, dict) else value
        return cls(**counts)


SECTIONS = ("treebank", "treebank_gold", "syntaxgym", "blimp")  # of an evaluation file
LABELS = {  # what each measure is called in tables and cards
    "ppl": "ppl, with EOS",
    "ppl_without_eos": "ppl, no EOS",
    "ppl_per_word": "ppl a word",
    "ppl_per_word_without_eos": "ppl a word, no EOS",
    "p_acc": "p acc",
    "p_next_acc": "p' acc",
    "uf1_binarised": "UF1, binarised",
    "uf1_nary": "UF1, n-ary",
}


@dataclass(frozen=True)
class Report:
    """Counts by length of sentence, and how they came about."""

    name: str  # of the treebank
    method: str
    gold: bool  # the trees were given
    by_length: dict[str, Counts]

    @property
    def title(self) -> str:
        return f"{self.name}, {self.method}{', gold trees given' * self.gold}"

    @property
    def total(self) -> Counts:
        return sum(self.by_length.values(), Counts())

    def __add__(self, other: Report) -> Report:
        if (self.method, self.gold) != (other.method, other.gold):
            raise ValueError("reports of different methods do not add")
        lengths = {length: self.by_length[length] + other.by_length[length] for length in LENGTHS}
        return Report(" + ".join(dict.fromkeys([self.name, other.name])), self.method, self.gold, lengths)

    def to_json(self) -> dict[str, Any]:
        """Measures and the counts behind them, of all sentences and by length."""
        lengths = {length: counts.to_json() for length, counts in self.by_length.items()}
        about = {"title": self.title, "name": self.name, "method": self.method, "gold": self.gold}
        return {**about, **self.total.to_json(), "by_length": lengths}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Report:
        lengths = {length: Counts.from_json(counts) for length, counts in data["by_length"].items()}
        return cls(data["name"], data["method"], data["gold"], lengths)

    def __rich__(self) -> Table:
        columns = {"all": self.total, **self.by_length}
        columns = {name: counts for name, counts in columns.items() if counts.sentences}
        table = table_of_numbers(self.title, *columns)
        table.add_row("sentences", *(f"{counts.sentences:,}" for counts in columns.values()))
        pieces = self.total.with_eos != self.total.words_with_eos  # else per token and per word are the same
        for name, label in LABELS.items():
            if pieces or "per_word" not in name:
                table.add_row(label, *(cell(name, counts.measures()[name]) for counts in columns.values()))
        return table


def evaluate(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    examples: Iterable[Example],
    method: str | Method | None = None,
    gold: bool = False,
    name: str = "treebank",
    k: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Report:
    """Measure a model on the sentences and trees of a treebank; `gold` gives it the trees, the upper bound.

    Options are those of `som.inference.score`.
    """
    method = Method.of(model, method, k, seed, gold)
    examples, slots = list(examples), model.config.num_slots
    sentences = [encode(tokenizer, example.words, words=True) for example in examples]
    siblings = [*map(sentence_siblings, examples, sentences)]
    depths = [gold_depths(row, slots) for row in siblings] if gold else None
    scored = score(model, [sentence.ids for sentence in sentences], method, depths=depths, **options)
    counts = (count(*one, slots) for one in zip(examples, sentences, siblings, scored, strict=True))
    return Report(name, method.name, gold, sums_by_length(examples, counts))


def sentence_siblings(example: Example, sentence: Sentence) -> list[int]:
    """First siblings of the tokens from BOS to EOS."""
    ends = [*sentence.starts[1:], len(sentence.ids) - 1]
    pieces = [end - start for start, end in zip(sentence.starts, ends, strict=True)]
    return token_siblings(first_siblings(example.tree), pieces)


def sums_by_length(examples: Sequence[Example], counts: Iterable[Counts]) -> dict[str, Counts]:
    """The counts of the sentences, added up by length."""
    sums = dict.fromkeys(LENGTHS, Counts())
    for example, one in zip(examples, counts, strict=True):
        sums[length_class(len(example.words))] += one
    return sums


def length_class(words: int) -> str:
    return next(name for name, longest in LENGTHS.items() if words <= longest)


def count(example: Example, sentence: Sentence, siblings: Sequence[int], scored: Scored, num_slots: int) -> Counts:
    """The counts of one sentence."""
    labels = oracle_labels("dynamic", siblings, scored.depths, num_slots)
    decided = [*sentence.starts, len(sentence.ids) - 1]  # words and EOS; further pieces of a word are no decisions
    tree = tree_from_depths(sentence.of_words(scored.depths), example.words)
    decisions = Counts(
        sentences=1,
        p=accuracy(scored.choices, labels, decided),
        p_next=accuracy(scored.guesses, labels, decided),
    )
    return decisions + count_words(example, scored) + count_brackets(example, tree)


def accuracy(guesses: Sequence[int] | None, labels: Sequence[int], decided: Sequence[int]) -> Accuracy:
    """How many of a parser's guesses, one per token after the first, are the oracle's label where there is one."""
    if guesses is None:
        return Accuracy()
    return Accuracy.of([guesses[place - 1] for place in decided], [labels[place] for place in decided])


def count_words(example: Example, scored: Scored) -> Counts:
    """What is counted of a sentence's likelihood."""
    nats, eos = -scored.log_prob, -scored.log_probs[-1]
    tokens, words = len(scored.log_probs), len(example.words) + 1  # both with EOS
    return Counts(
        with_eos=Perplexity(nats, tokens),
        without_eos=Perplexity(nats - eos, tokens - 1),
        words_with_eos=Perplexity(nats, words),
        words_without_eos=Perplexity(nats - eos, words - 1),
    )


def count_brackets(example: Example, tree: Tree) -> Counts:
    """What is counted of a sentence's tree."""
    return Counts(binarised=Brackets.of(binarise(example.tree), tree), nary=Brackets.of(example.tree, tree))
