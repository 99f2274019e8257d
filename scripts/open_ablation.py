"""Open table 1: what each part of the model is worth, on UD English EWT.

python scripts/open_ablation.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import record


@dataclass(frozen=True)
class Row:
    """A trained model, and how it is read."""

    model: str
    settings: dict[str, Any] = field(default_factory=dict)  # of `som train`
    method: str = "greedy"
    gold: bool = False  # the trees are given
    tokenizer: str = "word"
    seeds: tuple[int, ...] = (0,)


THREE = (0, 1, 2)
MODELS: dict[str, dict[str, Any]] = {  # what the other tables take up
    "SOM": {},
    "SOM, oracle's next attachment": {"next_attachment": "oracle"},
    "SOM, marginal next attachment": {"next_attachment": "marginal"},
    "dSOM": {"dsom": True},
    "left-branching": {"oracle": "left_branching"},
}
BARE: dict[str, Any] = {"prediction_network": False}
ROWS = {
    "SOM": Row("SOM", seeds=THREE),
    "− prediction network": Row("no prediction network", BARE, seeds=THREE),
    "− prediction network − LM loss": Row("no LM loss", {**BARE, "lm_loss_weight": 0.0}, seeds=THREE),
    "static oracle": Row("static oracle", {"oracle": "static"}),
    "left-branching oracle": Row("left-branching", MODELS["left-branching"], seeds=THREE),
    "oracle as printed": Row("oracle as printed", {"oracle": "dynamic_paper"}),
    "gold trees at inference": Row("SOM", gold=True, seeds=THREE),
    "dSOM": Row("dSOM", MODELS["dSOM"], seeds=THREE),
    "bpe:8000": Row("SOM", tokenizer="bpe:8000"),
    **{
        f"next attachment {name}, {method}": Row(model, MODELS[model], method, seeds=THREE)
        for name, model in zip(("sampled", "oracle", "marginal"), MODELS, strict=False)
        for method in ("greedy", "marginal", "particles")
        if (name, method) != ("sampled", "greedy")  # the first row
    },
}


def ewt(args: argparse.Namespace) -> dict[str, record.Files]:
    """The treebank by split."""
    names = {"train": "train", "validation": "dev", "test": "test"}
    return {split: record.treebank(args, f"ud/en_ewt-ud-{name}.conllu.gz") for split, name in names.items()}


def ewt_data(args: argparse.Namespace, tokenizer: str = "word") -> Path:
    return record.prepared(args, f"ewt-{tokenizer.replace(':', '')}", ewt(args), tokenizer=tokenizer)


def measure(args: argparse.Namespace, row: Row, seed: int) -> dict[str, Any]:
    run = record.trained(args, ewt_data(args, row.tokenizer), row.model, seed, **row.settings)
    return record.measured(run, record.held_out(ewt(args)), row.method, row.gold)


def main(args: argparse.Namespace) -> None:
    for name in record.wanted(args, ROWS):
        row = ROWS[name]
        settings = {**row.settings, "method": row.method, "gold": row.gold, "tokenizer": row.tokenizer}
        for seed in args.seeds or row.seeds:
            record.record(args, name, seed, settings, partial(measure, args, row, seed))


def run(argv: Sequence[str] | None = None) -> int:
    return record.run(main, record.flags(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
