"""The paper's tables on the Penn Treebank, for those who have it: ablation (dependencies), parsing (constituents).

python scripts/ptb.py --wsj treebank_3/parsed/mrg/wsj
python scripts/ptb.py --dependencies train.conllu dev.conllu test.conllu

The dependencies are those of the Stanford converter, sections 2–21, 24 and 23. Sizes are the paper's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import open_parsing as parsing
import record
from open_ablation import ROWS as ABLATION
from open_ablation import Row

from som.baselines import tree_baselines
from som.data import SPLITS
from som.syntax import wsj_files
from som.training import NUM_SLOTS

ROWS = {  # by kind of trees
    "dependency": {name: row for name, row in ABLATION.items() if row.tokenizer == "word"},
    "constituency": {
        "SOM": ABLATION["SOM"],
        "dSOM": ABLATION["dSOM"],
        "shift-reduce": Row("shift-reduce", parsing.PARSER),
        **{name: Row(name) for name in tree_baselines()},
    },
}


def splits(args: argparse.Namespace, tree: str) -> dict[str, record.Files]:
    """The treebank with one kind of trees, by split."""
    given = ([file] for file in args.dependencies or [])
    files = wsj_files(args.wsj) if tree == "constituency" else dict(zip(SPLITS, given, strict=True))
    return {split: record.shortened(args, f"ptb-{tree}-{split}", files[split]) for split in SPLITS}


def measure(args: argparse.Namespace, tree: str, name: str, seed: int) -> dict[str, Any]:
    """A row with one kind of trees."""
    files = splits(args, tree)
    if name in tree_baselines():
        return record.measured_trees(name, seed, record.held_out(files))
    row, data = ROWS[tree][name], record.prepared(args, f"ptb-{tree}", files, num_slots=NUM_SLOTS[tree])
    build, kind = parsing.builder_and_kind(name)
    run = record.trained(args, data, row.model, seed, build, preset="ptb", tree=tree, **row.settings)
    return record.measured(run, record.held_out(files), row.method, row.gold, kind)


def main(args: argparse.Namespace) -> None:
    if not args.wsj and not args.dependencies:
        raise ValueError("expected --wsj DIR for constituents, --dependencies TRAIN VALIDATION TEST, or both")
    given = {"dependency": args.dependencies, "constituency": args.wsj}
    rows = {f"{name}, {tree} trees": (tree, name) for tree in ROWS if given[tree] for name in ROWS[tree]}
    for title in record.wanted(args, rows):
        tree, name = rows[title]
        settings = {"preset": "ptb", "tree": tree, **ROWS[tree][name].settings}
        for seed in args.seeds or (0,):
            record.record(args, title, seed, settings, partial(measure, args, tree, name, seed))


def run(argv: Sequence[str] | None = None) -> int:
    parser = record.flags(__doc__)
    parser.add_argument("--wsj", type=Path, metavar="DIR", help="the folder of the sections")
    parser.add_argument("--dependencies", type=Path, nargs=3, metavar="F", help="CoNLL-U files of the three splits")
    return record.run(main, parser, argv)


if __name__ == "__main__":
    sys.exit(run())
