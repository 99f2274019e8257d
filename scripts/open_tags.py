"""Open table of labelled trees: what tags cost and give, on UD English EWT, and a model trained jointly on EWT alone.

python scripts/open_tags.py

The first three rows differ only in the tags: none, tags whose loss trains the whole model, and tags whose loss trains
their classifier alone. "joint" is the recipe of open_shipped.py, without teachers, with tags; then come that model
trained for four more epochs, in which the learning rate begins high once more, and a larger one that drops more words
and whose weights are averaged over its steps.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import open_shipped
import record
import shared_rows as shared
from lab import Lab, make_parser

from som.bench import has_bf16

FAST: dict[str, Any] = {"next_attachment": "oracle", "bf16": has_bf16(), "save_steps": 200, "report_to": ["none"]}
WIDER = {"hidden_size": 288, "embedding_dropout": 0.2, "averaging": 0.998}
MODELS: dict[str, dict[str, Any]] = {
    "no tags": {**FAST, "tree_tags": []},
    "tags": FAST,
    "tags, no gradient into the cells": {**FAST, "tag_gradient": False},
    "joint": {**open_shipped.RECIPE, **FAST},
    "joint, four more epochs": {**open_shipped.TAUGHT, **FAST},
    "joint, wider, averaged": {**open_shipped.RECIPE, **FAST, **WIDER},
}
STARTS = {"joint, four more epochs": "joint"}  # the row whose model another one begins with


def train_row(lab: Lab, name: str, seed: int) -> Path:
    start: dict[str, Any] = {"start": str(train_row(lab, STARTS[name], seed))} if name in STARTS else {}
    return record.train_or_resume(lab, shared.prepare_ewt(lab), name, seed, **MODELS[name], **start)


def measure(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    return record.evaluate_run(train_row(lab, name, seed), record.select_held_out(shared.find_ewt(lab)))


def rows(lab: Lab) -> record.TableRows:
    return {
        name: record.TableRow(
            partial(measure, lab, name),
            settings,
            settings,
            seeds=shared.THREE if not name.startswith("joint") else (0,),
        )
        for name, settings in MODELS.items()
    }


def run(argv: Sequence[str] | None = None) -> int:
    return record.run_table(rows, __file__, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
