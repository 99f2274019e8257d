"""Surprisal for tables, as experiments have them: sentences or regions in, a row per word or region out.

Every column of the table is handed through; one that has the name of a column of ours gets `given_` in front.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from transformers import PreTrainedTokenizerBase

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Method
from modeling_som.sentences_som import joined_offsets
from modeling_som.surprisal_som import WordSurprisal
from som.inference.inputs import TEXTS_AT_ONCE
from som.inference.regions import TextSpan, region_rows
from som.inference.surprisal import MEASURES, surprisals_chunk, to_records
from som.progress import progress as shown_progress
from som.syntax import is_text
from som.tables import Row, Table, is_missing, of_rows

if TYPE_CHECKING:
    from pandas import DataFrame

LAYOUTS = ("plain", "lm-zoo", "sap")
REMEMBERED = 4096  # sentences: tables of reading times repeat them for every reader
TYPES: dict[str, type] = {
    **{"sentence_id": int, "number": int, "word": str, "start": int, "end": int, "tokens": str},
    **dict.fromkeys(MEASURES, float),
    **dict.fromkeys(("depth", "closed", "opened", "open", "length"), int),
    **{"unknown": bool},
}
BETWEEN_SPACES = re.compile(r"[\S\x1c-\x1f]+")  # those four are spaces to Python alone, not to tokenizers
LM_ZOO = {"sentence_id": "sentence_id", "token_id": "number", "token": "word", "surprisal": "surprisal"}


@dataclass(frozen=True)
class Item:
    """A sentence of a table, the rows that it comes from, and its regions, if these are asked for."""

    number: int  # from 1
    place: str
    rows: Sequence[Mapping[str, Any]]  # one, or one per region
    text: str | tuple[str, ...] | ValueError  # running text, or words; or what is wrong
    spans: Sequence[TextSpan] | None = None

    @property
    def running_text(self) -> str:
        return self.text if isinstance(self.text, str) else " ".join(self.text)  # type: ignore[arg-type]  # no error


@dataclass(frozen=True)
class ItemAnswer:
    """What was found out about a sentence: its words, and the rows of the new table, or what went wrong."""

    item: Item
    words: Sequence[WordSurprisal]
    rows: list[dict[str, Any]] | ValueError


@dataclass(frozen=True)
class Plan:
    """How a table becomes sentences, and their words become a table again."""

    given: Sequence[str]  # columns of the table
    text_column: str
    regions: str | None = None  # None for words, or what separates regions: spaces or bars
    sentence_columns: Sequence[str] = ()  # if any, a row is a region, and rows that agree in these are a sentence
    layout: str = "plain"
    spillover: int = 0
    parses: int = 0  # best partial parses, in one more column
    eos: bool = False  # also the end of each sentence
    words: bool = False  # texts are already in tokens

    @cached_property
    def computed(self) -> dict[str, type]:
        """Our columns and their types."""
        if self.layout == "lm-zoo":
            return {name: TYPES[ours] for name, ours in LM_ZOO.items()}
        lagged = {f"{name}_{back}": TYPES[name] for back in range(1, self.spillover + 1) for name in MEASURES}
        extra = {**({"parses": str} if self.parses else {}), **({"word_pos": int} if self.layout == "sap" else {})}
        return {**TYPES, **lagged, **extra}

    @cached_property
    def renamed(self) -> dict[str, str]:
        """Names in the new table of the columns that have a name of ours."""
        return {name: f"given_{name}" for name in self.given if name in self.computed}

    @cached_property
    def columns(self) -> list[str]:
        """Of the new table."""
        if self.layout == "lm-zoo":
            return list(self.computed)
        return [*(self.renamed.get(name, name) for name in self.given), *self.computed]

    def check(self) -> None:
        """Validate before any computation."""
        if self.layout not in LAYOUTS:
            raise ValueError(f"expected the layout {', '.join(LAYOUTS)}, got {self.layout!r}")
        if self.regions not in (None, "spaces", "bars"):
            raise ValueError(f"expected regions by spaces or bars, got {self.regions!r}")
        if self.regions == "bars" and self.sentence_columns:
            raise ValueError("expected regions by bars or one per row, got both")
        if self.eos and self.sentence_columns:
            raise ValueError("a table with a row per region has no row for the end of a sentence (eos)")
        for name in (self.text_column, *self.sentence_columns):
            if name not in self.given:
                raise ValueError(no_column(name, self.given))
        if double := [name for name, count in Counter(self.columns).items() if count > 1]:
            raise ValueError(f"expected no column {double[0]!r}: that is the new name of one of yours")

    # Sentences

    def items(self, rows: Iterable[Row]) -> Iterator[Item]:
        """The sentences of the table."""
        if self.sentence_columns:
            return self.items_of_regions(rows)
        return (self.item(number, *row) for number, row in enumerate(rows, start=1))

    def item(self, number: int, place: str, cells: Mapping[str, Any]) -> Item:
        """The sentence of one row."""
        try:
            text = checked_text(cells[self.text_column], self.text_column)
            if self.words:
                text = " ".join(text.split())
            if self.regions == "bars":
                parts = between_bars(text)
                text, spans = " ".join(parts), joined_offsets(parts)
            else:
                spans = [match.span() for match in BETWEEN_SPACES.finditer(text)] if self.regions else None  # type: ignore[assignment]
        except ValueError as error:
            return Item(number, place, [cells], error)
        return Item(number, place, [cells], tuple(text.split()) if self.words else text, spans)

    def items_of_regions(self, rows: Iterable[Row]) -> Iterator[Item]:
        """Sentences whose regions have a row each."""
        seen: set[tuple[str, ...]] = set()
        for number, (key, group) in enumerate(groupby(rows, self.sentence_key), start=1):
            places, cells = zip(*group, strict=True)
            if key in seen:
                of = ", ".join(f"{name} {value}" for name, value in zip(self.sentence_columns, key, strict=True))
                raise ValueError(f"{places[0]}: {of} has been read: expected the rows of a sentence one after another")
            seen.add(key)
            yield self.item_of_regions(number, places, cells)

    def sentence_key(self, row: Row) -> tuple[str, ...]:
        place, cells = row
        for name in self.sentence_columns:
            if is_missing(cells[name]) or cells[name] == "":
                raise ValueError(f"{place}: expected a sentence in column {name!r}, got an empty cell")
        return tuple(str(cells[name]) for name in self.sentence_columns)

    def item_of_regions(self, number: int, places: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Item:
        parts = []
        for place, cells in zip(places, rows, strict=True):
            try:
                parts.append(checked_text(cells[self.text_column], self.text_column))
            except ValueError as error:
                return Item(number, place, rows, error)
        text = " ".join(parts)
        return Item(number, places[0], rows, tuple(parts) if self.words else text, joined_offsets(parts))

    # Rows

    def rows(self, item: Item, words: Sequence[WordSurprisal]) -> list[dict[str, Any]]:
        """The rows of the new table."""
        found = words if item.spans is None else region_rows(words, item.running_text, item.spans)
        given = item.rows if self.sentence_columns else list(item.rows) * len(found)
        records = to_records({item.number: found}, self.spillover)
        return [self.row(cells, record) for cells, record in zip(given, records, strict=True)]

    def row(self, cells: Mapping[str, Any], record: dict[str, Any]) -> dict[str, Any]:
        record |= {"sentence_id": record["sentence"], "word_pos": record["number"] - 1}
        if self.layout == "lm-zoo":
            return {name: record[ours] for name, ours in LM_ZOO.items()}
        new = self.renamed
        handed = {new.get(name, name): cells[name] for name in self.given}
        return {**handed, **{name: record[name] for name in self.computed}}


def checked_text(cell: Any, column: str) -> str:
    """The text in a cell, without the white space around it, or an error."""
    if is_missing(cell) or cell == "" or (isinstance(cell, str) and not cell.strip()):
        raise ValueError(f"expected a text in column {column!r}, got an empty cell")
    if not isinstance(cell, str):
        raise ValueError(f"expected a text in column {column!r}, got {cell!r}"[:200])
    if not is_text(cell):
        raise ValueError(f"expected a text in column {column!r}, got characters that are none")
    return cell.strip()


def between_bars(text: str) -> list[str]:
    """The regions of a text, without the white space around them; bars at its ends are only ends.

    >>> between_bars("| The horse|raced past | the barn fell. |")
    ['The horse', 'raced past', 'the barn fell.']
    """
    parts = [part.strip() for part in text.strip("| \t").split("|")]
    if "" in parts:
        raise ValueError(f"expected words in every region, got none in region {parts.index('') + 1} of {text!r}")
    return parts


def no_column(name: str, columns: Sequence[str]) -> str:
    close = get_close_matches(name, columns, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    if any(column.startswith('"') for column in columns):
        hint = "; TSV is read without quotes: write it so (in R, quote = FALSE), or CSV"
    return f"expected a column {name!r}, got {', '.join(map(repr, columns))}{hint}"


# ---------------------------------------------------------------------------------------------- layouts


class PlanOptions(TypedDict, total=False):
    """Fields of `Plan` that users may set."""

    regions: str | None
    sentence_columns: Sequence[str]
    spillover: int
    parses: int
    eos: bool
    words: bool


def plan_table(
    table: Table, text_column: str | None, layout: str = "plain", **options: Unpack[PlanOptions]
) -> tuple[Plan, Table]:
    """What is to be done with a table, and the table in the form that it is done with."""
    if layout == "sap":
        table, text_column = sap_table(table), text_column or "Sentence"
        if not options.get("sentence_columns"):
            options["regions"] = options.get("regions") or "spaces"
    if text_column is None and len(table.columns) == 1:
        (text_column,) = table.columns
    if text_column is None:
        raise ValueError(f"expected a text column, one of {', '.join(map(repr, table.columns))}")
    plan = Plan(table.columns, text_column, layout=layout, **options)
    plan.check()
    return plan, table


def sap_table(table: Table) -> Table:
    """The items of the SAP benchmark, one sentence per row, as its own scripts have them: `ambiguity`, `Sentence` and
    `disambPosition_0idx` in place of `ambiguous` and `unambiguous`."""
    pair = ("ambiguous", "unambiguous")
    if not set(pair) <= set(table.columns):
        return table
    new = ["ambiguity", "Sentence", "disambPosition_0idx"]
    kept = [name for name in table.columns if name not in (*pair, *new)]
    rows = ((place, sap_row(place, cells, kept, name)) for place, cells in table.rows for name in pair)
    return Table([*kept, *new], rows)


def sap_row(place: str, cells: Mapping[str, Any], kept: Sequence[str], name: str) -> dict[str, Any]:
    """One of the two sentences of a row; backslashes, which readers did not see, are taken out."""
    column = "disambPositionAmb" if name == "ambiguous" else "disambPositionUnamb"
    text = cells[name].replace("\\", "") if isinstance(cells[name], str) else cells[name]
    new = {"ambiguity": name, "Sentence": text, "disambPosition_0idx": place_from_0(place, column, cells.get(column))}
    return {**{one: cells[one] for one in kept}, **new}


def place_from_0(place: str, column: str, number: Any) -> int | None:
    """The place of a word that is counted from 1, if it is known.

    >>> place_from_0("items.csv:2", "disambPositionAmb", "6"), place_from_0("items.csv:2", "disambPositionAmb", "")
    (5, None)
    """
    if is_missing(number) or number == "":
        return None
    if not str(number).removesuffix(".0").isdecimal():
        raise ValueError(f"{place}: expected the number of a word in column {column!r}, got {number!r}")
    return int(float(number)) - 1


# ---------------------------------------------------------------------------------------------- reading


def answer_items(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    items: Iterable[Item],
    plan: Plan,
    method: Method,
    batch_size: int | None = None,
) -> Iterator[ItemAnswer]:
    """Reads the sentences, some at a time, and those that are the same only once."""
    known: dict[str | tuple[str, ...], list[WordSurprisal] | ValueError] = {}
    rest = iter(items)
    while chunk := list(islice(rest, max(TEXTS_AT_ONCE, batch_size or 0))):
        if len(known) > REMEMBERED:
            known.clear()
        texts = dict.fromkeys(item.text for item in chunk if not isinstance(item.text, ValueError))
        new = [text for text in texts if text not in known]
        options: dict[str, Any] = {
            "eos": plan.eos,
            "parses": plan.parses,
            "words": plan.words,
            "batch_size": batch_size,
        }
        found = surprisals_chunk(model, tokenizer, new, method, **options)
        known.update(zip(new, found, strict=True))
        for item in chunk:
            yield answer_item(item, plan, item.text if isinstance(item.text, ValueError) else known[item.text])


def answer_item(item: Item, plan: Plan, words: list[WordSurprisal] | ValueError) -> ItemAnswer:
    if isinstance(words, ValueError):
        return ItemAnswer(item, [], words)
    try:
        return ItemAnswer(item, words, plan.rows(item, words))
    except ValueError as error:
        return ItemAnswer(item, words, error)


def surprisal_table(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    table: Iterable[Mapping[str, Any]] | DataFrame,
    text_column: str | None = None,
    method: str | Method | None = None,
    *,
    layout: str = "plain",
    missing: str = "error",
    k: int | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool = False,
    **options: Unpack[PlanOptions],
) -> Any:
    """Surprisals of the sentences of a table, dicts or a pandas DataFrame, as rows of a new one of the same kind.

    Its rows are words, or with regions="spaces" what stands between spaces, with regions="bars" what stands between
    `|`. With `sentence_columns`, every row is a region, and those that follow each other and agree in these columns
    are a sentence. All columns are handed through; one with the name of a column of ours gets `given_` in front.
    With missing="skip", rows without a text are left out. `layout` is plain, lm-zoo or sap, as in `som surprisal`, and
    the other options are those of the command and of `surprisals_each`.
    """
    if missing not in ("error", "skip"):
        raise ValueError(f"missing must be 'error' or 'skip', got {missing!r}")
    plan, given = plan_table(given_table(table), text_column, layout, **options)
    rows = given.rows
    if missing == "skip":
        rows = (row for row in rows if not is_missing(row[1][plan.text_column]))
    items = plan.items(rows)
    found: list[dict[str, Any]] = []
    with shown_progress("som", shown=progress) as bar:
        for one in answer_items(model, tokenizer, items, plan, Method.of(model, method, k, seed), batch_size):
            if isinstance(one.rows, ValueError):
                raise ValueError(f"{one.item.place}: {one.rows}") from one.rows
            found += one.rows
            bar.update()
    return sys.modules["pandas"].DataFrame(found, columns=plan.columns) if is_frame(table) else found


def given_table(table: Iterable[Mapping[str, Any]] | DataFrame) -> Table:
    """Rows of Python, counted from 1."""
    if isinstance(table, str | Mapping):
        raise ValueError("expected the rows of a table, dicts or a DataFrame, got " + type(table).__name__)
    if is_frame(table):
        columns = list(table.columns)  # type: ignore[union-attr]
        if len(set(columns)) < len(columns) or not all(isinstance(name, str) for name in columns):
            raise ValueError(f"expected a name for each column, got {columns}")
        table = table.to_dict("records")  # type: ignore[union-attr]
    return of_rows(((f"row {number}", row) for number, row in enumerate(table, start=1)), "the table")


def is_frame(table: Any) -> bool:
    """Whether this is a table of pandas, which is not imported for the question."""
    return "pandas" in sys.modules and isinstance(table, sys.modules["pandas"].DataFrame)
