"""Flags that several commands share, and their types."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from som.locating import find_checkpoint

Command = Callable[[argparse.Namespace], int | None]  # the exit code, if it is not 0


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line, which points at the help of its command and at what was perhaps meant."""

    def error(self, message: str) -> NoReturn:
        if choice := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)$", message):
            message += did_you_mean(choice[1], re.findall(r"[\w-]+", choice[2]))
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # type: ignore[override]  # also for sub-commands
        """Refuses flags that do not exist before anything else, or a misspelt `--out` would be a missing one."""
        given = list(sys.argv[1:] if args is None else args)
        # `som` has no defaults, and its own flags stand before the command
        own = given if self._defaults else list(takewhile(lambda one: one.startswith("-"), given))
        for flag in flags_in(own):
            if not any(known.startswith(flag) for known in self._option_string_actions):
                meant = did_you_mean(flag, self._option_string_actions)
                hint = meant if len(own) == len(given) else "; flags come after the command"
                self.error(f"unrecognized arguments: {flag}{hint}")
        return super().parse_known_args(args, namespace)


def flags_in(arguments: Iterable[str]) -> list[str]:
    """The long flags of a command line, without their values.

    >>> flags_in(["a", "--out=x", "-n", "3", "-- a dash and words", "--", "--text"])
    ['--out']
    """
    before = takewhile(lambda argument: argument != "--", arguments)
    return [argument.partition("=")[0] for argument in before if argument.startswith("--") and " " not in argument]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question, if something like it exists.

    >>> did_you_mean("pase", ["parse", "push"]), did_you_mean("x", ["parse"])
    ("; did you mean 'parse'?", '')
    """
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


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


def at_least(smallest: int) -> Callable[[str], int]:
    """The type of flags that count something, from this number on."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < smallest:
            raise argparse.ArgumentTypeError(f"expected a whole number from {smallest}, got {text!r}")
        return int(text)

    return number


positive = at_least(1)


def check_files(paths: Iterable[str] | None) -> None:
    """Refuse files that are not there, before what is slow to import."""
    for path in paths or ():
        if not Path(path).is_file():
            raise ValueError(f"{path}: expected a file, there is " + ("a folder" if Path(path).is_dir() else "none"))


def progress_bars_only_in_terminals() -> None:
    """Keep logs and pipes free of the bars of `datasets`."""
    from datasets import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()


def say_next(*commands: str) -> None:
    """What to do with the result."""
    print(f"next: {' · '.join(commands)}")


def add_texts(parser: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    """What the three commands that take text have in common; the first format is the default."""
    parser.add_argument(
        "texts", nargs="*", metavar="TEXT", help="(default: the lines of standard input, as they come)"
    )
    parser.add_argument("--file", nargs="+", metavar="F", help="files of text, read line by line, plain or .gz")
    parser.add_argument("--strict", action="store_true", help="stop at the first line that cannot be read")
    parser.add_argument("--model", metavar="CHECKPOINT", help="a folder or a model on the Hub (default: the shipped)")
    add_device(parser)
    note = f"(default: what the suffix of --out says, or {formats[0]})"
    parser.add_argument("--format", choices=formats, help=note)
    parser.set_defaults(formats=formats)
    parser.add_argument("--out", metavar="FILE", help="where the output goes (default: standard output)")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE, or print only them for -")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")


def format_of(file: str | None, formats: Sequence[str]) -> str:
    """What the suffix of an output says, or the first format.

    >>> [format_of(file, ["tree", "svg"]) for file in ("a.svg", "a.txt", None)]
    ['svg', 'tree', 'tree']
    """
    suffix = Path(file or "").suffix[1:]
    return suffix if suffix in formats else formats[0]


def add_device(parser: argparse.ArgumentParser) -> None:
    """Where a model runs, and how much it reads at a time."""
    parser.add_argument("--device", help="such as cpu (default), cuda, cuda:1 or mps")
    parser.add_argument(
        "--batch-size", type=positive, metavar="N", help="sentences read together (default: as many as fit)"
    )


def check_model(args: argparse.Namespace) -> None:
    """Refuse a checkpoint that is not there, before what is slow to import."""
    if args.model:
        find_checkpoint(args.model)


def add_method(parser: argparse.ArgumentParser) -> None:
    """How sentences are scored."""
    note = "(default: what the model's configuration says)"
    parser.add_argument("--method", choices=["greedy", "marginal", "particles", "beam"], help=note)
    note = "trees that particles or beam follow (default: 32 particles, a beam of 4)"
    parser.add_argument("--k", "--particles", dest="k", type=positive, metavar="K", help=note)


def check_method(args: argparse.Namespace) -> None:
    """Refuse a number of trees for a method that follows only one, as every model's default does."""
    if args.k and args.method not in ("particles", "beam"):
        raise ValueError(f"--k is for --method beam or particles, got {args.method or 'no --method'}")


def above_zero(text: str) -> float:
    """The type of flags that are rates."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return number
