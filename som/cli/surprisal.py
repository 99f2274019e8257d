"""som surprisal: how surprising each word is, and what its surprisal is made of."""

from __future__ import annotations

import argparse
from typing import Any

from som.cli.options import add_command, add_method, add_texts, check_model, positive, sentences_to_read
from som.cli.output import check_outputs, print_results, write_picture


def add_surprisal(commands: Any) -> None:
    parser = add_command(
        commands,
        "surprisal",
        surprisal_command,
        "print how surprising each word is, in bits, and what its surprisal is made of",
        "  som surprisal 'the horse raced past the barn fell .' --plot barn.svg\n"
        "  som surprisal 'the horse raced past the barn fell .' --attach '3=word 2' --parses 3\n"
        "  som surprisal --file items.txt --method particles --out items.tsv",
    )
    add_texts(parser, ["tsv", "json"])
    parser.add_argument("--words", action="store_true", help="the text is in tokens, separated by spaces")
    add_method(parser)
    parser.add_argument("--eos", action="store_true", help="also the end of the sentence")
    parser.add_argument("--parses", type=positive, default=0, metavar="K", help="also the K best parses at each word")
    parser.add_argument(
        "--attach",
        type=attachment,
        nargs="+",
        default=[],
        metavar="W=D",
        help="force word W to depth D, or for 'W=word V' to be the sister of what word V begins; words count from 1",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw them, as .svg, .png or .pdf")


def attachment(text: str) -> tuple[int, int | str]:
    """The type of `--attach`."""
    word, _, where = text.partition("=")
    if not word.isdecimal() or not (where.isdecimal() or where.startswith("word ")):
        raise argparse.ArgumentTypeError(f"expected WORD=DEPTH or 'WORD=word NUMBER', got {text!r}")
    return int(word), int(where) if where.isdecimal() else where


def surprisal_command(args: argparse.Namespace) -> None:
    sentences = sentences_to_read(args)
    check_outputs(args.plot, args.out, args.json)
    check_model(args)
    from som.inference import load, plot, surprisals_all, to_dicts, to_tsv

    model, tokenizer = load(args.model, device=args.device)
    results = surprisals_all(
        model,
        tokenizer,
        sentences,
        args.method,
        k=args.k,
        seed=args.seed,
        eos=args.eos,
        attach=dict(args.attach),
        parses=args.parses,
    )
    figure = plot(results) if args.plot else None  # or it says why not, before anything is written
    print_results(args, to_dicts(results), lambda: to_tsv(results))
    if figure:
        write_picture(figure, args.plot)
