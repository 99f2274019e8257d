"""som generate: sentences of the model, with their trees."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from som.cli.lines import Answer, LineReader, Piece, answer_all, check_texts, whole
from som.cli.options import above_zero, add_command, add_texts, check_model, positive
from som.cli.output import check_outputs, texts_wanted

SAMPLING = (
    "n",
    "max_new_tokens",
    "temperature",
    "top_k",
    "top_p",
    "seed",
    "unknown",
    "max_depth",
    "template",
    "batch_size",
)


def add_generate(commands: Any) -> None:
    parser = add_command(
        commands,
        "generate",
        generate_command,
        "generate sentences, with their trees",
        "  som generate\n"
        "  som generate 'the old dog' -n 3 --top-p 0.9\n"
        "  som generate --template '((the _) (_ (a _)))' -n 5 --format brackets",
    )
    add_texts(parser, ["tree", "text", "brackets", "conllu", "conll", "json"])
    parser.add_argument("-n", type=positive, default=1, help="texts per prompt (default: 1)")
    parser.add_argument("--max-new-tokens", type=positive, default=60, metavar="N", help="(default: 60)")
    parser.add_argument("--greedy", action="store_true", help="take the best instead of drawing")
    parser.add_argument("--temperature", type=above_zero, default=1.0, metavar="T", help="(default: 1)")
    parser.add_argument("--top-k", type=positive, default=0, metavar="K", help="draw from the K best words")
    parser.add_argument("--top-p", type=above_zero, default=1.0, metavar="P", help="draw from the best, of mass P")
    parser.add_argument("--unknown", action="store_true", help="classes of unknown words may be drawn too")
    parser.add_argument("--max-depth", type=positive, metavar="D", help="the greatest depth of a new word")
    parser.add_argument("--template", help="the tree of the whole sentence, with _ for each word to be found")


def generate_command(args: argparse.Namespace) -> int:
    check_texts(args)
    check_outputs(None, args.out, args.json, inputs=args.file)
    check_model(args)
    if not args.file and not args.texts and (args.template or sys.stdin.isatty()):
        args.texts = [""]  # nobody is asked to type a beginning
    from som.inference import CONLL_HEADER, load

    model, tokenizer = load(args.model, device=args.device)
    reading = LineReader(args, whole, default="")
    read = partial(continued, args, model, tokenizer)
    return answer_all(args, reading, read, CONLL_HEADER if args.format == "conll" else "")


def continued(
    args: argparse.Namespace, model: Any, tokenizer: Any, prompts: list[Piece]
) -> Iterator[list[Answer] | ValueError]:
    """The texts made up for each beginning, as records and as text."""
    from som.inference import generate, write_parse

    options = {name: getattr(args, name) for name in SAMPLING}
    for prompt in prompts:
        try:
            made = generate(model, tokenizer, prompt.text, do_sample=not args.greedy, **options)
        except ValueError as error:
            if args.template:  # which is wrong for every beginning
                raise
            yield error
            continue
        records = [{"text": one.text, **one.parse.to_dict(), "log_prob": one.log_prob} for one in made]
        names = [f"{prompt.number}-{number}" for number, _ in enumerate(made, start=1)]
        texts = [
            write_parse(one.parse, args.format, sent_id=name) if texts_wanted(args) else ""
            for one, name in zip(made, names, strict=True)
        ]
        yield list(zip(records, texts, strict=True))
