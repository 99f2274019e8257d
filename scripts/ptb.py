"""The paper's tables on the Penn Treebank, for those who have it: ablation (dependencies), parsing (constituents).

python scripts/ptb.py --wsj treebank_3/parsed/mrg/wsj
python scripts/ptb.py --dependencies train.conllu dev.conllu test.conllu

The dependencies are those of the Stanford converter, sections 2–21, 24 and 23. Sizes are the paper's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import record
from lab import Lab, make_parser
from shared_rows import ABLATION, PARSER, Variant, builder_and_kind

from som.baselines import tree_baselines
from som.data import SPLITS
from som.syntax import wsj_files
from som.training import NUM_SLOTS

VARIANTS = {  # by kind of trees
    "dependency": {name: variant for name, variant in ABLATION.items() if variant.tokenizer == "word"},
    "constituency": {
        "SOM": ABLATION["SOM"],
        "dSOM": ABLATION["dSOM"],
        "shift-reduce": Variant("shift-reduce", PARSER),
        **{name: Variant(name) for name in tree_baselines()},
    },
}


def find_splits(lab: Lab, tree: str) -> dict[str, record.Files]:
    """The treebank with one kind of trees, by split."""
    given = ([file] for file in lab.options.dependencies or [])
    files = wsj_files(lab.options.wsj) if tree == "constituency" else dict(zip(SPLITS, given, strict=True))
    return {split: record.shorten(lab, f"ptb-{tree}-{split}", files[split]) for split in SPLITS}


def measure(lab: Lab, tree: str, name: str, seed: int) -> dict[str, Any]:
    """A row with one kind of trees."""
    files = find_splits(lab, tree)
    if name in tree_baselines():
        return record.evaluate_tree_baseline(name, seed, record.select_held_out(files))
    variant = VARIANTS[tree][name]
    data = record.prepare_once(lab, f"ptb-{tree}", files, num_slots=NUM_SLOTS[tree])
    build, kind = builder_and_kind(name)
    run = record.train_or_resume(lab, data, variant.model, seed, build, **training_settings(tree, name))
    return record.evaluate_run(run, record.select_held_out(files), variant.method, variant.gold, kind)


def training_settings(tree: str, name: str) -> dict[str, Any]:
    return {"preset": "ptb", "tree": tree, **VARIANTS[tree][name].settings}


def make_row(lab: Lab, tree: str, name: str) -> record.TableRow:
    settings = training_settings(tree, name)
    return record.TableRow(partial(measure, lab, tree, name), settings, None if name in tree_baselines() else settings)


def rows(lab: Lab) -> record.TableRows:
    given = {"dependency": lab.options.dependencies, "constituency": lab.options.wsj}
    if not any(given.values()):
        raise ValueError("expected --wsj DIR for constituents, --dependencies TRAIN VALIDATION TEST, or both")
    return {
        f"{name}, {tree} trees": make_row(lab, tree, name)
        for tree in VARIANTS
        if given[tree]
        for name in VARIANTS[tree]
    }


def run(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--wsj", type=Path, metavar="DIR", help="the folder of the sections")
    parser.add_argument("--dependencies", type=Path, nargs=3, metavar="F", help="CoNLL-U files of the three splits")
    return record.run_table(rows, __file__, parser, argv)


if __name__ == "__main__":
    sys.exit(run())
