"""Open table 4: incremental parsing, on the constituency trees of the Penn Treebank's free sample.

python scripts/open_parsing.py

The sample's 199 files are split in their order: the last 20 are the test split, the 20 before them validation.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import record
from open_ablation import THREE

from modeling_som import SOMForCausalLM
from som.baselines import ShiftReduce, shift_reduce, tree_baselines
from som.training import Builder, make_model

PARSER = {"prediction_network": False, "lm_loss_weight": 0.0}
SOMS: dict[str, dict[str, Any]] = {
    "SOM": {},
    "SOM, oracle's next attachment": {"next_attachment": "oracle"},
    "dSOM": {"dsom": True},
    "− prediction network − LM loss": PARSER,
    "shift-reduce": PARSER,
}
TREES = tuple(tree_baselines())
SMALL_BATCHES = {"batch_size": 32, "epochs": 12}  # the sample has a third of EWT's words: steps enough all the same
HELD_OUT = 20  # files of each of the last two splits


def splits(args: argparse.Namespace) -> dict[str, record.Files]:
    """The sample's trees, split by source file."""
    whole = record.examples((record.existing(args.data / "ptb-sample" / "wsj-combined.mrg.gz"),))
    with open(record.existing(args.data / "ptb-sample" / "index.csv"), encoding="utf-8", newline="") as rows:
        sizes = [int(row["sentences"]) for row in csv.DictReader(rows)]
    if sum(sizes) != len(whole):
        raise ValueError(f"{args.data}/ptb-sample: index.csv counts {sum(sizes)} trees, the file has {len(whole)}")
    test = len(whole) - sum(sizes[-HELD_OUT:])
    validation = test - sum(sizes[-2 * HELD_OUT : -HELD_OUT])
    parts = {"train": whole[:validation], "validation": whole[validation:test], "test": whole[test:]}
    folder = args.runs / "treebanks"
    return {
        split: (record.write_trees(folder / f"ptb-sample-{split}.mrg", trees[: args.sentences]),)
        for split, trees in parts.items()
    }


def builder_and_kind(name: str) -> tuple[Builder, type[SOMForCausalLM]]:
    """What builds the model of a row, and what reads it."""
    return (shift_reduce, ShiftReduce) if name == "shift-reduce" else (make_model, SOMForCausalLM)


def measure_som(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    data = record.prepared(args, "ptb-sample", splits(args), num_slots=30)
    build, kind = builder_and_kind(name)
    run = record.trained(args, data, name, seed, build, tree="constituency", **SMALL_BATCHES, **SOMS[name])
    return record.measured(run, record.held_out(splits(args)), kind=kind)


def measure_trees(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    return record.measured_trees(name, seed, record.held_out(splits(args)))


def main(args: argparse.Namespace) -> None:
    for name in record.wanted(args, [*SOMS, *TREES]):
        measure = measure_som if name in SOMS else measure_trees
        for seed in args.seeds or (THREE if name in SOMS else THREE[:1]):
            record.record(args, name, seed, SOMS.get(name, {}), partial(measure, args, name, seed))


def run(argv: Sequence[str] | None = None) -> int:
    return record.run(main, record.flags(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
