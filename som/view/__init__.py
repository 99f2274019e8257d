"""Pages to look at: a SOM reading word by word, and reports."""

from som.view.app import SHIPPED_TITLE, app, look, serve
from som.view.page import page
from som.view.report import Section, html, learning_curves, svg
from som.view.sections import (
    SOM,
    evaluation_report,
    glossary,
    origin,
    parse_section,
    reading_frame,
    run_report,
    surprisal_section,
    trees,
)
from som.view.trace import LONGEST, Trace, trace

__all__ = [
    "LONGEST",
    "SHIPPED_TITLE",
    "SOM",
    "Section",
    "Trace",
    "app",
    "evaluation_report",
    "glossary",
    "html",
    "learning_curves",
    "look",
    "origin",
    "page",
    "parse_section",
    "reading_frame",
    "run_report",
    "serve",
    "surprisal_section",
    "svg",
    "trace",
    "trees",
]
