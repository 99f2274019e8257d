"""Tables as files: every format as it is read and written, and what is wrong with a file."""

import gzip
import io
import json

import pyarrow.parquet
import pytest

from som.tables import KINDS, read_table, table_kind, table_writer

COLUMNS = {"surprisal": float, "depth": int, "unknown": bool, "word": str}
GIVEN = [
    {"item": "01", "note": 'a "quote"', "surprisal": 0.123456789, "depth": 2, "unknown": True, "word": "é"},
    {"item": "NA", "note": "", "surprisal": None, "depth": 1, "unknown": None, "word": "b,c"},
]


def write(rows, file, types=()) -> None:
    out = io.BytesIO()
    columns = list(rows[0])
    with table_writer(out.write, table_kind(file), columns, COLUMNS, dict(types)) as write_rows:
        for row in rows:  # in two parts
            write_rows([row])
    file.write_bytes(out.getvalue())


def rows_of(file) -> list[dict]:
    return [dict(cells) for _, cells in read_table(file).rows]


@pytest.mark.parametrize("group", [1, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read_again(kind, group, tmp_path, monkeypatch):
    monkeypatch.setattr("som.tables.GROUP", group)
    file = tmp_path / f"table.{kind}"
    write(GIVEN, file)
    table = read_table(file)
    assert table.columns == list(GIVEN[0])
    found = [dict(cells) for _, cells in table.rows]
    if kind in ("jsonl", "parquet"):
        assert found == GIVEN
    else:
        numbers = [
            {"surprisal": "0.1235", "depth": "2", "unknown": "1"},
            {"surprisal": "", "depth": "1", "unknown": ""},
        ]
        assert found == [given | cells for given, cells in zip(GIVEN, numbers, strict=True)]


def test_cells_that_are_not_ours_are_written_as_they_are(tmp_path):
    row = {"rt": 369.0123456789, "none": float("nan"), "list": [1, "é"]}
    write([row], tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == 'rt,none,list\n369.0123456789,,"[1, ""é""]"\n'
    write([row], tmp_path / "a.jsonl")
    assert json.loads((tmp_path / "a.jsonl").read_text()) == row | {"none": None}


def test_tsv_has_no_quotes_and_no_tabs_in_cells(tmp_path):
    write([{"text": 'say "a\tb"\n'}], tmp_path / "a.tsv")
    assert (tmp_path / "a.tsv").read_text() == 'text\nsay "a b" \n'
    assert rows_of(tmp_path / "a.tsv") == [{"text": 'say "a b" '}]


def test_parquet_keeps_the_types_that_it_had(tmp_path, monkeypatch):
    rows = [{"item": None, "n": 1}] * 3 + [{"item": 2.5, "n": 1}]
    schema = pyarrow.schema([("item", pyarrow.float64()), ("n", pyarrow.int16())])
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert next(table.rows)[0] == f"{tmp_path}/a.parquet: row 1"
    write(rows, tmp_path / "b.parquet", table.types)
    assert pyarrow.parquet.read_schema(tmp_path / "b.parquet").equals(schema)
    write([{"item": None, "structural": None}], tmp_path / "c.parquet")
    assert pyarrow.parquet.read_schema(tmp_path / "c.parquet").field("item").type == pyarrow.string()
    monkeypatch.setattr("som.tables.GROUP", 1)
    with pytest.raises(ValueError, match="columns of Parquet have one type each: .*; .jsonl may have several"):
        write([{"item": 1}, {"item": "a"}], tmp_path / "d.parquet")


@pytest.mark.parametrize("content", ["item,text\r\n1,a b\r\n\r\n,\r\n2,c\r\n", "\ufeffitem,text\n1,a b\n2,c"])
def test_marks_line_ends_and_empty_rows_of_spreadsheets_do_no_harm(content, tmp_path):
    (tmp_path / "a.csv").write_bytes(content.encode())
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(content.encode()))
    expected = [{"item": "1", "text": "a b"}, {"item": "2", "text": "c"}]
    assert rows_of(tmp_path / "a.csv") == rows_of(tmp_path / "a.csv.gz") == expected


def test_rows_know_the_line_that_they_begin_in(tmp_path):
    (tmp_path / "a.csv").write_text('item,text\n1,"two\nlines"\n2,one\n')
    assert [place.rpartition(":")[2] for place, _ in read_table(tmp_path / "a.csv").rows] == ["2", "4"]


def test_lines_of_text_are_a_table_of_one_column(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("the dog\n\n a cat \n")
    assert rows_of(tmp_path / "a.txt") == [{"text": "the dog"}, {"text": "a cat"}]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"item\ttext\n1\ta\n")))
    assert rows_of("-") == [{"item": "1", "text": "a"}]


def test_rows_of_json_may_leave_columns_out(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"item": 1, "text": "a"}\n{"text": "b"}\n')
    assert rows_of(tmp_path / "a.jsonl") == [{"item": 1, "text": "a"}, {"item": None, "text": "b"}]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.xlsx", b"", "a.xlsx: expected a table that ends in .tsv, .csv, .jsonl, .parquet or .txt"),
        ("a.tsv", b"", "a.tsv: expected a line with the names of the columns, got an empty file"),
        ("a.tsv", b"item\titem\n1\t2\n", "a.tsv: expected a name for each column, got 'item' more than once"),
        ("a.tsv", b"item\ttext\n1\ta\tb\n", "a.tsv:2: expected 2 cells, as in the header, got 3; TSV has no tabs"),
        ("a.csv", b"item,text\n1\n", "a.csv:2: expected 2 cells, as in the header, got 1"),
        ("a.csv", b'item,text\n1,"a\n', "a.csv:2: expected a row of a table, got: unexpected end of data"),
        ("a.tsv", b"item\ttext\n1\tcaf\xe9\n", "a.tsv:2: expected text in UTF-8, got other bytes"),
        ("a.tsv", "item\ttext\n".encode("utf-16"), "a.tsv:1: expected text in UTF-8, got other bytes"),
        ("a.tsv.gz", b"item", "a.tsv.gz:1: expected a readable file, got: Not a gzipped file"),
        ("a.jsonl", b'{"a": 1}\n[1]\n', r"a.jsonl:2: expected a row in JSON, {…}, got \[1\]"),
        ("a.jsonl", b"\nno\n", "a.jsonl:2: expected a row in JSON, got: Expecting value"),
        ("a.jsonl", b'{"a": 1}\n{"b": 1}\n', "a.jsonl:2: expected the columns of the first row, got 'b' too"),
        ("a.jsonl", b"", "a.jsonl: expected at least one row, got none"),
        ("a.parquet", b"no", "a.parquet: expected a table in Parquet, got: "),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        rows_of(tmp_path / name)


def test_tables_are_read_row_by_row(tmp_path):
    (tmp_path / "a.tsv").write_text("item\n" + "1\n" * 3 + "1\t2\n")
    rows = read_table(tmp_path / "a.tsv").rows
    assert [next(rows)[1]["item"] for _ in range(3)] == ["1", "1", "1"]
    with pytest.raises(ValueError, match="a.tsv:5"):
        next(rows)


def test_a_file_that_is_cut_off_is_no_success(tmp_path):
    packed = gzip.compress(b"item\ttext\n" + b"1\ta\n" * 1000)
    (tmp_path / "a.tsv.gz").write_bytes(packed[:-20])
    with pytest.raises(ValueError, match="expected a readable file"):
        rows_of(tmp_path / "a.tsv.gz")
