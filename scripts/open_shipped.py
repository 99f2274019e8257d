"""The checkpoint of release 0.1: trained on UD English EWT, distilled from two models of its kind; beside an LSTM.

mkdir -p runs/before && git archive 1388bf2 som/checkpoint | tar -x -C runs/before
python scripts/open_shipped.py

The first teacher is the checkpoint that came before it: the first seed of SOM, in half precision. The LSTM, of the
same size, has its own settings: the learning rate that is best in open_language_models.py, more dropout of embeddings
and outputs than there, the SOM's word dropout, and the better of two weight decays, by the perplexity on the
validation split. It has no teachers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import record
import shared_rows as shared
from lab import Lab, make_parser

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
FIRST_RELEASE = "before/som/checkpoint"  # among the runs
TAUGHT = {**RECIPE, "epochs": 4}  # more, after those of the model that it begins with
LSTM_RECIPE = {**shared.OWN, "batch_size": 64, "embedding_dropout": 0.2, "output_dropout": 0.5}
LSTMS = {f"shipped LSTM {decay}": {"epochs": 10, "weight_decay": decay} for decay in (0.3, 1.0)}  # the better one


def train_som(lab: Lab, seed: int) -> Path:
    return record.train_or_resume(lab, shared.prepare_ewt(lab), "shipped SOM", seed, **RECIPE)


def find_start(lab: Lab) -> str:
    """What the others begin with; a trial has words and sizes of its own."""
    return str(train_som(lab, 0) if lab.sizes else record.check_file(lab.runs / FIRST_RELEASE / "config.json").parent)


def train_further(lab: Lab, seed: int) -> Path:
    data = shared.prepare_ewt(lab)
    return record.train_or_resume(lab, data, "further SOM", seed, **TAUGHT, start=find_start(lab))


def train_with_teachers(lab: Lab, seed: int) -> Path:
    data, start = shared.prepare_ewt(lab), find_start(lab)
    teachers = [start, str(train_som(lab, 1))]
    return record.train_or_resume(lab, data, "taught SOM", seed, **TAUGHT, start=start, teachers=teachers)


SOMS = {
    "SOM": (train_som, "marginal", RECIPE),
    "SOM, beam": (train_som, "beam", RECIPE),
    "SOM, four more epochs": (train_further, "marginal", TAUGHT),  # and no teachers
    "SOM, taught": (train_with_teachers, "marginal", TAUGHT),
    "SOM, taught, beam": (train_with_teachers, "beam", TAUGHT),
}


def measure_som(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    train, method, _ = SOMS[name]
    return record.evaluate_run(train(lab, seed), record.select_held_out(shared.find_ewt(lab)), method)


def measure_lstm(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    rate = shared.find_best_rate(lab, name)
    runs = {one: train_lstm(lab, one, rate, seed) for one in LSTMS}
    tried = {one: record.validation_ppl(run) for one, run in runs.items()}
    return {"tried": tried, **shared.evaluate_neural_run(lab, runs[min(tried, key=tried.__getitem__)], name)}


def train_lstm(lab: Lab, name: str, rate: float, seed: int) -> Path:
    settings = {**RECIPE, **LSTM_RECIPE, "learning_rate": rate, **LSTMS[name]}
    return record.train_or_resume(lab, shared.prepare_ewt(lab), name, seed, lstm, **settings)


def rows(lab: Lab) -> record.TableRows:
    soms = {
        name: record.TableRow(partial(measure_som, lab, name), recipe, recipe) for name, (_, _, recipe) in SOMS.items()
    }
    settings, training = {**LSTM_RECIPE, "best of": LSTMS}, {**RECIPE, **LSTM_RECIPE}
    by_grid = ("learning_rate", "weight_decay", "epochs")
    lstms = {"LSTM": record.TableRow(partial(measure_lstm, lab, "LSTM"), settings, training, by_grid=by_grid)}
    return {**soms, **lstms}


def run(argv: Sequence[str] | None = None) -> int:
    return record.run_table(rows, __file__, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
