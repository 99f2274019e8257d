"""SyntaxGym: which predictions hold of a model's surprisals, by item, suite and circuit.

Two readings of "the item is passed" are kept apart: `all` its predictions hold, or the `first` one does. The published
scores are of the second kind (two suites have more than one prediction, and one of those asks for equal surprisals),
so compare with them by the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

from rich.table import Table
from transformers import PreTrainedTokenizerFast

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Method, score
from som.evaluation.display import percent, table_of_numbers
from som.evaluation.formulas import Name
from som.evaluation.report import Report
from som.evaluation.scorers import Scorer, known_to, score_once
from som.evaluation.suites import UNPUBLISHED, ConditionKey, Suite, circuit, circuit_means, where

READINGS: dict[str, Callable[[tuple[bool, ...]], bool]] = {"all": all, "first": lambda held: held[0]}
Regions = Mapping[int, float]  # surprisal by region number


def evaluate_syntaxgym(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    suites: Sequence[Suite],
    method: str | Method | None = None,
    k: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Report[SyntaxGymCounts]:
    """Which predictions hold of the model's surprisals; options are those of `som.score`."""
    method = Method.of(model, method, k, seed)
    return judge_suites(partial(score, model, method=method, **options), tokenizer, suites, method.name)


def judge_suites(
    scorer: Scorer, tokenizer: PreTrainedTokenizerFast, suites: Sequence[Suite], method: str
) -> Report[SyntaxGymCounts]:
    """Which predictions hold of surprisals, in bits, whatever model they are of.

    Sentences are read from BOS, without EOS. A word vocabulary's unknown words are looked for in critical regions.
    """
    sentences = [sentence for suite in suites for sentence in suite.sentences()]
    texts = list(dict.fromkeys(sentence.text for sentence in sentences))
    # BOS comes first, at no characters
    encoded = tokenizer(texts, split_special_tokens=True, return_offsets_mapping=True)
    scored = score_once(scorer, encoded["input_ids"])
    tokens = {
        text: (offsets[1:], [rounded_bits(log_prob) for log_prob in one.log_probs])
        for text, offsets, one in zip(texts, encoded["offset_mapping"], scored, strict=True)
    }
    surprisals = {sentence.key: sentence.regions(*tokens[sentence.text]) for sentence in sentences}
    return Report("SyntaxGym", method, judge_predictions(suites, surprisals, known_to(tokenizer)))


def rounded_bits(log_prob: float) -> float:
    """Surprisal, without the digits that depend on which sentences were read together."""
    return round(-log_prob / math.log(2), 4)


def judge_predictions(
    suites: Sequence[Suite],
    surprisals: Mapping[ConditionKey, Regions],
    is_known: Callable[[str], bool] | None = None,
) -> SyntaxGymCounts:
    """Judge every prediction by the surprisals of regions, which are given by sentence.

    With `is_known`, a predicate for words, the items that have an unknown word in a critical region are listed.
    """
    outcomes = {suite.name: {item: judge_item(suite, item, surprisals) for item in suite.items} for suite in suites}
    unknown = {suite.name: suite.items_with_unknown_words(is_known) for suite in suites} if is_known else {}
    return SyntaxGymCounts(outcomes, unknown)


def judge_item(suite: Suite, item: int, surprisals: Mapping[ConditionKey, Regions]) -> tuple[bool, ...]:
    """Whether each prediction holds for an item."""
    values: dict[Name, float] = {}
    for condition, sentence in suite.items[item].items():
        if sentence.key not in surprisals:
            raise ValueError(f"{where(sentence.key)}: there are no surprisals for this sentence")
        values |= {(number, condition): value for number, value in surprisals[sentence.key].items()}
    if any(math.isnan(value) for value in values.values()):
        raise ValueError(f"suite {suite.name}, item {item}: a surprisal is not a number")
    return tuple(bool(formula.holds(values)) for formula in suite.predictions)


@dataclass(frozen=True)
class SyntaxGymCounts:
    """Which predictions held, by suite and item; and, if they were looked for, the items with unknown words."""

    outcomes: dict[str, dict[int, tuple[bool, ...]]]
    unknown: dict[str, list[int]] = field(default_factory=dict)

    def __add__(self, other: SyntaxGymCounts) -> SyntaxGymCounts:
        """The items of both, which must be different ones."""
        outcomes = {suite: dict(items) for suite, items in self.outcomes.items()}
        for suite, items in other.outcomes.items():
            if twice := outcomes.setdefault(suite, {}).keys() & items:
                raise ValueError(f"suite {suite}, item {min(twice)}: is in both reports, which do not add")
            outcomes[suite] |= items
        names = dict.fromkeys([*self.unknown, *other.unknown])
        return SyntaxGymCounts(
            outcomes, {suite: self.unknown.get(suite, []) + other.unknown.get(suite, []) for suite in names}
        )

    def suite_accuracy(self, passed: str = "all") -> dict[str, float]:
        """The share of items passed, by suite."""
        return {name: fmean(map(READINGS[passed], items.values())) for name, items in self.outcomes.items()}

    def circuit_accuracy(self, passed: str = "all") -> dict[str, float]:
        """The mean over the published suites of each circuit."""
        return circuit_means(self.suite_accuracy(passed))

    def mean(self, published: bool = True, passed: str = "all") -> float | None:
        """The mean over suites: those that the authors score (31 of them), or all there are (34)."""
        scores = [
            score for name, score in self.suite_accuracy(passed).items() if not (published and name in UNPUBLISHED)
        ]
        return fmean(scores) if scores else None

    def measures(self) -> dict[str, float | None]:
        """Items are passed when all their predictions hold, unless a measure says otherwise."""
        return {
            **{f"SG, {name}": self.mean(published) for name, published in self.groups().items()},
            **self.circuit_accuracy(),
            "SG, published suites, first prediction alone": self.mean(published=True, passed="first"),
            **self.unknown_share(),
        }

    def groups(self) -> dict[str, bool]:
        """The two sets of suites that means are taken over, and whether it is only the published ones."""
        published = sum(suite not in UNPUBLISHED for suite in self.outcomes)
        return {f"{published} published suites": True, f"all {len(self.outcomes)} suites": False}

    def unknown_share(self) -> dict[str, float | None]:
        """The share of items with an unknown word in a critical region, if it was looked for."""
        items = sum(map(len, self.outcomes.values()))
        unknown = sum(map(len, self.unknown.values()))
        return {"items with an unknown critical word": unknown / items} if self.unknown else {}

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        readings = {
            passed: {
                "mean_published": self.mean(True, passed),
                "mean_all": self.mean(False, passed),
                "circuits": self.circuit_accuracy(passed),
                "suites": self.suite_accuracy(passed),
            }
            for passed in READINGS
        }
        return {**readings, "items": self.outcomes, "items_with_unknown_words": self.unknown}

    def table(self, title: str) -> Table:
        """Circuits with their suites, then the means over suites; in per cent of items."""
        table = table_of_numbers(title, "items", "all hold", "first holds", "unknown")
        circuits = [self.circuit_accuracy(passed) for passed in READINGS]
        for name in circuits[0]:
            table.add_section()
            table.add_row(name, "", *(percent(means[name]) for means in circuits), "", style="bold")
            self.add_suites(table, [s for s in self.outcomes if circuit(s) == name and s not in UNPUBLISHED])
        table.add_section()
        self.add_suites(table, [suite for suite in self.outcomes if suite in UNPUBLISHED])
        for name, published in self.groups().items():
            means = (percent(self.mean(published, passed)) for passed in READINGS)
            table.add_row(f"mean of {name}", "", *means, "", style="bold")
        return table

    def add_suites(self, table: Table, suites: Sequence[str]) -> None:
        every, first = self.suite_accuracy("all"), self.suite_accuracy("first")
        for suite in suites:
            unknown = str(len(self.unknown[suite])) if self.unknown else "–"
            items = str(len(self.outcomes[suite]))
            table.add_row(f"  {suite}", items, percent(every[suite]), percent(first[suite]), unknown)
