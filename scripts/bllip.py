"""The paper's tables on BLLIP, for those who have it: perplexity, UF1 and SyntaxGym at one of its three sizes.

python scripts/bllip.py xs --bllip bllip_87_89_wsj --train xs.txt --validation dev.txt --test test.txt --suites suites

With --bllip, the files of --train, --validation and --test name files of that folder, one per line; these are
constituency trees. Without it, they are the treebanks themselves: the paper's are dependency trees, in CoNLL-U.
The size md has GPT-2's vocabulary: --gpt2 names the folder with its two files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import record
from lab import Lab, make_parser
from shared_rows import BARE, MODELS

from som.data import SPLITS
from som.evaluation import evaluate_syntaxgym, load_suites
from som.inference import load
from som.syntax import listed_files
from som.training import NUM_SLOTS

VARIANTS = {
    "SOM": MODELS["SOM"],
    "dSOM": MODELS["dSOM"],
    "left-branching": MODELS["left-branching"],
    "− prediction network": BARE,
}


def find_splits(lab: Lab) -> dict[str, record.Files]:
    """The corpus by split."""
    options = lab.options
    files = {split: getattr(options, split) for split in SPLITS}
    if options.bllip:
        files = {split: listed_files(options.bllip, lists) for split, lists in files.items()}
    return {split: record.shorten(lab, f"bllip-{options.size}-{split}", files[split]) for split in SPLITS}


def measure(lab: Lab, name: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    options, tree, splits = lab.options, settings["tree"], find_splits(lab)
    gpt2 = f"gpt2:{options.gpt2}" if options.gpt2 else "gpt2"
    tokenizer = gpt2 if options.size == "md" else "word"
    slots = NUM_SLOTS[tree]
    data = record.prepare_once(lab, f"bllip-{options.size}-{tree}", splits, tokenizer=tokenizer, num_slots=slots)
    run = record.train_or_resume(lab, data, name, seed, **settings)
    result = record.evaluate_run(run, record.select_held_out(splits))
    if options.suites:
        result["evaluations"]["syntaxgym"] = evaluate_syntaxgym(*load(run), load_suites(options.suites)).to_json()
    return result


def rows(lab: Lab) -> record.TableRows:
    size, tree = lab.options.size, lab.options.tree or ("constituency" if lab.options.bllip else "dependency")
    made = {}
    for name, variant in VARIANTS.items():
        settings = {"preset": f"bllip-{size}", "tree": tree, **variant}
        row = record.TableRow(partial(measure, lab, name, settings), settings, settings)
        made[f"{name}, {size}, {tree} trees"] = row
    return made


def run(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.add_argument("size", choices=["xs", "sm", "md"])
    parser.add_argument("--bllip", type=Path, metavar="DIR", help="the corpus")
    for split in SPLITS:
        parser.add_argument(f"--{split}", type=Path, nargs="+", required=True, metavar="F")
    note = "(constituency with --bllip, else dependency)"
    parser.add_argument("--tree", choices=["dependency", "constituency"], help=note)
    parser.add_argument("--suites", type=Path, metavar="DIR", help="SyntaxGym's suites")
    parser.add_argument("--gpt2", type=Path, metavar="DIR", help="vocab.json and merges.txt")
    return record.run_table(rows, __file__, parser, argv)


if __name__ == "__main__":
    sys.exit(run())
