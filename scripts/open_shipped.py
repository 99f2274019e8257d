"""The checkpoint that ships, trained on UD English EWT and then taught by two models of its kind, beside an LSTM.

mkdir -p runs/before && git archive 1388bf2 som/checkpoint | tar -x -C runs/before
python scripts/open_shipped.py

The first teacher is the checkpoint that shipped before: the first seed of SOM, in half precision. The LSTM, of the
same size, has its own settings: the learning rate that is best in open_language_models.py, more dropout of embeddings
and outputs than there, the SOM's word dropout, and the better of two weight decays, by the perplexity on the
validation split. It has no teachers.
`bash scripts/shipped_checkpoint.sh` makes the package's checkpoint of the SOM that was taught.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import open_language_models as language_models
import record
from open_ablation import ewt, ewt_data

from som.baselines import lstm

RECIPE: dict[str, Any] = {  # larger than the models of the tables and trained longer
    "next_attachment": "oracle",
    "hidden_size": 224,
    "batch_size": 32,
    "epochs": 14,
    "learning_rate": 1e-3,
    "weight_decay": 0.6,
    "word_dropout": 1.0,
    "embedding_dropout": 0.1,
    "dropout": 0.2,
    "output_dropout": 0.4,
}
BEFORE = "before/som/checkpoint"  # among the runs
TAUGHT = {**RECIPE, "epochs": 4}  # more, after those of the model that it begins with
LSTM_RECIPE = {**language_models.OWN, "batch_size": 64, "embedding_dropout": 0.2, "output_dropout": 0.5}
LSTMS = {f"shipped LSTM {decay}": {"epochs": 10, "weight_decay": decay} for decay in (0.3, 1.0)}  # the better one


def som_run(args: argparse.Namespace, seed: int) -> Path:
    return record.trained(args, ewt_data(args), "shipped SOM", seed, **RECIPE)


def start_of(args: argparse.Namespace) -> str:
    """What the others begin with; a trial has words and sizes of its own."""
    return str(som_run(args, 0) if args.given else record.existing(args.runs / BEFORE / "config.json").parent)


def further_run(args: argparse.Namespace, seed: int) -> Path:
    return record.trained(args, ewt_data(args), "further SOM", seed, **TAUGHT, start=start_of(args))


def taught_run(args: argparse.Namespace, seed: int) -> Path:
    start = start_of(args)
    teachers = [start, str(som_run(args, 1))]
    return record.trained(args, ewt_data(args), "taught SOM", seed, **TAUGHT, start=start, teachers=teachers)


SOMS = {
    "SOM": (som_run, "marginal", RECIPE),
    "SOM, beam": (som_run, "beam", RECIPE),
    "SOM, four more epochs": (further_run, "marginal", TAUGHT),  # and no teachers
    "SOM, taught": (taught_run, "marginal", TAUGHT),
    "SOM, taught, beam": (taught_run, "beam", TAUGHT),
}


def measure_som(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    run, method, _ = SOMS[name]
    return record.measured(run(args, seed), record.held_out(ewt(args)), method)


def measure_lstm(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    rate = language_models.best_rate(args, name)
    runs = {one: lstm_run(args, one, rate, seed) for one in LSTMS}
    tried = {one: record.validation_ppl(run) for one, run in runs.items()}
    return {"tried": tried, **language_models.measured(args, runs[min(tried, key=tried.__getitem__)], name)}


def lstm_run(args: argparse.Namespace, name: str, rate: float, seed: int) -> Path:
    settings = {**RECIPE, **LSTM_RECIPE, "learning_rate": rate, **LSTMS[name]}
    return record.trained(args, ewt_data(args), name, seed, lstm, **settings)


ROWS = {
    **{name: (measure_som, settings) for name, (_, _, settings) in SOMS.items()},
    "LSTM": (measure_lstm, {**LSTM_RECIPE, "best of": LSTMS}),
}


def main(args: argparse.Namespace) -> None:
    for name in record.wanted(args, ROWS):
        measure, settings = ROWS[name]
        for seed in args.seeds or (0,):
            record.record(args, name, seed, settings, partial(measure, args, name, seed))


def run(argv: Sequence[str] | None = None) -> int:
    return record.run(main, record.flags(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
