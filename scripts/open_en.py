"""The English model that ships, som-en: trained on silver and gold trees together, then on gold alone, then averaged.

python scripts/open_en.py
bash scripts/shipped_checkpoint.sh  # makes the package's checkpoint from it

The silver trees are AMALGUM's (train-sm, rebuilt by scripts/make_amalgum.py), the gold ones UD English EWT's. The rows
are measured on the validation splits of the two, by which one is chosen, and on their test splits.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import record
import shared_rows as shared
import torch
from lab import Lab, make_parser

from modeling_som.counts_som import WORD_COUNTS
from som.bench import has_bf16
from som.inference import load

RECIPE: dict[str, Any] = {
    "hidden_size": 256,
    "epochs": 3,
    "batch_size": 64,
    "learning_rate": 3e-3,
    "weight_decay": 0.1,
    "embedding_dropout": 0.05,
    "dropout": 0.05,
    "output_dropout": 0.1,
    "next_attachment": "oracle",
    "tag_loss_weight": 0.5,
    "bf16": has_bf16(),
    "save_steps": 400,
    "report_to": ["none"],
}
GOLD_LAST = {**RECIPE, "epochs": 2, "batch_size": 32, "learning_rate": 5e-4, "dropout": 0.1, "output_dropout": 0.2}


def train_mixed(lab: Lab, seed: int) -> Path:
    """Silver and gold sentences in one shuffled training split."""
    gold = shared.find_ewt(lab)
    splits = {**gold, "train": (*shared.find_amalgum(lab, "train-sm")["train"], *gold["train"])}
    data = record.prepare_once(lab, "sm-bpe16000", splits, tokenizer="bpe:16000")
    return record.train_or_resume(lab, data, "som-en", seed, **RECIPE)


def train_gold_last(lab: Lab, seed: int) -> Path:
    """The same, fine-tuned on the gold sentences."""
    start = train_mixed(lab, seed)
    data = record.prepare_once(lab, "ewt-som-en", shared.find_ewt(lab), tokenizer=f"model:{start}")
    return record.train_or_resume(lab, data, "som-en", seed, **GOLD_LAST, start=str(start))


def average_both(lab: Lab, seed: int) -> Path:
    """The mean of the weights of these two, which lie close to each other, as a checkpoint."""
    folder = lab.runs / "ewt-som-en" / f"averaged-{seed}"
    if not (folder / "model.safetensors").is_file():
        gold_last = train_gold_last(lab, seed)  # and before that the other one
        (model, tokenizer), (other, _) = load(train_mixed(lab, seed)), load(gold_last)
        with torch.no_grad():
            for weight, gold in zip(model.parameters(), other.parameters(), strict=True):
                weight.lerp_(gold, 0.5)
        tokenizer.save_pretrained(folder)
        shutil.copy(gold_last / WORD_COUNTS, folder)
        model.save_pretrained(folder)
    return folder


MODELS = {"som-en": (train_mixed, RECIPE), "som-en, gold last": (train_gold_last, GOLD_LAST)}
AVERAGED = "som-en, averaged"


def measure(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    if name == AVERAGED:
        return record.evaluate_checkpoint(average_both(lab, seed), held_out(lab))
    return record.evaluate_run(MODELS[name][0](lab, seed), held_out(lab))


def held_out(lab: Lab) -> dict[str, record.Files]:
    silver, gold = (
        record.select_held_out(splits) for splits in (shared.find_amalgum(lab, "train-sm"), shared.find_ewt(lab))
    )
    treebanks = {f"AMALGUM {split}": files for split, files in silver.items()}
    treebanks |= {f"EWT {split}": files for split, files in gold.items()}
    return treebanks


def rows(lab: Lab) -> record.TableRows:
    trained = {
        name: record.TableRow(partial(measure, lab, name), recipe, recipe) for name, (_, recipe) in MODELS.items()
    }
    return {**trained, AVERAGED: record.TableRow(partial(measure, lab, AVERAGED))}


def run(argv: Sequence[str] | None = None) -> int:
    return record.run_table(rows, __file__, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
