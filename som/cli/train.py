"""som train: train a model on prepared data."""

from __future__ import annotations

import argparse
import json
import shlex
from functools import partial
from pathlib import Path
from typing import Any

from som.cli.options import add_command, positive, progress_bars_only_in_terminals, say_next
from som.cli.output import check_outputs, check_page, write_out


def add_train(commands: Any) -> None:
    parser = add_command(
        commands,
        "train",
        train_command,
        "train a model on prepared data",
        "  som train data/en --out runs/en --report en.html\n"
        "  som train data/en --out runs/en --resume\n"
        "  som train data/en --out runs/en-lstm --system lstm --epochs 12\n"
        "  som train data/wsj --out runs/wsj --preset ptb --tree constituency --dsom\n"
        "  torchrun --standalone --nproc_per_node 2 -m som train data/en --out runs/en",
    )
    # a flag that is not given is left to the preset, or to the run that is resumed
    add = partial(parser.add_argument, default=argparse.SUPPRESS)
    parser.add_argument("data", metavar="DIR", help="a folder made by som prepare")
    parser.add_argument("--out", required=True, metavar="RUN", help="where checkpoints and the model go")
    parser.add_argument("--resume", action="store_true", help="resume the run in RUN, or start it")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in RUN")
    others = "lstm, gpt2, onlstm, onlstm-syd, prpn, om, shift-reduce, shift-reduce-lm, rnng or urnng"
    note = f"som (default), or what it is compared with: {others}"
    add("--system", metavar="NAME", help=note)
    add("--preset", help="small (default), ptb, bllip-xs, bllip-sm or bllip-md")
    add("--tree", help="dependency (default, 15 slots) or constituency (30 slots)")
    add("--start", metavar="CHECKPOINT", help="begin with this SOM (urnng: RNNG), in its sizes, not at random")
    note = "then write a web page: curves, trees and what is wrong in them, settings; with --resume, of a finished run"
    parser.add_argument("--report", metavar="F.html", help=note)
    add("--epochs", type=positive, metavar="N")
    add("--seed", type=int, metavar="N")
    model = partial(parser.add_argument_group("the model").add_argument, default=argparse.SUPPRESS)
    model("--hidden-size", type=positive, metavar="D")
    model("--dsom", action="store_true", help="disentangle syntax from meaning, in sizes of the preset")
    model("--syntactic-size", type=int, metavar="D", help="the syntactic part of the hidden size, 0 for a plain SOM")
    model("--num-slots", "--slots", type=positive, metavar="N")
    note = "read a word that occurs n times as unknown with chance C / (C + n) (default: 0)"
    model("--word-dropout", type=float, metavar="C", help=note)
    model("--embedding-dropout", type=float, metavar="P")
    model("--dropout", type=float, metavar="P")
    model("--output-dropout", type=float, metavar="P")
    model("--oracle", help="dynamic (default), dynamic_paper, static or left_branching")
    model("--left-branching", dest="oracle", action="store_const", const="left_branching", help="trivial trees")
    model("--no-prediction-network", dest="prediction_network", action="store_false")
    model("--next-attachment", help="what words are predicted from: oracle (default), sampled or marginal")
    model("--no-tags", dest="tree_tags", action="store_const", const=[], help="learn no relations or categories")
    model("--tag-loss", dest="tag_loss_weight", type=float, metavar="W", help="weight")
    note = "let the loss of the tags train the whole model (default), not only their classifier"
    model("--tag-gradient", action=argparse.BooleanOptionalAction, help=note)
    model("--lm-loss", dest="lm_loss_weight", type=float, metavar="W", help="weight, 0 for a parser alone")
    model("--structure-loss", dest="structure_loss_weight", type=float, metavar="W", help="weight")
    steps = partial(parser.add_argument_group("optimisation").add_argument, default=argparse.SUPPRESS)
    steps("--batch-size", type=positive, metavar="N", help="sentences per step, over all processes")
    steps("--gradient-accumulation", type=positive, metavar="N", help="parts that each process cuts its share into")
    steps("--learning-rate", type=float, metavar="R")
    steps("--schedule", help="cosine (default) or plateau: halve the rate when validation does not improve")
    steps("--beta1", type=float, metavar="B", help="Adam's momentum (default: 0)")
    steps("--weight-decay", type=float, metavar="W", help="times the rate, per step (small: 0.6, others: 0)")
    note = "how much of the mean of the weights a step keeps, such as 0.999; the mean is the model (default: 0)"
    steps("--averaging", type=float, metavar="D", help=note)
    steps("--teachers", nargs="+", metavar="RUN", help="learn from what these models expect, too")
    steps("--early-stopping", type=positive, metavar="N", help="stop after N epochs without improvement")
    steps("--save-steps", type=positive, metavar="N", help="a checkpoint every N steps, not only after each epoch")
    steps("--report-to", nargs="+", metavar="T", help="tensorboard, wandb, trackio or none (default: what is there)")
    steps("--bf16", action="store_true", help="mixed precision")
    steps("--trainer", type=trainer_argument, action="append", metavar="NAME=VALUE", help="any TrainingArguments")


def trainer_argument(text: str) -> tuple[str, Any]:
    """The type of NAME=VALUE, where the value is JSON or else a string."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def train_command(args: argparse.Namespace) -> None:
    if not Path(args.data).is_dir():
        raise ValueError(f"{args.data}: expected a folder made by `som prepare`, there is none")
    check_outputs(None, args.report)
    check_page(args.report)
    from transformers.utils import logging

    from som.baselines import train_system
    from som.training import SETTINGS

    progress_bars_only_in_terminals()
    logging.disable_progress_bar()  # it would cut into the bar of the training
    logging.set_verbosity_error()  # the Trainer takes tied weights, which are saved once, for missing ones
    given = {name: value for name, value in vars(args).items() if name in SETTINGS}
    if "trainer" in given:
        given["trainer"] = dict(given["trainer"])
    system = getattr(args, "system", None)
    metrics = train_system(system, args.data, args.out, resume=args.resume, overwrite=args.overwrite, **given)
    if metrics:
        result = validation_result(args.out, metrics)
        print(f"{args.out}: the model of epoch {metrics['epoch']:g}, validation {result}")
        if args.report:
            write_training_report(args)
        say_next(*next_commands(args.out))


def next_commands(run: str) -> list[str]:
    """What can be done with a trained model; only SOMs read texts."""
    from som.baselines import system_of

    evaluate = f"som evaluate {shlex.quote(run)} --treebank TEST.conllu --json results.json"
    parse = f"som parse --model {shlex.quote(run)} 'a text'"
    return [evaluate, parse] if system_of(run).name == "som" else [evaluate]


def validation_result(run: str, metrics: dict[str, float]) -> str:
    """The measure that chose the best epoch; the perplexity of a model that learns no words means nothing."""
    from som.training import learns_words

    return f"perplexity {metrics['ppl']:.2f}" if learns_words(Path(run)) else f"p acc {metrics['p_acc']:.1%}"


def write_training_report(args: argparse.Namespace) -> None:
    """Write a finished run as a web page; a SOM's trees are shown."""
    from som.baselines import load_baseline, system_of
    from som.view import run_report

    pair = load_baseline(args.out) if system_of(args.out).is_som else ()
    write_out(run_report(Path(args.out), Path(args.data), *pair).encode(), args.report)
    print(Path(args.report).resolve().as_uri())
