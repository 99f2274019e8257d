"""How good a model is on a treebank: perplexity, the accuracy of its two parsers, brackets; by length of sentence.

Conventions:
- perplexity is of each sentence on its own, with EOS counted (`ppl`) and without; per token, and per word;
- accuracy of p and p' is against the label of the *dynamic* oracle at the states that the model itself reached, for
  every token after BOS that the model decides on, EOS included; also where it was trained with another oracle;
- UF1 is of the words' tree, without BOS and EOS, against the treebank's trees binarised and against them as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.table import Table
from transformers import PreTrainedTokenizerFast

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Method, Scored, label_trees, score
from modeling_som.sentences_som import Sentence, encode
from modeling_som.tags_som import Labels
from som.data import token_siblings
from som.evaluation.display import cell, table_of_numbers
from som.evaluation.report import Report
from som.syntax import (
    Accuracy,
    Brackets,
    Example,
    Perplexity,
    Tags,
    Tree,
    binarise,
    first_siblings,
    gold_depths,
    labelled_spans,
    oracle_labels,
    tree_from_depths,
    universal,
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
    heads: Accuracy = Accuracy()
    relations: Accuracy = Accuracy()
    labelled: Brackets = Brackets()

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
            "uas": self.heads.value,
            "las": self.relations.value,
            "labelled_f1": self.labelled.f1,
        }

    def to_json(self) -> dict[str, Any]:
        return {"measures": self.measures(), "counts": asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Counts:
        empty, counts = cls(), {}
        for name, value in data["counts"].items():
            counts[name] = type(getattr(empty, name))(**value) if isinstance(value, dict) else value
        return cls(**counts)


SECTIONS = ("treebank", "treebank_gold", "syntaxgym", "blimp")  # of an evaluation file
LABELS = {  # what each measure is called in tables and cards
    "ppl": "ppl, with EOS",
    "ppl_without_eos": "ppl, no EOS",
    "ppl_per_word": "ppl per word",
    "ppl_per_word_without_eos": "ppl per word, no EOS",
    "p_acc": "p acc",
    "p_next_acc": "p' acc",
    "uf1_binarised": "UF1, binarised",
    "uf1_nary": "UF1, n-ary",
    "uas": "UAS",
    "las": "LAS",
    "labelled_f1": "labelled F1",
}


@dataclass(frozen=True)
class TreebankCounts:
    """Counts by length of sentence."""

    by_length: dict[str, Counts]

    @classmethod
    def of(cls, examples: Sequence[Example], counts: Iterable[Counts]) -> TreebankCounts:
        """The counts of sentences, added up by length."""
        sums = dict.fromkeys(LENGTHS, Counts())
        for example, one in zip(examples, counts, strict=True):
            sums[length_class(len(example.words))] += one
        return cls(sums)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TreebankCounts:
        """The counts of a report, from its JSON."""
        return cls({length: Counts.from_json(counts) for length, counts in data["by_length"].items()})

    @property
    def total(self) -> Counts:
        return sum(self.by_length.values(), Counts())

    def __add__(self, other: TreebankCounts) -> TreebankCounts:
        return TreebankCounts({length: self.by_length[length] + other.by_length[length] for length in LENGTHS})

    def measures(self) -> dict[str, float | None]:
        return self.total.measures()

    def to_json(self) -> dict[str, Any]:
        """Measures and the counts behind them, of all sentences and by length."""
        lengths = {length: counts.to_json() for length, counts in self.by_length.items()}
        return {**self.total.to_json(), "by_length": lengths}

    def table(self, title: str) -> Table:
        columns = {"all": self.total, **self.by_length}
        columns = {name: counts for name, counts in columns.items() if counts.sentences}
        table = table_of_numbers(title, *columns)
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
) -> Report[TreebankCounts]:
    """Measure a model on the sentences and trees of a treebank; `gold` gives it the trees, the upper bound.

    Options are those of `som.score`.
    """
    if isinstance(examples, str | Path):
        raise ValueError(f"expected examples, as som.read_treebank has them, got a path: {examples}")
    method = Method.of(model, method, k, seed, gold)
    examples, slots = list(examples), model.config.num_slots
    sentences = [encode(tokenizer, example.words, words=True) for example in examples]
    siblings = [*map(sentence_siblings, examples, sentences)]
    depths = [gold_depths(row, slots) for row in siblings] if gold else None
    scored = list(score(model, [sentence.ids for sentence in sentences], method, depths=depths, **options))
    labels = label_trees(model, sentences, [one.depths for one in scored])
    rows = zip(examples, sentences, siblings, scored, labels, strict=True)
    counts = (
        count_parsed(model.config, example, sentence, row, one) + count_labels(example, sentence, one, found)
        for example, sentence, row, one, found in rows
    )
    return Report(name, method.name, TreebankCounts.of(examples, counts), gold)


def sentence_siblings(example: Example, sentence: Sentence) -> list[int]:
    """First siblings of the tokens from BOS to EOS."""
    ends = [*sentence.starts[1:], len(sentence.ids) - 1]
    pieces = [end - start for start, end in zip(sentence.starts, ends, strict=True)]
    return token_siblings(first_siblings(example.tree), pieces)


def length_class(words: int) -> str:
    return next(name for name, longest in LENGTHS.items() if words <= longest)


def count_parsed(config: Any, example: Example, sentence: Sentence, siblings: Sequence[int], scored: Scored) -> Counts:
    """The counts of one sentence."""
    labels = oracle_labels("dynamic", siblings, scored.depths, config.num_slots)
    last = len(sentence.ids) - 1
    # where pieces are attached to their word by rule, only the first of each, and EOS, are decisions
    decided = [*sentence.starts, last] if config.word_pieces else range(1, last + 1)
    tree = tree_from_depths(sentence.of_words(scored.depths), example.words)
    attachments = Counts(
        sentences=1,
        p=accuracy(scored.choices, labels, decided),
        p_next=accuracy(scored.guesses, labels, decided),
    )
    return attachments + count_likelihood(example, scored) + count_brackets(example, tree)


def accuracy(guesses: Sequence[int] | None, labels: Sequence[int], decided: Sequence[int]) -> Accuracy:
    """How many of a parser's guesses, one per token after the first, are the oracle's label where there is one."""
    if guesses is None:
        return Accuracy()
    return Accuracy.of([guesses[place - 1] for place in decided], [labels[place] for place in decided])


def count_labels(example: Example, sentence: Sentence, scored: Scored, labels: Labels | None) -> Counts:
    """What is counted of the labels of a sentence, where the model and the treebank have them.

    Heads and relations are counted as in the CoNLL 2018 shared task: all words, against the heads of the file, and
    relations without their subtypes."""
    if labels is None or example.tags is None or (labels.heads is None) != (example.heads is None):
        return Counts()  # or they are of different kinds: relations and categories
    if labels.heads is None or labels.relations is None or example.heads is None or example.relations is None:
        predicted = Tags(tuple(labels.leaf), tuple(labels.node))
        ours = labelled_spans(gold_depths(first_siblings(example.tree)), example.tags)
        return Counts(labelled=Brackets.of_labelled(ours, labelled_spans(sentence.of_words(scored.depths), predicted)))
    found = [*zip(labels.heads, map(universal, labels.relations), strict=True)]
    gold = [*zip(example.heads, map(universal, example.relations), strict=True)]
    right_heads = sum(one[0] == other[0] for one, other in zip(found, gold, strict=True))
    right = sum(one == other for one, other in zip(found, gold, strict=True))
    return Counts(heads=Accuracy(right_heads, len(gold)), relations=Accuracy(right, len(gold)))


def count_likelihood(example: Example, scored: Scored) -> Counts:
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
