"""som reading: how well measures such as surprisal predict reading times."""

from __future__ import annotations

import argparse
import csv
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from som.cli.options import add_command, at_least, check_files, positive
from som.cli.output import check_outputs, print_json, write_out, write_picture
from som.progress import progress
from som.provenance import provenance

METHOD = """how it is done (more in docs/reading.md):
  TABLE has one row per word or region, in the order of reading, with times and predictors: what
  `som surprisal --table words.tsv --regions` writes, or .csv, .jsonl or .parquet. Two regressions of the (log) time,
  one of them with the measure, are fitted on all groups but a tenth and tried on that; ΔLL is how much more
  log-likelihood the measure gives, in nats. p is of a paired permutation test on the words."""


def add_reading(commands: Any) -> None:
    parser = add_command(
        commands,
        "reading",
        reading_command,
        "tell how well measures such as surprisal predict reading times: ΔLL per 1,000 words",
        "  som reading times.tsv --time rt --group story\n"
        "  som reading times.tsv --time rt --measures surprisal structural+lexical --plot d.svg --json d.json\n"
        "  som reading times.csv --time rt --subject reader --scale raw --increments words.tsv\n\n" + METHOD,
    )
    parser.add_argument("table", metavar="TABLE", help=".tsv, .csv, .jsonl, each also .gz, or .parquet")
    parser.add_argument("--measures", nargs="+", default=[], metavar="COLUMN", help="(default: all that are known)")
    add_columns(parser)
    parser.add_argument("--scale", choices=["log", "raw"], default="log", help="of the times (default: log)")
    parser.add_argument("--spillover", type=at_least(0), default=2, metavar="N", help="words before (default: 2)")
    parser.add_argument("--folds", type=at_least(2), default=10, metavar="N", help="at most (default: 10)")
    parser.add_argument("--permutations", type=positive, default=10_000, metavar="N", help="(default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="of the permutations (default: 0)")
    parser.add_argument("--increments", metavar="FILE", help="what each word adds, as .tsv or .csv")
    parser.add_argument("--plot", metavar="FILE", help="draw ΔLL, as .svg, .png or .pdf")
    parser.add_argument("--json", metavar="FILE", help="also write the report to FILE, or print only it for -")


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Which column of the table is what."""
    parser.add_argument("--time", default="time", metavar="COLUMN", help="reading times (default: time)")
    note = "stories or texts: folds are made of whole ones (default: story)"
    parser.add_argument("--group", default="story", metavar="COLUMN", help=note)
    note = "sentences of a group: spillover stays inside (default: sentence_id)"
    parser.add_argument("--sentence", default="sentence_id", metavar="COLUMN", help=note)
    parser.add_argument("--subject", metavar="COLUMN", help="readers: each gets a random intercept (mixed effects)")
    note = "words as they were shown, for punctuation (default: word)"
    parser.add_argument("--word", default="word", metavar="COLUMN", help=note)
    note = "predictors with spillover (default: length log_frequency punctuation)"
    default = ["length", "log_frequency", "punctuation"]
    parser.add_argument("--baseline", nargs="*", default=default, metavar="COLUMN", help=note)
    note = "predictors without it (default: position, in the sentence)"
    parser.add_argument("--controls", nargs="*", default=["position"], metavar="COLUMN", help=note)


def reading_command(args: argparse.Namespace) -> None:
    check_files([args.table])
    check_outputs(args.plot, args.increments, args.json, inputs=[args.table])
    if args.increments and Path(args.increments).suffix not in (".tsv", ".csv"):
        raise ValueError(f"{args.increments}: expected a file that ends in .tsv or .csv")
    if find_spec("statsmodels") is None:
        raise ImportError("som reading needs statsmodels: pip install 'som-lm[reading]'")
    made_with = provenance()
    from rich.console import Console

    from som.evaluation import evaluate_reading, read_frame, reading_figure

    frame = read_frame(args.table)
    try:
        with progress("som reading", unit="measures") as bar:
            report = evaluate_reading(frame, reading_settings(args), bar.update)
    except ValueError as error:
        hint = "; --time, --group, --sentence and --word name columns" * ("expected a column" in str(error))
        raise ValueError(f"{args.table}: {error}{hint}") from error
    Console(quiet=args.json == "-").print(report)
    if args.increments:
        write_out(to_text(report.increments(), args.increments).encode(), args.increments)
    if args.plot:
        write_picture(reading_figure(report), args.plot)
    if args.json:
        print_json({"command": args.line, **made_with, "table": args.table, **report.to_json()}, args.json)


def to_text(frame: Any, file: str) -> str:
    """A table as CSV, or as TSV in which nothing is quoted."""
    if file.endswith(".csv"):
        return frame.to_csv(index=False)
    one_line = frame.replace(r"[\t\r\n]", " ", regex=True)
    return one_line.to_csv(sep="\t", quoting=csv.QUOTE_NONE, quotechar=None, index=False)


def reading_settings(args: argparse.Namespace) -> Any:
    from som.evaluation import ReadingSettings

    same = ("time", "group", "sentence", "subject", "word", "measures", "baseline", "controls", "spillover")
    given = {name: getattr(args, name) for name in (*same, "folds", "permutations", "seed")}
    return ReadingSettings(**given, log=args.scale == "log")
