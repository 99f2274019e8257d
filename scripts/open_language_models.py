"""Open table 2: SOM beside an LSTM and a GPT-2 of about its size and n-grams, all trained on UD English EWT.

python scripts/open_language_models.py

The LSTM and the GPT-2 get the best of a few learning rates, the n-gram model the best of a few orders, by the
perplexity on the validation split.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import record
import shared_rows as shared
from lab import Lab, make_parser

from modeling_som.tokenization_som import load_tokenizer

SOMS = {
    "SOM": ("SOM", "greedy"),
    "SOM, marginal": ("SOM", "marginal"),
    "SOM, oracle's next attachment, marginal": ("SOM, oracle's next attachment", "marginal"),
}


def measure_som(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    model, method = SOMS[name]
    run = record.train_or_resume(lab, shared.prepare_ewt(lab), model, seed, **shared.MODELS[model])
    return record.evaluate_run(run, record.select_held_out(shared.find_ewt(lab)), method)


def measure_neural(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    return shared.evaluate_neural_run(lab, shared.train_with_best_rate(lab, name, seed), name)


def measure_ngrams(lab: Lab, seed: int) -> dict[str, Any]:
    data, treebanks = shared.prepare_ewt(lab), record.select_held_out(shared.find_ewt(lab))
    model, tried = shared.find_best_ngrams(data, treebanks["validation"], shared.ORDERS)
    reports = shared.evaluate_on_words(model, load_tokenizer(data), treebanks, f"{model.order}-gram")
    return {"order": model.order, "tried": tried, "evaluations": record.reports_to_json(reports)}


def rows(lab: Lab) -> record.TableRows:
    settings, seeds = shared.MODELS, shared.THREE
    rate = ("learning_rate",)
    return {
        **{
            name: record.TableRow(partial(measure_som, lab, name), {}, settings[SOMS[name][0]], seeds) for name in SOMS
        },
        **{
            name: record.TableRow(partial(measure_neural, lab, name), {}, shared.OWN, seeds, rate)
            for name in shared.NEURAL
        },
        "Kneser-Ney": record.TableRow(partial(measure_ngrams, lab)),
    }


def run(argv: Sequence[str] | None = None) -> int:
    return record.run_table(rows, __file__, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
