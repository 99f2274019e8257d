"""som surprisal: how surprising each word is, and what its surprisal is made of."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from som.cli.lines import Answer, Piece, Reading, add_splitting, answer_all, check_texts, only_piece, splitter
from som.cli.options import add_command, add_method, add_texts, check_model, positive
from som.cli.output import check_outputs, write_picture

if TYPE_CHECKING:
    from som.inference import WordSurprisal


COLUMNS = {
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
}
GLOSSARY = "columns, surprisals and entropies in bits (more in docs/glossary.md):\n" + "\n".join(
    f"  {name:18}{meaning}" for name, meaning in COLUMNS.items()
)


def add_surprisal(commands: Any) -> None:
    parser = add_command(
        commands,
        "surprisal",
        surprisal_command,
        "print how surprising each word is, in bits, and what its surprisal is made of",
        "  som surprisal 'the horse raced past the barn fell .' --plot barn.svg\n"
        "  som surprisal 'the horse raced past the barn fell .' --attach '3=word 2' --parses 3\n"
        "  som surprisal --file items.txt --method beam --k 16 --spillover 2 --out items.tsv\n\n" + GLOSSARY,
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
    parser.add_argument(
        "--spillover",
        type=positive,
        default=0,
        metavar="N",
        help="also the columns of the N words before in the sentence, as surprisal_1, surprisal_2 …",
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
    unknown = Unknown(classes=hasattr(tokenizer, "word_id"))

    def read(pieces: list[Piece]) -> Iterator[list[Answer] | ValueError]:
        texts = [piece.text.split() if args.words else piece.text for piece in pieces]
        longest = PLOTTABLE if args.plot else None
        sentences = surprisals_chunk(model, tokenizer, texts, method, longest=longest, **options)
        for piece, rows in zip(pieces, sentences, strict=True):
            yield rows if isinstance(rows, ValueError) else [answer(piece, rows, args.spillover)]
            unknown.count([] if isinstance(rows, ValueError) else rows)
            if args.plot and not isinstance(rows, ValueError):
                keep(drawn, rows)

    code = answer_all(args, Reading(args, spans), read, header=to_tsv([], spillover=args.spillover))
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


@dataclass
class Unknown:
    """How many words were not in the training data, and what that means for their surprisal."""

    classes: bool  # whether unknown words share classes
    words: int = 0
    unknown: int = 0
    counted: bool = True

    def count(self, rows: Sequence[WordSurprisal]) -> None:
        words = [row for row in rows if row.length]  # not EOS
        self.words += len(words)
        self.unknown += sum(bool(row.unknown) for row in words)
        self.counted = self.counted and all(row.unknown is not None for row in words)

    def report(self) -> None:
        if not self.counted:
            message = "this checkpoint has no word counts: unknown and log_frequency are empty"
        elif self.unknown:
            own = "each has its own probability, from its pieces, and unknown only says that it is new"
            shared = "the number of each that is not in the vocabulary is that of its class, such as UNK-LC-ing"
            message = f"{self.unknown} of {self.words} words are not in the training data: "
            message += shared if self.classes else own
        else:
            return
        print(f"som surprisal: {message}", file=sys.stderr)


def answer(piece: Piece, rows: list[WordSurprisal], spillover: int) -> Answer:
    """The words of a sentence with offsets into its line, as a record and as text."""
    from som.inference import to_dicts, to_tsv

    words = [replace(row, start=row.start + piece.start, end=row.end + piece.start) for row in rows]
    (record,) = to_dicts({piece.number: words}, spillover)
    return {**record, **piece.about}, to_tsv({piece.number: words}, header=False, spillover=spillover)
