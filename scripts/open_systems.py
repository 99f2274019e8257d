"""Every system of the paper's tables, trained on UD English EWT with one budget, and measured alike.

python scripts/open_systems.py --only "LSTM" "ON-LSTM"

All have the same vocabulary, data, hidden size and number of epochs. Each gets the better of a few learning rates, by
the validation split after two epochs. Unsupervised systems never see a tree; their trees are scored against the
treebank's all the same. SOM has its row in this table too, without labels; so have n-grams of the best order, and
trees that need no model.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import record
import shared_rows as shared
from lab import Lab, make_parser

from modeling_som import SOMForCausalLM
from som.baselines import SYSTEMS, tree_baselines
from som.bench import has_bf16

# beside that of all open tables
BUDGET: dict[str, Any] = {"bf16": has_bf16(), "save_steps": 400, "tree_tags": []}
RATES = (1e-3, 4e-3)
TRIAL_EPOCHS = 2


@dataclass(frozen=True)
class Entry:
    """A system, how it is trained beyond its own defaults, and how it is read."""

    system: str
    settings: dict[str, Any] = field(default_factory=dict)
    start: str = ""  # the row whose model its training begins with
    rates: Sequence[float] = RATES
    model: str = ""  # the row whose model it reads, in another way
    beam: int = 0  # another than that of its system


ENTRIES = {
    "SOM": Entry("som", {"next_attachment": "oracle"}),
    "SOM as in the paper": Entry("som"),
    "LSTM": Entry("lstm", {"dropout": 0.2}),
    "GPT-2": Entry("gpt2"),
    "ON-LSTM": Entry("onlstm", {"dropout": 0.2}),
    "ONLSTM-SYD": Entry("onlstm-syd", {"dropout": 0.2}),
    "PRPN": Entry("prpn"),
    "Ordered Memory": Entry("om"),
    "RNNG": Entry("rnng"),
    "RNNG, one tree": Entry("rnng", model="RNNG", beam=1),
    "RNNG → URNNG": Entry("urnng", start="RNNG", rates=(4e-4, 1e-3)),  # what is learnt is to be kept
    "URNNG": Entry("urnng"),
    "shift-reduce": Entry("shift-reduce"),
    "shift-reduce with LM": Entry("shift-reduce-lm"),
}


# Models


def row_settings(name: str) -> dict[str, Any]:
    """All that a row asks of its training, but the learning rate."""
    entry = ENTRIES[name]
    return {**BUDGET, **SYSTEMS[entry.system].defaults, **entry.settings}


def train_row(lab: Lab, name: str, seed: int, rate: float, **trial: Any) -> Path:
    """The run of a row, after that of the row it begins with; this may take an hour."""
    entry = ENTRIES[name]
    system, settings = SYSTEMS[entry.system], {**row_settings(name), "learning_rate": rate, **trial}
    if entry.start:
        settings["start"] = str(train_best(lab, entry.start, seed))
    title = f"{name} {rate:g}{' trial' if trial else ''}"
    about = {"system": system.name, "starts_with": system.starts_with or SOMForCausalLM}
    return record.train_or_resume(lab, shared.prepare_ewt(lab), title, seed, system.build, **about, **settings)


def train_best(lab: Lab, name: str, seed: int) -> Path:
    """The run of a row with the better learning rate of two short trials."""
    return train_row(lab, name, seed, min(ENTRIES[name].rates, key=lambda rate: trial_loss(lab, name, rate)))


def trial_loss(lab: Lab, name: str, rate: float) -> float:
    """What a short training has on the validation split: its perplexity, or of a mere parser its errors."""
    run = train_row(lab, name, 0, rate, epochs=TRIAL_EPOCHS)
    validation = record.read_run(run)["best"]
    return 1 - validation["p_acc"] if row_settings(name).get("lm_loss_weight") == 0 else validation["ppl"]


# Measures


def measure(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    entry = ENTRIES[name]
    run, system = train_best(lab, entry.model or name, seed), SYSTEMS[entry.system]
    system = system.with_beam(entry.beam) if entry.beam else system
    treebanks, words = record.select_held_out(shared.find_ewt(lab)), row_settings(name).get("lm_loss_weight") != 0
    return shared.evaluate_system(lab, run, shared.prepare_ewt(lab), system, treebanks, words)


def measure_ngrams(lab: Lab, seed: int) -> dict[str, Any]:
    treebanks = record.select_held_out(shared.find_ewt(lab))
    return shared.measure_ngrams(lab, shared.prepare_ewt(lab), treebanks, shared.ORDERS, blimp=False)


def measure_trees(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    return record.evaluate_tree_baseline(name, seed, record.select_held_out(shared.find_ewt(lab)))


def make_row(lab: Lab, name: str) -> record.TableRow:
    settings = row_settings(name)
    return record.TableRow(partial(measure, lab, name), settings, settings, by_grid=("learning_rate",))


def rows(lab: Lab) -> record.TableRows:
    trained = {name: make_row(lab, name) for name in ENTRIES}
    trees = {name: record.TableRow(partial(measure_trees, lab, name)) for name in tree_baselines()}
    return {**trained, "Kneser-Ney": record.TableRow(partial(measure_ngrams, lab)), **trees}


def run(argv: Sequence[str] | None = None) -> int:
    return record.run_table(rows, __file__, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
