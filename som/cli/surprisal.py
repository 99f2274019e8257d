"""som surprisal: how surprising each word is, and what its surprisal is made of."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from som.cli.lines import Answer, LineReader, Piece, add_splitting, answer_all, check_texts, only_piece, splitter
from som.cli.options import add_command, add_method, add_texts, check_method, check_model, positive
from som.cli.output import check_outputs, write_picture
from som.cli.tables import add_table, check_table, table_command
from som.cli.unknown import Unknown

if TYPE_CHECKING:
    from som.inference import Surprisals, WordSurprisal


COLUMN_MEANINGS = {
    "sentence": "number of the sentence, from 1; sentence_id in tables",
    "number": "of the word in the sentence, or of the region, from 1",
    "word": "the word or region",
    "start": "where it begins in the text, in characters",
    "end": "where it ends",
    "tokens": "what the vocabulary has for it: the word, its class if it is unknown, or its pieces",
    "surprisal": "-log2 of the word's probability, summed over its pieces; with beam, given the trees kept before it",
    "structural": "-log2 p'(attachment), of the attachment that the word has in the parse",
    "lexical": "-log2 p(word | attachment)",
    "entropy_before": "entropy of p', over the word's attachments before it is seen",
    "entropy_after": "entropy of p, over the same once it is seen",
    "depth": "of the word in the binary tree",
    "closed": "constituents that the word shows to be complete (those open at the end are closed by EOS)",
    "opened": "1 if the word begins a constituent with its left sister, 0 if it goes on with one (needs tags)",
    "open": "constituents begun and not finished",
    "next_entropy": "entropy of the next word's distribution before the word is seen; of its first piece with BPE",
    "entropy_reduction": "next_entropy minus that of the following word (after the last word: before EOS)",
    "unknown": "1 if the word form is not in the training data",
    "length": "in characters",
    "log_frequency": "log10 of (count + 1) per million words of the training data",
    "parses": "with --parses, the best trees of the words so far",
    "surprisal_1": "with --spillover, the columns from surprisal on of the word before, of the one before it (_2) …",
    "given_word": "in tables, a column of yours that has the name of one of ours",
    "word_pos": "with --layout sap, the number of the region, from 0",
}
COLUMN_HELP = "\n".join(
    [
        "columns, surprisals and entropies in bits (more in docs/glossary.md):",
        *(f"  {name:18}{meaning}" for name, meaning in COLUMN_MEANINGS.items()),
        "",
        "of a region, surprisal, structural, lexical, closed, opened and entropy_reduction are sums over its words;",
        "next_entropy and entropy_before are the first word's; entropy_after, open, depth and parses the last word's;",
        "log_frequency is that of the rarest word with a letter or digit",
    ]
)


def add_surprisal(commands: Any) -> None:
    parser = add_command(
        commands,
        "surprisal",
        surprisal_command,
        "print how surprising each word is, in bits, and what its surprisal is made of",
        "  som surprisal 'the horse raced past the barn fell .' --plot barn.svg\n"
        "  som surprisal 'the horse raced past the barn fell .' --attach '3=word 2' --parses 3\n"
        "  som surprisal --file items.txt --method beam --k 16 --spillover 2 --out items.tsv\n"
        "  som surprisal --table items.csv --text-column sentence --regions --out regions.csv\n"
        "  som surprisal --table words.tsv --text-column word --sentence-columns story sentence --out out.parquet\n\n"
        + COLUMN_HELP,
    )
    add_texts(parser, ["tsv", "html", "json"])
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
    parser.add_argument(
        "--spillover",
        type=positive,
        default=0,
        metavar="N",
        help="also the columns of the N words or regions before in the sentence, as surprisal_1, surprisal_2 …",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw them, as .svg, .png or .pdf")
    add_table(parser)


def attachment(text: str) -> tuple[int, int | str]:
    """The type of `--attach`."""
    word, _, where = text.partition("=")
    if not word.isdecimal() or not (where.isdecimal() or where.startswith("word ")):
        raise argparse.ArgumentTypeError(f"expected WORD=DEPTH or 'WORD=word NUMBER', got {text!r}")
    return int(word), int(where) if where.isdecimal() else where


def surprisal_command(args: argparse.Namespace) -> int:
    check_table(args)
    check_texts(args)
    check_outputs(args.plot, args.out, args.json, inputs=args.file)
    check_method(args)
    check_model(args)
    if args.table:
        return table_command(args)
    spans = splitter(args)
    if args.attach:
        only_piece(args, "--attach is about", spans)
    from modeling_som.scoring_som import Method
    from som.inference import PLOTTABLE, load, plot, surprisals_chunk, to_tsv

    model, tokenizer = load(args.model, device=args.device)
    method = Method.of(model, args.method, args.k, args.seed, given=bool(args.attach))
    options = {"eos": args.eos, "attach": dict(args.attach), "parses": args.parses, "batch_size": args.batch_size}
    drawn: list[list[WordSurprisal]] = []
    unknown = Unknown.of(tokenizer, args.name)

    def read(pieces: list[Piece]) -> Iterator[list[Answer] | ValueError]:
        texts = [piece.text.split() if args.words else piece.text for piece in pieces]
        longest = PLOTTABLE if args.plot or args.format == "html" else None
        sentences = surprisals_chunk(model, tokenizer, texts, method, longest=longest, **options)
        for piece, rows in zip(pieces, sentences, strict=True):
            yield rows if isinstance(rows, ValueError) else [surprisal_answer(args, piece, rows)]
            unknown.count([] if isinstance(rows, ValueError) else rows)
            if args.plot and not isinstance(rows, ValueError):
                keep(drawn, rows)

    header, footer = to_tsv([], spillover=args.spillover), ""
    if args.format == "html":
        from som.view import reading_frame

        shown = "This is how surprising each word of some sentences is to a SOM, and what that is made of."
        terms = ("surprisal", "structural, lexical", "trees", "labels")
        header, footer = reading_frame("Surprisal, word by word", shown, terms, args.model, method, args.line)
    code = answer_all(args, LineReader(args, spans), read, header, footer)
    unknown.report()
    if args.plot:
        write_picture(plot(drawn), args.plot)
    return code


def keep(drawn: list[list[WordSurprisal]], rows: list[WordSurprisal]) -> None:
    """Keep a sentence for the picture, if there is still room."""
    from som.inference import PANELS

    if len(drawn) == PANELS:
        raise ValueError(f"more than {PANELS} sentences are too many to draw with --plot")
    drawn.append(rows)


def surprisal_answer(args: argparse.Namespace, piece: Piece, rows: Surprisals) -> Answer:
    """The words of a sentence with offsets into its line, as a record and as text."""
    from som.inference import to_dicts, to_tsv

    words = [replace(row, start=row.start + piece.start, end=row.end + piece.start) for row in rows]
    (record,) = to_dicts({piece.number: words}, args.spillover)
    if args.format == "html":
        from som.view import surprisal_section

        return {**record, **piece.about}, surprisal_section(words, rows.labels)
    return {**record, **piece.about}, to_tsv({piece.number: words}, header=False, spillover=args.spillover)
