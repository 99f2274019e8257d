"""The commands that read or write tables, som surprisal --table and som compare, called as a user does."""

import csv
import json

import pyarrow.parquet
import pytest

from som.inference import compare, load, surprisal_table
from som.tables import read_table

NO_COUNTS = "som surprisal: this checkpoint has no word counts: unknown and log_frequency are empty"
ITEMS = 'item\tcondition\tsentence\n1\ta\tthe old dog sees a "cat".\n1\tb\tthe dog sees.\n'


@pytest.fixture(autouse=True)
def items(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.tsv").write_text(ITEMS)


def rows_of(file) -> list[dict]:
    return [dict(cells) for _, cells in read_table(file).rows]


# som surprisal --table


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "parquet"])
def test_the_suffix_of_the_output_says_what_is_written(run, checkpoint, suffix):
    flags = ["--table", "items.tsv", "--text-column", "sentence", "--regions", "--spillover", "1"]
    assert run("surprisal", *flags, "--out", f"out.{suffix}") == (0, "", f"{NO_COUNTS}\n")
    expected = surprisal_table(*load(checkpoint), rows_of("items.tsv"), "sentence", regions="spaces", spillover=1)
    found = rows_of(f"out.{suffix}")
    assert [row["word"] for row in found] == [row["word"] for row in expected]
    assert list(found[0]) == list(expected[0])
    for row, other in zip(found, expected, strict=True):
        assert [row[name] for name in ("item", "condition", "sentence")] == list(other.values())[:3]
        assert float(row["surprisal"]) == pytest.approx(other["surprisal"], abs=1e-4)
        assert row["surprisal_1"] in ("", None) if other["number"] == 1 else float(row["surprisal_1"]) >= 0


def test_tables_come_from_standard_input_and_go_to_standard_output(run):
    code, out, err = run("surprisal", "--table", "-", "--text-column", "sentence", stdin=ITEMS)
    assert (code, err) == (0, f"{NO_COUNTS}\n")
    again = run("surprisal", "--table", "items.tsv", "--text-column", "sentence", "--out", "-")[1]
    assert out == again and out.splitlines()[0].startswith("item\tcondition\tsentence\tsentence_id\tnumber\tword\t")


def test_a_word_per_row_is_read_by_its_sentence(run, tmp_path):
    (tmp_path / "words.csv").write_text("story,sent,word,rt\n1,1,the,300\n1,1,dog.,\n1,2,cats,12.50\n")
    flags = ["--table", "words.csv", "--text-column", "word", "--sentence-columns", "story", "sent"]
    code, _, err = run("surprisal", *flags, "--out", "out.csv")
    assert code == 0
    assert err.splitlines()[0] == "som surprisal: columns of yours with a name of ours: word is given_word"
    with open("out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["word"], row["given_word"], row["rt"], row["sentence_id"]) for row in rows] == [
        ("the", "the", "300", "1"),
        ("dog.", "dog.", "", "1"),
        ("cats", "cats", "12.50", "2"),
    ]


def test_bad_rows_are_reported_with_their_lines_and_the_rest_is_answered(run, tmp_path):
    (tmp_path / "items.csv").write_text('item,text\n1,the dog\n2,"  "\n3,the | cat |\n4,a || b\n')
    code, out, err = run("surprisal", "--table", "items.csv", "--text-column", "text", "--regions", "bars")
    assert code == 2
    assert [line.split("\t")[0] for line in out.splitlines()[1:]] == ["1", "3", "3"]
    assert err.splitlines()[:3] == [
        "som surprisal: error: items.csv:3: expected a text in column 'text', got an empty cell",
        "som surprisal: error: items.csv:5: expected words in every region, got none in region 2 of 'a || b'",
        "som surprisal: 2 of 4 sentences were bad",
    ]
    strict = ["--table", "items.csv", "--text-column", "text", "--strict", "--out", "out.tsv"]
    assert run("surprisal", *strict)[0] == 2
    assert not (tmp_path / "out.tsv").exists()


def test_texts_of_several_sentences_are_noticed(run, tmp_path):
    (tmp_path / "a.txt").write_text("the dog sees. The cat sees.\nthe dog\n")
    code, out, err = run("surprisal", "--table", "a.txt", "--layout", "lm-zoo")
    assert code == 0 and out.splitlines()[0] == "sentence_id\ttoken_id\ttoken\tsurprisal"
    assert "som surprisal: 1 text(s) seem to have several sentences: each is read as one" in err


@pytest.mark.parametrize("flags", [[], ["--sentence-columns", "sent"]])
def test_words_that_are_read_as_sentences_of_their_own_are_noticed(run, tmp_path, flags):
    (tmp_path / "words.tsv").write_text("sent\ttext\n1\tthe\n1\tdog.\n2\tcats\n2\tsee.\n")
    code, _, err = run("surprisal", "--table", "words.tsv", "--text-column", "text", *flags)
    assert code == 0 and ("every text is one word" in err) == (not flags)


def test_terminals_get_no_control_characters(run, tmp_path):
    (tmp_path / "a.csv").write_text("item,text\n\x1b[31m,the dog\n")
    assert "\x1b" not in run("surprisal", "--table", "a.csv", "--text-column", "text")[1]
    run("surprisal", "--table", "a.csv", "--text-column", "text", "--out", "out.csv")
    assert rows_of("out.csv")[0]["item"] == "\x1b[31m"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--table", "nowhere.tsv"], "nowhere.tsv: expected a file, there is none"),
        (["--table", "items.tsv"], "items.tsv: expected a text column, one of 'item', 'condition', 'sentence'"),
        (["--table", "items.tsv", "--text-column", "sentense"], "did you mean 'sentence'?"),
        (
            ["--table", "items.tsv", "--text-column", "sentence", "--out", "a.xlsx"],
            "a.xlsx: expected a table that ends",
        ),
        (
            ["--table", "items.tsv", "--text-column", "sentence", "--plot", "a.svg"],
            "--plot cannot be used with --table",
        ),
        (["--table", "items.tsv", "the dog"], "texts on the command line cannot be used with --table"),
        (
            ["--table", "items.tsv", "--eos", "--sentence-columns", "item", "--text-column", "item"],
            "no row for the end",
        ),
        (["the dog", "--regions"], "--regions cannot be used without --table"),
        (["the dog", "--out", "a.csv"], "a.csv: texts give TSV or JSON; --table gives such files"),
        (["--table", "none.tsv", "--text-column", "sentence"], "none.tsv: expected at least one row, got none"),
        (["--table", "bad.csv", "--text-column", "b"], "bad.csv:3: expected 2 cells, as in the header, got 1"),
        (
            ["--table", "semicolons.csv"],
            "semicolons.csv: expected commas between cells in .csv and tabs in .tsv, got ';'",
        ),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(run, arguments, message, tmp_path):
    (tmp_path / "none.tsv").write_text("item\tsentence\n")
    (tmp_path / "bad.csv").write_text("a,b\n1,the dog\n2\n")
    (tmp_path / "semicolons.csv").write_text("item;text\n1;the dog\n")
    files = sorted(tmp_path.iterdir())
    code, out, err = run("surprisal", *arguments, *([] if "--out" in arguments else ["--out", "out.tsv"]))
    assert (code, out) == (2, "")
    assert message in err and err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == files


# som compare


def test_sentences_are_compared_in_a_table_json_and_a_picture(run, checkpoint, tmp_path):
    texts = ["the old dog sees a cat.", "the dog sees."]
    expected = compare(*load(checkpoint), texts)
    code, out, err = run("compare", *texts)
    assert (code, out, err) == (0, expected.draw(), "")
    code, out, err = run("compare", *texts, "--out", "out.parquet", "--json", "out.json", "--plot", "out.svg")
    assert (code, out, err) == (0, "", "")
    assert [row["word_b"] for row in rows_of("out.parquet")] == [row["word_b"] for row in expected.to_records()]
    assert pyarrow.parquet.read_schema("out.parquet").field("surprisal_a_minus_b").type == pyarrow.float64()
    assert json.loads((tmp_path / "out.json").read_text())["totals"] == pytest.approx(expected.totals())
    assert "<svg" in (tmp_path / "out.svg").read_text()
    assert json.loads(run("compare", *texts, "--json", "-")[1])["sentences"]["b"] == "the dog sees ."
    words = run("compare", "don't stop.", "stop.", "--words", "--out", "-")[1].splitlines()
    assert [line.split("\t")[1:3] for line in words[1:]] == [["don't", ""], ["stop.", "stop."]]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["the dog"], "expected 2 to 26 sentences to compare, got 1"),
        (["the dog", " "], "text 2: the text is empty"),
        (["the dog", "a", "--out", "a.doc"], "a.doc: expected a table that ends in .tsv, .csv, .jsonl or .parquet"),
        (["the dog", "a", "--plot", "a.doc"], "a.doc: expected a picture"),
        (["the dog " * 101, "a", "--plot", "a.svg", "--out", "a.tsv"], "202 words are too many to draw, 200 the most"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line(run, arguments, message, tmp_path):
    code, out, err = run("compare", *arguments)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["items.tsv"]
