"""som parse: the trees of sentences."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from som.cli.lines import Answer, Piece, Reading, add_splitting, answer_all, check_texts, only_piece, splitter
from som.cli.options import add_command, add_method, add_texts, check_model
from som.cli.output import check_outputs, texts_wanted

if TYPE_CHECKING:
    from som.inference import Parse


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
    add_texts(parser, ["tree", "brackets", "conllu", "evalb", "conll", "svg", "arcs", "json"])
    add_splitting(parser)
    parser.add_argument("--binary", action="store_true", help="trees as the model builds them, without labels")
    parser.add_argument("--probabilities", action="store_true", help="with conllu: how probable each relation is")
    add_method(parser)


def parse_command(args: argparse.Namespace) -> int:
    check_texts(args)
    check_outputs(None, args.out, args.json)
    check_model(args)
    spans = splitter(args)
    if args.format in ("svg", "arcs"):
        only_piece(args, "an SVG shows", spans)
    from modeling_som.scoring_som import Method
    from som.inference import CONLL_HEADER, DRAWABLE, load, parse_chunk

    model, tokenizer = load(args.model, device=args.device)
    method = Method.of(model, args.method, args.k, args.seed)
    longest = DRAWABLE if texts_wanted(args) and args.format in ("tree", "svg", "arcs") else None

    def read(pieces: list[Piece]) -> Iterator[list[Answer] | ValueError]:
        texts = [piece.text.split() if args.words else piece.text for piece in pieces]
        parses = parse_chunk(model, tokenizer, texts, method, batch_size=args.batch_size, longest=longest)
        for piece, parse in zip(pieces, parses, strict=True):
            yield parse if isinstance(parse, ValueError) else [answer(args, piece, parse)]

    return answer_all(args, Reading(args, spans), read, CONLL_HEADER if args.format == "conll" else "")


def answer(args: argparse.Namespace, piece: Piece, parse: Parse) -> Answer:
    """A parse with offsets into its line, as a record and as text."""
    from modeling_som.sentences_som import running_text
    from som.inference import write_parse

    offsets = [(start + piece.start, end + piece.start) for start, end in parse.offsets]
    parse = replace(parse, offsets=offsets)
    options = {"binary": args.binary, "probabilities": args.probabilities, "sent_id": piece.number}
    text = write_parse(parse, args.format, **options) if texts_wanted(args) else ""
    if args.format == "conll":
        text = f"# sent_id = {piece.number}\n# text = {running_text(parse.words)}\n{text}"
    return {**piece.about, **parse.to_dict()}, text
