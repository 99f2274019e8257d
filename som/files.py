"""Files that are never seen half-written."""

from __future__ import annotations

from pathlib import Path


def write_whole(file: str | Path, content: str | bytes) -> None:
    """Write a file, whole or not at all; a former one stays until then."""
    scratch = Path(file).with_name(f".{Path(file).name}.new")
    try:
        scratch.write_bytes(content.encode() if isinstance(content, str) else content)
        scratch.replace(file)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
