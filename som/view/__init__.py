"""Pages to look at: a SOM reading word by word, and reports."""

from som.view.app import app, look, serve
from som.view.page import page
from som.view.report import Section, html, learning_curves, svg
from som.view.trace import LONGEST, Trace, trace

__all__ = [
    "LONGEST",
    "Section",
    "Trace",
    "app",
    "html",
    "learning_curves",
    "look",
    "page",
    "serve",
    "svg",
    "trace",
]
