"""The page that shows a SOM reading: one HTML file with its data, styles and code inside, which fetches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from som.inference import align
from som.view.trace import Trace

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
)


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
        "columns": align(*([word.surprisal.word for word in trace.words] for trace in traces)),
    }
    title = " / ".join(" ".join(word.surprisal.word for word in trace.words[:-1]) for trace in traces)
    return TEMPLATES.get_template("page.html").render(title=title, data=data)
