"""The paper's comparison at its own scale, on open data: models trained on a million words of AMALGUM (train-xs).

python scripts/open_xs.py --only "SOM" "LSTM" --seeds 0

All models have the same vocabulary, data and number of epochs. Learning rate and batch size are the best of each
system's grid, trained for one epoch on every fifth document (0.2 million words), by the perplexity on the validation
split. Each model is measured on the test splits of AMALGUM and of UD English EWT, on SyntaxGym and on BLiMP.
scripts/make_amalgum.py rebuilds the AMALGUM files.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import record
import shared_rows as shared
from datasets import load_from_disk
from lab import Lab, make_parser
from transformers import PreTrainedModel

from modeling_som.scoring_som import Method, score
from modeling_som.tokenization_som import load_tokenizer
from som.baselines import BUILDERS, KneserNey, evaluate_words, load_baseline, score_neural
from som.evaluation import Report, Scorer, evaluate
from som.files import write_whole
from som.inference import load
from som.training import Builder, make_model

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
OWN = {"LSTM": {"beta1": 0.9, "dropout": 0.2}, "GPT-2": {"beta1": 0.9, "dropout": 0.1}}
GRID = {
    "SOM": [(2e-3, 64), (4e-3, 64), (1e-3, 32), (2e-3, 32)],
    "LSTM": [(2e-3, 64), (4e-3, 64), (1e-3, 32), (2e-3, 32)],
    "GPT-2": [(1e-3, 64), (3e-3, 64), (1e-3, 32)],
}
ORDERS = (3, 4, 5)
TWO_SEEDS = ("SOM", "left-branching", "LSTM")


# Data


def find_amalgum(lab: Lab, fifth: bool = False) -> dict[str, record.Files]:
    names = {"train": "train-xs", "validation": "dev", "test": "test"}
    files = {split: record.find_treebank(lab, f"amalgum/{name}.conllu.gz") for split, name in names.items()}
    return {**files, "train": (keep_every_fifth_document(lab, *files["train"]),)} if fifth else files


def keep_every_fifth_document(lab: Lab, file: Path) -> Path:
    """A fifth of a treebank, for the grids; a trial's is small as it is."""
    if lab.sentences:
        return file
    fifth = lab.runs / "treebanks" / "train-xs-fifth.conllu"
    if not fifth.is_file():
        fifth.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            write_whole(fifth, "".join(lines_of_documents(lines, 5)))
    return fifth


def lines_of_documents(lines: Iterable[str], step: int) -> Iterator[str]:
    """The lines of every n-th document, where n is `step`.

    >>> list(lines_of_documents(["# newdoc id = a", "1", "# newdoc id = b", "2", "# newdoc id = c", "3"], step=2))
    ['# newdoc id = a', '1', '# newdoc id = c', '3']
    """
    document = -1
    for line in lines:
        document += line.startswith("# newdoc")
        if document % step == 0:
            yield line


def prepare_amalgum(lab: Lab, tokenizer: str = WORDS, fifth: bool = False) -> Path:
    name = f"xs{'-fifth' if fifth else ''}-{tokenizer.replace(':', '')}"
    return record.prepare_once(lab, name, find_amalgum(lab, fifth), tokenizer=tokenizer)


def find_held_out(lab: Lab) -> dict[str, record.Files]:
    splits = record.select_held_out(find_amalgum(lab))
    return {**splits, "EWT test": record.find_treebank(lab, "ud/en_ewt-ud-test.conllu.gz")}


# Models


def train_xs(lab: Lab, name: str, seed: int) -> Path:
    """The training of a row, with the best point of its system's grid."""
    system = name if name in shared.NEURAL else "SOM"
    settings = {**row_settings(name), **find_best_point(lab, system)}
    return record.train_or_resume(lab, prepare_row(lab, name), name, seed, find_builder(system), **settings)


def prepare_row(lab: Lab, name: str) -> Path:
    """The data of a row, with its vocabulary."""
    return prepare_amalgum(lab, VOCABULARIES.get(name, WORDS))


def row_settings(name: str) -> dict[str, Any]:
    """The settings of a row, without those of its grid."""
    spelt = NO_UNKNOWN if VOCABULARIES.get(name, WORDS).startswith("bpe") else {}
    return {**BUDGET, **OWN.get(name, {}), **SOMS.get(name, {}), **spelt}


def find_best_point(lab: Lab, system: str) -> dict[str, Any]:
    points = [{"learning_rate": rate, "batch_size": size} for rate, size in GRID[system]]
    return min(points, key=lambda point: record.validation_ppl(train_point(lab, system, point)))


def train_point(lab: Lab, system: str, point: Mapping[str, Any]) -> Path:
    """A point of a system's grid: one epoch on a fifth of the data."""
    name = f"{system} {point['learning_rate']:g} {point['batch_size']}"
    settings = {**BUDGET, **OWN.get(system, {}), **point, "epochs": 1}
    return record.train_or_resume(lab, prepare_amalgum(lab, fifth=True), name, 0, find_builder(system), **settings)


def find_builder(system: str) -> Builder:
    return BUILDERS[shared.NEURAL[system]] if system in shared.NEURAL else make_model


# Measures


def measure_som(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    run = train_xs(lab, name, seed)
    model, tokenizer = load(run)
    method = Method.of(model, None).name
    reports: dict[str, Report] = {
        one: evaluate(model, tokenizer, record.read_examples(files), method, name=one)
        for one, files in find_held_out(lab).items()
    }
    reports |= shared.evaluate_on_syntax(lab, partial(score, model, method=method), tokenizer, method)
    return {**describe_model(lab, name, run, model), "evaluations": record.to_json(reports)}


def measure_neural(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    run = train_xs(lab, name, seed)
    model, tokenizer = load_baseline(run)
    reports = evaluate_scorer(lab, partial(score_neural, model), tokenizer, name)
    return {**describe_model(lab, name, run, model), "evaluations": record.to_json(reports)}


def describe_model(lab: Lab, name: str, run: Path, model: PreTrainedModel) -> dict[str, Any]:
    """What is kept of a training, with the size of the vocabulary and the speed of training steps."""
    about = record.describe_run(run, model)
    speed = record.training_speed(model, prepare_row(lab, name), about["training"]["batch_size"])
    return {**about, "vocabulary": model.config.vocab_size, "speed": speed}


def measure_ngrams(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    data = prepare_row(lab, name)
    tokenizer, sentences = load_tokenizer(data), list(load_from_disk(str(data))["train"]["input_ids"])
    validation = record.read_examples(find_amalgum(lab)["validation"])
    models = {order: KneserNey(sentences, len(tokenizer), order) for order in ORDERS}
    tried = {
        order: evaluate_words(model, tokenizer, validation, f"{order}-gram", "validation").measures()["ppl"]
        for order, model in models.items()
    }
    order = min(tried, key=lambda order: tried[order] or float("inf"))
    reports = evaluate_scorer(lab, models[order], tokenizer, f"{order}-gram")
    about = {"order": order, "tried": tried, "vocabulary": len(tokenizer)}
    return {**about, "evaluations": record.to_json(reports)}


def evaluate_scorer(lab: Lab, scorer: Scorer, tokenizer: Any, method: str) -> dict[str, Report]:
    """The figures of what knows no trees."""
    words = shared.evaluate_on_words(scorer, tokenizer, find_held_out(lab), method)
    return {**words, **shared.evaluate_on_syntax(lab, scorer, tokenizer, method)}


def make_row(lab: Lab, name: str) -> record.Row:
    settings, seeds = row_settings(name), (0, 1) if name in TWO_SEEDS else (0,)
    kept = {**settings, "tokenizer": VOCABULARIES.get(name, WORDS)}
    if name == "Kneser-Ney":
        return record.Row(partial(measure_ngrams, lab, name), kept)
    measure = partial(measure_neural if name in shared.NEURAL else measure_som, lab, name)
    return record.Row(measure, kept, settings, seeds, by_grid=("learning_rate", "batch_size"))


def rows(lab: Lab) -> record.Rows:
    return {name: make_row(lab, name) for name in (*SOMS, *VOCABULARIES, *shared.NEURAL, "Kneser-Ney")}


def run(argv: Sequence[str] | None = None) -> int:
    return record.run_table(rows, __file__, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
