"""The page that shows a SOM reading: one HTML file with its data, styles and code inside, which fetches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from som.view.trace import Trace

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
Column = tuple[int | None, ...]  # the word of each sentence, counted from 0, or None where it has none


def page(traces: Sequence[Trace], model_name: str) -> str:
    """The page of one sentence, or of two that are compared.

    Words reach the page as JSON in which `<`, `>`, `&` and line separators are escaped, and its code writes them as
    text, so no word becomes markup.
    """
    if not 1 <= len(traces) <= 2:
        raise ValueError(f"a page shows one sentence or two, got {len(traces)}")
    data = {
        "about": f"{model_name}, method {traces[0].method}",
        "sentences": [trace.to_dict() for trace in traces],
        "columns": columns(*([word.surprisal.word for word in trace.words] for trace in traces)),
    }
    title = " / ".join(" ".join(word.surprisal.word for word in trace.words[:-1]) for trace in traces)
    return TEMPLATES.get_template("page.html").render(title=title, data=data)


def columns(first: Sequence[str], second: Sequence[str] | None = None) -> list[Column]:
    """Which words stand above each other: the same ones, and between them others in their order.

    >>> columns("the horse raced fell".split(), "The horse that was fell".split())
    [(0, 0), (1, 1), (2, 2), (None, 3), (3, 4)]
    """
    if second is None:
        return [(place,) for place in range(len(first))]
    a, b = ([word.casefold() for word in words] for words in (first, second))
    matches = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    return [pair for _, i, j, k, m in matches for pair in zip_longest(range(i, j), range(k, m))]
