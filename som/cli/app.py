"""som app: a page on this machine on which to type sentences and watch the model read them."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from som.cli.options import add_command
from som.locating import find_checkpoint


def add_app(commands: Any) -> None:
    parser = add_command(
        commands,
        "app",
        app_command,
        "type sentences into a page and watch the model read them; on this machine alone, until Ctrl-C",
        "  som app --open\n  som app --model runs/en runs/de --port 8000",
    )
    parser.add_argument(
        "--model", nargs="+", metavar="CHECKPOINT", help="folders or models on the Hub to choose from (the shipped)"
    )
    parser.add_argument("--port", type=port, default=7860, help="another one if it is taken (default: 7860)")
    parser.add_argument("--open", action="store_true", help="also show the page in a browser")


def port(text: str) -> int:
    """The type of `--port`."""
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"expected a number up to 65535, got {text!r}")
    return int(text)


def app_command(args: argparse.Namespace) -> None:
    for model in args.model or ():
        find_checkpoint(model)
    if find_spec("gradio") is None:
        raise ImportError("the app needs Gradio: pip install 'som-lm[app]'")
    from som.view import SHIPPED_TITLE, app, serve

    models = {model: model for model in args.model or ()} or {SHIPPED_TITLE: None}
    serve(app(models), args.port, args.open)
