"""som reading on small tables, right and wrong ones."""

import importlib.util
import json
from pathlib import Path
from random import Random

import pytest

from som.cli import main

HEADER = "text\tline\tword\trt\tlength\tlog_frequency\tsurprisal\n"


@pytest.fixture
def table(tmp_path, monkeypatch) -> Path:
    """Six sentences of each of three texts."""
    monkeypatch.chdir(tmp_path)
    rows, random = [], Random(0)
    for i in range(3 * 6 * 5):
        surprisal, length, frequency = random.random() * 20, random.randint(2, 9), random.random() * 4
        word, noise = "a" * (length - 1) + random.choice("abc,."), random.random() * 20
        time = 300 + 20 * surprisal + 5 * length + noise
        rows.append(f"t{i // 30}\t{i // 5}\t{word}\t{time}\t{length}\t{frequency}\t{surprisal}\n")
    Path("times.tsv").write_text(HEADER + "".join(rows))
    return Path("times.tsv")


RIGHT = ["reading", "times.tsv", "--time=rt", "--group=text", "--sentence=line", "--spillover=1", "--permutations=99"]


def test_a_report_a_picture_and_increments_are_written(table, capsys):
    files = ["--json=report.json", "--plot=delta.svg", "--increments=words.tsv"]
    assert main([*RIGHT, *files]) == 0
    printed = capsys.readouterr().out
    report = json.loads(Path("report.json").read_text())
    delta = report["measures"]["surprisal"]["delta_ll_per_1000"]
    assert delta > 1000 and f"{delta:.2f}" in printed
    assert report["command"].startswith("som reading times.tsv --time=rt")
    assert report["words"] == 72 and report["folds"] == 3
    header, first, *_ = Path("words.tsv").read_text().splitlines()
    assert header.split("\t") == ["row", "text", "line", "position", "word", "log_likelihood", "delta_surprisal"]
    assert first.startswith("2\tt0\t0\t2\t")
    assert "<svg" in Path("delta.svg").read_text()


def test_json_alone_is_printed_for_a_dash(table, capsys):
    assert main([*RIGHT, "--json", "-", "--measures", "surprisal", "--baseline", "length"]) == 0
    assert json.loads(capsys.readouterr().out)["baseline"]["predictors"] == ["length", "length_1", "position"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--time=reading_time"], "times.tsv: expected a column reading_time, the table has text, line, word, rt"),
        (["--measures=entropy"], "times.tsv: expected a column entropy, the table has"),
        (["--measures", "length"], "times.tsv: measure length: its columns are collinear with the baseline"),
        (["--subject=reader"], "times.tsv: expected a column reader, the table has"),
        (["--increments=words.xlsx"], "words.xlsx: expected a file that ends in .tsv or .csv"),
        (["--plot=words.doc"], "words.doc: expected a picture that ends in .svg, .png or .pdf"),
        (["--plot=nowhere/d.svg"], "nowhere/d.svg: expected a file in a folder that exists"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_nothing_is_written(table, arguments, message, capsys):
    before = sorted(Path().iterdir())
    assert main([*RIGHT, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith("som reading: error: ") and error.count("\n") == 1
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("flag", ["--folds=1", "--spillover=-1", "--permutations=0", "--scale=cube"])
def test_flags_that_mean_nothing_are_refused(table, flag, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*RIGHT, flag])
    assert stop.value.code == 2 and capsys.readouterr().err.count("\n") == 1


def test_a_table_that_is_not_there_is_said(capsys):
    assert main(["reading", "nowhere.tsv"]) == 2
    assert "nowhere.tsv: expected a file, there is none" in capsys.readouterr().err


def test_without_statsmodels_the_extra_is_named(table, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr("som.cli.reading.find_spec", lambda name: None if name == "statsmodels" else found(name))
    assert main(RIGHT) == 2
    assert "pip install 'som-lm[reading]'" in capsys.readouterr().err


def test_a_measure_that_nobody_named_is_left_out_where_it_cannot_be_tried(table, capsys):
    lines = [line.split("\t") for line in table.read_text().splitlines()]
    doubled = [[*cells, "closed" if cells[4] == "length" else str(2 * int(cells[4]))] for cells in lines]
    table.write_text("".join("\t".join(cells) + "\n" for cells in doubled))
    assert main([*RIGHT, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert list(json.loads(out)["measures"]) == ["surprisal"]
    assert err.startswith("som reading: warning: not tried: measure closed: its columns are collinear")
    assert main([*RIGHT, "--measures", "closed"]) == 2
