"""How a result came about: the versions of what made it, and that of the project where it is a clone."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PACKAGES = ("som-lm", "torch", "transformers", "datasets", "tokenizers", "accelerate")


def provenance() -> dict[str, str | None | dict[str, str]]:
    return {"commit": commit(), "versions": versions()}


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def commit() -> str | None:
    """The version of the project, which ends in -dirty where files other than results differ; None outside of git."""
    if git("ls-files", "--error-unmatch", "configuration_som.py").returncode:
        return None  # installed, perhaps within somebody else's repository
    head = git("rev-parse", "--verify", "--quiet", "HEAD").stdout.strip()
    changed = git("diff", "--quiet", "HEAD", "--", ".", ":!results", ":!docs").returncode
    return f"{head}{'-dirty' * bool(changed)}" if head else None


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True)
    except FileNotFoundError:  # no git here
        return subprocess.CompletedProcess(arguments, returncode=127, stdout="")
