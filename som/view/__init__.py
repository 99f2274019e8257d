"""Pages to look at: reports in HTML."""

from som.view.report import Section, html, learning_curves, svg

__all__ = [
    "Section",
    "html",
    "learning_curves",
    "svg",
]
