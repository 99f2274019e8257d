"""som bench: speed beside other models and the dense form."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from som.cli.options import add_command, positive
from som.cli.output import check_outputs, print_json, write_picture
from som.progress import progress
from som.provenance import provenance


def add_bench(commands: Any) -> None:
    parser = add_command(
        commands,
        "bench",
        bench_command,
        "measure speed beside the dense form, bare matrix products, an LSTM and GPT-2, and how cost grows",
        "  som bench --json bench.json --plot bench.svg\n  som bench --treebank en-dev.conllu --rounds 9\n"
        "  som bench --peers --json bench.json",
    )
    parser.add_argument("--treebank", nargs="+", metavar="F", help="whose trees are built (default: the built-in one)")
    parser.add_argument("--rounds", type=positive, default=5, metavar="N", help="timings of everything (default: 5)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements, for a first look")
    parser.add_argument("--peers", action="store_true", help="also a training step of every system of som train")
    parser.add_argument("--plot", metavar="FILE", help="a picture, .svg, .png or .pdf")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE, or - for standard output only")


def bench_command(args: argparse.Namespace) -> None:
    from rich.console import Console
    from transformers.utils import logging

    from som.bench import bench, bench_figure, bench_tables, builtin_examples
    from som.syntax import read_treebank

    check_outputs(args.plot, args.json)
    made_with = provenance()
    logging.set_verbosity_error()  # the library's own GPT-2 makes it warn
    examples = list(read_treebank(args.treebank)) if args.treebank else builtin_examples()
    in_log = not sys.stderr.isatty()
    with Console(stderr=True).status("") as status, progress("som bench", unit="", shown=in_log):
        report = bench(examples, args.rounds, args.quick, status.update, args.peers)
    if args.json:
        print_json({"command": args.line, **made_with, **report}, args.json)
    if args.json != "-":
        Console().print(*bench_tables(report))
    if args.plot:
        write_picture(bench_figure(report), args.plot)
