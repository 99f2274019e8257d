"""Tables as files, read and written some rows at a time: TSV (without quotes), CSV, JSON Lines and Parquet."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from io import RawIOBase, StringIO
from itertools import chain
from pathlib import Path
from typing import Any

Row = tuple[str, Mapping[str, Any]]  # where it is, for errors, and its cells by column
KINDS = ("tsv", "csv", "jsonl", "parquet")  # of tables that are written; those read may also be lines of text
BATCH, GROUP = 512, 8192  # rows of Parquet that are in memory when it is read, and written
# `\t` and line ends cannot be in a cell, and every other character stands for itself, `"` too
UNQUOTED: dict[str, Any] = {"delimiter": "\t", "lineterminator": "\n", "quoting": csv.QUOTE_NONE, "quotechar": None}
QUOTED: dict[str, Any] = {"lineterminator": "\n", "strict": True}


@dataclass(frozen=True)
class Table:
    """The columns of a table, and its rows, which can be read once."""

    columns: list[str]
    rows: Iterator[Row]
    types: Mapping[str, Any] = field(default_factory=dict)  # of the columns, where the file has any


def table_kind(file: str | Path | None, kinds: Sequence[str] = KINDS) -> str:
    """What the suffix says; standard input and output are TSV.

    >>> table_kind("items.CSV"), table_kind("-")
    ('csv', 'tsv')
    """
    if file in (None, "-"):
        return "tsv"
    kind = Path(str(file)).suffix[1:].lower()
    if kind not in kinds:
        raise ValueError(f"{file}: expected a table that ends in .{', .'.join(kinds[:-1])} or .{kinds[-1]}")
    return kind


# ---------------------------------------------------------------------------------------------- reading


def read_table(file: str | Path) -> Table:
    """The table in a file, `-` for standard input; all but Parquet may be packed, as in .tsv.gz.

    Cells of TSV and CSV are text, and rows without any are left out. Lines of a .txt are a table with one column.
    """
    kind = table_kind(str(file).removesuffix(".gz"), (*KINDS, "txt"))
    readers = {"tsv": read_cells, "csv": read_cells, "txt": read_lines, "jsonl": read_json_lines}
    table = readers.get(kind, read_parquet)(str(file))
    if double := [name for name, count in Counter(table.columns).items() if count > 1]:
        raise ValueError(f"{file}: expected a name for each column, got {double[0]!r} more than once")
    return table


def lines_of(file: str) -> Iterator[str]:
    """The lines with their ends, without a byte order mark; errors name the line."""
    number = 0
    try:
        with open_bytes(file) as lines:
            for number, line in enumerate(lines, start=1):  # noqa: B007  # the number is also for the errors below
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{file}:{number}: expected text in UTF-8, got other bytes") from None
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{file}:{number + 1}: expected a readable file, got: {error}") from None


def open_bytes(file: str) -> Any:
    """The bytes of a file; standard input stays open."""
    if file == "-":
        return nullcontext(sys.stdin.buffer)
    return gzip.open(file) if file.endswith(".gz") else open(file, "rb")


def read_lines(file: str) -> Table:
    lines = enumerate(lines_of(file), start=1)
    return Table(["text"], ((f"{file}:{number}", {"text": line.strip()}) for number, line in lines if line.strip()))


def read_cells(file: str) -> Table:
    kind = table_kind(file.removesuffix(".gz"))
    reader = csv.reader(lines_of(file), **UNQUOTED if kind == "tsv" else QUOTED)
    rows = (row for row in numbered_cells(file, reader) if any(row[1]))
    _, columns = next(rows, ("", []))
    if not columns:
        raise ValueError(f"{file}: expected a line with the names of the columns, got an empty file")
    check_separated(file, columns)
    return Table(columns, (row_of_cells(place, columns, cells, kind) for place, cells in rows))


def check_separated(file: str, columns: Sequence[str]) -> None:
    """Refuse a table whose cells are separated otherwise, as by some spreadsheets: all would be one column.

    >>> check_separated("a.csv", ["item;sentence"])
    Traceback (most recent call last):
    ValueError: a.csv: expected commas between cells in .csv and tabs in .tsv, got ';' in 'item;sentence'
    """
    if len(columns) == 1 and (other := re.search(r"[;,\t](?=\S)", columns[0])):
        found = f"got {other[0]!r} in {columns[0]!r}"
        raise ValueError(f"{file}: expected commas between cells in .csv and tabs in .tsv, {found}")


def numbered_cells(file: str, reader: Any) -> Iterator[tuple[str, list[str]]]:
    """The cells of each row and the line that it begins in."""
    line = 1
    try:
        for cells in reader:
            yield f"{file}:{line}", cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{file}:{line}: expected a row of a table, got: {error}") from None


def row_of_cells(place: str, columns: Sequence[str], cells: Sequence[str], kind: str) -> Row:
    if len(cells) != len(columns):
        hint = "; TSV has no tabs in cells, CSV may" if kind == "tsv" and len(cells) > len(columns) else ""
        raise ValueError(f"{place}: expected {len(columns)} cells, as in the header, got {len(cells)}{hint}")
    return place, dict(zip(columns, cells, strict=True))


def read_json_lines(file: str) -> Table:
    rows = (json_row(f"{file}:{number}", line) for number, line in enumerate(lines_of(file), start=1) if line.strip())
    return of_rows(rows, file)


def json_row(place: str, line: str) -> Row:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{place}: expected a row in JSON, got: {error}") from None
    if not isinstance(record, dict):
        raise ValueError(f"{place}: expected a row in JSON, {{…}}, got {line.strip()[:60]}")
    return place, record


def of_rows(rows: Iterator[Row], name: str) -> Table:
    """Rows as a table: its columns are those of the first one, and others may leave some out."""
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{name}: expected at least one row, got none")
    columns = list(first[1])
    return Table(columns, (filled_row(row, columns) for row in chain([first], rows)))


def filled_row(row: Row, columns: Sequence[str]) -> Row:
    place, cells = row
    if extra := [name for name in cells if name not in columns]:
        raise ValueError(f"{place}: expected the columns of the first row, got {extra[0]!r} too")
    return place, {name: cells.get(name) for name in columns}


def read_parquet(file: str) -> Table:
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    try:
        parquet = ParquetFile(file)
    except (ArrowInvalid, OSError) as error:
        raise ValueError(f"{file}: expected a table in Parquet, got: {error}") from None
    batches = parquet.iter_batches(batch_size=BATCH)
    cells = chain.from_iterable(batch.to_pylist() for batch in batches)
    rows = ((f"{file}: row {number}", row) for number, row in enumerate(cells, start=1))
    schema = parquet.schema_arrow
    return Table(schema.names, rows, dict(zip(schema.names, schema.types, strict=True)))


# ---------------------------------------------------------------------------------------------- writing


Write = Callable[[bytes], None]
WriteRows = Callable[[Sequence[Mapping[str, Any]]], None]


@contextmanager
def table_writer(
    write: Write, kind: str, columns: Sequence[str], computed: Mapping[str, type], types: Mapping[str, Any]
) -> Iterator[WriteRows]:
    """What takes rows and writes them, as this kind of table.

    `computed` are columns of ours with their types, whose numbers have four decimals in TSV and CSV; all other cells
    are written as they are, in Parquet as columns of these `types`, which other files do not have.
    """
    if kind == "parquet":
        with parquet_writer(write, columns, computed, types) as write_rows:
            yield write_rows
    elif kind == "jsonl":
        yield lambda rows: write("".join(f"{json_line(row, columns)}\n" for row in rows).encode())
    else:
        header: list[Sequence[str]] = [columns]  # waits for the first rows

        def write_rows(rows: Sequence[Mapping[str, Any]]) -> None:
            cells = [[text_cell(row[name], name in computed) for name in columns] for row in rows]
            write(cells_text([*header, *cells], kind))
            header.clear()

        yield write_rows


def cells_text(rows: Iterable[Iterable[Any]], kind: str) -> bytes:
    text = StringIO()
    if kind == "tsv":
        csv.writer(text, **UNQUOTED).writerows([tsv_value(value) for value in row] for row in rows)
    else:
        csv.writer(text, **QUOTED).writerows(rows)
    return text.getvalue().encode()


def tsv_value(value: Any) -> Any:
    """As an unquoted table has it: white space that would divide a cell is a space.

    >>> [tsv_value(value) for value in ("0.5", None, "a\\tb")]
    ['0.5', None, 'a b']
    """
    return re.sub(r"[\t\r\n]", " ", value) if isinstance(value, str) else value


def text_cell(value: Any, computed: bool) -> Any:
    """A value as text: what was computed with four decimals, yes and no as 1 and 0, nothing where there is none.

    >>> [text_cell(value, computed) for value, computed in ((True, True), (0.5, True), (0.5, False), (None, True))]
    [1, '0.5000', 0.5, None]
    """
    if is_missing(value):
        return None
    if computed:
        return int(value) if isinstance(value, bool) else f"{value:.4f}" if isinstance(value, float) else value
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else value


def is_missing(value: Any) -> bool:
    """Whether there is none: None, and NaN, NA and NaT of pandas, which is not imported for the question."""
    return value is None or (not isinstance(value, str) and repr(value) in ("nan", "<NA>", "NaT"))


def json_line(row: Mapping[str, Any], columns: Iterable[str]) -> str:
    record = {name: None if is_missing(row[name]) else row[name] for name in columns}
    return json.dumps(record, ensure_ascii=False, default=str)


@contextmanager
def parquet_writer(
    write: Write, columns: Sequence[str], computed: Mapping[str, type], types: Mapping[str, Any]
) -> Iterator[WriteRows]:
    """Collects rows and writes a group of them at a time, which is how Parquet is read quickly."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    rows: list[Mapping[str, Any]] = []
    writers: list[ParquetWriter] = []

    def write_group() -> None:
        try:
            schema = writers[0].schema if writers else arrow_schema(rows, columns, computed, types)
            group = pa.Table.from_pylist(rows, schema=schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(f"columns of Parquet have one type each: {error}; .jsonl may have several") from None
        if not writers:
            writers.append(ParquetWriter(pa.PythonFile(Sink(write), mode="w"), schema))
        writers[0].write_table(group)
        rows.clear()

    def write_rows(more: Sequence[Mapping[str, Any]]) -> None:
        rows.extend(more)
        if len(rows) >= GROUP:
            write_group()

    try:
        yield write_rows
        write_group()
    finally:
        for writer in writers:
            writer.close()


def arrow_schema(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], computed: Mapping[str, type], types: Mapping[str, Any]
) -> Any:
    """The types of Parquet: those known, and for the others what the first rows look like, text if they are empty."""
    import pyarrow as pa

    ours = {float: pa.float64(), int: pa.int64(), bool: pa.bool_(), str: pa.string()}
    known = {**types, **{name: ours[type] for name, type in computed.items()}}
    new = {name: pa.array([row[name] for row in rows]).type for name in columns if name not in known}
    known |= {name: pa.string() if pa.types.is_null(type) else type for name, type in new.items()}
    return pa.schema([(name, known[name]) for name in columns])


class Sink(RawIOBase):
    """A file for libraries, whose content goes to a function."""

    def __init__(self, write: Write):
        self.pass_on = write

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.pass_on(bytes(content))
        return len(content)
