"""som parse: the trees of sentences."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from som.cli.options import add_command, add_method, add_texts, check_model, sentences_to_read
from som.cli.output import check_outputs, print_results


def add_parse(commands: Any) -> None:
    parser = add_command(
        commands,
        "parse",
        parse_command,
        "print the trees of sentences",
        "  som parse 'the old dog barks at the cat .'\n"
        "  som parse --file sentences.txt --format evalb --out trees.txt\n"
        "  som parse --method beam --format svg 'the dog barks .' > tree.svg",
    )
    add_texts(parser, ["tree", "brackets", "evalb", "conll", "svg", "json"])
    parser.add_argument("--words", action="store_true", help="the text is in tokens, separated by spaces")
    add_method(parser)


def parse_command(args: argparse.Namespace) -> None:
    sentences = sentences_to_read(args)
    if args.format == "svg" and len(sentences) > 1:
        raise ValueError(f"an SVG shows one sentence, got {len(sentences)}")
    check_outputs(None, args.out, args.json)
    check_model(args)
    from som.inference import load, parse_all, render

    model, tokenizer = load(args.model, device=args.device)
    parses = parse_all(
        model, tokenizer, sentences, args.method, k=args.k, seed=args.seed, progress=sys.stderr.isatty()
    )
    print_results(args, [parse.to_dict() for parse in parses], lambda: render(parses, args.format))
