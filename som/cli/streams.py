"""The standard streams of a command: closed by the user, read no further, and with warnings that are one line."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PACKAGE = str(Path(__file__).parents[1])


def replace_closed_streams() -> None:
    """Drop what is written to a stream that the user has closed, as `>&-` does, and find nothing to read in one
    closed by `<&-`: Python has None there."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115  # as long as the process lives
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def drop_unwritten_output() -> None:
    """Forget output that could not be written: Python would try again when it ends, and complain."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextmanager
def warnings_in_one_line(name: str) -> Iterator[None]:
    """Show this package's warnings as messages of the command, without the line of code that they come from."""
    shown = warnings.showwarning

    def show(message: Any, category: type[Warning], filename: str, *rest: Any) -> None:
        if filename.startswith(PACKAGE):
            print(f"som {name}: warning: {message}", file=sys.stderr)
        else:
            shown(message, category, filename, *rest)

    warnings.showwarning = show  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.showwarning = shown
