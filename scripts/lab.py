"""The laboratory of a script: its folders, the rows and sizes it was asked for, and where its figures come from."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers.utils import logging

from som.cli import USER_ERRORS, positive, progress_bars_only_in_terminals
from som.hub import slug
from som.provenance import provenance

TOP = Path(__file__).resolve().parent.parent
DATA = TOP.parent / "shared" / "data"
TINY = {"hidden_size": 16, "epochs": 1, "sentences": 100}
PAPER = {"next_attachment": "sampled"}  # what a row does not change is as there
# What a model of the open tables has unless its row says otherwise; all of them train on two cores in some hours.
OPEN = {
    **PAPER,
    "hidden_size": 128,
    "batch_size": 64,
    "epochs": 6,
    "learning_rate": 4e-3,
    "weight_decay": 0.0,
    "dropout": 0.1,
}


@dataclass(frozen=True)
class Lab:
    """The settings of a script, read once."""

    script: str = ""  # also the name of its table
    command: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    data: Path = DATA  # open treebanks and suites
    runs: Path = Path("runs")
    results: Path = Path("results")
    only: Sequence[str] = ()  # these rows, or all of them
    seeds: Sequence[int] = ()  # instead of those of each row
    sizes: Mapping[str, int] = field(default_factory=dict)  # epochs and hidden size, instead of those of each row
    sentences: int | None = None  # of each treebank; only trials have a limit
    budget: Mapping[str, Any] = field(default_factory=dict)  # settings of training that rows may change
    options: argparse.Namespace = field(default_factory=argparse.Namespace)  # flags of this script alone

    @classmethod
    def of(cls, script: str, args: argparse.Namespace, arguments: Sequence[str] = ()) -> Lab:
        """The laboratory that a command line asks for; models and figures of other sizes have their own folders."""
        trial = TINY if args.tiny else {}
        asked = {name: getattr(args, name) or trial.get(name) for name in ("epochs", "hidden_size")}
        sizes = {name: value for name, value in asked.items() if value}
        folder = "tiny" if args.tiny else slug(" ".join(f"{name} {value}" for name, value in sizes.items()))
        runs = args.runs / folder if sizes else args.runs
        return cls(
            script=script,
            command=shlex.join(["python", f"scripts/{script}.py", *arguments]),
            provenance=provenance(),
            data=getattr(args, "data", DATA),
            runs=runs,
            results=args.results or (runs / "results" if sizes else Path("results")),
            only=args.only or (),
            seeds=args.seeds or (),
            sizes=sizes,
            sentences=trial.get("sentences"),
            budget=OPEN if "data" in args else PAPER,
            options=args,
        )


def make_parser(description: str | None, open_data: bool = False) -> argparse.ArgumentParser:
    """The flags of every script; those that use open data want a folder of it."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if open_data:
        note = f"with ud/, ptb-sample/, syntaxgym/ and blimp/ ({DATA.relative_to(TOP.parent)} beside the project)"
        parser.add_argument("--data", type=Path, default=DATA, metavar="DIR", help=note)
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="trained models (runs)")
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="figures (results, of other sizes than the tables' in RUNS)"
    )
    parser.add_argument("--only", nargs="+", metavar="ROW", help="these rows of the table")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="N", help="instead of those of each row")
    parser.add_argument("--epochs", type=positive, metavar="N")
    parser.add_argument("--hidden-size", type=positive, metavar="D")
    parser.add_argument("--tiny", action="store_true", help="a trial: 100 sentences, hidden size 16, one epoch")
    return parser


def run_in_lab(
    main: Callable[[Lab], None], script: str, parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> int:
    """Call a script's main function and return its exit code; what is wrong with the input is one line."""
    args = parser.parse_args(argv)
    lab = Lab.of(script, args, sys.argv[1:] if argv is None else argv)
    progress_bars_only_in_terminals()
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # the Trainer takes tied weights, which are saved once, for missing ones
    try:
        if "data" in args and not lab.data.is_dir():
            raise FileNotFoundError(f"{lab.data}: there is no such folder; --data names that of treebanks and suites")
        main(lab)
    except KeyboardInterrupt:
        print(f"interrupted; the same command goes on: {lab.command}", file=sys.stderr)
        return 130
    except USER_ERRORS as error:
        print(f"{script}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0
