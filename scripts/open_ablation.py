"""Open table 1: what each part of the model is worth, on UD English EWT.

python scripts/open_ablation.py
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import record
from lab import Lab, make_parser
from shared_rows import ABLATION, Variant, find_ewt, prepare_ewt


def measure(lab: Lab, variant: Variant, seed: int) -> dict[str, Any]:
    data = prepare_ewt(lab, variant.tokenizer)
    run = record.train_or_resume(lab, data, variant.model, seed, **variant.settings)
    return record.evaluate_run(run, record.select_held_out(find_ewt(lab)), variant.method, variant.gold)


def make_row(lab: Lab, variant: Variant) -> record.TableRow:
    read = {"method": variant.method, "gold": variant.gold, "tokenizer": variant.tokenizer}
    return record.TableRow(
        partial(measure, lab, variant), {**variant.settings, **read}, variant.settings, seeds=variant.seeds
    )


def rows(lab: Lab) -> record.TableRows:
    return {name: make_row(lab, variant) for name, variant in ABLATION.items()}


def run(argv: Sequence[str] | None = None) -> int:
    return record.run_table(rows, __file__, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
