"""Sentences side by side: which words stand above each other, and how much more each costs in the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from io import StringIO
from itertools import zip_longest
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Unpack

from transformers import PreTrainedTokenizerBase

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Method
from modeling_som.surprisal_som import WordSurprisal
from som.inference.inputs import Text, too_long
from som.inference.regions import total
from som.inference.surprisal import PLOTTABLE, SurprisalOptions, surprisals_all

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Column = tuple[int | None, ...]  # the word of each sentence, counted from 0, or None where it has none
PARTS = {"surprisal": "#1f3b5c", "structural": "#d98a3d", "lexical": "#7fa8cc"}  # and their colours


def align(first: Sequence[str], *others: Sequence[str]) -> list[Column]:
    """Which words stand above each other: those that a sentence shares with the first one, and between them the
    others in their order.

    Case does not count. Which words are shared is the standard library's choice (difflib): the longest run of them,
    and then the same on both sides of it.

    >>> align("the horse raced fell".split(), "The horse that was fell".split())
    [(0, 0), (1, 1), (2, 2), (None, 3), (3, 4)]
    """
    below = [words_below(first, other) for other in others]
    columns: list[Column] = []
    for place in range(-1, len(first)):
        own = [place] if place >= 0 else []
        columns += zip_longest(own, *(words.get(place, []) for words in below))
    return columns


def words_below(first: Sequence[str], other: Sequence[str]) -> dict[int, list[int | None]]:
    """For each word of the first sentence the word below it, if any, and those that come before its next word; for -1,
    those that come before all."""
    a, b = ([word.casefold() for word in words] for words in (first, other))
    below: dict[int, list[int | None]] = {}
    last = -1
    for _, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for above, word in zip_longest(range(i, j), range(k, m)):
            last = last if above is None else above
            below.setdefault(last, []).append(word)
    return below


@dataclass(frozen=True)
class Comparison:
    """Sentences, called a, b, c …, and their words in columns; differences are those of a minus another."""

    sentences: Sequence[Sequence[WordSurprisal]]

    @cached_property
    def columns(self) -> list[Column]:
        return align(*([row.word for row in rows] for rows in self.sentences))

    @property
    def names(self) -> list[str]:
        return list(ascii_lowercase[: len(self.sentences)])

    def to_records(self) -> list[dict[str, Any]]:
        """One record per column: `word_a`, `word_b`, …, `surprisal_a`, …, `surprisal_a_minus_b`, …; None in gaps."""
        return [self.record(place, column) for place, column in enumerate(self.columns, start=1)]

    def record(self, place: int, column: Column) -> dict[str, Any]:
        words = [None if i is None else rows[i] for rows, i in zip(self.sentences, column, strict=True)]
        record: dict[str, Any] = {"position": place}
        record |= {f"word_{name}": word and word.word for name, word in zip(self.names, words, strict=True)}
        for part in PARTS:
            record |= self.with_differences(part, [None if word is None else getattr(word, part) for word in words])
        return record

    def with_differences(self, part: str, values: Sequence[float | None]) -> dict[str, float | None]:
        """The values of all sentences, and how much more the first has than each other."""
        differences = [None if None in (values[0], value) else values[0] - value for value in values[1:]]  # type: ignore[operator]
        own = {f"{part}_{name}": value for name, value in zip(self.names, values, strict=True)}
        return own | {f"{part}_a_minus_{name}": d for name, d in zip(self.names[1:], differences, strict=True)}

    def totals(self) -> dict[str, float | None]:
        """The sums over all words of each sentence, and their differences."""
        found: dict[str, float | None] = {}
        for part in PARTS:
            sums = [total([getattr(row, part) for row in rows]) for rows in self.sentences]
            found |= self.with_differences(part, sums)
        return found

    @property
    def types(self) -> dict[str, type]:
        """The columns of the table, and what is in them."""
        words = {f"word_{name}": str for name in self.names}
        return {"position": int, **words, **dict.fromkeys(self.totals(), float)}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        sentences = {
            name: " ".join(row.word for row in rows) for name, rows in zip(self.names, self.sentences, strict=True)
        }
        return {"sentences": sentences, "columns": self.to_records(), "totals": self.totals()}

    def draw(self) -> str:
        """A table for people: the words, surprisals, and differences in surprisal and its parts."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table

        words, figures = [f"word_{name}" for name in self.names], self.figures()
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, show_footer=True)
        for name in self.names:
            table.add_column(name.upper(), "sum" if name == "a" else "", no_wrap=True)
        for key, title in figures.items():
            table.add_column(title, one_decimal(self.totals()[key]), justify="right", no_wrap=True)
        for record in self.to_records():
            table.add_row(*(record[key] or "" for key in words), *(one_decimal(record[key]) for key in figures))
        text = StringIO()
        Console(file=text, width=10_000, markup=False, highlight=False, emoji=False, color_system=None).print(table)
        return "".join(f"{line.rstrip()}\n" for line in text.getvalue().rstrip().split("\n"))

    def figures(self) -> dict[str, str]:
        """The columns of numbers that are drawn, and their titles."""
        others = self.names[1:]
        titles = {f"surprisal_{name}": f"surprisal\n{name.upper()}" for name in self.names}
        for part in PARTS:
            titles |= {f"{part}_a_minus_{name}": f"{part}\nA − {name.upper()}" for name in others}
        return titles

    def plot(self) -> Figure:
        """The surprisals of all sentences in one panel, and below it one for the differences to each other."""
        from matplotlib.figure import Figure

        if len(self.columns) > PLOTTABLE:
            raise too_long(len(self.columns), PLOTTABLE)
        panels = len(self.sentences)
        size = (min(max(6, 0.75 * len(self.columns)), 60), 2.8 * panels)
        figure = Figure(figsize=size, layout="constrained")
        lines, *differences = figure.subplots(panels, sharex=True)
        records = self.to_records()
        for name in self.names:
            places = [i for i, record in enumerate(records) if record[f"word_{name}"] is not None]
            lines.plot(places, [records[i][f"surprisal_{name}"] for i in places], "o-", label=name.upper())
        lines.set_ylim(bottom=0)
        for axes, name in zip(differences, self.names[1:], strict=True):
            draw_differences(axes, records, name)
        for axes in (lines, *differences):
            finish_axes(axes)
        labels = [stacked([record[f"word_{name}"] for name in self.names]) for record in records]
        differences[-1].set_xticks(range(len(labels)), labels, parse_math=False)  # $ is a word
        return figure


def one_decimal(value: float | None) -> str:
    """A number with one decimal, signed only where it is below zero.

    >>> one_decimal(1.26), one_decimal(-0.04), one_decimal(None)
    ('1.3', '0.0', '')
    """
    return "" if value is None else f"{round(value, 1) + 0.0:.1f}"


def stacked(words: Sequence[str | None]) -> str:
    """The words of a column, one below the other; once if they are the same.

    >>> stacked(["The", "The"]), stacked(["that", None])
    ('The', 'that\\n–')
    """
    return words[0] if words[0] and len(set(words)) == 1 else "\n".join(word or "–" for word in words)


def draw_differences(axes: Axes, records: Sequence[dict[str, Any]], name: str) -> None:
    """Bars for the differences of the first sentence to another, where both have a word."""
    for shift, (part, colour) in zip((-0.27, 0.0, 0.27), PARTS.items(), strict=True):
        values = [record[f"{part}_a_minus_{name}"] for record in records]
        places = [place + shift for place, value in enumerate(values) if value is not None]
        axes.bar(places, [value for value in values if value is not None], width=0.25, color=colour, label=part)
    axes.axhline(0, color="#5f6672", linewidth=0.8)
    axes.set_title(f"A − {name.upper()}", fontsize="medium", loc="left")


def finish_axes(axes: Axes) -> None:
    axes.set_ylabel("bits")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))


def compare(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    method: str | Method | None = None,
    **options: Unpack[SurprisalOptions],
) -> Comparison:
    """Two sentences or more, aligned word by word with the first; options are those of `surprisals_all`."""
    if not 2 <= len(texts) <= len(ascii_lowercase) or isinstance(texts, str):
        raise ValueError(f"expected 2 to {len(ascii_lowercase)} sentences to compare, got {len(texts)}")
    return Comparison(surprisals_all(model, tokenizer, texts, method, **options))
