"""SyntaxGym: a model beside the published scores of others."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.table import Table

from som.evaluation.display import percent, table_of_numbers
from som.evaluation.report import Report
from som.evaluation.suites import UNPUBLISHED, circuit_means
from som.evaluation.syntaxgym import SyntaxGymCounts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Percentages = dict[str, float]  # of a model, by suite or by circuit


def read_competitors(file: str | Path) -> dict[str, Percentages]:
    """Published accuracies by model and suite, from a CSV with the columns model, corpus, suite and accuracy.

    Where there is an accuracy_vote it counts, as in the publication: it is that of models with many random seeds.
    """
    with open(file, encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        if missing := {"model", "corpus", "suite", "accuracy"} - set(reader.fieldnames or ()):
            raise ValueError(f"{file}:1: expected the columns model, corpus, suite, accuracy; no {min(missing)}")
        models: dict[str, Percentages] = {}
        for row in reader:
            name = f"{row['model']} {row['corpus']}".strip()
            try:
                models.setdefault(name, {})[row["suite"]] = float(row.get("accuracy_vote") or row["accuracy"])
            except (TypeError, ValueError):
                raise ValueError(f"{file}:{reader.line_num}: expected a number as accuracy, got {row}") from None
    return models


def comparison(
    report: Report[SyntaxGymCounts], name: str, competitors: Mapping[str, Percentages]
) -> dict[str, Percentages]:
    """Circuit means and the mean over the published suites, best model first, over suites that all have.

    Ours are of the first prediction, as the published ones are.
    """
    models = {name: report.counts.suite_accuracy("first"), **competitors}
    shared = set.intersection(*map(set, models.values())) - set(UNPUBLISHED)
    if not shared:
        raise ValueError("the competitors have no suite in common with those measured")
    scores = {}
    for model, suites in models.items():
        suites = {suite: score for suite, score in suites.items() if suite in shared}
        scores[model] = {**circuit_means(suites), "mean": fmean(suites.values())}
    return dict(sorted(scores.items(), key=lambda item: -item[1]["mean"]))


def comparison_table(scores: Mapping[str, Percentages], name: str) -> Table:
    """The models as rows, ours in bold; in per cent of items."""
    columns = next(iter(scores.values()))
    table = table_of_numbers("SyntaxGym, first prediction, published suites", *columns)
    for model, row in scores.items():
        table.add_row(model, *(percent(row[column]) for column in columns), style="bold" if model == name else None)
    return table


def syntaxgym_chart(scores: Mapping[str, Percentages], name: str) -> Figure:
    """One panel per circuit and one for the mean: every model's accuracy as a bar, ours in another colour."""
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
        axes.set_yticks(range(len(ranked)), ranked, fontsize=7, parse_math=False)  # a name may have $
        axes.set_xlim(0, 1)
        axes.set_title(panel, fontsize=10, parse_math=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("SyntaxGym: items whose first prediction holds, mean over published suites", fontsize=11)
    return figure
