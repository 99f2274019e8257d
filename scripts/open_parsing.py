"""Open table 4: incremental parsing, on the constituency trees of the Penn Treebank's free sample.

python scripts/open_parsing.py

The sample's 199 files are split in their order: the last 20 are the test split, the 20 before them validation.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import record
from lab import Lab, make_parser
from shared_rows import PARSER, THREE, builder_and_kind

from som.baselines import tree_baselines

SOMS: dict[str, dict[str, Any]] = {
    "SOM": {},
    "SOM, oracle's next attachment": {"next_attachment": "oracle"},
    "dSOM": {"dsom": True},
    "− prediction network − LM loss": PARSER,
    "shift-reduce": PARSER,
}
# the sample has a third of EWT's words: steps enough all the same
SMALL_BATCHES = {"tree": "constituency", "batch_size": 32, "epochs": 12}
HELD_OUT = 20  # files of each of the last two splits


def split_sample(lab: Lab) -> dict[str, record.Files]:
    """The sample's trees, split by source file."""
    folder = lab.data / "ptb-sample"
    whole = record.read_examples((record.check_file(folder / "wsj-combined.mrg.gz"),))
    with open(record.check_file(folder / "index.csv"), encoding="utf-8", newline="") as lines:
        sizes = [int(line["sentences"]) for line in csv.DictReader(lines)]
    if sum(sizes) != len(whole):
        raise ValueError(f"{folder}: index.csv counts {sum(sizes)} trees, the file has {len(whole)}")
    test = len(whole) - sum(sizes[-HELD_OUT:])
    validation = test - sum(sizes[-2 * HELD_OUT : -HELD_OUT])
    parts = {"train": whole[:validation], "validation": whole[validation:test], "test": whole[test:]}
    return {
        split: (record.write_trees(lab.runs / "treebanks" / f"ptb-sample-{split}.mrg", trees[: lab.sentences]),)
        for split, trees in parts.items()
    }


def measure_som(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    splits = split_sample(lab)
    data = record.prepare_once(lab, "ptb-sample", splits, num_slots=30)
    build, kind = builder_and_kind(name)
    run = record.train_or_resume(lab, data, name, seed, build, **SMALL_BATCHES, **SOMS[name])
    return record.evaluate_run(run, record.select_held_out(splits), kind=kind)


def measure_trees(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    return record.evaluate_tree_baseline(name, seed, record.select_held_out(split_sample(lab)))


def rows(lab: Lab) -> record.TableRows:
    soms = {
        name: record.TableRow(partial(measure_som, lab, name), settings, {**SMALL_BATCHES, **settings}, THREE)
        for name, settings in SOMS.items()
    }
    return {**soms, **{name: record.TableRow(partial(measure_trees, lab, name)) for name in tree_baselines()}}


def run(argv: Sequence[str] | None = None) -> int:
    return record.run_table(rows, __file__, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
