"""Commands that read text: each line is answered when it comes, and a bad one does not stop the others."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from som.cli.options import check_files, format_of
from som.cli.output import results_to
from som.progress import progress
from som.syntax import is_text, numbered_lines, spacy_pipeline

LINES_AT_ONCE = 128  # lines at most that are read before the first of them is answered
Splitter = Callable[[str], Sequence[tuple[int, int]]]


class Reported(Exception):
    """Every line was bad, and each has been reported: nothing is to be written."""


@dataclass(frozen=True)
class Line:
    """A line as it was given, and where."""

    place: str
    text: str


@dataclass(frozen=True)
class Piece:
    """One sentence of a line; sentences are numbered from 1 over the whole input."""

    number: int
    line: Line
    start: int  # where it begins in its line
    text: str

    @property
    def about(self) -> dict[str, Any]:
        """What records say of a sentence's origin."""
        return {"sentence": self.number, "source": self.line.place}


Answer = tuple[dict[str, Any], str]  # the record for JSON, and the text of another format


def add_splitting(parser: argparse.ArgumentParser) -> None:
    """How a line becomes sentences."""
    parser.add_argument("--words", action="store_true", help="lines are sentences in tokens, separated by spaces")
    parser.add_argument("--one-sentence", action="store_true", help="read every line as one sentence")
    parser.add_argument(
        "--splitter",
        default="rules",
        help="what splits lines of several sentences: rules (default) or spacy[:MODEL]",
    )


# Lines


def lines_as_they_come(args: argparse.Namespace) -> Iterator[list[Line]]:
    """The lines of the command line, of files, or of standard input: as many at a time as are there."""
    if args.texts:
        yield [Line(f"text {number}", text) for number, text in enumerate(args.texts, start=1)]
    elif args.file:
        lines = (Line(place, line) for place, line in numbered_lines(args.file))
        while chunk := list(islice(lines, LINES_AT_ONCE)):
            yield chunk
    else:
        if sys.stdin.isatty():
            print("reading sentences from standard input, one per line; Ctrl-D ends", file=sys.stderr)
        yield from lines_of_input(sys.stdin.buffer)


def lines_of_input(stream: Any) -> Iterator[list[Line]]:
    """The lines that have come since the last time, at least one; empty ones are left out."""
    rest, number = b"", 0
    while data := stream.read1(1 << 16):
        *lines, rest = (rest + data).split(b"\n")
        for first in range(0, len(lines), LINES_AT_ONCE):
            yield numbered(lines[first : first + LINES_AT_ONCE], number + first)
        number += len(lines)
    yield numbered([rest], number)


def numbered(lines: Iterable[bytes], before: int) -> list[Line]:
    texts = (line.decode("utf-8", "surrogateescape").removeprefix("\ufeff").rstrip("\r") for line in lines)
    return [Line(f"line {n}", text) for n, text in enumerate(texts, start=before + 1) if text.strip()]


def check_texts(args: argparse.Namespace) -> None:
    """Refuse what cannot be read, before what is slow to import, and settle the format of the answers."""
    args.format = args.format or format_of(args.out, args.formats)
    if args.texts and args.file:
        raise ValueError("expected sentences or --file, got both")
    check_files(args.file)
    for text in args.texts:
        if is_name_of_file(text):
            print(f"som {args.name}: {text!r} is read as a text; --file reads the file of this name", file=sys.stderr)


def is_name_of_file(text: str) -> bool:
    """Whether a text is more probably a file that was meant to be read: it has a suffix, and there is one."""
    try:
        return bool(Path(text).suffix[1:]) and Path(text).is_file()
    except (OSError, ValueError):  # longer than any name, or with characters that no name has
        return False


# Sentences


def splitter(args: argparse.Namespace) -> Splitter:
    """What finds the sentences of a line."""
    name, _, model = args.splitter.partition(":")
    if name not in ("rules", "spacy"):
        raise ValueError(f"expected the splitter rules or spacy[:MODEL], got {args.splitter!r}")
    if args.words or args.one_sentence:
        return whole
    if name == "rules":
        from modeling_som.sentences_som import split_sentences

        return split_sentences
    pipeline = spacy_pipeline(model)
    return lambda text: [(found.start_char, found.end_char) for found in pipeline(text).sents if found.text.strip()]


def whole(text: str) -> list[tuple[int, int]]:
    """The line as one sentence, without the white space around it.

    >>> whole(" the dog \\t")
    [(1, 8)]
    """
    start = len(text) - len(text.lstrip())
    return [(start, max(start, len(text.rstrip())))]


@dataclass
class LineReader:
    """What has been read so far, and how much of it could not be."""

    args: argparse.Namespace
    spans: Splitter
    default: str | None = None  # the text that is read where there is none
    lines: int = 0
    split: int = 0  # lines of more than one sentence
    sentences: int = 0
    bad: int = 0

    def pieces(self) -> Iterator[list[Piece]]:
        """Sentences, as they come."""
        for chunk in lines_as_they_come(self.args):
            found = [piece for line in chunk for piece in self.pieces_of(line)]
            if found:
                yield found
        if not self.lines and self.default is not None:
            yield self.pieces_of(Line("text 1", self.default))

    def pieces_of(self, line: Line) -> list[Piece]:
        self.lines += 1
        if not is_text(line.text):
            self.sentences += 1
            self.report(line.place, ValueError("expected text in UTF-8, got other bytes"))
            return []
        spans = self.spans(line.text) or [(0, 0)]
        self.split += len(spans) > 1
        first = self.sentences + 1
        self.sentences += len(spans)
        return [Piece(n, line, start, line.text[start:end]) for n, (start, end) in enumerate(spans, start=first)]

    def report(self, place: str, error: ValueError) -> None:
        """Say what is wrong with a line, and go on; in a strict reading, stop."""
        self.bad += 1
        message = f"{place}: {' '.join(str(error).split())}"
        if self.args.strict:
            raise ValueError(message) from error
        print(f"som {self.args.name}: error: {message}", file=sys.stderr)

    def sum_up(self) -> int:
        """Say what became of the lines; the exit code."""
        if not self.sentences:
            raise ValueError("there is no text, expected at least one sentence")
        if self.bad == self.sentences:
            raise Reported
        if self.split:
            split = f"{self.split} of {self.lines} line(s) had several sentences, {self.sentences} in all"
            print(f"som {self.args.name}: {split}; --one-sentence reads a line as one", file=sys.stderr)
        if self.bad:
            print(f"som {self.args.name}: {self.bad} of {self.sentences} sentences were bad", file=sys.stderr)
        return 2 if self.bad else 0


def only_piece(args: argparse.Namespace, what: str, spans: Splitter) -> None:
    """Refuse more than one sentence, for what can only be done with one; takes its place among the arguments."""
    reading = LineReader(args, spans)
    found = [piece for pieces in reading.pieces() for piece in pieces]
    if len(found) > 1:
        hint = "; --one-sentence reads a line as one" if reading.split else ""
        raise ValueError(f"{what} one sentence, got {len(found)}{hint}")
    args.texts, args.file = [piece.line.text for piece in found], None
    if not found:
        raise ValueError("there is no text, expected at least one sentence")


def answer_all(
    args: argparse.Namespace,
    reading: LineReader,
    read: Callable[[list[Piece]], Iterable[list[Answer] | ValueError]],
    header: str = "",
    footer: str = "",
) -> int:
    """Read, answer and write, until there is no more to read; returns the exit code."""
    to_terminal = sys.stdout.isatty() and not args.out  # where the answers themselves are the progress
    with results_to(args, header, footer) as write, progress(f"som {args.name}", shown=not to_terminal) as bar:
        for pieces in reading.pieces():
            for piece, answers in zip(pieces, read(pieces), strict=True):
                if isinstance(answers, ValueError):
                    reading.report(piece.line.place, answers)
                    continue
                for record, text in answers:
                    write(record, text)
                bar.update()
        code = reading.sum_up()
    return code
