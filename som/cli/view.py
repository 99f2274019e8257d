"""som view: a page on which to watch the model read a sentence, word by word."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from som.cli.options import add_command, check_model, positive
from som.cli.output import check_outputs, check_page, write_out


def add_view(commands: Any) -> None:
    parser = add_command(
        commands,
        "view",
        view_command,
        "write a page on which to watch the model read, word by word",
        "  som view 'The horse raced past the barn fell.' --out barn.html --open\n"
        "  som view 'The horse raced past the barn fell.' --compare 'The horse that was raced past the barn fell.' "
        "--out barn.html",
    )
    parser.add_argument("text", metavar="TEXT", help="the sentence, of up to 80 words")
    parser.add_argument("--compare", metavar="TEXT", help="another sentence, such as a control, to set below it")
    parser.add_argument("--out", metavar="FILE", required=True, help="the page, a file that needs nothing else")
    parser.add_argument("--open", action="store_true", help="then show it in a browser")
    parser.add_argument("--model", metavar="CHECKPOINT", help="a folder or a model on the Hub (default: the shipped)")
    parser.add_argument("--words", action="store_true", help="the text is in tokens, separated by spaces")
    note = "how surprisal is computed, as in som surprisal (default: what the model's configuration says)"
    parser.add_argument("--method", choices=["greedy", "marginal", "particles", "beam"], help=note)
    parser.add_argument("--k", type=positive, metavar="K", help="trees to follow (default: a beam of 4, 32 particles)")
    parser.add_argument("--seed", type=int, default=0, help="random seed of particles (default: 0)")


def view_command(args: argparse.Namespace) -> None:
    check_outputs(None, args.out)
    check_page(args.out)
    check_model(args)
    from som.inference import load
    from som.view import SHIPPED_TITLE, page, trace

    model, tokenizer = load(args.model)
    texts = [args.text] if args.compare is None else [args.text, args.compare]
    sentences = [text.split() if args.words else text for text in texts]
    traces = [trace(model, tokenizer, one, args.method, k=args.k, seed=args.seed) for one in sentences]
    name = f"model {args.model}" if args.model else SHIPPED_TITLE
    write_out(page(traces, name).encode(), args.out)
    address = Path(args.out).resolve().as_uri()
    if args.open:
        import webbrowser

        webbrowser.open(address)
    print(address)
