"""Files that are never seen half-written."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

UNFINISHED: set[Path] = set()  # scratch files and folders that are being written


def write_whole(file: str | Path, content: str | bytes) -> None:
    """Write a file, whole or not at all."""
    with whole_file(file) as out:
        out.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(file: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to bit by bit. It takes its place when all is written, and not at all after an error.

    A former file stays until then, and its permissions are kept. A link stays a link: the file that it leads to is
    written. Pipes, devices such as /dev/null, open files such as /dev/fd/3, and the file that standard output goes to
    cannot be replaced: the content goes right into them.
    """
    try:
        former = os.stat(file)
    except FileNotFoundError:
        former = None
    stream = None if former is None else open_descriptor(file, former)
    if former and (stream is not None or not stat.S_ISREG(former.st_mode)):
        sys.stdout.flush()  # what was printed before comes first
        with open(file if stream is None else stream, "wb", closefd=stream is None) as out:
            yield out
    else:
        with replacing(Path(os.path.realpath(file)), former) as out:
            yield out


def open_descriptor(file: str | Path, status: os.stat_result) -> int | None:
    """The descriptor that a name such as /dev/fd/3 stands for, or that of standard output or standard error, if this
    is the file that it is open on."""
    if (named := named_descriptor(file)) is not None:
        return named
    for descriptor in (1, 2):
        with suppress(OSError):  # it is closed
            if os.path.samestat(status, os.fstat(descriptor)):
                return descriptor
    return None


def named_descriptor(file: str | Path) -> int | None:
    """The number of the open file that is meant by /dev/fd/3, /dev/stdout or a link to such a name."""
    folder, name = os.path.split(os.path.abspath(file))
    if name.isdecimal() and os.path.realpath(folder) == os.path.realpath("/dev/fd"):
        return int(name)
    path = os.path.join(folder, name)
    return named_descriptor(os.path.join(folder, os.readlink(path))) if os.path.islink(path) else None


@contextmanager
def replacing(file: Path, former: os.stat_result | None) -> Iterator[IO[bytes]]:
    """Write beside the file and rename; the name is random, so that no link can be put there beforehand."""
    scratch = file.with_name(f".{secrets.token_hex(8)}.new")
    UNFINISHED.add(scratch)
    try:
        with open(scratch, "xb") as out:
            if former:
                with suppress(PermissionError):  # only root may give files away
                    os.chown(scratch, former.st_uid, former.st_gid)
                os.chmod(scratch, stat.S_IMODE(former.st_mode))
            yield out
        os.replace(scratch, file)
    finally:
        scratch.unlink(missing_ok=True)
        UNFINISHED.discard(scratch)


def remove_unfinished() -> None:
    """What is left to do where a process ends at once."""
    for scratch in UNFINISHED:
        if scratch.is_dir():
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            scratch.unlink(missing_ok=True)


def usual_mode(folder: str | Path) -> int:
    """The permissions that new files get in a folder: those that the umask leaves."""
    probe = Path(folder) / f".{secrets.token_hex(8)}.new"
    try:
        with open(probe, "xb") as file:
            return stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    finally:
        probe.unlink(missing_ok=True)
