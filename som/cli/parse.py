"""som parse: the trees of sentences."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from som.cli.lines import Answer, LineReader, Piece, add_splitting, answer_all, check_texts, only_piece, splitter
from som.cli.options import add_command, add_method, add_texts, check_method, check_model
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
    add_texts(parser, ["tree", "brackets", "conllu", "evalb", "conll", "svg", "arcs", "html", "json"])
    add_splitting(parser)
    parser.add_argument("--binary", action="store_true", help="trees as the model builds them, without labels")
    parser.add_argument("--probabilities", action="store_true", help="with conllu: how probable each relation is")
    add_method(parser)


def parse_command(args: argparse.Namespace) -> int:
    check_texts(args)
    if args.probabilities and args.format != "conllu":
        raise ValueError(f"--probabilities are written with --format conllu, got {args.format}")
    check_outputs(None, args.out, args.json, inputs=args.file)
    check_method(args)
    check_model(args)
    spans = splitter(args)
    if args.format in ("svg", "arcs"):
        only_piece(args, "an SVG shows", spans)
    from modeling_som.scoring_som import Method
    from som.inference import CONLL_HEADER, DRAWABLE, load, parse_chunk

    model, tokenizer = load(args.model, device=args.device)
    method = Method.of(model, args.method, args.k, args.seed)
    log_probs = bool(args.json) or args.format in ("json", "html")  # of no other format, and most of the work
    longest = DRAWABLE if texts_wanted(args) and args.format in ("tree", "svg", "arcs", "html") else None

    def read(pieces: list[Piece]) -> Iterator[list[Answer] | ValueError]:
        texts = [piece.text.split() if args.words else piece.text for piece in pieces]
        options = {"batch_size": args.batch_size, "longest": longest, "log_probs": log_probs}
        parses = parse_chunk(model, tokenizer, texts, method, **options)
        for piece, parse in zip(pieces, parses, strict=True):
            yield parse if isinstance(parse, ValueError) else [parse_answer(args, piece, parse)]

    header, footer = CONLL_HEADER if args.format == "conll" else "", ""
    if args.format == "html":
        from som.view import reading_frame

        shown = "These are the trees that a SOM gives to sentences."
        header, footer = reading_frame("Trees", shown, ("trees", "labels"), args.model, method, args.line)
    return answer_all(args, LineReader(args, spans), read, header, footer)


def parse_answer(args: argparse.Namespace, piece: Piece, parse: Parse) -> Answer:
    """A parse with offsets into its line, as a record and as text."""
    from modeling_som.sentences_som import running_text
    from som.inference import write_parse

    offsets = [(start + piece.start, end + piece.start) for start, end in parse.offsets]
    parse = replace(parse, offsets=offsets)
    options = {"binary": args.binary, "probabilities": args.probabilities, "sent_id": piece.number}
    if args.format == "html":
        from som.view import parse_section

        return {**piece.about, **parse.to_dict()}, parse_section(parse, args.binary)
    text = write_parse(parse, args.format, **options) if texts_wanted(args) else ""
    if args.format == "conll":
        text = f"# sent_id = {piece.number}\n# text = {running_text(parse.words)}\n{text}"
    return {**piece.about, **parse.to_dict()}, text
