"""Open table 2: SOM beside an LSTM and a GPT-2 of about its size and n-grams, all trained on UD English EWT.

python scripts/open_language_models.py

The LSTM and the GPT-2 get the best of a few learning rates, the n-gram model the best of a few orders, by the
perplexity on the validation split.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import record
from datasets import load_from_disk
from open_ablation import MODELS, THREE, ewt, ewt_data

from modeling_som.tokenization_som import load_tokenizer
from som.baselines import BUILDERS, KneserNey, evaluate_words, load_baseline, score_neural

SOMS = {
    "SOM": ("SOM", "greedy"),
    "SOM, marginal": ("SOM", "marginal"),
    "SOM, oracle's next attachment, marginal": ("SOM, oracle's next attachment", "marginal"),
}
NEURAL = {"LSTM": "lstm", "GPT-2": "gpt2"}
RATES = {"LSTM": (1e-3, 3e-3, 1e-2), "GPT-2": (3e-4, 1e-3, 3e-3)}
OWN = {"beta1": 0.9, "dropout": 0.2}  # momentum is welcome, as no path changes; dropout stands in fewer places
ORDERS = (2, 3, 4, 5, 6)


def measure_som(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    model, method = SOMS[name]
    run = record.trained(args, ewt_data(args), model, seed, **MODELS[model])
    return record.measured(run, record.held_out(ewt(args)), method)


def neural_run(args: argparse.Namespace, name: str, seed: int, rate: float) -> Path:
    settings = {**OWN, "learning_rate": rate}
    return record.trained(args, ewt_data(args), f"{name} {rate:g}", seed, BUILDERS[NEURAL[name]], **settings)


def best_rate(args: argparse.Namespace, name: str) -> float:
    """The learning rate that is best for the first seed, as its result says or as its trainings show."""
    file = record.result_file(args, "open_language_models", name, THREE[0])
    if file.is_file():
        result = json.loads(file.read_text(encoding="utf-8"))
        if result["settings"] == args.given:
            return result["training"]["learning_rate"]
    return min(RATES[name], key=lambda rate: record.validation_ppl(neural_run(args, name, THREE[0], rate)))


def best_run(args: argparse.Namespace, name: str, seed: int) -> Path:
    return neural_run(args, name, seed, best_rate(args, name))


def measure_neural(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    return measured(args, best_run(args, name, seed), name)


def measured(args: argparse.Namespace, run: Path, name: str) -> dict[str, Any]:
    model, tokenizer = load_baseline(run)
    about = record.about_run(run, model.num_parameters())
    return {**about, "evaluations": word_evaluations(args, partial(score_neural, model), tokenizer, name)}


def measure_ngrams(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    tokenizer = load_tokenizer(ewt_data(args))
    sentences = list(load_from_disk(str(ewt_data(args)))["train"]["input_ids"])
    tried = {
        order: word_evaluations(args, KneserNey(sentences, len(tokenizer), order), tokenizer, f"{order}-gram")
        for order in ORDERS
    }
    perplexities = {order: tried[order]["validation"]["measures"]["ppl"] for order in tried}
    order = min(perplexities, key=perplexities.__getitem__)
    return {"order": order, "tried": perplexities, "evaluations": tried[order]}


def word_evaluations(args: argparse.Namespace, scorer: Any, tokenizer: Any, method: str) -> dict[str, Any]:
    return {
        split: evaluate_words(scorer, tokenizer, record.examples(files), method, split).to_json()
        for split, files in record.held_out(ewt(args)).items()
    }


ROWS = {**dict.fromkeys(SOMS, measure_som), **dict.fromkeys(NEURAL, measure_neural), "Kneser-Ney": measure_ngrams}


def main(args: argparse.Namespace) -> None:
    for name in record.wanted(args, ROWS):
        for seed in args.seeds or (THREE if name != "Kneser-Ney" else THREE[:1]):
            record.record(args, name, seed, {}, partial(ROWS[name], args, name, seed))


def run(argv: Sequence[str] | None = None) -> int:
    return record.run(main, record.flags(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
