"""som evaluate: measure a model on treebanks, SyntaxGym and BLiMP."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from som.cli.options import add_command, add_device, add_method, check_files, check_method, say_next
from som.cli.output import check_outputs, check_page, print_json, write_out, write_picture
from som.locating import find_checkpoint
from som.progress import progress
from som.provenance import provenance
from som.syntax import read_treebank, treebank_files

RNNG_BEAM = 10  # `som.baselines.rnng.WORD_BEAM`, whose import is slow


def add_evaluate(commands: Any) -> None:
    parser = add_command(
        commands,
        "evaluate",
        evaluate_command,
        "measure a model on treebanks, SyntaxGym's suites or BLiMP's pairs",
        "  som evaluate runs/en --treebank en-test.conllu --gold\n"
        "  som evaluate runs/en --treebank en-test.conllu --method marginal --json results.json\n"
        "  som evaluate runs/en --treebank en-test.conllu --report en.html\n"
        "  som evaluate runs/en --syntaxgym suites --competitors sg_results_summary.csv --chart circuits.svg\n"
        "  som evaluate runs/en --blimp blimp.jsonl.gz",
    )
    note = (
        "a folder or a model on the Hub (default: the shipped one); "
        f"RNNGs are read with a beam of {RNNG_BEAM} trees (another: --method beam --k K)"
    )
    parser.add_argument("checkpoint", nargs="?", help=note)
    parser.add_argument("--treebank", nargs="+", metavar="F", help="CoNLL-U or bracketed trees, plain or .gz")
    parser.add_argument("--syntaxgym", metavar="DIR", help="a folder of SyntaxGym suites, *.json")
    parser.add_argument("--competitors", metavar="F", help="with --syntaxgym: a CSV of model, corpus, suite, accuracy")
    parser.add_argument("--chart", metavar="F", help="with --syntaxgym: accuracy by circuit, as .svg, .png or .pdf")
    parser.add_argument("--blimp", metavar="F", help="BLiMP's pairs as JSON lines, plain or .gz")
    parser.add_argument("--gold", action="store_true", help="on treebanks, also with the gold trees given")
    add_device(parser)
    add_method(parser)
    parser.add_argument("--seed", type=int, default=0, help="of the particles (default: 0)")
    parser.add_argument("--json", metavar="FILE", help="also write the report to FILE, or print only it for -")
    note = "also write it as a web page, with trees of the treebank and what is wrong in them"
    parser.add_argument("--report", metavar="F.html", help=note)


def evaluate_command(args: argparse.Namespace) -> None:
    check_outputs(args.chart, args.json, args.report)
    check_page(args.report)
    check_inputs(args)
    made_with = provenance()
    from rich.console import Console

    from modeling_som.scoring_som import Method
    from som.baselines import system_of
    from som.evaluation import read_competitors
    from som.inference import load

    system = system_of(args.checkpoint)
    jobs, others = evaluations(args, system), read_competitors(args.competitors) if args.competitors else {}
    model, tokenizer = load(args.checkpoint, system.model_class, args.device)  # type: ignore[arg-type]  # any class
    if system.is_som:
        Method.of(model, args.method, args.k, args.seed, args.gold)
    console, results = Console(quiet=args.json == "-"), {}
    for section, job in jobs.items():
        with progress(f"som evaluate, {section}") as bar:
            results[section] = job(model, tokenizer, **({"progress": bar.update} if system.is_som else {}))
        console.print(results[section])
    if args.json:
        sections = {section: result.to_json() for section, result in results.items()}
        print_json({"command": args.line, **made_with, **sections}, args.json)
    if args.json and args.json != "-" and args.checkpoint:
        say_next(shlex.join(["som", "push", args.checkpoint, "OWNER/NAME", "--results", args.json]))
    compared = []
    if args.competitors or args.chart:
        compared = [show_competitors(args, results["syntaxgym"], others, console)]
    if args.report:
        write_evaluation_report(args, model, tokenizer, system.is_som, results, compared)


def check_inputs(args: argparse.Namespace) -> None:
    """Refuse what is not there, or not enough, before what is slow to import."""
    if (args.competitors or args.chart) and not args.syntaxgym:
        raise ValueError("--competitors and --chart are about --syntaxgym, which is not given")
    if not (args.treebank or args.syntaxgym or args.blimp):
        raise ValueError("expected something to measure on: --treebank, --syntaxgym or --blimp")
    check_method(args)
    treebank_files(args.treebank or [])
    check_files(filter(None, (args.blimp, args.competitors)))
    if args.syntaxgym and not Path(args.syntaxgym).is_dir():
        raise ValueError(f"{args.syntaxgym}: expected a folder of suites, there is none")
    if args.checkpoint:
        find_checkpoint(args.checkpoint)


def evaluations(args: argparse.Namespace, system: Any) -> dict[str, Callable]:
    """What is to be measured, by section of the report, with everything it needs but the model."""
    from som.evaluation import load_suites, read_blimp

    evaluate, evaluate_syntaxgym, evaluate_blimp = evaluators(args, system)
    jobs: dict[str, Callable] = {}
    if args.treebank:
        name = " + ".join(file.name.partition(".")[0] for file in treebank_files(args.treebank))
        jobs["treebank"] = partial(evaluate, examples=list(read_treebank(args.treebank)), name=name)
        if args.gold:
            jobs["treebank_gold"] = partial(jobs["treebank"], gold=True)
    if args.syntaxgym:
        jobs["syntaxgym"] = partial(evaluate_syntaxgym, suites=load_suites(args.syntaxgym))
    if args.blimp:
        jobs["blimp"] = partial(evaluate_blimp, pairs=list(read_blimp(args.blimp)))
    return jobs


def evaluators(args: argparse.Namespace, system: Any) -> tuple[Callable, Callable, Callable]:
    """The functions that measure a system on treebanks, SyntaxGym and BLiMP; only SOMs have a choice of methods."""
    from som.evaluation import evaluate, evaluate_blimp, evaluate_syntaxgym

    if not system.is_som:
        method = None if system.has_beam and args.method == "beam" else args.method
        for flag, given in (("--method", method), ("--gold", args.gold), ("--batch-size", args.batch_size)):
            if given:
                raise ValueError(f"{flag} is for SOMs, and {args.checkpoint} is of the system {system.name}")
        system = system.with_beam(args.k) if args.k else system
        return system.evaluate, system.evaluate_syntaxgym, system.evaluate_blimp
    options = {"method": args.method, "k": args.k, "seed": args.seed, "batch_size": args.batch_size}
    return partial(evaluate, **options), partial(evaluate_syntaxgym, **options), partial(evaluate_blimp, **options)


def show_competitors(args: argparse.Namespace, report: Any, others: dict[str, Any], console: Any) -> Any:
    """Show a model's SyntaxGym scores beside those of others; their table."""
    from som.evaluation import comparison, comparison_table, syntaxgym_chart

    name = Path(args.checkpoint or "SOM").name
    scores = comparison(report, name, others)
    table = comparison_table(scores, name)
    console.print(table)
    if args.chart:
        write_picture(syntaxgym_chart(scores, name), args.chart)
    return table


def write_evaluation_report(
    args: argparse.Namespace, model: Any, tokenizer: Any, is_som: bool, results: dict[str, Any], compared: list[Any]
) -> None:
    """Write what was measured as a web page; a SOM's trees are shown."""
    from modeling_som.scoring_som import Method
    from som.view import SHIPPED_TITLE, evaluation_report, trees

    shown, name = None, f"the model {args.checkpoint}" if args.checkpoint else SHIPPED_TITLE
    if is_som and args.treebank:
        method = Method.of(model, args.method, args.k, args.seed)
        shown = trees(model, tokenizer, list(read_treebank(args.treebank)), method)
    write_out(evaluation_report(name, args.line, results, compared, shown).encode(), args.report)
    print(Path(args.report).resolve().as_uri(), file=sys.stderr if args.json == "-" else sys.stdout)
