"""SyntaxGym and BLiMP of the main models, trained on UD English EWT.

python scripts/open_syntax.py

The LSTM and the GPT-2 are those of open_language_models.py, at their best learning rate. BLiMP, which is many times as
long as SyntaxGym and near chance for all of them, is read by the first seed of each alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import open_language_models as language_models
import record
from open_ablation import MODELS, THREE, ewt_data

from modeling_som.scoring_som import Method, score
from som.baselines import load_baseline, score_neural
from som.evaluation import Pair, Scorer, judge_pairs, judge_suites, load_suites, read_blimp
from som.inference import load

ROWS = (*MODELS, *language_models.NEURAL)


def scorer(args: argparse.Namespace, name: str, seed: int) -> tuple[Scorer, Any, str, dict[str, Any]]:
    """What scores sentences, its tokenizer, how it is read, and how it was trained."""
    if name in MODELS:
        run = record.trained(args, ewt_data(args), name, seed, **MODELS[name])
        model, tokenizer = load(run)
        method = Method.of(model, None).name
        return partial(score, model, method=method), tokenizer, method, record.about_run(run, model.num_parameters())
    run = language_models.best_run(args, name, seed)
    baseline, tokenizer = load_baseline(run)
    return partial(score_neural, baseline), tokenizer, name, record.about_run(run, baseline.num_parameters())


def measure(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    suites = load_suites(args.data / "syntaxgym" / "suites")
    pairs = blimp(args) if seed == THREE[0] else None
    score_all, tokenizer, method, about = scorer(args, name, seed)
    results: dict[str, Any] = {"syntaxgym": judge_suites(score_all, tokenizer, suites, method)}
    if pairs:
        results["blimp"] = judge_pairs(score_all, tokenizer, pairs, method)
    return {**about, "evaluations": {name: result.to_json() for name, result in results.items()}}


def blimp(args: argparse.Namespace) -> list[Pair]:
    """All pairs, or for a trial some of every kind."""
    pairs = list(read_blimp(record.existing(args.data / "blimp" / "blimp.jsonl.gz")))
    return pairs[:: max(1, len(pairs) // args.sentences)] if args.sentences else pairs


def main(args: argparse.Namespace) -> None:
    for name in record.wanted(args, ROWS):
        for seed in args.seeds or THREE:
            record.record(args, name, seed, MODELS.get(name, {}), partial(measure, args, name, seed))


def run(argv: Sequence[str] | None = None) -> int:
    return record.run(main, record.flags(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
