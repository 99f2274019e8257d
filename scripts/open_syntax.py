"""SyntaxGym and BLiMP of the main models, trained on UD English EWT.

python scripts/open_syntax.py

The LSTM and the GPT-2 are those of open_language_models.py, at their best learning rate. BLiMP, which is many times as
long as SyntaxGym and near chance for all of them, is read by the first seed of each alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import record
import shared_rows as shared
from lab import Lab, make_parser

from modeling_som.scoring_som import Method, score
from som.baselines import load_baseline, score_neural
from som.inference import load


def measure_som(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    run = record.train_or_resume(lab, shared.prepare_ewt(lab), name, seed, **shared.MODELS[name])
    model, tokenizer = load(run)
    method = Method.of(model, None).name
    reports = shared.evaluate_on_syntax(
        lab, partial(score, model, method=method), tokenizer, method, reads_blimp(seed)
    )
    return {**record.describe_run(run, model), "evaluations": record.reports_to_json(reports)}


def measure_neural(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    run = shared.train_with_best_rate(lab, name, seed)
    model, tokenizer = load_baseline(run)
    reports = shared.evaluate_on_syntax(lab, partial(score_neural, model), tokenizer, name, reads_blimp(seed))
    return {**record.describe_run(run, model), "evaluations": record.reports_to_json(reports)}


def reads_blimp(seed: int) -> bool:
    return seed == shared.THREE[0]


def rows(lab: Lab) -> record.TableRows:
    seeds, rate = shared.THREE, ("learning_rate",)
    return {
        **{name: record.TableRow(partial(measure_som, lab, name), s, s, seeds) for name, s in shared.MODELS.items()},
        **{
            name: record.TableRow(partial(measure_neural, lab, name), {}, shared.OWN, seeds, rate)
            for name in shared.NEURAL
        },
    }


def run(argv: Sequence[str] | None = None) -> int:
    return record.run_table(rows, __file__, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
