"""Garden paths: how much harder the critical words of an ambiguous sentence are than in its disambiguated version, by
the number of trees that the model follows, and by how much its structural and lexical costs count.

With a narrow beam the tree that turns out right may have been dropped before the critical words are read; the wider
the beam, the less is a garden path one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from rich.table import Table
from transformers import PreTrainedTokenizerFast

from modeling_som import SOMForCausalLM
from som.evaluation.display import table_of_numbers
from som.evaluation.reading import read_frame, text_column
from som.inference import WordSurprisal, surprisals_each

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHIPPED_ITEMS = Path(__file__).with_name("garden_paths.tsv")  # written for this project
CONDITIONS = ("ambiguous", "disambiguated")
WIDTHS = (1, 4, 16, 64)
Weights = tuple[float, float]  # of the structural and the lexical part


@dataclass(frozen=True)
class Version:
    """A sentence, and where its critical words are in it."""

    text: str
    start: int
    end: int

    @classmethod
    def parse(cls, marked: str) -> Version:
        """From a sentence with its critical words between two bars.

        >>> Version.parse("The old |man| the boat."), Version.parse("The old | man |the boat.").text
        (Version(text='The old man the boat.', start=8, end=11), 'The old man the boat.')
        """
        match = re.fullmatch(r"([^|]*\|\s*)([^|]*?)(\s*\|[^|]*)", " ".join(marked.split()))
        if not match or not match[2]:
            raise ValueError(f"expected a sentence with its critical words between two |, got {marked!r}")
        before, after = (re.sub(r"\s*\|\s*", lambda bar: " " * (bar[0] != "|"), part) for part in (match[1], match[3]))
        return cls(f"{before}{match[2]}{after}", len(before), len(before) + len(match[2]))

    @property
    def critical(self) -> str:
        return self.text[self.start : self.end]


@dataclass(frozen=True)
class GardenPath:
    """The two versions of a sentence, which have the same critical words."""

    construction: str
    name: str
    ambiguous: Version
    disambiguated: Version


def read_items(file: str | Path = SHIPPED_ITEMS) -> list[GardenPath]:
    """Items from a table with the columns construction, item, condition and sentence, two rows each."""
    frame = read_frame(file)
    try:
        columns = [text_column(frame, name).astype(str) for name in ("construction", "item", "condition", "sentence")]
        return [make_item(*key, found) for key, found in group_versions(zip(*columns, strict=True)).items()]
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def group_versions(rows: Iterable[tuple[str, str, str, str]]) -> dict[tuple[str, str], dict[str, Version]]:
    """The versions of each item, by condition."""
    items: dict[tuple[str, str], dict[str, Version]] = {}
    for row, (construction, name, condition, sentence) in enumerate(rows, start=1):
        if condition not in CONDITIONS:
            raise ValueError(f"row {row}: expected the condition {' or '.join(CONDITIONS)}, got {condition!r}")
        found = items.setdefault((construction, name), {})
        if condition in found:
            raise ValueError(f"row {row}: item {name} of {construction} has a second {condition} version")
        found[condition] = Version.parse(sentence)
    return items


def make_item(construction: str, name: str, versions: Mapping[str, Version]) -> GardenPath:
    if missing := [condition for condition in CONDITIONS if condition not in versions]:
        raise ValueError(f"item {name} of {construction} has no {missing[0]} version")
    ambiguous, disambiguated = (versions[condition] for condition in CONDITIONS)
    if ambiguous.critical != disambiguated.critical:
        words = f"{ambiguous.critical!r} and {disambiguated.critical!r}"
        raise ValueError(f"item {name} of {construction}: expected the same critical words in both, got {words}")
    return GardenPath(construction, name, ambiguous, disambiguated)


# ---------------------------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Effect:
    """Of an item with a beam width: bits of the critical words in the ambiguous version minus in the other."""

    item: GardenPath
    width: int
    surprisal: float
    structural: float
    lexical: float

    def weighted(self, weights: Weights) -> float:
        return weights[0] * self.structural + weights[1] * self.lexical


def garden_path_effects(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    items: Sequence[GardenPath],
    widths: Sequence[int] = WIDTHS,
    progress: Callable[[], None] = lambda: None,
) -> Iterator[Effect]:
    """The effects of all items, for one beam width after the other; `progress` is called for every sentence."""
    versions = [version for item in items for version in (item.ambiguous, item.disambiguated)]
    for width in widths:
        sums = []
        read = surprisals_each(model, tokenizer, [version.text for version in versions], "beam", k=width)
        for version, rows in zip(versions, read, strict=True):
            sums.append(critical_sums(version, rows))
            progress()
        for item, ambiguous, other in zip(items, sums[::2], sums[1::2], strict=True):
            yield Effect(item, width, **{name: ambiguous[name] - other[name] for name in ambiguous})


def critical_sums(version: Version, rows: Sequence[WordSurprisal]) -> dict[str, float]:
    """The costs of the critical words, which must be whole words of the model."""
    critical = [row for row in rows if row.start < version.end and row.end > version.start]
    if not critical or (critical[0].start, critical[-1].end) != (version.start, version.end):
        words = " ".join(row.word for row in critical)
        raise ValueError(f"{version.text!r}: the critical words {version.critical!r} are read as {words!r}")
    costs = ("surprisal", "structural", "lexical")
    return {name: sum(getattr(row, name) for row in critical) for name in costs}


# ---------------------------------------------------------------------------------------------- the report


@dataclass(frozen=True)
class Mean:
    """Over items."""

    value: float
    error: float | None  # standard error; None of a single item
    positive: int  # items with an effect above 0
    items: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        error = stdev(values) / sqrt(len(values)) if len(values) > 1 else None
        return cls(fmean(values), error, sum(value > 0 for value in values), len(values))

    def __str__(self) -> str:
        return f"{self.value:.2f}" + ("" if self.error is None else f" ± {self.error:.2f}")


@dataclass(frozen=True)
class GardenPathReport:
    """The effects of items, and what is made of them."""

    effects: Sequence[Effect]
    weights: Sequence[Weights] = ()
    ms_per_bit: float | None = None

    def costs(self) -> dict[str, Callable[[Effect], float]]:
        """What each column of the report takes of an effect, in bits; 2:1 is twice the structural and the lexical."""
        weighted = {f"{one[0]:g}:{one[1]:g}": partial(Effect.weighted, weights=one) for one in self.weights}
        return {
            "surprisal": lambda effect: effect.surprisal,
            "structural": lambda effect: effect.structural,
            "lexical": lambda effect: effect.lexical,
            **weighted,
        }

    def means(self) -> dict[tuple[str, int], dict[str, Mean]]:
        """Of each construction and width, of each cost."""
        groups: dict[tuple[str, int], list[Effect]] = {}
        for effect in self.effects:
            groups.setdefault((effect.item.construction, effect.width), []).append(effect)
        costs = self.costs().items()
        return {
            group: {name: Mean.of([cost(one) for one in found]) for name, cost in costs}
            for group, found in sorted(groups.items(), key=lambda group: group[0])
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "ms_per_bit": self.ms_per_bit,
            "weights": [list(weights) for weights in self.weights],
            "means": [self.mean_record(*group, means) for group, means in self.means().items()],
            "effects": [self.effect_record(effect) for effect in self.effects],
        }

    def mean_record(self, construction: str, width: int, means: Mapping[str, Mean]) -> dict[str, Any]:
        bits = {name: vars(mean) | self.milliseconds(mean.value) for name, mean in means.items()}
        return {"construction": construction, "k": width, "effects": bits}

    def effect_record(self, effect: Effect) -> dict[str, Any]:
        item = effect.item
        about = {
            "construction": item.construction,
            "item": item.name,
            "k": effect.width,
            "critical": item.ambiguous.critical,
        }
        sentences = {condition: getattr(item, condition).text for condition in CONDITIONS}
        return about | sentences | {name: cost(effect) for name, cost in self.costs().items()}

    def milliseconds(self, bits: float) -> dict[str, float]:
        return {} if self.ms_per_bit is None else {"ms": bits * self.ms_per_bit}

    def __rich__(self) -> Table:
        """Mean effects; `items` are those whose surprisal has one above 0."""
        columns = [*self.costs(), "items", *(["ms"] if self.ms_per_bit else [])]
        table = table_of_numbers("ambiguous − disambiguated, bits at the critical words, mean ± s.e.", "k", *columns)
        for (construction, width), means in self.means().items():
            first = means["surprisal"]
            ms = [f"{value:.0f}" for value in self.milliseconds(first.value).values()]
            table.add_row(construction, str(width), *map(str, means.values()), f"{first.positive}/{first.items}", *ms)
        return table


def garden_path_figure(report: GardenPathReport) -> Figure:
    """Effects by beam width, one panel per cost and one line per construction."""
    from matplotlib.figure import Figure

    means, costs = report.means(), list(report.costs())
    figure = Figure(figsize=(3.2 * len(costs), 3.2), layout="constrained")
    grid = figure.subplots(1, len(costs), squeeze=False, sharey=True)[0]
    factor, unit = (report.ms_per_bit, "ms") if report.ms_per_bit else (1.0, "bits")
    for axes, cost in zip(grid, costs, strict=True):
        for construction in dict.fromkeys(construction for construction, _ in means):
            widths = [width for name, width in means if name == construction]
            found = [means[construction, width][cost] for width in widths]
            heights, errors = [factor * one.value for one in found], [factor * (one.error or 0) for one in found]
            axes.errorbar(range(len(widths)), heights, errors, fmt="o-", markersize=3, capsize=2, label=construction)
            axes.set_xticks(range(len(widths)), widths)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(title=cost, xlabel="beam width")
        axes.spines[["top", "right"]].set_visible(False)
    grid[0].set_ylabel(f"garden-path effect, {unit}")
    grid[-1].legend(frameon=False, fontsize="small")
    return figure
