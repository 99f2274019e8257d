"""What the scripts share: treebanks, trained models, and results that say how they came about.

A row of a table is trained and measured once: its result, a JSON file, is the sign that it is done. An interrupted
script, started again, skips finished rows and resumes the training that was interrupted. Trained models are
shared between scripts, so two scripts at once should not be after the same one.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from datasets import load_from_disk
from lab import Lab, run_in_lab
from transformers import PreTrainedModel

from modeling_som import SOMForCausalLM
from modeling_som.tokenization_som import load_tokenizer
from som.baselines import evaluate_trees, tree_baselines
from som.data import SUMMARY, SOMCollator, prepare
from som.evaluation import Report, evaluate
from som.files import write_whole
from som.hub import slug
from som.inference import load
from som.syntax import Example, evalb_line, read_treebank, treebank_files
from som.training import LOG, RUN, TAG_COLUMNS, Builder, TrainSettings, make_model, make_settings, train

Files = tuple[Path, ...]


# Data


def find_treebank(lab: Lab, file: str) -> Files:
    """A treebank of the data folder, or for a trial its first sentences."""
    return shorten(lab, file, (check_file(lab.data / file),))


def check_file(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    return path


def shorten(lab: Lab, name: str, files: Sequence[Path]) -> Files:
    """Files of a treebank as they are, or for a trial its first sentences, in a file of that name."""
    if not lab.sentences:
        return tuple(files)
    path = lab.runs / "treebanks" / f"{Path(name).name.partition('.')[0]}.mrg"
    return (write_trees(path, islice(read_treebank(files), lab.sentences)),)


def write_trees(file: Path, examples: Iterable[Example]) -> Path:
    """Sentences with their trees as a treebank of their own, one per line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, "".join(f"{evalb_line(example.tree)}\n" for example in examples))
    return file


def prepare_once(lab: Lab, name: str, splits: Mapping[str, Files], **options: Any) -> Path:
    """The folder of a data set, made if it is not there; options are those of `som.data.prepare`."""
    folder = lab.runs / "data" / name
    if not (folder / SUMMARY).is_file():
        print(f"{folder}: preparing", flush=True)
        prepare(splits, folder, **options)
    check_sources(folder, splits)
    return folder


def check_sources(folder: Path, splits: Mapping[str, Files]) -> None:
    """Refuses a data set that was made of other files; the project may have moved meanwhile."""
    made = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))["splits"]
    for split, files in splits.items():
        asked = treebank_files(files)
        if [Path(file).parts[-2:] for file in made[split]["files"]] != [file.parts[-2:] for file in asked]:
            raise ValueError(f"{folder}: {split} was not made of {asked[0]}: remove the folder or use --runs")


@cache
def read_examples(files: Files) -> list[Example]:
    return list(read_treebank(files))


def select_held_out(splits: Mapping[str, Files]) -> dict[str, Files]:
    """What is measured on: choices are made by the validation split, tables show the test split."""
    return {split: splits[split] for split in ("validation", "test")}


# Models


def train_or_resume(lab: Lab, data: Path, name: str, seed: int, build: Builder = make_model, **settings: Any) -> Path:
    """The folder of a trained model: training is begun, resumed or already done. This may take hours."""
    folder = run_folder(lab, data, name, seed)
    if (folder / RUN).is_file():  # perhaps begun on a machine that is not as fast at bfloat16 as this one
        settings["bf16"] = json.loads((folder / RUN).read_text(encoding="utf-8"))["settings"]["bf16"]
    train(data, folder, resume=True, build=build, seed=seed, **add_budget(lab, settings))
    return folder


def run_folder(lab: Lab, data: Path, name: str, seed: int) -> Path:
    return lab.runs / data.name / f"{slug(name)}-{seed}"


def add_budget(lab: Lab, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with the table's budget and the command line's sizes; a dSOM's syntactic part is a quarter."""
    sized = {**lab.budget, **settings, **lab.sizes}
    quarter = settings.get("dsom") and "hidden_size" in sized
    return {**sized, **({"syntactic_size": sized["hidden_size"] // 4} if quarter else {})}


def describe_run(folder: Path, model: PreTrainedModel) -> dict[str, Any]:
    """What is kept of a training, and the model's size."""
    return {"parameters": model.num_parameters(), **read_run(folder)}


def describe_with_speed(folder: Path, model: PreTrainedModel, data: Path) -> dict[str, Any]:
    """What is kept of a training, with the size of the vocabulary and the speed of training steps."""
    about = describe_run(folder, model)
    speed = training_speed(model, data, about["training"]["batch_size"])
    return {**about, "vocabulary": model.config.vocab_size, "speed": speed}


def read_run(folder: Path) -> dict[str, Any]:
    """What is kept of a training: all its settings, what it was trained on, and its validations."""
    run = json.loads((folder / RUN).read_text(encoding="utf-8"))
    log = map(json.loads, (folder / LOG).read_text(encoding="utf-8").splitlines())
    validations = [entry for entry in log if "eval_ppl" in entry]
    return {"training": run["settings"], "data": run["data"], "best": run["validation"], "validations": validations}


def validation_ppl(folder: Path) -> float:
    """What a run's best model had on the validation split."""
    return read_run(folder)["best"]["ppl"]


def training_speed(model: PreTrainedModel, data: Path, batch_size: int, batches: int = 20) -> dict[str, Any]:
    """Words per second of training steps, on batches from all over the training split.

    The learning rate is 0, so the weights stay as they are. The clock of the training itself does not serve: it knows
    nothing of what came before an interruption."""
    tokenizer = load_tokenizer(data)
    tokenizer.padding_side = "right"
    chosen, collate = pick_batches(data, batch_size, batches), SOMCollator(tokenizer)
    unused = () if getattr(model.config, "tree_tags", ()) else TAG_COLUMNS
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    model.train()
    read = [{name: values for name, values in collate(rows).items() if name not in unused} for rows in chosen]
    _, *seconds = [time_step(model, optimizer, batch) for batch in [read[-1], *read]]  # one to warm up
    model.eval()
    words = sum(len(row["words"]) for rows in chosen for row in rows)
    return {"words_per_second": words / sum(seconds), "threads": torch.get_num_threads()}


def pick_batches(data: Path, batch_size: int, batches: int) -> list[list[dict[str, Any]]]:
    """Batches of sentences of similar lengths, as in training, from short to long ones."""
    rows = load_from_disk(str(data))["train"]
    order = sorted(range(len(rows)), key=list(rows["length"]).__getitem__)
    starts = [max(0, len(order) - batch_size) * number // batches for number in range(batches)]
    return [rows.select(order[start : start + batch_size]).to_list() for start in starts]


def time_step(model: PreTrainedModel, optimizer: torch.optim.Optimizer, batch: Mapping[str, torch.Tensor]) -> float:
    """Seconds of a forward and backward pass with the update."""
    began = time.perf_counter()
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - began


# Measures


def evaluate_run(
    folder: Path,
    treebanks: Mapping[str, Files],
    method: str | None = None,
    gold: bool = False,
    kind: type[SOMForCausalLM] = SOMForCausalLM,
) -> dict[str, Any]:
    """A trained SOM's figures on treebanks."""
    return {**read_run(folder), **evaluate_checkpoint(folder, treebanks, method, gold, kind)}


def evaluate_checkpoint(
    folder: Path,
    treebanks: Mapping[str, Files],
    method: str | None = None,
    gold: bool = False,
    kind: type[SOMForCausalLM] = SOMForCausalLM,
) -> dict[str, Any]:
    """A SOM's size and its figures on treebanks, however its weights came about."""
    model, tokenizer = load(folder, kind)
    reports = {
        name: evaluate(model, tokenizer, read_examples(files), method, gold, name) for name, files in treebanks.items()
    }
    return {"parameters": model.num_parameters(), "evaluations": reports_to_json(reports)}


def evaluate_tree_baseline(name: str, seed: int, treebanks: Mapping[str, Files]) -> dict[str, Any]:
    """The figures of trees that need no model."""
    parse = tree_baselines(seed)[name]
    reports = {one: evaluate_trees(parse, read_examples(files), name, one) for one, files in treebanks.items()}
    return {"evaluations": reports_to_json(reports)}


def reports_to_json(reports: Mapping[str, Report]) -> dict[str, Any]:
    return {name: report.to_json() for name, report in reports.items()}


# Results


@dataclass(frozen=True)
class TableRow:
    """A row of a table: how it is measured with a seed, and what its result must have been made with to count."""

    measure: Callable[[int], dict[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)  # in which it differs from other rows
    training: Mapping[str, Any] | None = None  # of its model; None if nothing is trained
    seeds: Sequence[int] = (0,)
    by_grid: Sequence[str] = ()  # settings of training that a grid decides


TableRows = Mapping[str, TableRow]


def run_table(
    rows: Callable[[Lab], TableRows], script: str, parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> int:
    """Fill the table of a script, whose file is given, and return the exit code."""
    return run_in_lab(lambda lab: fill_table(lab, rows(lab)), Path(script).stem, parser, argv)


def fill_table(lab: Lab, rows: TableRows) -> None:
    """Measure the rows asked for, in the order of the table."""
    if unknown := [name for name in lab.only if name not in rows]:
        raise ValueError(f"there is no row {unknown[0]!r}; there are {'; '.join(rows)}")
    for place, (name, row) in enumerate(rows.items()):
        if not lab.only or name in lab.only:
            for seed in lab.seeds or row.seeds:
                record(lab, place, name, row, seed)


def record(lab: Lab, place: int, name: str, row: TableRow, seed: int) -> None:
    """Measure a row with a seed and keep the result, unless that has been done."""
    file = result_file(lab, lab.script, name, seed)
    about = {"table": lab.script, "row": name, "place": place, "seed": seed}
    about["settings"] = {**row.settings, **lab.sizes}
    if file.is_file():
        check_result(lab, file, row)
        print(f"{name}, seed {seed}: done before", flush=True)
        return
    print(f"{name}, seed {seed}", flush=True)
    result = {**about, "command": lab.command, **lab.provenance, **row.measure(seed)}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def result_file(lab: Lab, table: str, row: str, seed: int) -> Path:
    return lab.results / table / f"{slug(row)}-{seed}.json"


def check_result(lab: Lab, file: Path, row: TableRow) -> None:
    """Refuses a result of other settings than those of the row, or of a model that was trained otherwise.

    Of the training, what the result file does not say is not compared: some settings are newer than some files."""
    result, settings = json.loads(file.read_text(encoding="utf-8")), {**row.settings, **lab.sizes}
    if without_precision(result["settings"]) != without_precision(settings):
        raise ValueError(
            f"{file}: was made with {result['settings']}, expected {settings}: remove it or use --results"
        )
    trained, expected = result.get("training", {}), without_precision(effective_settings(lab, row))
    for name in sorted(trained.keys() & expected):
        if trained[name] != expected[name]:
            change = f"{name} {trained[name]}, expected {expected[name]}"
            raise ValueError(f"{file}: was trained with {change}: remove it or use --results")


def without_precision(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that make a difference: bfloat16 is used where the machine multiplies it fast."""
    return {name: value for name, value in settings.items() if name != "bf16"}


def effective_settings(lab: Lab, row: TableRow) -> dict[str, Any]:
    """All that a row asks of its training: what is given, and what preset, kind of trees and dSOM make of it."""
    if row.training is None:
        return {}
    given, default = add_budget(lab, row.training), asdict(TrainSettings())
    made = asdict(make_settings(**given))
    asked = {name for name, value in made.items() if name in given or value != default[name]}
    return {name: made[name] for name in asked - {*row.by_grid}}
