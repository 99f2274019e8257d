"""The command `som`: finds the sub-command, runs it, and turns errors of the input into one line and exit code 2."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from som.cli.app import add_app
from som.cli.bench import add_bench
from som.cli.compare import add_compare
from som.cli.evaluate import add_evaluate
from som.cli.garden_paths import add_garden_paths
from som.cli.generate import add_generate
from som.cli.lines import Reported
from som.cli.options import CommandParser
from som.cli.parse import add_parse
from som.cli.prepare import add_prepare
from som.cli.push import add_push
from som.cli.reading import add_reading
from som.cli.streams import drop_unwritten_output, replace_closed_streams, warnings_in_one_line
from som.cli.surprisal import add_surprisal
from som.cli.train import add_train
from som.cli.view import add_view
from som.interruption import interruptible_imports
from som.syntax import visible

USER_ERRORS = (ValueError, OSError, ImportError)  # raised, with a message for the user, where input comes in


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    replace_closed_streams()
    try:
        args = build_parser().parse_args(argv)
        args.line = shlex.join(["som", *argv])  # goes with results
        with warnings_in_one_line(args.name), interruptible_imports(f"som {args.name}: interrupted"):
            return run(args)
    except BrokenPipeError:  # the reader, as in `som … | head`, has had enough
        return 0
    finally:
        drop_unwritten_output()


def run(args: argparse.Namespace) -> int:
    """Run the sub-command that was asked for; what the user did wrong is one line."""
    try:
        code = args.command(args) or 0
        sys.stdout.flush()
        return code
    except Reported:
        return 2
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, Exception) as error:
        if interruption := interruption_behind(error):
            print(f"som {args.name}: {str(interruption) or 'interrupted'}", file=sys.stderr)
            return getattr(interruption, "exit_code", 130)
        if not isinstance(error, USER_ERRORS) or os.environ.get("SOM_DEBUG"):
            raise
        print(f"som {args.name}: error: {visible(' '.join(str(error).split()))}", file=sys.stderr)
        return 2


def interruption_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """The Ctrl-C that an error is, or that a library with several processes made an error of."""
    if error is None or isinstance(error, KeyboardInterrupt):
        return error
    return interruption_behind(error.__context__)


class ShowVersion(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> None:
        import som

        print(f"som {som.__version__}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """All sub-commands; one `add_…` function each."""
    parser = CommandParser(
        prog="som", description="Syntactic Ordered Memory: a language model that parses while it reads."
    )
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add_prepare(commands)
    add_train(commands)
    add_evaluate(commands)
    add_reading(commands)
    add_garden_paths(commands)
    add_parse(commands)
    add_generate(commands)
    add_surprisal(commands)
    add_compare(commands)
    add_view(commands)
    add_app(commands)
    add_bench(commands)
    add_push(commands)
    return parser
