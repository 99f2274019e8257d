"""A report as one HTML file that needs nothing else: tables, trees and curves, pictures as SVG in the page itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse } th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child { text-align: left } figure { margin: 1rem 0; overflow-x: auto } svg { max-width: 100% }
figcaption, .note { color: #666 }
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% for section in sections %}
<h2>{{ section.title }}</h2>
{% if section.text %}<p>{{ section.text }}</p>{% endif %}
{% for name, cells in section.table.items() %}
{% if loop.first %}<table><tr><th></th>{% for column in cells %}<th>{{ column }}</th>{% endfor %}</tr>{% endif %}
<tr><th>{{ name }}</th>{% for cell in cells.values() %}<td>{{ cell }}</td>{% endfor %}</tr>
{% if loop.last %}</table>{% endif %}
{% endfor %}
{% for caption, picture in section.pictures.items() %}
<figure><figcaption>{{ caption }}</figcaption>{{ picture | safe }}</figure>
{% endfor %}
{% endfor %}
</body>
</html>
"""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, each part if there is one."""

    title: str
    text: str = ""
    table: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # cells by row and column
    pictures: Mapping[str, str] = field(default_factory=dict)  # SVG by caption


def html(title: str, sections: Sequence[Section]) -> str:
    """The page; whatever is not a picture is escaped.

    >>> "<td>&lt;s&gt;</td>" in html("Words", [Section("Special", table={"first": {"word": "<s>"}})])
    True
    """
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(TEMPLATE).render(title=title, sections=sections)


def svg(figure: Figure) -> str:
    """A figure as an SVG element, with its text as text, the same for the same figure."""
    from matplotlib import rc_context

    file = StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "som"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return re.sub(r"\A.*?(?=<svg)", "", file.getvalue(), flags=re.DOTALL)


def learning_curves(log: Path) -> Figure:
    """Loss by step, and perplexity and the parsers' accuracy on the validation split by epoch, of a run's log."""
    from matplotlib.figure import Figure

    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    figure = Figure(figsize=(10, 2.8), layout="constrained")
    loss, perplexity, accuracy = figure.subplots(1, 3)
    curve(loss, entries, "loss", "training loss")
    curve(perplexity, entries, "eval_ppl", "validation perplexity")
    curve(accuracy, entries, "eval_p_acc", "p acc")
    curve(accuracy, entries, "eval_p_next_acc", "p' acc")
    accuracy.legend(frameon=False)
    accuracy.set_title("validation, decisions as the oracle's", fontsize=10)
    for axes in (loss, perplexity, accuracy):
        axes.set_xlabel("epoch")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def curve(axes: Axes, entries: Sequence[Mapping[str, float]], name: str, title: str) -> None:
    """One measure over the epochs, where it was logged."""
    points = [(entry["epoch"], entry[name]) for entry in entries if name in entry]
    if points:
        axes.plot(*zip(*points, strict=True), "o-", markersize=3, label=title)
        axes.set_title(title, fontsize=10)
