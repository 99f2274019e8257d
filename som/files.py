"""Files that are never seen half-written."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path


def write_whole(file: str | Path, content: str | bytes) -> None:
    """Write a file, whole or not at all; a former one stays until then, and its permissions are kept.

    A link stays a link: the file that it leads to is written. Pipes, devices such as /dev/null, and the file that
    standard output goes to cannot be replaced: the content goes right into them.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        former = os.stat(file)
    except FileNotFoundError:
        former = None
    if former and (stream := standard_stream(former)):
        write_through(stream, data)
    elif former and not stat.S_ISREG(former.st_mode):
        write_through(file, data)
    else:
        replace(Path(os.path.realpath(file)), data, former)


def standard_stream(status: os.stat_result) -> int | None:
    """The file descriptor of standard output or standard error, if this is the file that it is open on."""
    for descriptor in (1, 2):
        with suppress(OSError):  # it is closed
            if os.path.samestat(status, os.fstat(descriptor)):
                return descriptor
    return None


def write_through(target: str | Path | int, data: bytes) -> None:
    sys.stdout.flush()  # what was printed before comes first
    with open(target, "wb", closefd=not isinstance(target, int)) as out:
        out.write(data)


def replace(file: Path, data: bytes, former: os.stat_result | None) -> None:
    """Write beside the file and rename; nobody can know the name beforehand and put a link there."""
    scratch = file.with_name(f".{secrets.token_hex(8)}.new")
    try:
        with open(scratch, "xb") as out:
            if former:
                with suppress(PermissionError):  # only root may give files away
                    os.chown(scratch, former.st_uid, former.st_gid)
                os.chmod(scratch, stat.S_IMODE(former.st_mode))
            out.write(data)
        os.replace(scratch, file)
    finally:
        scratch.unlink(missing_ok=True)
