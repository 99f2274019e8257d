"""som garden-paths: how much harder ambiguous sentences are than their disambiguated versions."""

from __future__ import annotations

import argparse
from typing import Any

from som.cli.options import above_zero, add_command, check_files, check_model, positive
from som.cli.output import check_outputs, print_json, write_picture
from som.progress import progress
from som.provenance import provenance

ITEMS = """items: a table (.tsv, .csv, .jsonl) with two rows per item, its critical words between two bars; without
one, 24 items each of MV/RR, NP/S and NP/Z that come with the package:
  construction  item  condition      sentence
  NP/S          1     ambiguous      The detective noticed the window |had| been broken from the inside.
  NP/S          1     disambiguated  The detective noticed that the window |had| been broken from the inside."""


def add_garden_paths(commands: Any) -> None:
    parser = add_command(
        commands,
        "garden-paths",
        garden_paths_command,
        "measure garden-path effects, ambiguous minus disambiguated, by beam width and by cost",
        "  som garden-paths --plot effects.svg --json effects.json\n"
        "  som garden-paths items.tsv --model runs/en --k 1 8 --ms-per-bit 4 --weights 1:1 2:1\n\n" + ITEMS,
    )
    parser.add_argument("items", nargs="?", metavar="ITEMS", help="(default: those that come with the package)")
    parser.add_argument("--model", metavar="CHECKPOINT", help="a folder or a model on the Hub (default: the shipped)")
    parser.add_argument("--device", help="such as cpu (default), cuda, cuda:1 or mps")
    note = "beam widths: trees that are followed (default: 1 4 16 64)"
    parser.add_argument("--k", type=positive, nargs="+", default=[1, 4, 16, 64], metavar="K", help=note)
    note = "also S times the structural plus L times the lexical part, such as 1:1 or 2:0.5"
    parser.add_argument("--weights", type=weights, nargs="+", default=[], metavar="S:L", help=note)
    parser.add_argument("--ms-per-bit", type=above_zero, metavar="MS", help="your conversion to reading times")
    parser.add_argument("--plot", metavar="FILE", help="draw the effects by beam width, as .svg, .png or .pdf")
    parser.add_argument("--json", metavar="FILE", help="also write the effects to FILE, or print only them for -")


def weights(text: str) -> tuple[float, float]:
    """The type of `--weights`.

    >>> weights("2:0.5")
    (2.0, 0.5)
    """
    structural, _, lexical = text.partition(":")
    try:
        return float(structural), float(lexical)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected STRUCTURAL:LEXICAL such as 1:1, got {text!r}") from None


def garden_paths_command(args: argparse.Namespace) -> None:
    check_outputs(args.plot, args.json, inputs=[args.items])
    check_files([args.items] if args.items else [])
    check_model(args)
    made_with = provenance()
    from rich.console import Console

    from som.evaluation import SHIPPED_ITEMS, GardenPathReport, garden_path_effects, garden_path_figure, read_items
    from som.inference import load

    items, widths = read_items(args.items or SHIPPED_ITEMS), sorted(set(args.k))
    model, tokenizer = load(args.model, device=args.device)
    with progress("som garden-paths", total=2 * len(items) * len(widths)) as bar:
        effects = list(garden_path_effects(model, tokenizer, items, widths, bar.update))
    report = GardenPathReport(effects, args.weights, args.ms_per_bit)
    Console(quiet=args.json == "-").print(report)
    if args.plot:
        write_picture(garden_path_figure(report), args.plot)
    if args.json:
        print_json({"command": args.line, **made_with, **report.to_json()}, args.json)
