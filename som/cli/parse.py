"""som parse: the trees of sentences."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from som.cli.options import add_command, add_method, add_texts, sentences_to_read
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
    add_texts(parser, ["tree", "brackets", "conllu", "evalb", "conll", "svg", "json"])
    parser.add_argument("--words", action="store_true", help="the text is in tokens, separated by spaces")
    parser.add_argument("--binary", action="store_true", help="trees as the model builds them, without labels")
    parser.add_argument("--probabilities", action="store_true", help="with conllu: how probable each relation is")
    add_method(parser)


def parse_command(args: argparse.Namespace) -> None:
    from som.inference import load, parse_all, render

    sentences = sentences_to_read(args)
    if args.format == "svg" and len(sentences) > 1:
        raise ValueError(f"an SVG shows one sentence, got {len(sentences)}")
    check_outputs(None, args.out, args.json)
    model, tokenizer = load(args.model)
    parses = parse_all(
        model, tokenizer, sentences, args.method, k=args.k, seed=args.seed, progress=sys.stderr.isatty()
    )
    print_results(
        args,
        [parse.to_dict() for parse in parses],
        lambda: render(parses, args.format, args.binary, args.probabilities),
    )
