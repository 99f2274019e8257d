"""som push: share a model on the Hub."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from som.cli.options import add_command, check_files


def add_push(commands: Any) -> None:
    parser = add_command(
        commands,
        "push",
        push_command,
        "share a model on the Hub: weights, code, tokenizer and card; without --yes, only say what would be uploaded",
        "  som push runs/en me/som-en --results results.json --license cc-by-sa-4.0\n"
        "  som push runs/en me/som-en --results results.json --license cc-by-sa-4.0 --yes\n"
        "  som push runs/en me/watch-som-en --space --yes",
    )
    parser.add_argument("checkpoint", help="a folder with a model")
    parser.add_argument("repo_id", metavar="ORG/NAME", help="where it goes")
    parser.add_argument(
        "--results", nargs="+", default=[], metavar="F", help="files of som evaluate --json, for a new card"
    )
    parser.add_argument("--license", help="of the model, such as apache-2.0 or cc-by-sa-4.0")
    parser.add_argument("--language", default="en", help="(default: en)")
    parser.add_argument("--dataset", nargs="+", default=[], help="what it was trained on, by the names of the Hub")
    note = "push an app that shows the model (see som app), as a Gradio Space that holds all that it needs"
    parser.add_argument("--space", action="store_true", help=note)
    parser.add_argument("--private", action="store_true", help="make a new repository private")
    parser.add_argument("--yes", action="store_true", help="upload")


def push_command(args: argparse.Namespace) -> None:
    check_files(args.results)
    if args.space and args.results:
        raise ValueError("--results is for the card of a model, expected it without --space")
    if args.space and find_spec("gradio") is None:
        raise ImportError("a Space runs the app, which needs Gradio: pip install 'som-lm[app]'")
    if not Path(args.checkpoint).is_dir():
        raise ValueError(f"{args.checkpoint}: expected a checkpoint: no such folder")
    from rich.console import Console
    from rich.filesize import decimal

    from som.evaluation import table_of_numbers
    from som.hub import push, push_space

    where: dict[str, Any] = {"dry_run": not args.yes, "private": args.private, "license": args.license}
    if args.space:
        files = push_space(args.checkpoint, args.repo_id, **where)
    else:
        card = {"language": args.language, "datasets": args.dataset}
        files = push(args.checkpoint, args.repo_id, args.results, **where, **card)
    table = table_of_numbers(f"{'uploaded' if args.yes else 'would be uploaded'} to {args.repo_id}", "size")
    for name, size in files.items():
        table.add_row(name, decimal(size))
    Console().print(table)
    if not args.yes:
        print("Nothing was uploaded: this was a dry run. With --yes it is done.")
