"""som surprisal: how surprising each word is, and what its surprisal is made of."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from som.cli.options import add_command, add_method, add_texts, check_model, positive
from som.cli.output import check_outputs, write_picture
from som.cli.reading import Answer, Piece, Reading, add_splitting, answer_all, check_texts, only_piece, splitter

if TYPE_CHECKING:
    from som.inference import WordSurprisal


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
    add_splitting(parser)
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


def surprisal_command(args: argparse.Namespace) -> int:
    check_texts(args)
    check_outputs(args.plot, args.out, args.json)
    check_model(args)
    spans = splitter(args)
    if args.attach:
        only_piece(args, "--attach is about", spans)
    from modeling_som.scoring_som import Method
    from som.inference import PLOTTABLE, load, plot, surprisals_chunk, to_tsv

    model, tokenizer = load(args.model, device=args.device)
    method = Method.of(model, args.method, args.k, args.seed, given=bool(args.attach))
    options = {"eos": args.eos, "attach": dict(args.attach), "parses": args.parses, "batch_size": args.batch_size}
    drawn: list[list[WordSurprisal]] = []

    def read(pieces: list[Piece]) -> Iterator[list[Answer] | ValueError]:
        texts = [piece.text.split() if args.words else piece.text for piece in pieces]
        longest = PLOTTABLE if args.plot else None
        sentences = surprisals_chunk(model, tokenizer, texts, method, longest=longest, **options)
        for piece, rows in zip(pieces, sentences, strict=True):
            yield rows if isinstance(rows, ValueError) else [answer(piece, rows)]
            if args.plot and not isinstance(rows, ValueError):
                keep(drawn, rows)

    code = answer_all(args, Reading(args, spans), read, header=to_tsv([]))
    if args.plot:
        write_picture(plot(drawn), args.plot)
    return code


def keep(drawn: list[list[WordSurprisal]], rows: list[WordSurprisal]) -> None:
    """Keep a sentence for the picture, if there is still room."""
    from som.inference import PANELS

    if len(drawn) == PANELS:
        raise ValueError(f"more than {PANELS} sentences are too many to draw with --plot")
    drawn.append(rows)


def answer(piece: Piece, rows: list[WordSurprisal]) -> Answer:
    """The words of a sentence with offsets into its line, as a record and as text."""
    from som.inference import to_dicts, to_tsv

    words = [replace(row, start=row.start + piece.start, end=row.end + piece.start) for row in rows]
    (record,) = to_dicts({piece.number: words})
    return {**record, **piece.about}, to_tsv({piece.number: words}, header=False)
