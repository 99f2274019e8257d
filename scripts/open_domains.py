"""Open table 3: models trained on UD English EWT, read on other treebanks.

python scripts/open_domains.py
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import record
from lab import Lab, make_parser
from shared_rows import MODELS, THREE, find_ewt, prepare_ewt

ROWS = ("SOM", "dSOM", "left-branching")
TREEBANKS = {"EWT": "ewt", "GUM": "gum", "ParTUT": "partut", "LinES": "lines", "Pronouns": "pronouns", "PUD": "pud"}


def measure(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    run = record.train_or_resume(lab, prepare_ewt(lab), name, seed, **MODELS[name])
    files = {name: record.find_treebank(lab, f"ud/en_{file}-ud-test.conllu.gz") for name, file in TREEBANKS.items()}
    return record.evaluate_run(run, files)


def rows(lab: Lab) -> record.TableRows:
    find_ewt(lab)  # said at once if it is not there
    return {name: record.TableRow(partial(measure, lab, name), MODELS[name], MODELS[name], THREE) for name in ROWS}


def run(argv: Sequence[str] | None = None) -> int:
    return record.run_table(rows, __file__, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
