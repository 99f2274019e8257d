"""Regions: what stood between spaces on the screen of an experiment ("owners." is one), or what an experimenter says.

A region has the columns of a word. Most are sums over its words; the others are those of the word that says it best.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from modeling_som.surprisal_som import WordSurprisal

TextSpan = tuple[int, int]  # where a region begins and ends in its text
SUMS = ("surprisal", "structural", "lexical", "closed", "opened", "entropy_reduction")


def region_rows(rows: Sequence[WordSurprisal], text: str, spans: Sequence[TextSpan]) -> list[WordSurprisal]:
    """The regions of a text in place of its words; every word must lie in one region, and fill it with the others.

    EOS, where it is asked for, stays on its own.
    """
    words = [row for row in rows if row.length]
    regions = [
        region(inside, number, text[start:end], (start, end))
        for number, ((start, end), inside) in enumerate(zip(spans, aligned(words, text, spans), strict=True), start=1)
    ]
    return [*regions, *(replace(row, number=len(spans) + 1) for row in rows if not row.length)]


def aligned(words: Sequence[WordSurprisal], text: str, spans: Sequence[TextSpan]) -> list[list[WordSurprisal]]:
    """The words of each region, or an error."""
    starts = [start for start, _ in spans]
    found: list[list[WordSurprisal]] = [[] for _ in spans]
    for word in words:
        place = bisect(starts, word.start) - 1
        if place < 0 or word.end > spans[place][1]:
            raise ValueError(f"the word {word.word!r} lies in no region, or in two")
        found[place].append(word)
    for number, ((start, end), inside) in enumerate(zip(spans, found, strict=True), start=1):
        if without_spaces("".join(word.word for word in inside)) != without_spaces(text[start:end]):
            raise ValueError(f"region {number}, {text[start:end]!r}, is not made of whole words")
    return found


def without_spaces(text: str) -> str:
    return "".join(text.split())


def region(rows: Sequence[WordSurprisal], number: int, text: str, span: TextSpan) -> WordSurprisal:
    """The words of a region as one: what is not named here is the last word's."""
    first, last = rows[0], rows[-1]
    sums: dict[str, Any] = {name: total([getattr(row, name) for row in rows]) for name in SUMS}
    return replace(
        last,
        number=number,
        word=text,
        start=span[0],
        end=span[1],
        tokens=" ".join(row.tokens for row in rows),
        **sums,
        next_entropy=first.next_entropy,
        entropy_before=first.entropy_before,
        unknown=None if last.unknown is None else any(row.unknown for row in rows),
        length=len(text),
        log_frequency=log_frequency(rows),
    )


def total(values: Sequence[float | None]) -> float | None:
    """The sum; None where one is not known.

    >>> total([1.5, 2.0]), total([1.5, None])
    (3.5, None)
    """
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def log_frequency(rows: Sequence[WordSurprisal]) -> float | None:
    """Of the rarest word that has a letter or digit; of all words if none has."""
    spoken = [row for row in rows if any(map(str.isalnum, row.word))] or rows
    known = [row.log_frequency for row in spoken if row.log_frequency is not None]
    return min(known, default=None)
