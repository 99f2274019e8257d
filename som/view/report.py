"""A report as one HTML file that needs nothing else: tables, trees and curves, pictures as SVG in the page itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from som.view.page import TEMPLATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Sequence[tuple[str, Mapping[str, str]]]  # names, and cells by column
GREY, WARM, COLD = "#7c828d", "#c9662c", "#3d7cc4"  # to be seen on light and on dark


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, each part if there is one."""

    title: str
    text: str = ""
    table: Rows = ()
    fold: str = ""  # what stands for the table and the terms until they are unfolded
    pictures: Mapping[str, str] = field(default_factory=dict)  # SVG by caption
    terms: Mapping[str, str] = field(default_factory=dict)  # what they mean


def html(title: str, sections: Sequence[Section]) -> str:
    """The page; whatever is not a picture is escaped.

    >>> "<td>&lt;s&gt;</td>" in html("Words", [Section("Special", table=[("first", {"word": "<s>"})])])
    True
    """
    return TEMPLATES.get_template("report.html").render(title=title, sections=sections)


def frame(title: str, first: Section, *last: Section) -> tuple[str, str]:
    """A page's beginning with its first section, and its last sections and end: others can be written between them as
    they come."""
    before, end, after = html(title, [first]).rpartition("</main>")
    return before, "\n".join([*map(section_html, last), f"{end}{after}\n"])


def section_html(section: Section) -> str:
    return TEMPLATES.get_template("section.html").render(section=section)


def svg(figure: Figure, transparent: bool = True) -> str:
    """A figure as an SVG element, its text as text, the same for the same figure.

    A page that may be dark and gives the figure no colours wants a background: `transparent=False`.
    """
    from matplotlib import rc_context

    file = StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "som"}):
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=transparent)
    return re.sub(r"\A.*?(?=<svg)", "", file.getvalue(), flags=re.DOTALL)


def learning_curves(log: Path) -> Figure:
    """Loss by step, and perplexity and the parsers' accuracy on the validation split by epoch, of a run's log."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    figure = Figure(figsize=(10, 2.8), layout="constrained")
    loss, perplexity, accuracy = figure.subplots(1, 3)
    curve(loss, entries, "loss", "training loss", COLD)
    curve(perplexity, entries, "eval_ppl", "validation perplexity", COLD)
    curve(accuracy, entries, "eval_p_acc", "p acc", WARM, scale=100)
    curve(accuracy, entries, "eval_p_next_acc", "p' acc", COLD, scale=100)
    accuracy.legend(frameon=False, labelcolor=GREY)
    accuracy.set_title("validation, decisions as the oracle's", fontsize=10, color=GREY)
    for axes, unit in ((loss, "nats"), (perplexity, ""), (accuracy, "per cent")):
        axes.set_xlabel("epoch", color=GREY)
        axes.set_ylabel(unit, color=GREY)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.tick_params(colors=GREY)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GREY)
    return figure


def curve(
    axes: Axes, entries: Sequence[Mapping[str, float]], name: str, title: str, colour: str, scale: float = 1
) -> None:
    """One measure over the epochs, where it was logged."""
    points = [(entry["epoch"], scale * entry[name]) for entry in entries if name in entry]
    if points:
        axes.plot(*zip(*points, strict=True), "o-", color=colour, markersize=3, label=title)
        axes.set_title(title, fontsize=10, color=GREY)
