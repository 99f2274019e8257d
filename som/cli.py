"""The command `som`: each sub-command only translates its flags, calls one function and prints what comes back.

Whatever is wrong with the user's input is one line on standard error and exit code 2; SOM_DEBUG=1 shows the traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

from som.files import write_whole
from som.provenance import provenance

Command = Callable[[argparse.Namespace], None]
USER_ERRORS = (ValueError, OSError, ImportError)  # raised, with a message for the user, where input comes in


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    args = build_parser().parse_args(argv)
    args.line = shlex.join(["som", *argv])  # goes with results
    try:
        args.command(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, as in `som … | head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (KeyboardInterrupt, Exception) as error:
        if interruption := interruption_behind(error):
            print(f"som {args.name}: {str(interruption) or 'interrupted'}", file=sys.stderr)
            return getattr(interruption, "exit_code", 130)
        if not isinstance(error, USER_ERRORS) or os.environ.get("SOM_DEBUG"):
            raise
        print(f"som {args.name}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def interruption_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """The Ctrl-C that an error is, or that a library with several processes made an error of."""
    if error is None or isinstance(error, KeyboardInterrupt):
        return error
    return interruption_behind(error.__context__)


def build_parser() -> argparse.ArgumentParser:
    """All sub-commands; one `add_…` function each."""
    parser = Parser(prog="som", description="Syntactic Ordered Memory: a language model that parses while it reads.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add_prepare(commands)
    add_train(commands)
    add_evaluate(commands)
    add_parse(commands)
    add_generate(commands)
    add_surprisal(commands)
    add_bench(commands)
    add_push(commands)
    return parser


def add_command(commands: Any, name: str, run: Command, summary: str, examples: str) -> argparse.ArgumentParser:
    """A sub-command with its help, which ends in examples."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=run, name=name)
    return parser


def print_json(report: Any, file: str) -> None:
    """Write a report to a file, whole or not at all, or to standard output for `-`."""
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    write_out(text.encode(), None if file == "-" else file)


def write_out(content: bytes, file: str | None) -> None:
    """Write a file, whole or not at all, or to standard output without one."""
    if file is None:
        sys.stdout.write(content.decode())
        return
    try:
        write_whole(file, content)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ValueError(f"{file}: cannot be written: {error.strerror}") from error


def write_picture(figure: Any, file: str) -> None:
    """Write a figure as what the file's name says."""
    picture = BytesIO()
    figure.savefig(picture, format=Path(file).suffix[1:])
    write_out(picture.getvalue(), file)


def check_outputs(picture: str | None, *others: str | None) -> None:
    """Refuse, before any work, what could not be written after it."""
    for file in filter(None, (picture, *others)):
        if not Path(file).parent.is_dir() or Path(file).is_dir():
            raise ValueError(f"{file}: expected a file in a folder that exists")
    if picture and Path(picture).suffix not in (".svg", ".png", ".pdf"):
        raise ValueError(f"{picture}: expected a picture that ends in .svg, .png or .pdf")


def positive(text: str) -> int:
    """The type of flags that count something."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)


def progress_bars_only_in_terminals() -> None:
    """Keep logs and pipes free of the bars of `datasets`."""
    from datasets import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()


# som prepare


def add_prepare(commands: Any) -> None:
    parser = add_command(
        commands,
        "prepare",
        prepare_command,
        "turn a treebank into a data set and a vocabulary to train on",
        "  som prepare builtin --out data/builtin\n"
        "  som prepare --train en-train.conllu --validation en-dev.conllu --test en-test.conllu --out data/en\n"
        "  som prepare --wsj treebank_3/parsed/mrg/wsj --num-slots 30 --out data/wsj\n"
        "  som prepare --bllip bllip_87_89_wsj --train xs.txt --validation dev.txt --test test.txt --out data/xs\n"
        "  som prepare --text --parser spacy --train a.txt --validation b.txt --test c.txt --out data/silver",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("treebank", nargs="?", choices=["builtin"], help="the treebank that comes with the package")
    kind.add_argument("--wsj", metavar="DIR", help="the Wall Street Journal's sections 02–21, 24 and 23, in DIR")
    kind.add_argument("--bllip", metavar="DIR", help="files of DIR that the files of --train … name, one a line")
    kind.add_argument(
        "--hub", metavar="NAME", help="a data set with words and heads: NAME[:CONFIGURATION] or a folder"
    )
    kind.add_argument("--text", action="store_true", help="the files of --train … are plain text, to be parsed")
    for split in ("train", "validation", "test"):
        parser.add_argument(
            f"--{split}", nargs="+", metavar="F", help="CoNLL-U or bracketed trees, plain or .gz; or folders of them"
        )
    parser.add_argument("--parser", default="spacy", help="with --text: spacy[:MODEL] (default) or stanza[:LANGUAGE]")
    parser.add_argument(
        "--tokenizer",
        default="word",
        help="word[:N] (default, words seen at least N = 2 times), bpe:N, gpt2[:FOLDER] or model:CHECKPOINT",
    )
    parser.add_argument("--num-slots", type=positive, default=15, metavar="N", help="count trees deeper than this")
    parser.add_argument("--skip-bad", action="store_true", help="leave out, and count, sentences that cannot be read")
    parser.add_argument("--num-proc", type=positive, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="with builtin (default: 0)")
    parser.add_argument("--json", metavar="FILE", help="also write the summary to FILE, or print only it for -")
    parser.add_argument("--overwrite", action="store_true", help="replace data prepared earlier in DIR")
    parser.add_argument("--out", required=True, metavar="DIR", help="where the data set goes")


def prepare_sources(args: argparse.Namespace) -> dict[str, Any]:
    """Where each split comes from: files, or CoNLL-U sentences made on the way."""
    from som.data import SPLITS, hub_sentences
    from som.syntax import listed_files, parse_text, read_text, wsj_files

    given = {split: getattr(args, split) for split in SPLITS if getattr(args, split)}
    if whole := args.treebank or (args.wsj and "--wsj") or (args.hub and "--hub"):
        if given:
            raise ValueError(f"{whole} brings its own splits, expected no --{' --'.join(given)}")
        if args.wsj:
            return wsj_files(args.wsj)
        if args.hub:
            return {split: hub_sentences(args.hub, split, args.skip_bad) for split in SPLITS}
        from som.syntax import builtin_treebank

        return {split: builtin_treebank(split, args.seed) for split in SPLITS}
    if missing := [split for split in SPLITS if split not in given]:
        raise ValueError(f"expected builtin, --wsj, --hub or files for every split, --{' --'.join(missing)} missing")
    if args.bllip:
        return {split: listed_files(args.bllip, lists) for split, lists in given.items()}
    if args.text:
        return {split: parse_text(read_text(files), args.parser) for split, files in given.items()}
    return given


def prepare_command(args: argparse.Namespace) -> None:
    from som.data import prepare, summary_table, typical_tree

    if args.json and Path(args.json).parent not in (Path(args.out), *Path(args.out).parents):  # these will be there
        check_outputs(None, args.json)
    progress_bars_only_in_terminals()
    summary = prepare(
        prepare_sources(args),
        args.out,
        tokenizer=args.tokenizer,
        num_slots=args.num_slots,
        skip_bad=args.skip_bad,
        num_proc=args.num_proc,
        overwrite=args.overwrite,
        silver=args.parser if args.text else None,
    )
    if args.json:
        print_json(summary, args.json)
    if args.json != "-":
        from rich.console import Console

        Console().print(summary_table(summary))
        print(typical_tree(args.out).draw())


# som train


def add_train(commands: Any) -> None:
    parser = add_command(
        commands,
        "train",
        train_command,
        "train a model on prepared data",
        "  som train data/en --out runs/en\n"
        "  som train data/en --out runs/en --resume\n"
        "  som train data/wsj --out runs/wsj --preset ptb --tree constituency --dsom\n"
        "  torchrun --standalone --nproc_per_node 2 -m som train data/en --out runs/en",
    )
    # a flag that is not given is left to the preset, or to the run that is resumed
    add = partial(parser.add_argument, default=argparse.SUPPRESS)
    parser.add_argument("data", metavar="DIR", help="a folder made by som prepare")
    parser.add_argument("--out", required=True, metavar="RUN", help="where checkpoints and the model go")
    parser.add_argument("--resume", action="store_true", help="go on with the run in RUN, or begin it")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in RUN")
    add("--preset", help="small (default), ptb, bllip-xs, bllip-sm or bllip-md")
    add("--tree", help="dependency (default, 15 slots) or constituency (30 slots)")
    add("--start", metavar="CHECKPOINT", help="begin with this model, in its sizes, instead of random weights")
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
    model("--lm-loss", dest="lm_loss_weight", type=float, metavar="W", help="weight, 0 for a parser alone")
    model("--structure-loss", dest="structure_loss_weight", type=float, metavar="W", help="weight")
    steps = partial(parser.add_argument_group("optimisation").add_argument, default=argparse.SUPPRESS)
    steps("--batch-size", type=positive, metavar="N", help="sentences a step, over all processes")
    steps("--gradient-accumulation", type=positive, metavar="N", help="parts that each process cuts its share into")
    steps("--learning-rate", type=float, metavar="R")
    steps("--schedule", help="cosine (default) or plateau: halve the rate when validation does not improve")
    steps("--beta1", type=float, metavar="B", help="Adam's momentum (default: 0)")
    steps("--weight-decay", type=float, metavar="W", help="times the rate, per step (small: 0.6, others: 0)")
    steps("--teachers", nargs="+", metavar="RUN", help="learn from what these models expect, too")
    steps("--early-stopping", type=positive, metavar="N", help="stop after N epochs without improvement")
    steps("--save-steps", type=positive, metavar="N", help="a checkpoint every N steps, not only after each epoch")
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
    from transformers.utils import logging

    from som.training import SETTINGS, train

    progress_bars_only_in_terminals()
    logging.disable_progress_bar()  # it would cut into the bar of the training
    logging.set_verbosity_error()  # the Trainer takes tied weights, which are saved once, for missing ones
    given = {name: value for name, value in vars(args).items() if name in SETTINGS}
    if "trainer" in given:
        given["trainer"] = dict(given["trainer"])
    metrics = train(args.data, args.out, resume=args.resume, overwrite=args.overwrite, **given)
    if metrics:
        print(f"{args.out}: the model of epoch {metrics['epoch']:g}, validation perplexity {metrics['ppl']:.2f}")


# som evaluate


def add_evaluate(commands: Any) -> None:
    parser = add_command(
        commands,
        "evaluate",
        evaluate_command,
        "measure a model on treebanks, SyntaxGym's suites or BLiMP's pairs",
        "  som evaluate runs/en --treebank en-test.conllu --gold\n"
        "  som evaluate runs/en --treebank en-test.conllu --method marginal --json results.json\n"
        "  som evaluate runs/en --syntaxgym suites --competitors sg_results_summary.csv --chart circuits.svg\n"
        "  som evaluate runs/en --blimp blimp.jsonl.gz",
    )
    parser.add_argument("checkpoint", nargs="?", help="a folder or a model on the Hub (default: the shipped one)")
    parser.add_argument("--treebank", nargs="+", metavar="F", help="CoNLL-U or bracketed trees, plain or .gz")
    parser.add_argument("--syntaxgym", metavar="DIR", help="a folder of SyntaxGym suites, *.json")
    parser.add_argument("--competitors", metavar="F", help="with --syntaxgym: a CSV of model, corpus, suite, accuracy")
    parser.add_argument("--chart", metavar="F", help="with --syntaxgym: accuracy by circuit, as .svg, .png or .pdf")
    parser.add_argument("--blimp", metavar="F", help="BLiMP's pairs as JSON lines, plain or .gz")
    parser.add_argument("--gold", action="store_true", help="on treebanks, also with the gold trees given")
    add_method(parser)
    parser.add_argument("--seed", type=int, default=0, help="of the particles (default: 0)")
    parser.add_argument("--json", metavar="FILE", help="also write the report to FILE, or print only it for -")


def evaluate_command(args: argparse.Namespace) -> None:
    from rich.console import Console

    from modeling_som.scoring_som import Method
    from som.evaluation import read_competitors
    from som.inference import load

    check_outputs(args.chart, args.json)
    made_with = provenance()
    if (args.competitors or args.chart) and not args.syntaxgym:
        raise ValueError("--competitors and --chart are about --syntaxgym, which is not given")
    jobs, others = evaluations(args), read_competitors(args.competitors) if args.competitors else {}
    model, tokenizer = load(args.checkpoint)
    Method.of(model, args.method, args.k, args.seed, args.gold)
    console, results = Console(quiet=args.json == "-"), {}
    for section, job in jobs.items():
        results[section] = job(
            model, tokenizer, method=args.method, k=args.k, seed=args.seed, progress=sys.stderr.isatty()
        )
        console.print(results[section])
    if args.json:
        sections = {section: result.to_json() for section, result in results.items()}
        print_json({"command": args.line, **made_with, **sections}, args.json)
    if args.competitors or args.chart:
        compare(args, results["syntaxgym"], others, console)


def evaluations(args: argparse.Namespace) -> dict[str, Callable]:
    """What is to be measured, by section of the report, with everything it needs but the model."""
    from som.evaluation import evaluate, evaluate_blimp, evaluate_syntaxgym, load_suites, read_blimp
    from som.syntax import read_treebank, treebank_files

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
    if not jobs:
        raise ValueError("expected something to measure on: --treebank, --syntaxgym or --blimp")
    return jobs


def compare(args: argparse.Namespace, result: Any, others: dict[str, Any], console: Any) -> None:
    """Show a model's SyntaxGym scores beside those of others."""
    from som.evaluation import comparison, comparison_table, syntaxgym_chart

    name = Path(args.checkpoint or "SOM").name
    scores = comparison(result.report, name, others)
    console.print(comparison_table(scores, name))
    if args.chart:
        write_picture(syntaxgym_chart(scores, name), args.chart)


# som parse, generate, surprisal


def add_texts(parser: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    """What the three commands that take text have in common; the first format is the default."""
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="a sentence each (default: lines of standard input)")
    parser.add_argument("--file", nargs="+", metavar="F", help="files with a sentence a line, plain or .gz")
    parser.add_argument("--model", metavar="CHECKPOINT", help="a folder or a model on the Hub (default: the shipped)")
    parser.add_argument("--format", choices=formats, default=formats[0], help=f"(default: {formats[0]})")
    parser.add_argument("--out", metavar="FILE", help="where the output goes (default: standard output)")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE, or print only them for -")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")


def add_method(parser: argparse.ArgumentParser) -> None:
    """How sentences are scored."""
    note = "(default: what the model's configuration says)"
    parser.add_argument("--method", choices=["greedy", "marginal", "particles", "beam"], help=note)
    note = "trees that particles or beam follow (default: 32 particles, a beam of 4)"
    parser.add_argument("--particles", dest="k", type=positive, metavar="K", help=note)


def given_texts(args: argparse.Namespace) -> list[str]:
    """The sentences of the command line, of files, or of standard input."""
    from som.syntax import read_text

    if args.texts and args.file:
        raise ValueError("expected sentences or --file, got both")
    if args.file:
        return list(read_text(args.file))
    if args.texts:
        return args.texts
    if sys.stdin.isatty():
        print("reading sentences from standard input, one a line; Ctrl-D ends", file=sys.stderr)
    try:
        return [line.strip() for line in sys.stdin if line.strip()]
    except UnicodeDecodeError as error:
        raise ValueError("standard input: expected text in UTF-8, got other bytes") from error


def sentences_to_read(args: argparse.Namespace) -> list[Any]:
    """At least one sentence, as texts or as lists of words."""
    texts = given_texts(args)
    if not texts:
        raise ValueError("there is no text, expected at least one sentence")
    return [text.split() for text in texts] if args.words else texts


def print_results(args: argparse.Namespace, records: list[dict], rendered: Callable[[], str]) -> None:
    """Results in the format asked for, and as JSON beside it."""
    if args.json != "-":
        as_json = json.dumps(records, indent=2, ensure_ascii=False) + "\n"
        write_out((as_json if args.format == "json" else rendered()).encode(), args.out)
    if args.json:
        print_json(records, args.json)


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
    add_texts(parser, ["tree", "brackets", "evalb", "conll", "svg", "json"])
    parser.add_argument("--words", action="store_true", help="the text is in tokens, separated by spaces")
    add_method(parser)


def parse_command(args: argparse.Namespace) -> None:
    from som.inference import load, parse_all, render

    sentences = sentences_to_read(args)
    if args.format == "svg" and len(sentences) > 1:
        raise ValueError(f"an SVG shows one sentence, got {len(sentences)}")
    check_outputs(None, args.out, args.json)
    model, tokenizer = load(args.model)
    parses = parse_all(
        model, tokenizer, sentences, args.method, k=args.k, seed=args.seed, progress=sys.stderr.isatty()
    )
    print_results(args, [parse.to_dict() for parse in parses], lambda: render(parses, args.format))


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


def above_zero(text: str) -> float:
    """The type of flags that are rates."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return number


def generate_command(args: argparse.Namespace) -> None:
    from som.inference import generate, load, render

    prompts = ([] if args.template and not args.file and not args.texts else given_texts(args)) or [""]
    check_outputs(None, args.out, args.json)
    model, tokenizer = load(args.model)
    sampling = ("n", "max_new_tokens", "temperature", "top_k", "top_p", "seed", "unknown", "max_depth", "template")
    options = {name: getattr(args, name) for name in sampling}
    results = [
        result
        for prompt in prompts
        for result in generate(model, tokenizer, prompt, do_sample=not args.greedy, **options)
    ]
    records = [{"text": result.text, **result.parse.to_dict(), "log_prob": result.log_prob} for result in results]
    print_results(args, records, lambda: render([result.parse for result in results], args.format))


def add_surprisal(commands: Any) -> None:
    parser = add_command(
        commands,
        "surprisal",
        surprisal_command,
        "print how surprising each word is, in bits, and what its surprisal is made of",
        "  som surprisal 'the horse raced past the barn fell .' --plot barn.svg\n"
        "  som surprisal 'the horse raced past the barn fell .' --attach '3=word 2' --parses 3\n"
        "  som surprisal --file items.txt --method particles --out items.tsv",
    )
    add_texts(parser, ["tsv", "json"])
    parser.add_argument("--words", action="store_true", help="the text is in tokens, separated by spaces")
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
    parser.add_argument("--plot", metavar="FILE", help="draw them, as .svg, .png or .pdf")


def attachment(text: str) -> tuple[int, int | str]:
    """The type of `--attach`."""
    word, _, where = text.partition("=")
    if not word.isdecimal() or not (where.isdecimal() or where.startswith("word ")):
        raise argparse.ArgumentTypeError(f"expected WORD=DEPTH or 'WORD=word NUMBER', got {text!r}")
    return int(word), int(where) if where.isdecimal() else where


def surprisal_command(args: argparse.Namespace) -> None:
    from som.inference import load, plot, surprisals_all, to_dicts, to_tsv

    sentences = sentences_to_read(args)
    check_outputs(args.plot, args.out, args.json)
    model, tokenizer = load(args.model)
    results = surprisals_all(
        model,
        tokenizer,
        sentences,
        args.method,
        k=args.k,
        seed=args.seed,
        eos=args.eos,
        attach=dict(args.attach),
        parses=args.parses,
    )
    figure = plot(results) if args.plot else None  # or it says why not, before anything is written
    print_results(args, to_dicts(results), lambda: to_tsv(results))
    if figure:
        write_picture(figure, args.plot)


# som bench


def add_bench(commands: Any) -> None:
    parser = add_command(
        commands,
        "bench",
        bench_command,
        "measure speed beside the dense form, bare matrix products, an LSTM and GPT-2, and how cost grows",
        "  som bench --json bench.json --plot bench.svg\n  som bench --treebank en-dev.conllu --rounds 9",
    )
    parser.add_argument("--treebank", nargs="+", metavar="F", help="whose trees are built (default: the built-in one)")
    parser.add_argument("--rounds", type=positive, default=5, metavar="N", help="timings of everything (default: 5)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements, for a first look")
    parser.add_argument("--plot", metavar="FILE", help="a picture, .svg, .png or .pdf")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE, or - for standard output only")


def bench_command(args: argparse.Namespace) -> None:
    from rich.console import Console
    from transformers.utils import logging

    from som.bench import bench, builtin_pool, plot, sibling_pool, tables
    from som.syntax import read_treebank

    check_outputs(args.plot, args.json)
    made_with = provenance()
    logging.set_verbosity_error()  # the library's own GPT-2 makes it warn
    trees = (example.tree for example in read_treebank(args.treebank or []))
    pool = sibling_pool(trees) if args.treebank else builtin_pool()
    with Console(stderr=True).status("") as status:
        report = bench(pool, args.rounds, args.quick, status.update)
    if args.json:
        print_json({"command": args.line, **made_with, **report}, args.json)
    if args.json != "-":
        Console().print(*tables(report))
    if args.plot:
        write_picture(plot(report), args.plot)


# som push


def add_push(commands: Any) -> None:
    parser = add_command(
        commands,
        "push",
        push_command,
        "share a model on the Hub: weights, code, tokenizer and card; without --yes, only say what would be uploaded",
        "  som push runs/en me/som-en --results results.json --license cc-by-sa-4.0\n"
        "  som push runs/en me/som-en --results results.json --license cc-by-sa-4.0 --yes",
    )
    parser.add_argument("checkpoint", help="a folder with a model")
    parser.add_argument("repo_id", metavar="ORG/NAME", help="where it goes")
    parser.add_argument(
        "--results", nargs="+", default=[], metavar="F", help="files of som evaluate --json, for a new card"
    )
    parser.add_argument("--license", help="of the model, such as apache-2.0 or cc-by-sa-4.0")
    parser.add_argument("--language", default="en", help="(default: en)")
    parser.add_argument("--dataset", nargs="+", default=[], help="what it was trained on, by the names of the Hub")
    parser.add_argument("--private", action="store_true", help="make a new repository private")
    parser.add_argument("--yes", action="store_true", help="upload")


def push_command(args: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.filesize import decimal

    from som.evaluation import table_of_numbers
    from som.hub import push

    card = {"license": args.license, "language": args.language, "datasets": args.dataset}
    files = push(args.checkpoint, args.repo_id, args.results, dry_run=not args.yes, private=args.private, **card)
    table = table_of_numbers(f"{'uploaded' if args.yes else 'would be uploaded'} to {args.repo_id}", "size")
    for name, size in files.items():
        table.add_row(name, decimal(size))
    Console().print(table)
    if not args.yes:
        print("Nothing was uploaded: this was a dry run. With --yes it is done.")
