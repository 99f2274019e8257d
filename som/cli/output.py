"""Where results go: files written whole, standard output, pictures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from som.files import write_whole


def print_json(report: Any, file: str) -> None:
    """Write a report to a file, whole or not at all, or to standard output for `-`."""
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    write_out(text.encode(), None if file == "-" else file)


def write_out(content: bytes, file: str | None) -> None:
    """Write a file, whole or not at all, or to standard output without one."""
    if file is None:
        sys.stdout.write(content.decode())
        return
    try:
        write_whole(file, content)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ValueError(f"{file}: cannot be written: {error.strerror}") from error


def write_picture(figure: Any, file: str) -> None:
    """Write a figure as what the file's name says."""
    picture = BytesIO()
    figure.savefig(picture, format=Path(file).suffix[1:])
    write_out(picture.getvalue(), file)


def check_outputs(picture: str | None, *others: str | None) -> None:
    """Refuse, before any work, what could not be written after it."""
    for file in filter(None, (picture, *others)):
        if not Path(file).parent.is_dir() or Path(file).is_dir():
            raise ValueError(f"{file}: expected a file in a folder that exists")
    if picture and Path(picture).suffix not in (".svg", ".png", ".pdf"):
        raise ValueError(f"{picture}: expected a picture that ends in .svg, .png or .pdf")


def print_results(args: argparse.Namespace, records: list[dict], rendered: Callable[[], str]) -> None:
    """Results in the format asked for, and as JSON beside it."""
    if args.json != "-":
        as_json = json.dumps(records, indent=2, ensure_ascii=False) + "\n"
        write_out((as_json if args.format == "json" else rendered()).encode(), args.out)
    if args.json:
        print_json(records, args.json)
