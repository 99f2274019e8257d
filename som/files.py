"""Files that are never seen half-written."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def write_whole(file: str | Path, content: str | bytes) -> None:
    """Write a file, whole or not at all."""
    with whole_file(file) as out:
        out.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(file: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to bit by bit. It takes its place when all is written, and not at all after an error.

    A former file stays until then, and its permissions are kept. A link stays a link: the file that it leads to is
    written. Pipes, devices such as /dev/null, and the file that standard output goes to cannot be replaced: the
    content goes right into them.
    """
    try:
        former = os.stat(file)
    except FileNotFoundError:
        former = None
    if former and ((stream := standard_stream(former)) or not stat.S_ISREG(former.st_mode)):
        sys.stdout.flush()  # what was printed before comes first
        with open(stream or file, "wb", closefd=stream is None) as out:
            yield out
    else:
        with replacing(Path(os.path.realpath(file)), former) as out:
            yield out


def standard_stream(status: os.stat_result) -> int | None:
    """The file descriptor of standard output or standard error, if this is the file that it is open on."""
    for descriptor in (1, 2):
        with suppress(OSError):  # it is closed
            if os.path.samestat(status, os.fstat(descriptor)):
                return descriptor
    return None


@contextmanager
def replacing(file: Path, former: os.stat_result | None) -> Iterator[IO[bytes]]:
    """Write beside the file and rename; the name is random, so that no link can be put there beforehand."""
    scratch = file.with_name(f".{secrets.token_hex(8)}.new")
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
