"""The paper's comparison at its own scale, on open data: models trained on a million words of AMALGUM (train-xs).

python scripts/open_xs.py --only "SOM" "LSTM" --seeds 0

All models have the same vocabulary, data and number of epochs. Each is measured on the test splits of AMALGUM and of
UD English EWT, on SyntaxGym and on BLiMP. scripts/make_amalgum.py rebuilds the AMALGUM files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import record
import shared_rows as shared
from lab import Lab, make_parser

from modeling_som.counts_som import WORD_COUNTS, WordCounts
from modeling_som.scoring_som import Method, score
from modeling_som.tokenization_som import SOMTokenizer
from som.baselines import SYSTEMS, Spelling, add_spelling
from som.bench import has_bf16
from som.evaluation import Report, evaluate
from som.inference import load

PIECES = "bpe:16000"
BUDGET = {
    "hidden_size": 160,
    "epochs": 6,
    # the best of four pairs, for SOM and LSTM alike, after one epoch on a fifth of the data (docs/results.md)
    "learning_rate": 2e-3,
    "batch_size": 32,
    "dropout": 0.1,
    "embedding_dropout": 0.1,
    "output_dropout": 0.2,
    "weight_decay": 0.1,
    "next_attachment": "oracle",
    "bf16": has_bf16(),
    "save_steps": 400,
    "tree_tags": [],  # no system has more to learn from than words and brackets
}
SOMS: dict[str, dict[str, Any]] = {
    "SOM": {},
    "SOM as in the paper": {"next_attachment": "sampled"},
    "dSOM": {"syntactic_size": 40},
    "left-branching": {"oracle": "left_branching"},
}
VOCABULARIES = {"SOM, words seen three times": "word:3", "SOM, bpe:8000": "bpe:8000"}
OF_WORDS = {"word_dropout": 1.0}  # rare words teach what to make of unknown ones
OTHER_SYSTEMS = {**shared.NEURAL, "ON-LSTM": "onlstm", "RNNG": "rnng"}
BASELINE_SETTINGS = {
    "LSTM": {"beta1": 0.9, "dropout": 0.2},
    "GPT-2": {"beta1": 0.9, "dropout": 0.1, "learning_rate": 1e-3},
    "ON-LSTM": {"beta1": 0.9, "dropout": 0.2},
    "RNNG": {"beta1": 0.9},
}
BLIMP_SAMPLE = {"RNNG": 100}  # one pair in so many: all of them would take its beams a day
ORDERS = (3, 4, 5)
TWO_SEEDS = ("SOM", "left-branching", "LSTM")


# Data


def find_held_out(lab: Lab) -> dict[str, record.Files]:
    splits = record.select_held_out(shared.find_amalgum(lab, "train-xs"))
    return {**splits, "EWT test": record.find_treebank(lab, "ud/en_ewt-ud-test.conllu.gz")}


# Models


def train_xs(lab: Lab, name: str, seed: int) -> Path:
    system = SYSTEMS[OTHER_SYSTEMS.get(name, "som")]
    return record.train_or_resume(lab, prepare_row(lab, name), name, seed, system.build, **row_settings(name))


def prepare_row(lab: Lab, name: str) -> Path:
    """The data of a row, with its vocabulary."""
    tokenizer = VOCABULARIES.get(name, PIECES)
    return record.prepare_once(lab, data_name(name), shared.find_amalgum(lab, "train-xs"), tokenizer=tokenizer)


def data_name(name: str) -> str:
    return f"xs-{VOCABULARIES.get(name, PIECES).replace(':', '')}"


def row_settings(name: str) -> dict[str, Any]:
    of_words = OF_WORDS if VOCABULARIES.get(name, PIECES).startswith("word") else {}
    return {**BUDGET, **BASELINE_SETTINGS.get(name, {}), **SOMS.get(name, {}), **of_words}


# Measures


def measure_som(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    run = train_xs(lab, name, seed)
    model, tokenizer = load(run)
    method = Method.of(model, None).name
    spelling = learn_spelling(prepare_row(lab, name), tokenizer)
    reports: dict[str, Report] = {}
    for one, files in find_held_out(lab).items():
        examples = record.read_examples(files)
        report = evaluate(model, tokenizer, examples, method, name=one)
        reports[one] = add_spelling(report, spelling, examples) if spelling else report
    reports |= shared.evaluate_on_syntax(lab, partial(score, model, method=method), tokenizer, method)
    about = record.describe_with_speed(run, model, prepare_row(lab, name))
    return {**about, "evaluations": record.reports_to_json(reports)}


def learn_spelling(data: Path, tokenizer: Any) -> Spelling | None:
    """How words are spelled that a word vocabulary lacks, from the words of its training data; pieces spell all."""
    if isinstance(tokenizer, SOMTokenizer):
        return Spelling(WordCounts.read(data / WORD_COUNTS).counts, tokenizer)
    return None


def measure_system(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    """The figures of what is no SOM."""
    run, system = train_xs(lab, name, seed), SYSTEMS[OTHER_SYSTEMS[name]]
    pairs = shared.read_pairs(lab)[:: BLIMP_SAMPLE.get(name, 1)]
    return shared.evaluate_system(lab, run, prepare_row(lab, name), system, find_held_out(lab), pairs=pairs)


def measure_ngrams(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    return shared.measure_ngrams(lab, prepare_row(lab, name), find_held_out(lab), ORDERS, blimp=True)


def make_row(lab: Lab, name: str) -> record.TableRow:
    settings, seeds = row_settings(name), (0, 1) if name in TWO_SEEDS else (0,)
    kept = {**settings, "tokenizer": VOCABULARIES.get(name, PIECES)}
    if name == "Kneser-Ney":
        return record.TableRow(partial(measure_ngrams, lab, name), kept)
    measure = partial(measure_system if name in OTHER_SYSTEMS else measure_som, lab, name)
    return record.TableRow(measure, kept, settings, seeds)


def rows(lab: Lab) -> record.TableRows:
    names = (*SOMS, *VOCABULARIES, *shared.NEURAL, "Kneser-Ney", "ON-LSTM", "RNNG")
    return {name: make_row(lab, name) for name in names}


def run(argv: Sequence[str] | None = None) -> int:
    return record.run_table(rows, __file__, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
