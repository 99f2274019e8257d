"""The folder of a training run: what the run wrote there, who may write to it now, and which checkpoints are complete.

`training.json` is the record of the run. Among other things it lists, as `files`, the names of all that the run puts
into its folder, each before it is written. Whatever else lies there belongs to the user and is never removed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from safetensors import SafetensorError, safe_open

from som.files import write_whole

try:
    import fcntl
except ImportError:  # Windows, where nothing keeps two trainings apart
    fcntl = None  # type: ignore[assignment]

RUN = "training.json"  # also the sign that a folder is a run
LOG = "log.jsonl"
RUN_LOCK = ".lock"
SCRATCH = ".new"
AVERAGED_WEIGHTS = "averaged.safetensors"  # in a checkpoint, the mean of the weights (see `AverageWeights`)
CHECKPOINT = re.compile("checkpoint-([0-9]+)")
# of a checkpoint, what serves to go on training and is no part of the model
TRAINER_FILES = (
    AVERAGED_WEIGHTS,
    "trainer_state.json",
    "training_args.bin",
    "optimizer*",
    "scheduler*",
    "scaler*",
    "rng_state*",
    "*fsdp*",
)


# The record


def read_record(run: Path) -> dict[str, Any]:
    try:
        record = json.loads((run / RUN).read_text(encoding="utf-8"))
    except ValueError:
        record = None
    if not isinstance(record, dict) or not {"given", "settings", "data", "processes"} <= record.keys():
        raise ValueError(f"{run / RUN}: expected the record of a run, this is something else")
    return record


def recorded_system(run: Path) -> str | None:
    """What a run trains, see `som.baselines`: a SOM where nothing else is recorded; None where there is no run."""
    return read_record(run).get("system", "som") if (run / RUN).is_file() else None


def learns_words(run: Path) -> bool:
    """Whether what a run trains is more than a parser."""
    return read_record(run)["settings"].get("lm_loss_weight") != 0


def write_record(run: Path, record: dict[str, Any]) -> None:
    write_whole(run / RUN, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def note_files(run: Path, *names: str) -> None:
    """Write down what the run is about to put into its folder."""
    record = read_record(run)
    still_there = {name for name in own_files(run, record) if (run / name).exists()}
    write_record(run, {**record, "files": sorted({*still_there, *names})})


def own_files(run: Path, record: dict[str, Any]) -> set[str]:
    """The names of what the run wrote, apart from its record and its log."""
    if "files" in record:
        return set(record["files"])
    # a run from before there was this list
    folders = numbered_checkpoints(run)
    return {folder.name for folder in folders} | {name for folder in folders for name in model_files(folder)}


def model_files(checkpoint: Path) -> list[str]:
    """The names of a checkpoint's files that are the model; the configuration last: with it, a folder is a model."""
    names = [file.name for file in checkpoint.iterdir()]
    ours = [name for name in names if not any(fnmatch(name, pattern) for pattern in TRAINER_FILES)]
    return sorted(ours, key=lambda name: (name == "config.json", name))


def remove(run: Path, names: set[str]) -> None:
    """Remove these from the folder, if they are there."""
    for path in list(run.iterdir()):
        if path.name in names:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def remove_run(run: Path) -> None:
    """Remove what the run wrote, the record excepted, which the next one replaces."""
    remove(run, own_files(run, read_record(run)) | {LOG})
    events = list(run.glob("runs/**/events.out.tfevents.*"))  # TensorBoard's
    for file in events:
        file.unlink()
    for folder in sorted({parent for file in events for parent in file.relative_to(run).parents[:-1]}, reverse=True):
        with suppress(OSError):  # the user has put something there
            (run / folder).rmdir()


# One training at a time


@contextmanager
def only_training(run: Path, seen: str | None) -> Iterator[None]:
    """Keeps other trainings out of the folder, whose record must still be the one that was seen.

    The main process does so for all of a job, which learn from it whether they may go on."""
    refusal: list[str | None] = [None]
    with ExitStack() as stack:
        if PartialState().is_main_process:
            try:
                stack.enter_context(locked(run))
                if record_text(run) != seen:
                    raise FileExistsError(f"{run}: another training has just written to this folder")
            except OSError as error:
                refusal = [str(error)]
        broadcast_object_list(refusal)
        if refusal[0]:
            raise FileExistsError(refusal[0])
        yield


def record_text(run: Path) -> str | None:
    return (run / RUN).read_text(encoding="utf-8") if (run / RUN).is_file() else None


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """An exclusive lock, which also ends with the process, however that dies."""
    run.mkdir(parents=True, exist_ok=True)
    with open(run / RUN_LOCK, "a") as file:
        take_lock(run, file.fileno())
        try:
            yield
        finally:
            (run / RUN_LOCK).unlink(missing_ok=True)


def take_lock(run: Path, descriptor: int) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.stat(run / RUN_LOCK)):
            raise BlockingIOError  # the former owner removed this file, and another training made a new one
    except (BlockingIOError, FileNotFoundError):
        raise FileExistsError(f"{run}: another training is writing to this folder, expected none") from None
    except OSError as error:
        warnings.warn(f"{run}: cannot be locked against a second training here: {error.strerror}", stacklevel=2)


# Checkpoints


def numbered_checkpoints(run: Path) -> list[Path]:
    """Folders that are named as the Trainer names checkpoints, by step."""
    found = [path for path in run.glob("checkpoint-*") if CHECKPOINT.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=step_of)


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("checkpoint-"))


def own_checkpoints(run: Path) -> list[Path]:
    """The checkpoints that the run wrote, complete or not, by step."""
    files = own_files(run, read_record(run))
    return [path for path in numbered_checkpoints(run) if path.name in files]


def refuse_foreign_checkpoints(run: Path) -> None:
    """The run would resume from them, or write over them."""
    for path in sorted({*numbered_checkpoints(run)} - {*own_checkpoints(run)}):
        raise FileExistsError(f"{path}: expected only checkpoints that this run wrote; move this one elsewhere")


def last_checkpoint(run: Path) -> Path | None:
    """The newest complete checkpoint of a run."""
    record = read_record(run)
    return max((path for path in own_checkpoints(run) if is_complete(path, record)), key=step_of, default=None)


def trainer_state(checkpoint: Path) -> dict[str, Any]:
    return json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))


def is_finished(checkpoint: Path, epochs: int) -> bool:
    """Whether training was over with this checkpoint, after all epochs or by early stopping."""
    state = trainer_state(checkpoint)
    stopped = state["stateful_callbacks"]["TrainerControl"]["args"]["should_training_stop"]
    return stopped and state["num_train_epochs"] == epochs


def remove_incomplete(run: Path) -> None:
    """Remove what a kill or a full disk has left of checkpoints: all after the last complete one."""
    if PartialState().is_main_process:
        last = last_checkpoint(run)
        remove(run, {path.name for path in own_checkpoints(run) if last is None or step_of(path) > step_of(last)})


def remove_old(run: Path, best: int | None, last: int) -> None:
    """Keep the best and the last checkpoint; the one before, if these are the same.

    The Trainer would do so by age and remove any folder whose name begins as checkpoints do."""
    others = [path.name for path in own_checkpoints(run) if step_of(path) not in (best, last)]
    kept = 1 if best in (None, last) else 0
    remove(run, {*others[: len(others) - kept]})


def is_complete(checkpoint: Path, record: dict[str, Any]) -> bool:
    """Whether a checkpoint has all that resuming needs and no file was cut short.

    Several processes write their random states on their own, so these are counted."""
    names = {file.name for file in checkpoint.iterdir()}
    needed = {"config.json", "model.safetensors", "scheduler.pt", "trainer_state.json"}
    if record["settings"].get("trainer", {}).get("fp16"):
        needed.add("scaler.pt")
    if record["settings"].get("averaging"):
        needed.add(AVERAGED_WEIGHTS)
    optimizer = "optimizer.pt" in names or {"optimizer.bin", "pytorch_model_fsdp.bin"} <= names  # the second for FSDP
    states = sum(fnmatch(name, "rng_state*.pth") for name in names)
    return needed <= names and optimizer and states >= record["processes"] and is_readable(checkpoint)


def is_readable(checkpoint: Path) -> bool:
    """Whether no file of a checkpoint was cut short."""
    pickles = [path for pattern in ("*.pt", "*.pth", "*.bin") for path in checkpoint.glob(pattern)]
    try:
        for path in checkpoint.glob("*.json"):
            json.loads(path.read_text(encoding="utf-8"))
        for path in checkpoint.glob("*.safetensors"):
            with safe_open(path, framework="pt"):
                pass
    except (OSError, ValueError, SafetensorError):
        return False
    return all(map(zipfile.is_zipfile, pickles))
