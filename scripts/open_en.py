"""The English model that ships, som-en: trained on silver and gold trees together, then, if it pays, on gold alone.

python scripts/open_en.py
bash scripts/shipped_checkpoint.sh  # makes the package's checkpoint from it

The silver trees are AMALGUM's (train-sm, rebuilt by scripts/make_amalgum.py), the gold ones UD English EWT's. Both
rows are measured on the validation splits of the two, by which one is chosen, and on their test splits.
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
    "bf16": True,
    "save_steps": 400,
    "report_to": ["none"],
}
GOLD_LAST = {**RECIPE, "epochs": 2, "batch_size": 32, "learning_rate": 5e-4, "dropout": 0.1, "output_dropout": 0.2}


def find_silver(lab: Lab) -> dict[str, record.Files]:
    names = {"train": "train-sm", "validation": "dev", "test": "test"}
    return {split: record.find_treebank(lab, f"amalgum/{name}.conllu.gz") for split, name in names.items()}


def train_mixed(lab: Lab, seed: int) -> Path:
    """Silver and gold sentences in one shuffled training split."""
    gold = shared.find_ewt(lab)
    splits = {**gold, "train": (*find_silver(lab)["train"], *gold["train"])}
    data = record.prepare_once(lab, "sm-bpe16000", splits, tokenizer="bpe:16000")
    return record.train_or_resume(lab, data, "som-en", seed, **RECIPE)


def train_gold_last(lab: Lab, seed: int) -> Path:
    """The same, fine-tuned on the gold sentences."""
    start = train_mixed(lab, seed)
    data = record.prepare_once(lab, "ewt-som-en", shared.find_ewt(lab), tokenizer=f"model:{start}")
    return record.train_or_resume(lab, data, "som-en", seed, **GOLD_LAST, start=str(start))


MODELS = {"som-en": (train_mixed, RECIPE), "som-en, gold last": (train_gold_last, GOLD_LAST)}


def measure(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    silver, gold = (record.select_held_out(splits) for splits in (find_silver(lab), shared.find_ewt(lab)))
    treebanks = {f"AMALGUM {split}": files for split, files in silver.items()}
    treebanks |= {f"EWT {split}": files for split, files in gold.items()}
    return record.evaluate_run(MODELS[name][0](lab, seed), treebanks)


def rows(lab: Lab) -> record.Rows:
    return {name: record.Row(partial(measure, lab, name), recipe, recipe) for name, (_, recipe) in MODELS.items()}


def run(argv: Sequence[str] | None = None) -> int:
    return record.run_table(rows, __file__, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
