"""Flags that several commands share, and their types."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

Command = Callable[[argparse.Namespace], None]


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def add_command(commands: Any, name: str, run: Command, summary: str, examples: str) -> argparse.ArgumentParser:
    """A sub-command with its help, which ends in examples."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=run, name=name)
    return parser


def positive(text: str) -> int:
    """The type of flags that count something."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)


def progress_bars_only_in_terminals() -> None:
    """Keep logs and pipes free of the bars of `datasets`."""
    from datasets import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()


def add_texts(parser: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    """What the three commands that take text have in common; the first format is the default."""
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="a sentence each (default: lines of standard input)")
    parser.add_argument("--file", nargs="+", metavar="F", help="files with a sentence a line, plain or .gz")
    parser.add_argument("--model", metavar="CHECKPOINT", help="a folder or a model on the Hub (default: the shipped)")
    parser.add_argument("--format", choices=formats, default=formats[0], help=f"(default: {formats[0]})")
    parser.add_argument("--out", metavar="FILE", help="where the output goes (default: standard output)")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE, or print only them for -")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")


def add_method(parser: argparse.ArgumentParser) -> None:
    """How sentences are scored."""
    note = "(default: what the model's configuration says)"
    parser.add_argument("--method", choices=["greedy", "marginal", "particles", "beam"], help=note)
    note = "trees that particles or beam follow (default: 32 particles, a beam of 4)"
    parser.add_argument("--particles", dest="k", type=positive, metavar="K", help=note)


def given_texts(args: argparse.Namespace) -> list[str]:
    """The sentences of the command line, of files, or of standard input."""
    from som.syntax import read_text

    if args.texts and args.file:
        raise ValueError("expected sentences or --file, got both")
    if args.file:
        return list(read_text(args.file))
    if args.texts:
        return args.texts
    if sys.stdin.isatty():
        print("reading sentences from standard input, one a line; Ctrl-D ends", file=sys.stderr)
    try:
        return [line.strip() for line in sys.stdin if line.strip()]
    except UnicodeDecodeError as error:
        raise ValueError("standard input: expected text in UTF-8, got other bytes") from error


def sentences_to_read(args: argparse.Namespace) -> list[Any]:
    """At least one sentence, as texts or as lists of words."""
    texts = given_texts(args)
    if not texts:
        raise ValueError("there is no text, expected at least one sentence")
    return [text.split() for text in texts] if args.words else texts


def above_zero(text: str) -> float:
    """The type of flags that are rates."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return number
