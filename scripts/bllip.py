"""The paper's tables on BLLIP, for those who have it: perplexity, UF1 and SyntaxGym at one of its three sizes.

python scripts/bllip.py xs --bllip bllip_87_89_wsj --train xs.txt --validation dev.txt --test test.txt --suites suites

With --bllip, the files of --train, --validation and --test name files of that folder, one a line; these are
constituency trees. Without it, they are the treebanks themselves: the paper's are dependency trees, in CoNLL-U.
The size md has GPT-2's vocabulary: --gpt2 names the folder with its two files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import record

from som.data import SPLITS
from som.evaluation import evaluate_syntaxgym, load_suites
from som.inference import load
from som.syntax import listed_files
from som.training import NUM_SLOTS

ROWS: dict[str, dict[str, Any]] = {
    "SOM": {},
    "dSOM": {"dsom": True},
    "left-branching": {"oracle": "left_branching"},
    "− prediction network": {"prediction_network": False},
}


def splits(args: argparse.Namespace) -> dict[str, record.Files]:
    """The corpus by split."""
    files = {split: getattr(args, split) for split in SPLITS}
    if args.bllip:
        files = {split: listed_files(args.bllip, lists) for split, lists in files.items()}
    return {split: record.shortened(args, f"bllip-{args.size}-{split}", files[split]) for split in SPLITS}


def measure(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    gpt2 = f"gpt2:{args.gpt2}" if args.gpt2 else "gpt2"
    tokenizer = gpt2 if args.size == "md" else "word"
    options = {"tokenizer": tokenizer, "num_slots": NUM_SLOTS[args.tree]}
    data = record.prepared(args, f"bllip-{args.size}-{args.tree}", splits(args), **options)
    run = record.trained(args, data, name, seed, preset=f"bllip-{args.size}", tree=args.tree, **ROWS[name])
    result = record.measured(run, record.held_out(splits(args)))
    if args.suites:
        result["evaluations"]["syntaxgym"] = evaluate_syntaxgym(*load(run), load_suites(args.suites)).to_json()
    return result


def main(args: argparse.Namespace) -> None:
    args.tree = args.tree or ("constituency" if args.bllip else "dependency")
    titles = {f"{name}, {args.size}, {args.tree} trees": name for name in ROWS}
    for title in record.wanted(args, titles):
        settings = {"preset": f"bllip-{args.size}", "tree": args.tree, **ROWS[titles[title]]}
        for seed in args.seeds or (0,):
            record.record(args, title, seed, settings, partial(measure, args, titles[title], seed))


def run(argv: Sequence[str] | None = None) -> int:
    parser = record.flags(__doc__)
    parser.add_argument("size", choices=["xs", "sm", "md"])
    parser.add_argument("--bllip", type=Path, metavar="DIR", help="the corpus")
    for split in SPLITS:
        parser.add_argument(f"--{split}", type=Path, nargs="+", required=True, metavar="F")
    note = "(constituency with --bllip, else dependency)"
    parser.add_argument("--tree", choices=["dependency", "constituency"], help=note)
    parser.add_argument("--suites", type=Path, metavar="DIR", help="SyntaxGym's suites")
    parser.add_argument("--gpt2", type=Path, metavar="DIR", help="vocab.json and merges.txt")
    return record.run(main, parser, argv)


if __name__ == "__main__":
    sys.exit(run())
