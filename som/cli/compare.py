"""som compare: sentences side by side, word by word."""

from __future__ import annotations

import argparse
from typing import Any

from som.cli.options import add_command, add_device, add_method, check_method, check_model
from som.cli.output import check_outputs, print_json, write_out, write_picture
from som.cli.tables import new_table
from som.cli.unknown import Unknown
from som.syntax import visible
from som.tables import table_kind


def add_compare(commands: Any) -> None:
    parser = add_command(
        commands,
        "compare",
        compare_command,
        "align sentences word by word and print how much more surprising the first is",
        "  som compare 'The horse raced past the barn fell.' 'The horse that was raced past the barn fell.'\n"
        "  som compare 'The boys are here.' 'The boys is here.' 'The boy is here.' --plot boys.svg --out boys.tsv\n\n"
        "The sentences are called A, B, C … Each is aligned with A: words that are the same, whatever their case,\n"
        "stand above each other (as difflib finds them), and between them the others in their order. Differences\n"
        "are A's bits minus the other's, where both have a word. Columns of the table: position, word_a, word_b …,\n"
        "surprisal_a, surprisal_b …, surprisal_a_minus_b …, and the same for structural and lexical, which\n"
        "docs/glossary.md explains.",
    )
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="two sentences or more")
    parser.add_argument("--words", action="store_true", help="sentences are in tokens, separated by spaces")
    parser.add_argument("--model", metavar="CHECKPOINT", help="a folder or a model on the Hub (default: the shipped)")
    add_device(parser)
    add_method(parser)
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--out", metavar="FILE", help="write a table, .tsv, .csv, .jsonl or .parquet; - for TSV")
    parser.add_argument("--json", metavar="FILE", help="write the comparison as JSON, or print only it for -")
    parser.add_argument("--plot", metavar="FILE", help="draw it, as .svg, .png or .pdf")


def compare_command(args: argparse.Namespace) -> None:
    check_outputs(args.plot, args.out, args.json)
    table_kind(args.out)
    check_method(args)
    check_model(args)
    from som.inference import compare, load

    model, tokenizer = load(args.model, device=args.device)
    texts = [text.split() if args.words else text for text in args.texts]
    found = compare(
        model, tokenizer, texts, args.method, k=args.k, seed=args.seed, batch_size=args.batch_size, words=args.words
    )
    figure = found.plot() if args.plot else None  # or too many words, before anything is written
    if args.out:
        with new_table(args.out, list(found.types), found.types, {}) as write_rows:
            write_rows(found.to_records())
    if args.json:
        print_json(found.to_dict(), args.json)
    if args.plot:
        write_picture(figure, args.plot)
    if not args.out and args.json != "-":
        write_out(visible(found.draw()).encode(), None)
    unknown = Unknown.of(tokenizer, args.name)
    for rows in found.sentences:
        unknown.count(rows)
    if unknown.unknown:
        unknown.report()
