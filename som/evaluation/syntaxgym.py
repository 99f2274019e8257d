"""SyntaxGym: which predictions hold of a model's surprisals, beside the published scores of others."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rich.table import Table
from transformers import PreTrainedTokenizerFast

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Method, Scored, score
from modeling_som.sentences_som import split_words
from som.evaluation.display import percent, table_of_numbers
from som.evaluation.suites import UNPUBLISHED, Suite, SyntaxGymReport, circuit, circuit_means
from som.evaluation.suites import score as score_suites

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Scorer = Callable[[Sequence[Sequence[int]]], Iterable[Scored]]  # of sequences of ids, in their order
Scores = dict[str, float]  # of a model, by suite or by circuit


def evaluate_syntaxgym(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    suites: Sequence[Suite],
    method: str | Method | None = None,
    k: int | None = None,
    seed: int = 0,
    **options: Any,
) -> SyntaxGymResult:
    """Which predictions hold of the model's surprisals; options are those of `som.inference.score`."""
    method = Method.of(model, method, k, seed)
    return judge_suites(partial(score, model, method=method, **options), tokenizer, suites, method.name)


def judge_suites(
    scorer: Scorer, tokenizer: PreTrainedTokenizerFast, suites: Sequence[Suite], method: str
) -> SyntaxGymResult:
    """Which predictions hold of surprisals, in bits, whatever model they are of.

    Sentences are read from BOS, without EOS. A word vocabulary's unknown words are looked for in critical regions.
    """
    sentences = [sentence for suite in suites for sentence in suite.sentences()]
    texts = list(dict.fromkeys(sentence.text for sentence in sentences))
    # BOS comes first, at no characters
    encoded = tokenizer(texts, split_special_tokens=True, return_offsets_mapping=True)
    scored = score_once(scorer, encoded["input_ids"])
    tokens = {
        text: (offsets[1:], [bits(log_prob) for log_prob in one.log_probs])
        for text, offsets, one in zip(texts, encoded["offset_mapping"], scored, strict=True)
    }
    surprisals = {sentence.key: sentence.regions(*tokens[sentence.text]) for sentence in sentences}
    return SyntaxGymResult(method, score_suites(suites, surprisals, known_to(tokenizer)))


def bits(log_prob: float) -> float:
    """Surprisal, without the digits that depend on which sentences were read together."""
    return round(-log_prob / math.log(2), 4)


def score_once(scorer: Scorer, sequences: Sequence[Sequence[int]]) -> list[Scored]:
    """Scores of sequences, equal ones (also texts that a vocabulary does not tell apart) scored once and equally."""
    unique = list(dict.fromkeys(map(tuple, sequences)))
    scored = dict(zip(unique, scorer(unique), strict=True))
    return [scored[tuple(sequence)] for sequence in sequences]


def known_to(tokenizer: PreTrainedTokenizerFast) -> Callable[[str], bool] | None:
    """Whether all words of a text are in a word vocabulary; None for other vocabularies, which know every word."""
    if not hasattr(tokenizer, "known"):
        return None
    return lambda text: all(word in tokenizer.known for word in split_words(tokenizer, text)[0])


@dataclass(frozen=True)
class SyntaxGymResult:
    """A model's outcomes, to be shown and kept; items are passed when all their predictions hold."""

    method: str
    report: SyntaxGymReport

    @property
    def title(self) -> str:
        return f"SyntaxGym, {self.method}"

    def measures(self) -> dict[str, float | None]:
        return {
            **{f"SG, {name}": self.report.mean(published) for name, published in self.groups().items()},
            **self.report.circuit_accuracy(),
            "SG, published suites, first prediction alone": self.report.mean(published=True, passed="first"),
            **self.unknown_share(),
        }

    def groups(self) -> dict[str, bool]:
        """The two sets of suites that means are taken over, and whether it is only the published ones."""
        published = sum(suite not in UNPUBLISHED for suite in self.report.outcomes)
        return {f"{published} published suites": True, f"all {len(self.report.outcomes)} suites": False}

    def unknown_share(self) -> dict[str, float | None]:
        """The share of items with an unknown word in a critical region, if it was looked for."""
        items = sum(map(len, self.report.outcomes.values()))
        unknown = sum(map(len, self.report.unknown.values()))
        return {"items with an unknown critical word": unknown / items} if self.report.unknown else {}

    def to_json(self) -> dict[str, Any]:
        about = {"title": self.title, "method": self.method, "measures": self.measures()}
        return {**about, **self.report.to_json()}

    def __rich__(self) -> Table:
        """Circuits with their suites, then the means over suites; in per cent of items."""
        readings = ("all", "first")
        table = table_of_numbers(self.title, "items", "all hold", "first holds", "unknown")
        circuits = [self.report.circuit_accuracy(passed) for passed in readings]
        for name in circuits[0]:
            table.add_section()
            table.add_row(name, "", *(percent(means[name]) for means in circuits), "", style="bold")
            self.add_suites(table, [s for s in self.report.outcomes if circuit(s) == name and s not in UNPUBLISHED])
        table.add_section()
        self.add_suites(table, [suite for suite in self.report.outcomes if suite in UNPUBLISHED])
        for name, published in self.groups().items():
            table.add_row(
                f"mean of {name}", "", *(percent(self.report.mean(published, p)) for p in readings), "", style="bold"
            )
        return table

    def add_suites(self, table: Table, suites: Sequence[str]) -> None:
        every, first = self.report.suite_accuracy("all"), self.report.suite_accuracy("first")
        for suite in suites:
            unknown = str(len(self.report.unknown[suite])) if self.report.unknown else "–"
            items = str(len(self.report.outcomes[suite]))
            table.add_row(f"  {suite}", items, percent(every[suite]), percent(first[suite]), unknown)


def read_competitors(file: str | Path) -> dict[str, Scores]:
    """Published accuracies by model and suite, from a CSV with the columns model, corpus, suite and accuracy.

    Where there is an accuracy_vote it counts, as in the publication: it is that of models with many random seeds.
    """
    with open(file, encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        if missing := {"model", "corpus", "suite", "accuracy"} - set(reader.fieldnames or ()):
            raise ValueError(f"{file}:1: expected the columns model, corpus, suite, accuracy; no {min(missing)}")
        models: dict[str, Scores] = {}
        for row in reader:
            name = f"{row['model']} {row['corpus']}".strip()
            try:
                models.setdefault(name, {})[row["suite"]] = float(row.get("accuracy_vote") or row["accuracy"])
            except (TypeError, ValueError):
                raise ValueError(f"{file}:{reader.line_num}: expected a number as accuracy, got {row}") from None
    return models


def comparison(report: SyntaxGymReport, name: str, competitors: Mapping[str, Scores]) -> dict[str, Scores]:
    """Circuit means and the mean over the published suites, best model first, over suites that all have.

    Ours are of the first prediction, as the published ones are.
    """
    models = {name: report.suite_accuracy("first"), **competitors}
    shared = set.intersection(*map(set, models.values())) - set(UNPUBLISHED)
    if not shared:
        raise ValueError("the competitors have no suite in common with those measured")
    scores = {}
    for model, suites in models.items():
        suites = {suite: score for suite, score in suites.items() if suite in shared}
        scores[model] = {**circuit_means(suites), "mean": fmean(suites.values())}
    return dict(sorted(scores.items(), key=lambda item: -item[1]["mean"]))


def comparison_table(scores: Mapping[str, Scores], name: str) -> Table:
    """The models as rows, ours in bold; in per cent of items."""
    columns = next(iter(scores.values()))
    table = table_of_numbers("SyntaxGym, first prediction, published suites", *columns)
    for model, row in scores.items():
        table.add_row(model, *(percent(row[column]) for column in columns), style="bold" if model == name else None)
    return table


def syntaxgym_chart(scores: Mapping[str, Scores], name: str) -> Figure:
    """A panel a circuit and one for the mean: every model's accuracy as a bar, ours in another colour."""
    from matplotlib.figure import Figure

    panels = list(next(iter(scores.values())))
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4 * columns, rows * (1 + 0.16 * len(scores))), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes in grid[len(panels) :]:
        axes.remove()
    for axes, panel in zip(grid, panels, strict=False):
        ranked = sorted(scores, key=lambda model: scores[model][panel])
        colours = ["#b3541e" if model == name else "#c6d8e8" for model in ranked]
        axes.barh(range(len(ranked)), [scores[model][panel] for model in ranked], color=colours)
        axes.set_yticks(range(len(ranked)), ranked, fontsize=7)
        axes.set_xlim(0, 1)
        axes.set_title(panel, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("SyntaxGym: items whose first prediction holds, mean over published suites", fontsize=11)
    return figure
