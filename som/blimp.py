"""BLiMP: minimal pairs, and how often the good sentence of a pair is the more probable one."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from som.metrics import Accuracy


@dataclass(frozen=True)
class Pair:
    """Two sentences, and the paradigm, phenomenon and field of linguistics that their contrast is about."""

    paradigm: str
    phenomenon: str
    field: str
    good: str
    bad: str


NAMES = {"UID": "uid"}  # the files of single paradigms and their collections spell it differently
FIELDS = {"syntax/semantics": "syntax_semantics"}  # one paradigm spells it differently


def read_blimp(path: str | Path) -> Iterator[Pair]:
    """The pairs of a file of JSON lines, plain or .gz."""
    path = Path(path)
    opened = gzip.open if path.suffix == ".gz" else open
    number = 1
    try:
        with opened(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield read_pair(line)
                number += 1
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}:{number}: {error}") from error
    if number == 1:
        raise ValueError(f"{path}:1: expected pairs of sentences, found an empty file")


def read_pair(line: str) -> Pair:
    """One pair from its line."""
    try:
        data: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected a pair in JSON, got {line.strip()[:40]!r}") from error
    if isinstance(data, dict):
        data = {NAMES.get(name, name): value for name, value in data.items()}
    names = ("uid", "linguistics_term", "field", "sentence_good", "sentence_bad")
    for name in names:
        if not isinstance(data, dict) or not isinstance(data.get(name), str):
            raise ValueError(f"expected an object with the texts {', '.join(names)}; {name} is missing")
    paradigm, phenomenon, field, good, bad = (data[name] for name in names)
    return Pair(paradigm, phenomenon, FIELDS.get(field, field), good, bad)


@dataclass(frozen=True)
class BlimpReport:
    """Pairs judged rightly, by paradigm, phenomenon and field."""

    paradigms: dict[str, Accuracy]
    phenomena: dict[str, Accuracy]
    fields: dict[str, Accuracy]
    ties: int = 0  # pairs of equal likelihood, judged wrongly: a vocabulary may not tell their sentences apart

    @property
    def pairs(self) -> int:
        return sum(accuracy.total for accuracy in self.paradigms.values())

    @property
    def mean(self) -> float | None:
        """The mean over paradigms."""
        scores = [accuracy.value for accuracy in self.paradigms.values() if accuracy.value is not None]
        return fmean(scores) if scores else None

    def to_json(self) -> dict[str, Any]:
        """The shares as plain data."""
        groups = {"paradigms": self.paradigms, "phenomena": self.phenomena, "fields": self.fields}
        shares = {group: {name: count.value for name, count in counts.items()} for group, counts in groups.items()}
        return {"mean": self.mean, "pairs": self.pairs, "ties": self.ties, **shares}


def score_blimp(pairs: Sequence[Pair], log_likelihoods: Sequence[tuple[float, float]]) -> BlimpReport:
    """Judge pairs by the log-likelihoods of their good and bad sentence; equal ones are judged wrongly.

    >>> pair = Pair("anaphor", "agreement", "morphology", "He sees himself.", "He sees herself.")
    >>> score_blimp([pair, pair], [(-20.0, -21.0), (-20.0, -20.0)]).mean
    0.5
    """
    report = BlimpReport({}, {}, {}, ties=sum(good == bad for good, bad in log_likelihoods))
    for pair, (good, bad) in zip(pairs, log_likelihoods, strict=True):
        judged = Accuracy(int(good > bad), 1)
        for counts, name in (
            (report.paradigms, pair.paradigm),
            (report.phenomena, pair.phenomenon),
            (report.fields, pair.field),
        ):
            counts[name] = counts.get(name, Accuracy()) + judged
    return report
