"""The paper's comparison at its own scale, on open data: models trained on a million words of AMALGUM (train-xs).

python scripts/open_xs.py --only "SOM" "LSTM" --seeds 0

All models have the same vocabulary, data and number of epochs. Learning rate and batch size are the best of each
system's grid, trained for one epoch on every fifth document (0.2 million words), by the perplexity on the validation
split. Each model is measured on the test splits of AMALGUM and of UD English EWT, on SyntaxGym and on BLiMP.
scripts/make_amalgum.py rebuilds the AMALGUM files.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import record
from datasets import load_from_disk
from open_syntax import blimp

from modeling_som.scoring_som import Method, score
from modeling_som.tokenization_som import load_tokenizer
from som.baselines import BUILDERS, KneserNey, evaluate_words, load_baseline, score_neural
from som.evaluation import Scorer, evaluate, judge_pairs, judge_suites, load_suites
from som.files import write_whole
from som.inference import load
from som.training import make_model

WORDS = "word:3"
BUDGET = {
    "hidden_size": 160,
    "epochs": 6,
    "dropout": 0.1,
    "embedding_dropout": 0.1,
    "output_dropout": 0.2,
    "word_dropout": 1.0,
    "weight_decay": 0.1,
    "next_attachment": "oracle",
    "save_steps": 200,
}
SOMS: dict[str, dict[str, Any]] = {
    "SOM": {},
    "SOM as in the paper": {"next_attachment": "sampled"},
    "dSOM": {"syntactic_size": 40},
    "left-branching": {"oracle": "left_branching"},
}
VOCABULARIES = {"SOM, words seen twice": "word:2", "SOM, bpe:8000": "bpe:8000", "SOM, bpe:16000": "bpe:16000"}
NO_UNKNOWN = {"word_dropout": 0.0}  # byte pairs spell every word
NEURAL = {"LSTM": "lstm", "GPT-2": "gpt2"}
OWN = {"LSTM": {"beta1": 0.9, "dropout": 0.2}, "GPT-2": {"beta1": 0.9, "dropout": 0.1}}
GRID = {
    "SOM": [(2e-3, 64), (4e-3, 64), (1e-3, 32), (2e-3, 32)],
    "LSTM": [(2e-3, 64), (4e-3, 64), (1e-3, 32), (2e-3, 32)],
    "GPT-2": [(1e-3, 64), (3e-3, 64), (1e-3, 32)],
}
ORDERS = (3, 4, 5)
TWO_SEEDS = ("SOM", "left-branching", "LSTM")
ROWS = (*SOMS, *VOCABULARIES, *NEURAL, "Kneser-Ney")


# Data


def amalgum(args: argparse.Namespace, fifth: bool = False) -> dict[str, record.Files]:
    names = {"train": "train-xs", "validation": "dev", "test": "test"}
    files = {split: record.treebank(args, f"amalgum/{name}.conllu.gz") for split, name in names.items()}
    return {**files, "train": (every_fifth_document(args, *files["train"]),)} if fifth else files


def every_fifth_document(args: argparse.Namespace, file: Path) -> Path:
    """A fifth of a treebank, for the grids; a trial's is small as it is."""
    if args.sentences:
        return file
    fifth = args.runs / "treebanks" / "train-xs-fifth.conllu"
    if not fifth.is_file():
        fifth.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            write_whole(fifth, "".join(lines_of_documents(lines, 5)))
    return fifth


def lines_of_documents(lines: Iterable[str], step: int) -> Iterator[str]:
    """The lines of every so many-th document.

    >>> list(lines_of_documents(["# newdoc id = a", "1", "# newdoc id = b", "2", "# newdoc id = c", "3"], step=2))
    ['# newdoc id = a', '1', '# newdoc id = c', '3']
    """
    document = -1
    for line in lines:
        document += line.startswith("# newdoc")
        if document % step == 0:
            yield line


def data(args: argparse.Namespace, tokenizer: str = WORDS, fifth: bool = False) -> Path:
    name = f"xs{'-fifth' if fifth else ''}-{tokenizer.replace(':', '')}"
    return record.prepared(args, name, amalgum(args, fifth), tokenizer=tokenizer)


def held_out(args: argparse.Namespace) -> dict[str, record.Files]:
    splits = record.held_out(amalgum(args))
    return {**splits, "EWT test": record.treebank(args, "ud/en_ewt-ud-test.conllu.gz")}


# Models


def xs_run(args: argparse.Namespace, name: str, seed: int) -> Path:
    """The training of a row, with the best point of its system's grid."""
    system = name if name in NEURAL else "SOM"
    folder = data(args, VOCABULARIES.get(name, WORDS))
    return record.trained(args, folder, name, seed, builder(system), **settings_of(name), **best_point(args, system))


def settings_of(name: str) -> dict[str, Any]:
    """The settings of a row, without those of its grid."""
    spelt = NO_UNKNOWN if VOCABULARIES.get(name, WORDS).startswith("bpe") else {}
    return {**BUDGET, **OWN.get(name, {}), **SOMS.get(name, {}), **spelt}


def best_point(args: argparse.Namespace, system: str) -> dict[str, Any]:
    points = [{"learning_rate": rate, "batch_size": size} for rate, size in GRID[system]]
    return min(points, key=lambda point: record.validation_ppl(grid_run(args, system, point)))


def grid_run(args: argparse.Namespace, system: str, point: Mapping[str, Any]) -> Path:
    name = f"{system} {point['learning_rate']:g} {point['batch_size']}"
    settings = {**BUDGET, **OWN.get(system, {}), **point, "epochs": 1}
    return record.trained(args, data(args, fifth=True), name, 0, builder(system), **settings)


def builder(system: str) -> Any:
    return BUILDERS[NEURAL[system]] if system in NEURAL else make_model


# Measures


def measure_som(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    run = xs_run(args, name, seed)
    model, tokenizer = load(run)
    method = Method.of(model, None).name
    reports = {
        one: evaluate(model, tokenizer, record.examples(files), method, name=one)
        for one, files in held_out(args).items()
    }
    targeted = measure_syntax(args, partial(score, model, method=method), tokenizer, method)
    return {**record.about_run(run, model.num_parameters()), "evaluations": to_json({**reports, **targeted})}


def measure_neural(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    run = xs_run(args, name, seed)
    model, tokenizer = load_baseline(run)
    reports = measure_words(args, partial(score_neural, model), tokenizer, name)
    return {**record.about_run(run, model.num_parameters()), "evaluations": to_json(reports)}


def measure_ngrams(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    tokenizer = load_tokenizer(data(args))
    sentences = list(load_from_disk(str(data(args)))["train"]["input_ids"])
    validation = record.examples(amalgum(args)["validation"])
    models = {order: KneserNey(sentences, len(tokenizer), order) for order in ORDERS}
    tried = {
        order: evaluate_words(model, tokenizer, validation, f"{order}-gram", "validation").to_json()["measures"]["ppl"]
        for order, model in models.items()
    }
    order = min(tried, key=tried.__getitem__)
    reports = measure_words(args, models[order], tokenizer, f"{order}-gram")
    return {"order": order, "tried": tried, "evaluations": to_json(reports)}


def measure_words(args: argparse.Namespace, scorer: Scorer, tokenizer: Any, method: str) -> dict[str, Any]:
    reports = {
        one: evaluate_words(scorer, tokenizer, record.examples(files), method, one)
        for one, files in held_out(args).items()
    }
    return {**reports, **measure_syntax(args, scorer, tokenizer, method)}


def measure_syntax(args: argparse.Namespace, scorer: Scorer, tokenizer: Any, method: str) -> dict[str, Any]:
    suites = load_suites(args.data / "syntaxgym" / "suites")
    return {
        "syntaxgym": judge_suites(scorer, tokenizer, suites, method),
        "blimp": judge_pairs(scorer, tokenizer, blimp(args), method),
    }


def to_json(reports: Mapping[str, Any]) -> dict[str, Any]:
    return {name: report.to_json() for name, report in reports.items()}


def main(args: argparse.Namespace) -> None:
    for name in record.wanted(args, ROWS):
        measure = {"Kneser-Ney": measure_ngrams, **dict.fromkeys(NEURAL, measure_neural)}.get(name, measure_som)
        for seed in args.seeds or ((0, 1) if name in TWO_SEEDS else (0,)):
            settings = {**settings_of(name), "tokenizer": VOCABULARIES.get(name, WORDS)}
            record.record(args, name, seed, settings, partial(measure, args, name, seed))


def run(argv: Sequence[str] | None = None) -> int:
    return record.run(main, record.flags(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
