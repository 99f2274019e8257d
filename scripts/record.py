"""What the scripts share: their flags, and results that say how they came about.

A row of a table is trained and measured once: its result, a JSON file, is the sign that it is done. An interrupted
script, started again, skips finished rows and goes on with the training that was interrupted. Trained models are
shared between scripts, so two scripts at once should not be after the same one.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from transformers.utils import logging

from modeling_som import SOMForCausalLM
from som.baselines import evaluate_trees, tree_baselines
from som.cli import USER_ERRORS, positive, progress_bars_only_in_terminals
from som.data import SUMMARY, prepare
from som.evaluation import evaluate
from som.files import write_whole
from som.hub import slug
from som.inference import load
from som.provenance import provenance
from som.syntax import Example, evalb_line, read_treebank, treebank_files
from som.training import LOG, RUN, Builder, make_model, train

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
Files = tuple[Path, ...]
TINY = {"hidden_size": 16, "epochs": 1, "sentences": 100}
PAPER = {"next_attachment": "sampled"}  # what a row does not change is as there
# What a model of the open tables has unless its row says otherwise; all of them train on two cores in some hours.
OPEN = {
    **PAPER,
    "hidden_size": 128,
    "batch_size": 64,
    "epochs": 6,
    "learning_rate": 4e-3,
    "weight_decay": 0.0,
    "dropout": 0.1,
}


# The command line


def flags(description: str | None, open_data: bool = False) -> argparse.ArgumentParser:
    """What every script understands; those that use open data want a folder of it."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if open_data:
        note = f"with ud/, ptb-sample/, syntaxgym/ and blimp/ ({DATA.relative_to(ROOT.parent)} beside the project)"
        parser.add_argument("--data", type=Path, default=DATA, metavar="DIR", help=note)
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="trained models (runs)")
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="figures (results, of other sizes than the tables' in RUNS)"
    )
    parser.add_argument("--only", nargs="+", metavar="ROW", help="these rows of the table")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="N", help="instead of those of each row")
    parser.add_argument("--epochs", type=positive, metavar="N")
    parser.add_argument("--hidden-size", type=positive, metavar="D")
    parser.add_argument("--tiny", action="store_true", help="a trial: 100 sentences, hidden size 16, one epoch")
    return parser


def run(
    main: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> int:
    """Call a script's main function and return its exit code; what is wrong with the input is one line."""
    args = parser.parse_args(argv)
    args.script = Path(sys.modules[main.__module__].__file__ or "").stem
    args.command = shlex.join(["python", f"scripts/{args.script}.py", *(sys.argv[1:] if argv is None else argv)])
    args.provenance = provenance()
    args.budget = OPEN if "data" in args else PAPER
    sizes = TINY if args.tiny else {}
    args.sentences = sizes.get("sentences")
    args.given = {name: getattr(args, name) or sizes.get(name) for name in ("epochs", "hidden_size")}
    args.given = {name: value for name, value in args.given.items() if value}
    if args.given:  # its models and figures are not those of the tables
        args.runs /= "tiny" if args.tiny else slug(" ".join(f"{name} {value}" for name, value in args.given.items()))
    args.results = args.results or (args.runs / "results" if args.given else Path("results"))
    progress_bars_only_in_terminals()
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # the Trainer takes tied weights, which are saved once, for missing ones
    try:
        if not getattr(args, "data", ROOT).is_dir():
            raise FileNotFoundError(f"{args.data}: there is no such folder; --data names that of treebanks and suites")
        main(args)
    except KeyboardInterrupt:
        print(f"interrupted; the same command goes on: {args.command}", file=sys.stderr)
        return 130
    except USER_ERRORS as error:
        print(f"{args.script}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


# Data


def treebank(args: argparse.Namespace, file: str) -> Files:
    """A treebank of the data folder, or for a trial its first sentences."""
    return shortened(args, file, (existing(args.data / file),))


def existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    return path


def shortened(args: argparse.Namespace, name: str, files: Sequence[Path]) -> Files:
    """Files of a treebank as they are, or for a trial its first sentences, in a file of that name."""
    if not args.sentences:
        return tuple(files)
    path = args.runs / "treebanks" / f"{Path(name).name.partition('.')[0]}.mrg"
    return (write_trees(path, islice(read_treebank(files), args.sentences)),)


def write_trees(file: Path, examples: Iterable[Example]) -> Path:
    """Sentences with their trees as a treebank of their own, one a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, "".join(f"{evalb_line(example.tree)}\n" for example in examples))
    return file


def prepared(args: argparse.Namespace, name: str, splits: Mapping[str, Files], **options: Any) -> Path:
    """The folder of a data set, made if it is not there; options are those of `som.data.prepare`."""
    folder = args.runs / "data" / name
    if not (folder / SUMMARY).is_file():
        print(f"{folder}: preparing", flush=True)
        prepare(splits, folder, **options)
    check_files(folder, splits)
    return folder


def check_files(folder: Path, splits: Mapping[str, Files]) -> None:
    """Refuses a data set that was made of other files; the project may have moved meanwhile."""
    made = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))["splits"]
    for split, files in splits.items():
        asked = treebank_files(files)
        if [Path(file).parts[-2:] for file in made[split]["files"]] != [file.parts[-2:] for file in asked]:
            raise ValueError(f"{folder}: {split} was not made of {asked[0]}: remove the folder or use --runs")


@cache
def examples(files: Files) -> list[Example]:
    return list(read_treebank(files))


def held_out(splits: Mapping[str, Files]) -> dict[str, Files]:
    """What is measured on: choices are made by the validation split, tables show the test split."""
    return {split: splits[split] for split in ("validation", "test")}


# Models


def trained(
    args: argparse.Namespace, data: Path, name: str, seed: int, build: Builder = make_model, **settings: Any
) -> Path:
    """The run of a model, which is begun, resumed or already there."""
    folder = args.runs / data.name / f"{slug(name)}-{seed}"
    train(data, folder, resume=True, build=build, seed=seed, **with_sizes(args, settings))
    return folder


def with_sizes(args: argparse.Namespace, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with the table's budget and the command line's sizes; a dSOM's syntactic part is a quarter."""
    sized = {**args.budget, **settings, **args.given}
    quarter = settings.get("dsom") and "hidden_size" in sized
    return {**sized, **({"syntactic_size": sized["hidden_size"] // 4} if quarter else {})}


def about_run(folder: Path, parameters: int) -> dict[str, Any]:
    """What is kept of a training: all its settings, the model's size, what it was trained on, and its validations."""
    run = json.loads((folder / RUN).read_text(encoding="utf-8"))
    log = map(json.loads, (folder / LOG).read_text(encoding="utf-8").splitlines())
    validations = [entry for entry in log if "eval_ppl" in entry]
    about = {"training": run["settings"], "data": run["data"], "best": run["validation"], "validations": validations}
    return {"parameters": parameters, **about}


def validation_ppl(folder: Path) -> float:
    """What a run's best model had on the validation split."""
    return json.loads((folder / RUN).read_text(encoding="utf-8"))["validation"]["ppl"]


def measured(
    folder: Path,
    treebanks: Mapping[str, Files],
    method: str | None = None,
    gold: bool = False,
    kind: type[SOMForCausalLM] = SOMForCausalLM,
) -> dict[str, Any]:
    """A trained SOM's figures on treebanks."""
    model, tokenizer = load(folder, kind)
    reports = {
        name: evaluate(model, tokenizer, examples(files), method, gold, name).to_json()
        for name, files in treebanks.items()
    }
    return {**about_run(folder, model.num_parameters()), "evaluations": reports}


def measured_trees(name: str, seed: int, treebanks: Mapping[str, Files]) -> dict[str, Any]:
    """The figures of trees that need no model."""
    parse = tree_baselines(seed)[name]
    reports = {split: evaluate_trees(parse, examples(files), name, split) for split, files in treebanks.items()}
    return {"evaluations": {split: report.to_json() for split, report in reports.items()}}


# Results


def record(
    args: argparse.Namespace, row: str, seed: int, settings: Mapping[str, Any], measure: Callable[[], dict[str, Any]]
) -> None:
    """Measure a row of the script's table and keep the result, unless that has been done."""
    file = result_file(args, args.script, row, seed)
    where = {"table": args.script, "row": row, "place": args.rows.index(row), "seed": seed}
    about = {**where, "settings": {**settings, **args.given}}
    if file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))["settings"]
        if before != about["settings"]:
            raise ValueError(
                f"{file}: was made with {before}, expected {about['settings']}: remove it or use --results"
            )
        print(f"{row}, seed {seed}: done before", flush=True)
        return
    print(f"{row}, seed {seed}", flush=True)
    result = {**about, "command": args.command, **args.provenance, **measure()}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def result_file(args: argparse.Namespace, table: str, row: str, seed: int) -> Path:
    return args.results / table / f"{slug(row)}-{seed}.json"


def wanted(args: argparse.Namespace, rows: Iterable[str]) -> list[str]:
    """The rows asked for, in the order of the table."""
    args.rows = list(rows)
    if unknown := [row for row in args.only or [] if row not in args.rows]:
        raise ValueError(f"there is no row {unknown[0]!r}; there are {'; '.join(args.rows)}")
    return [row for row in args.rows if not args.only or row in args.only]
