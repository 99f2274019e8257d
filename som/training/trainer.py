"""Training: the stock `Trainer` set up for SOM, and runs that a kill at any moment does not harm.

A run is a folder (see `som.training.runs`): `training.json` says what it is, `log.jsonl` what happened,
`checkpoint-*` are the best and the last state on the way, and when training is over the best model lies in the folder
itself.

Several processes: `torchrun --nproc_per_node 2 -m som train …` or `accelerate launch … -m som train …`; the batch size
is that of a step, whatever the number of processes. FSDP comes from `accelerate config`, with FULL_STATE_DICT, so that
checkpoints hold whole weights.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from signal import SIGINT
from traceback import extract_tb
from typing import Any

import torch
from accelerate import PartialState
from safetensors import SafetensorError
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

from modeling_som import SOMForCausalLM
from modeling_som.counts_som import WORD_COUNTS, WordCounts, find_word_counts
from modeling_som.tokenization_som import load_tokenizer
from som.data import SOMCollator
from som.files import write_whole
from som.inference import load_checkpoint
from som.interruption import Interrupted, Signals
from som.progress import progress
from som.provenance import provenance
from som.training.averaging import AverageWeights
from som.training.batches import LengthGrouped, TrainingData, WordDropout, load_data
from som.training.callbacks import Checkpoints, Divergence, JsonLines, ProgressBar, progress_bar
from som.training.distillation import teach
from som.training.models import Builder, begin_with, make_model
from som.training.runs import (
    AVERAGED_WEIGHTS,
    LOG,
    RUN,
    RUN_LOCK,
    SCRATCH,
    is_complete,
    is_finished,
    last_checkpoint,
    model_files,
    note_files,
    only_training,
    own_checkpoints,
    own_files,
    read_record,
    record_text,
    recorded_system,
    refuse_foreign_checkpoints,
    remove,
    remove_incomplete,
    remove_run,
    trainer_state,
    write_record,
)
from som.training.settings import BEFORE, START_SETTINGS, TrainSettings, make_settings, training_arguments
from som.training.validation import sentence_counts, validation_metrics


def train(
    data_dir: str | Path,
    out_dir: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    build: Builder = make_model,
    system: str | None = None,
    starts_with: type[PreTrainedModel] = SOMForCausalLM,
    **given: Any,
) -> dict[str, Any]:
    """Train a model on prepared data and return its validation metrics; the best model is then in `out_dir`.

    `build` makes the model, a SOM unless others are to be compared with it, and `system` is its name for the record
    (see `som.baselines.train_system`); `given` are arguments of `make_settings`, and the model that they may name as
    `start` is one of `starts_with`.
    A resumed run keeps the settings it was begun with and ends with the weights it would have had without the break;
    only `epochs` may be changed. Ctrl-C and SIGTERM save a checkpoint, then raise `Interrupted`.
    """
    state = PartialState(cpu=not torch.accelerator.is_available())
    run, data = Path(out_dir), load_data(Path(data_dir))
    if build is not make_model:
        given = {"tree_tags": [], **given}  # only SOMs learn tags
    seen = record_text(run)
    record = open_run(run, data, given, resume, overwrite, system, starts_with)
    settings = make_settings(**record["given"])
    args = training_arguments(settings, run, state.num_processes)
    trainer = make_trainer(settings, args, data, run, build)
    if settings.start and not (resume and seen and any(is_complete(one, record) for one in own_checkpoints(run))):
        begin_with(trainer.model, settings.start, data.tokenizer, starts_with)  # type: ignore[arg-type]
    state.wait_for_everyone()  # all have looked at the folder
    with only_training(run, seen):
        if state.is_main_process:
            begin_run(run, record, resume)
            keep_word_counts(run, data.word_counts, settings.start)
        state.wait_for_everyone()
        command = shlex.join(["som", "train", str(data_dir), "--out", str(out_dir), "--resume"])
        with disk_errors_reported(run), interruptions_reported(command) as signals:
            trainer.add_callback(Checkpoints(run, settings.save_steps, signals))
            continue_training(trainer, last_checkpoint(run), settings.epochs)
            state.wait_for_everyone()
            return end_run(run) if state.is_main_process else {}


def continue_training(trainer: Trainer, checkpoint: Path | None, epochs: int) -> None:
    """Train from the checkpoint, or from the beginning, to the end."""
    if checkpoint is None or not is_finished(checkpoint, epochs):
        main = PartialState().is_main_process
        in_log = main and not sys.stderr.isatty()
        with progress_bar(main) as bar, progress("som train", unit="steps", shown=in_log) as lines:
            trainer.add_callback(ProgressBar(bar, lines))
            last = None if checkpoint is None else str(checkpoint)
            trainer.train(resume_from_checkpoint=last, ignore_keys_for_eval=["past_key_values", "tag_loss"])


def make_trainer(
    settings: TrainSettings, args: TrainingArguments, data: TrainingData, run: Path, build: Builder = make_model
) -> Trainer:
    """A new model and what trains it."""
    set_seed(settings.seed)
    tokenizer = data.tokenizer
    rate = settings.word_dropout
    word_dropout = WordDropout(rate, tokenizer, data.train) if rate else None
    # padded on the right, of which models that know no mask see nothing
    right = deepcopy(tokenizer)
    right.padding_side = "right"
    model = build(settings, tokenizer)
    if not getattr(model.config, "tree_tags", None):
        data = data.without_tags()
    if settings.teachers:
        teach(model, settings.teachers, tokenizer, args.device)  # type: ignore[arg-type]  # only SOMs have teachers
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=LengthGrouped(data.train, settings.batch_size, settings.seed, word_dropout),
        eval_dataset=data.validation,
        data_collator=SOMCollator(right),
        processing_class=tokenizer,
        compute_metrics=validation_metrics,
        preprocess_logits_for_metrics=sentence_counts,  # type: ignore[arg-type]  # all outputs
        callbacks=[JsonLines(run / LOG), Divergence()],
    )
    if settings.averaging:
        if trainer.is_fsdp_enabled:
            raise ValueError("averaging needs whole weights in every process, which FSDP does not have")
        trainer.add_callback(AverageWeights(run, settings.averaging))
    if settings.early_stopping:
        trainer.add_callback(EarlyStoppingCallback(settings.early_stopping))
    trainer.remove_callback(PrinterCallback)
    torch.manual_seed(settings.seed + args.process_index)  # processes drop and decide differently
    return trainer


def open_run(
    run: Path,
    data: TrainingData,
    given: dict[str, Any],
    resume: bool,
    overwrite: bool,
    system: str | None = None,
    starts_with: type[PreTrainedModel] = SOMForCausalLM,
) -> dict[str, Any]:
    """The record of a new run or of the one to be resumed; refuses folders that are neither."""
    known = (run / RUN).is_file()
    if run.exists() and not run.is_dir():
        raise FileExistsError(f"{run}: expected a folder, this is a file")
    if run.is_dir() and any(path.name != RUN_LOCK for path in run.iterdir()) and not known:
        raise FileExistsError(f"{run}: expected a new or empty folder, this one holds something else")
    if known and not resume and not overwrite:
        raise FileExistsError(f"{run}: holds a run already; --resume continues it, --overwrite replaces it")
    if known:
        refuse_foreign_checkpoints(run)
    for other in (given.get("start"), *given.get("teachers", ())):
        if other and run.resolve() in (Path(other).resolve(), *Path(other).resolve().parents):
            raise ValueError(f"{other}: expected a model outside of {run}, where the new one goes")
    if given.get("start") and not (known and resume):
        config = load_checkpoint(given["start"], starts_with)[0].config
        given = {**{name: getattr(config, name) for name in START_SETTINGS if hasattr(config, name)}, **given}
    if data.tree_tags and not (known and resume):
        given = {"tree_tags": data.tree_tags, **given}
    settings = asdict(make_settings(**given))
    if known and resume:
        if system not in (None, recorded_system(run)):
            raise ValueError(f"{run}: was begun with system {recorded_system(run)}, cannot be resumed with {system}")
        return resumed(read_record(run), run, data, given)
    return {
        "command": shlex.join(sys.argv),
        **({"system": system} if system else {}),
        "given": given,
        "settings": settings,
        "data": data.fingerprint,
        "processes": PartialState().num_processes,
        "threads": torch.get_num_threads(),
        "files": [],
        **provenance(),
    }


def resumed(record: dict[str, Any], run: Path, data: TrainingData, given: dict[str, Any]) -> dict[str, Any]:
    """The record of an earlier run, if it is still the same run."""
    newer = {name: value for name, value in BEFORE.items() if name not in record["settings"]}
    record = {**record, **{part: {**record[part], **newer} for part in ("given", "settings")}}
    if record["data"] != data.fingerprint:
        raise ValueError(f"{run}: was begun with other data, expected the same to resume it")
    # what was not given then or now stays as it was, even if the defaults have changed since
    implied, changed = (asdict(make_settings(**{**record["given"], **more})) for more in ({}, given))
    settings = record["settings"] | {name: changed[name] for name in changed if changed[name] != implied[name]}
    settings |= {name: value for name, value in given.items() if name in settings}
    given = {**record["given"], **given}
    before = {**implied, **record["settings"], "epochs": settings["epochs"], "processes": record["processes"]}
    for name, value in {**settings, "processes": PartialState().num_processes}.items():
        if value != before[name]:
            raise ValueError(f"{run}: was begun with {name} {before[name]}, cannot be resumed with {value}")
    if PartialState().is_main_process:
        warn_of_changes(run, record, settings)
    return {**record, "given": given, "settings": settings, "files": sorted(own_files(run, record))}


def warn_of_changes(run: Path, record: dict[str, Any], settings: dict[str, Any]) -> None:
    """Tell what a resumed run does differently from the one that was begun."""
    before, now = record.get("threads"), torch.get_num_threads()
    if before not in (None, now):
        change = f"was begun with {before} threads and goes on with {now}"
        warnings.warn(f"{run}: {change}: weights may differ in their last digits", stacklevel=2)
    before, now = record["settings"]["epochs"], settings["epochs"]
    if before != now:
        rate = "; the learning rate is now that of a run of this length" if settings["schedule"] == "cosine" else ""
        warnings.warn(f"{run}: was begun for {before} epoch(s) and goes on to {now}{rate}", stacklevel=2)


def begin_run(run: Path, record: dict[str, Any], resume: bool) -> None:
    """Write the record into the folder, without what an earlier run or a kill has left there."""
    if not resume and (run / RUN).is_file():
        remove_run(run)
    write_record(run, record)
    remove_incomplete(run)


def keep_word_counts(run: Path, counts: WordCounts, start: str) -> None:
    """Write how often words occur in the training data, for the run's folder and the checkpoints.

    The data of the model that the run begins with count too; when the run is resumed, that model may be gone."""
    if start and (run / WORD_COUNTS).is_file():
        return
    if start and (before := find_word_counts(load_tokenizer(start))):
        counts = before + counts
    note_files(run, WORD_COUNTS)
    write_whole(run / WORD_COUNTS, counts.to_bytes())


def end_run(run: Path) -> dict[str, Any]:
    """Puts the best checkpoint's model into the run's folder and returns what was measured of it."""
    last = last_checkpoint(run)
    assert last is not None, "every epoch ends with a checkpoint"
    state = trainer_state(last)
    best = run / f"checkpoint-{state['best_global_step']}"
    if not (best / "model.safetensors").is_file():
        raise ValueError(f"{best}: expected the best model of the run, which is no longer there")
    names = model_files(best)
    with scratch_folder(run) as scratch:
        note_files(run, *names)
        for name in names:
            averaged = name == "model.safetensors" and (best / AVERAGED_WEIGHTS).is_file()
            source = best / (AVERAGED_WEIGHTS if averaged else name)
            shutil.copyfile(source, scratch / name)  # permissions are those of a new file
        for name in names:
            (scratch / name).replace(run / name)
    entries = [entry for entry in state["log_history"] if entry["step"] == state["best_global_step"]]
    metrics = {
        name.removeprefix("eval_"): value
        for entry in entries
        for name, value in entry.items()
        if name.startswith("eval_") and not name.endswith(("_runtime", "_second"))
    }
    results = {"epoch": entries[-1]["epoch"], "step": entries[-1]["step"], **metrics}
    write_record(run, {**read_record(run), "validation": results})
    return results


@contextmanager
def scratch_folder(run: Path) -> Iterator[Path]:
    remove(run, {SCRATCH} & own_files(run, read_record(run)))  # a kill may have left one
    note_files(run, SCRATCH)
    (run / SCRATCH).mkdir()
    try:
        yield run / SCRATCH
    finally:
        shutil.rmtree(run / SCRATCH, ignore_errors=True)


@contextmanager
def interruptions_reported(command: str) -> Iterator[Signals]:
    """Signals wait for the next checkpoint; then the user is told which command goes on."""
    signals = Signals(PartialState().num_processes)
    try:
        with signals.caught():
            yield signals
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; go on with: {command}", signals.number or SIGINT) from None


@contextmanager
def disk_errors_reported(run: Path) -> Iterator[None]:
    """Turns what libraries raise when a file cannot be written, each another thing, into an OSError of one line."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        functions = {frame.name for frame in extract_tb(error.__traceback__)}
        if not functions & {"_save_checkpoint", "on_save", "on_log", "note_files", "end_run"}:
            raise
        free = shutil.disk_usage(run).free >> 20
        remove_incomplete(run)
        raise OSError(
            f"{run}: a file could not be written, {free} MB were free ({' '.join(str(error).split())}); "
            "earlier checkpoints are whole: make room and use --resume"
        ) from error
