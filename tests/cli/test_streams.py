"""som parse, surprisal and generate on many lines: as they come, in order, and past bad ones."""

import json
import subprocess
import sys
import tracemalloc
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest

from som.cli import lines as reader
from som.cli import main
from som.inference.loading import load
from som.inference.parsing import parse_all

ROOT = Path(__file__).parent.parent.parent
TEXTS = ["the old dog sees a Whale.", "the cat sleeps"]
TWO = "  The old dog sees Mr. Cat. A cat sleeps!  "


def test_a_line_is_answered_before_the_next_one_comes(checkpoint):
    command = [sys.executable, "-m", "som", "parse", "--format", "brackets", "--model", checkpoint]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    with subprocess.Popen(command, **pipes) as process:
        for text in TEXTS:
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            assert process.stdout.readline().startswith("(")
        rest, _ = process.communicate()
    assert (process.returncode, rest) == (0, "")


@pytest.mark.parametrize("chunk", [1, 2, 512])
def test_lines_keep_their_order_however_many_are_read_together(run, checkpoint, tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(reader, "LINES_AT_ONCE", chunk)
    lines = [f"the {'old ' * (n % 4)}dog" for n in range(9)]
    (tmp_path / "texts").write_text("\n".join(lines))
    expected = "".join(f"{parse.brackets()}\n" for parse in parse_all(*load(checkpoint), lines))
    for source in (["--file", str(tmp_path / "texts")], lines):
        for size in ([], ["--batch-size", "2"]):
            assert run("parse", *source, "--format", "brackets", *size) == (0, expected, "")


def test_a_closed_standard_input_has_no_text(checkpoint, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert main(["parse", "--model", checkpoint]) == 2
    assert capsys.readouterr().err == "som parse: error: there is no text, expected at least one sentence\n"


@pytest.mark.parametrize("command", ["parse", "surprisal", "generate"])
def test_a_bad_line_is_reported_with_its_number_and_the_others_are_read(command, checkpoint, tmp_path):
    """In a process of its own, whose standard input is bytes."""
    whole = [sys.executable, "-m", "som", command, "--model", checkpoint, "--out", str(tmp_path / "out")]
    lines = b"the cat\n\nthe caf\xe9\nthe dog\n"
    done = subprocess.run([*whole, "--format", "json"], input=lines, capture_output=True, cwd=ROOT)
    assert done.returncode == 2
    first, second, *more = done.stderr.decode().splitlines()
    assert all("word counts" in line for line in more) and len(more) == (command == "surprisal")
    assert first == f"som {command}: error: line 3: expected text in UTF-8, got other bytes"
    assert second == f"som {command}: 1 of 3 sentences were bad"
    assert len(json.loads((tmp_path / "out").read_text())) == 2


def test_a_strict_reading_stops_at_the_first_bad_line_and_writes_no_file(run, tmp_path):
    out = tmp_path / "out"
    code, printed, err = run("parse", "the cat", " ", "the dog", "--out", str(out), "--strict")
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert "text 2: the text is empty" in err and not out.exists()
    code, printed, err = run("parse", "the cat", " ", "the dog", "--format", "brackets")
    assert code == 2 and printed.count("\n") == 2 and "text 2: the text is empty" in err


def test_a_line_too_long_to_draw_is_refused_before_it_is_read(run, monkeypatch):
    read = []
    monkeypatch.setattr(
        "modeling_som.parses_som.find_trees", lambda model, sentences, **options: iter(read.append(sentences) or [])
    )
    code, _, err = run("parse", "the cat " * 150)
    assert code == 2 and "300 words are too many to draw" in err
    assert read == [[]]


# sentences in lines


def test_a_line_of_several_sentences_is_split_and_says_so(run):
    code, out, err = run("parse", TWO, "the cat", "--format", "json")
    first, second, third = json.loads(out)
    assert code == 0
    assert err == "som parse: 1 of 2 line(s) had several sentences, 3 in all; --one-sentence reads a line as one\n"
    assert [one["sentence"] for one in (first, second, third)] == [1, 2, 3]
    assert [one["source"] for one in (first, second, third)] == ["text 1", "text 1", "text 2"]
    for one in (first, second):  # offsets are into the line as it was given
        assert [TWO[start:end] for start, end in one["offsets"]] == one["words"]


def test_surprisals_of_a_split_line_are_numbered_with_offsets_into_it(run):
    rows = [line.split("\t") for line in run("surprisal", TWO)[1].splitlines()]
    columns = rows[0].index("sentence"), rows[0].index("word"), rows[0].index("start"), rows[0].index("end")
    found = [[row[column] for column in columns] for row in rows[1:]]
    assert {number for number, *_ in found} == {"1", "2"}
    assert all(TWO[int(start) : int(end)] == word for _, word, start, end in found)


def test_a_line_is_one_sentence_where_the_user_says_so(run):
    for flag in ("--one-sentence", "--words"):
        code, out, err = run("parse", TWO, "--format", "json", flag)
        assert (code, err, len(json.loads(out))) == (0, "", 1)
    (one,) = json.loads(run("parse", TWO, "--format", "json", "--one-sentence")[1])
    assert [TWO[start:end] for start, end in one["offsets"]] == one["words"]


def test_spacy_splits_where_it_is_asked_to(run, monkeypatch):
    class Span:
        def __init__(self, start_char, end_char):
            self.start_char, self.end_char, self.text = start_char, end_char, "x"

    class Document:
        sents = (Span(0, 7), Span(8, 15))

    monkeypatch.setattr("som.cli.lines.spacy_pipeline", lambda model: lambda text: Document())
    found = json.loads(run("parse", "the cat the dog", "--splitter", "spacy", "--format", "json")[1])
    assert [one["words"] for one in found] == [["the", "cat"], ["the", "dog"]]
    assert "expected the splitter rules or spacy" in run("parse", "the cat", "--splitter", "commas")[2]


def test_what_is_about_one_sentence_refuses_several(run):
    assert "--attach is about one sentence, got 2; --one-sentence" in run("surprisal", TWO, "--attach", "2=1")[2]
    assert "--attach is about one sentence, got 2\n" in run("surprisal", *TEXTS, "--attach", "2=1")[2]
    assert "an SVG shows one sentence, got 2; --one-sentence" in run("parse", TWO, "--format", "svg")[2]


# what is printed


def test_conll_begins_with_the_names_of_its_columns_and_each_sentence_with_its_text(run):
    lines = run("parse", "--words", "the cat is n't old .", "the cat", "--format", "conll")[1].splitlines()
    assert lines[0] == "# global.columns = ID FORM DEPTH FIRST_SIBLING START END"
    assert lines[1:3] == ["# sent_id = 1", "# text = the cat isn't old."]
    assert [line for line in lines if line.startswith("# global")] == lines[:1]
    words = [line.split("\t") for line in lines if line and not line.startswith("#")]
    assert {len(columns) for columns in words} == {len(lines[0].split()) - 3}


@pytest.mark.parametrize("form", ["tree", "brackets", "evalb", "conll", "svg", "json"])
def test_control_characters_do_not_reach_the_terminal(run, form):
    code, out, _ = run("parse", "--words", "the \x1b[31mcat \x9b0m \x00", "--format", form)
    assert code == 0 and "cat" in out
    assert not set(out) & set("\x1b\x9b\x00")
    assert form != "json" or json.loads(out)[0]["words"][1:] == ["\x1b[31mcat", "\x9b0m", "\x00"]


def test_an_error_message_has_no_control_characters_either(run):
    assert "\x1b" not in run("parse", "--file", "nowhere\x1b[31m")[2]


def test_memory_does_not_grow_with_the_number_of_lines(monkeypatch, tmp_path):
    def peak(lines: int) -> int:
        """Bytes that reading, answering and writing need at once, the model aside."""
        text = (b"a line of text\n" * 500 for _ in range(lines // 500))
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Chunks(text), isatty=lambda: False))
        out, json = str(tmp_path / "out"), str(tmp_path / "json")
        args = Namespace(name="parse", texts=[], file=None, strict=False, out=out, json=json, format="brackets")
        tracemalloc.start()
        assert reader.answer_all(args, reader.LineReader(args, reader.whole), answers) == 0
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    def answers(pieces):
        return ([({"text": piece.text}, piece.text + "\n")] for piece in pieces)

    peak(500)  # what is imported and cached at the first time
    assert peak(20_000) < 4 * peak(2_000)  # garbage waits for its collection; what is kept would be ten times as much


class Chunks:
    """A stream that gives what it is given."""

    def __init__(self, chunks):
        self.chunks = iter(chunks)

    def read1(self, size: int) -> bytes:
        return next(self.chunks, b"")
