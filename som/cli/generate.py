"""som generate: sentences that the model makes up, with their trees."""

from __future__ import annotations

import argparse
from typing import Any

from som.cli.options import above_zero, add_command, add_texts, check_model, given_texts, positive
from som.cli.output import check_outputs, print_results


def add_generate(commands: Any) -> None:
    parser = add_command(
        commands,
        "generate",
        generate_command,
        "make up sentences, with their trees",
        "  som generate\n"
        "  som generate 'the old dog' -n 3 --top-p 0.9\n"
        "  som generate --template '((the _) (_ (a _)))' -n 5 --format brackets",
    )
    add_texts(parser, ["tree", "text", "brackets", "conll", "json"])
    parser.add_argument("-n", type=positive, default=1, help="texts to each beginning (default: 1)")
    parser.add_argument("--max-new-tokens", type=positive, default=60, metavar="N", help="(default: 60)")
    parser.add_argument("--greedy", action="store_true", help="take the best instead of drawing")
    parser.add_argument("--temperature", type=above_zero, default=1.0, metavar="T", help="(default: 1)")
    parser.add_argument("--top-k", type=positive, default=0, metavar="K", help="draw from the K best words")
    parser.add_argument("--top-p", type=above_zero, default=1.0, metavar="P", help="draw from the best, of mass P")
    parser.add_argument("--unknown", action="store_true", help="classes of unknown words may be drawn too")
    parser.add_argument("--max-depth", type=positive, metavar="D", help="the greatest depth of a new word")
    parser.add_argument("--template", help="the tree of the whole sentence, with _ for each word to be found")


def generate_command(args: argparse.Namespace) -> None:
    prompts = ([] if args.template and not args.file and not args.texts else given_texts(args)) or [""]
    check_outputs(None, args.out, args.json)
    check_model(args)
    from som.inference import generate, load, render

    model, tokenizer = load(args.model, device=args.device)
    sampling = ("n", "max_new_tokens", "temperature", "top_k", "top_p", "seed", "unknown", "max_depth", "template")
    options = {name: getattr(args, name) for name in sampling}
    results = [
        result
        for prompt in prompts
        for result in generate(model, tokenizer, prompt, do_sample=not args.greedy, **options)
    ]
    records = [{"text": result.text, **result.parse.to_dict(), "log_prob": result.log_prob} for result in results]
    print_results(args, records, lambda: render([result.parse for result in results], args.format))
