"""Open table 3: models trained on UD English EWT, read on other treebanks.

python scripts/open_domains.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import record
from open_ablation import MODELS, THREE, ewt, ewt_data

ROWS = ("SOM", "dSOM", "left-branching")
TREEBANKS = {"EWT": "ewt", "GUM": "gum", "ParTUT": "partut", "LinES": "lines", "Pronouns": "pronouns", "PUD": "pud"}


def measure(args: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    run = record.trained(args, ewt_data(args), name, seed, **MODELS[name])
    files = {name: record.treebank(args, f"ud/en_{file}-ud-test.conllu.gz") for name, file in TREEBANKS.items()}
    return record.measured(run, files)


def main(args: argparse.Namespace) -> None:
    ewt(args)  # told at once if it is not there
    for name in record.wanted(args, ROWS):
        for seed in args.seeds or THREE:
            record.record(args, name, seed, MODELS[name], partial(measure, args, name, seed))


def run(argv: Sequence[str] | None = None) -> int:
    return record.run(main, record.flags(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
