"""Where results go: files written whole, standard output, pictures."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from textwrap import indent
from typing import Any

from som.files import whole_file
from som.syntax import visible


def print_json(report: Any, file: str) -> None:
    """Write a report to a file, whole or not at all, or to standard output for `-`."""
    write_out(f"{to_json(report)}\n".encode(), None if file == "-" else file)


def to_json(report: Any) -> str:
    """JSON for people to read, with every control character escaped: the library leaves those above 126.

    >>> print(to_json("é \\x1b \\x9b"))
    "é \\u001b \\u009b"
    """
    text = json.dumps(report, indent=2, ensure_ascii=False)
    return re.sub("[\x7f-\x9f]", lambda match: f"\\u{ord(match[0]):04x}", text)


def write_out(content: bytes, file: str | None) -> None:
    """Write a file, whole or not at all, or to standard output without one."""
    with destination(file) as write:
        write(content)


@contextmanager
def destination(file: str | None) -> Iterator[Callable[[bytes], None]]:
    """What writes to standard output at once, or to a file that is there only when all has been written."""
    if file in (None, "-"):
        yield print_now
        return
    with ExitStack() as stack:
        with blamed(str(file)):
            out = stack.enter_context(whole_file(str(file)))

        def write(content: bytes) -> None:
            with blamed(str(file)):
                out.write(content)

        yield write
        with blamed(str(file)):
            stack.close()


def print_now(content: bytes) -> None:
    sys.stdout.write(content.decode())
    sys.stdout.flush()


@contextmanager
def blamed(file: str) -> Iterator[None]:
    """Says which file could not be written."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ValueError(f"{file}: cannot be written: {error.strerror}") from error


def write_picture(figure: Any, file: str) -> None:
    """Write a figure as what the file's name says."""
    picture = BytesIO()
    figure.savefig(picture, format=Path(file).suffix[1:])
    write_out(picture.getvalue(), file)


def check_outputs(picture: str | None, *others: str | None, inputs: Iterable[str | None] | None = ()) -> None:
    """Validate outputs before any computation: what could not be written afterwards is refused now.

    So are the files that are read: an output would take the place of somebody's data."""
    for file in filter(None, (picture, *others)):
        if not Path(file).parent.is_dir() or Path(file).is_dir():
            raise ValueError(f"{file}: expected a file in a folder that exists")
    named = [Path(file) for file in (picture, *others) if file and file != "-"]
    files = [file.resolve() for file in named if file.is_file() or not file.exists()]  # devices may be named twice
    if len(set(files)) < len(files):
        raise ValueError(f"{files[0]}: expected another file for each output")
    read = {Path(file).resolve() for file in inputs or () if file and Path(file).is_file()}
    if overwritten := [file for file in named if file.resolve() in read]:
        raise ValueError(f"{overwritten[0]}: is read, expected another file for the output")
    if picture and Path(picture).suffix not in (".svg", ".png", ".pdf"):
        raise ValueError(f"{picture}: expected a picture that ends in .svg, .png or .pdf")


def check_page(file: str | None) -> None:
    """Refuse a report that is not called a web page."""
    if file and Path(file).suffix not in (".html", ".htm"):
        raise ValueError(f"{file}: expected a page that ends in .html")


@contextmanager
def results_to(args: argparse.Namespace, header: str = "", footer: str = "") -> Iterator[Callable[[dict, str], None]]:
    """What takes each result, as a record and as text, and writes it as the flags say, with JSON beside it."""
    with ExitStack() as stack:
        writers: list[Callable[[dict, str], None]] = []
        if args.json != "-":
            write = stack.enter_context(destination(args.out))
            as_json = args.format == "json"
            writers.append(stack.enter_context(json_array(write) if as_json else text_between(header, footer, write)))
        if args.json:
            writers.append(stack.enter_context(json_array(stack.enter_context(destination(args.json)))))

        def write_all(record: dict, text: str) -> None:
            for write in writers:
                write(record, text)

        yield write_all


@contextmanager
def text_between(header: str, footer: str, write: Callable[[bytes], None]) -> Iterator[Callable[[dict, str], None]]:
    """Writes text, without control characters; before the first comes a header, after the last a footer."""
    waiting = [header]

    def write_text(record: dict, text: str) -> None:
        write(visible(waiting.pop() + text if waiting else text).encode())

    yield write_text
    if footer and not waiting:
        write(footer.encode())


@contextmanager
def json_array(write: Callable[[bytes], None]) -> Iterator[Callable[[dict, str], None]]:
    """Writes records as a JSON array, one after the other."""
    before = ["[\n"]

    def write_record(record: dict, text: str) -> None:
        write((before.pop() + indent(to_json(record), "  ")).encode())
        before.append(",\n")

    yield write_record
    write(b"[]\n" if before == ["[\n"] else b"\n]\n")


def texts_wanted(args: argparse.Namespace) -> bool:
    """Whether anything but JSON is to be written."""
    return args.json != "-" and args.format != "json"
