"""Training: the stock `Trainer` set up for SOM, and runs that a kill at any moment does not harm.

A run is a folder (see `som.runs`): `training.json` says what it is, `log.jsonl` what happened, `checkpoint-*` are the
best and the last state on the way, and when training is over the best model lies in the folder itself.

Several processes: `torchrun --nproc_per_node 2 -m som train …` or `accelerate launch … -m som train …`; the batch size
is that of a step, whatever the number of processes. FSDP comes from `accelerate config`, with FULL_STATE_DICT, so that
checkpoints hold whole weights.
"""

from __future__ import annotations

import json
import math
import shlex
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from signal import SIGINT
from traceback import extract_tb
from typing import Any, NamedTuple

import datasets
import numpy as np
import torch
import torch.nn.functional as F
from accelerate import PartialState
from accelerate.utils import reduce
from huggingface_hub.errors import StrictDataclassError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors import SafetensorError
from torch import Tensor
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from configuration_som import SOMConfig
from modeling_som import SOMForCausalLM, SOMTokenizer
from som.data import IGNORED, SUMMARY, SOMCollator, fingerprint
from som.distillation import load_of_same_words, teach
from som.files import write_whole
from som.inference import load
from som.interruption import Interrupted, Signals
from som.metrics import Accuracy, Perplexity
from som.provenance import versions
from som.runs import (
    LOCK,
    LOG,
    RUN,
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
    refuse_foreign_checkpoints,
    remove,
    remove_incomplete,
    remove_old,
    remove_run,
    trainer_state,
    write_record,
)
from som.vocabularies import continuing_tokens, load_tokenizer, never_generated

COLUMNS = ["input_ids", "first_sibling"]


# Settings


@dataclass(frozen=True)
class TrainSettings:
    """Everything that a run's result depends on but its data; the defaults are the preset `small`.

    Adam runs without momentum, beta1 = 0, as in the Ordered Memory line of work: the tree, and so the path that
    gradients take, changes from step to step, and a running mean mixes gradients of other paths into each update.
    """

    hidden_size: int = 200
    syntactic_size: int = 0
    num_slots: int = 15
    word_pieces: bool = True  # of a BPE, pieces are attached to their word by rule
    word_dropout: float = 0.0  # each rare word is now and then read as unknown, see `WordDropout`
    embedding_dropout: float = 0.1
    dropout: float = 0.2
    output_dropout: float = 0.3
    oracle: str = "dynamic"
    prediction_network: bool = True
    next_attachment: str = "oracle"  # the paper's is "sampled", and perplexity then higher (docs/results.md)
    lm_loss_weight: float = 1.0
    structure_loss_weight: float = 1.0
    epochs: int = 8
    batch_size: int = 32  # sentences in a step, over all processes and accumulated batches
    learning_rate: float = 1e-3
    schedule: str = "cosine"  # or "plateau": halved whenever an epoch does not improve
    beta1: float = 0.0
    start: str = ""  # the model to begin with instead of random weights; its sizes are the new one's
    teachers: list[str] = field(default_factory=list)  # SOMs to learn from, see `som.distillation`
    weight_decay: float = 0.6  # much, for a small treebank that is read many times (docs/results.md)
    early_stopping: int = 0  # epochs without improvement after which training ends, 0 for never
    seed: int = 0
    save_steps: int = 0  # a checkpoint every so many steps besides those after each epoch, 0 for none
    gradient_accumulation: int = 1
    bf16: bool = False
    trainer: Mapping[str, Any] = field(default_factory=dict)  # further TrainingArguments


SETTINGS = ("preset", "tree", "dsom", *(one.name for one in fields(TrainSettings)))
SIZES = ("hidden_size", "syntactic_size", "num_slots", "word_pieces", "prediction_network")
BEFORE = {"weight_decay": 0.0, "word_pieces": False}  # of runs that are older than these settings
SCHEDULES = {"cosine": "cosine", "plateau": "reduce_lr_on_plateau"}

# Sizes, slots and dropout are the paper's; it does not tell its epochs, learning rate or weight decay.
PTB = {
    "hidden_size": 400,
    "embedding_dropout": 0.1,
    "dropout": 0.3,
    "output_dropout": 0.5,
    "weight_decay": 0.0,
    "epochs": 40,
}
PRESETS: dict[str, dict[str, Any]] = {
    "small": {},
    "ptb": PTB,
    "bllip-xs": PTB,
    "bllip-sm": {**PTB, "hidden_size": 500, "dropout": 0.2, "output_dropout": 0.2, "epochs": 20},
    "bllip-md": {
        **PTB,
        "hidden_size": 500,
        "embedding_dropout": 0.0,
        "dropout": 0.1,
        "output_dropout": 0.1,
        "epochs": 15,
    },
}
NUM_SLOTS = {"dependency": 15, "constituency": 30}


def make_settings(
    preset: str = "small", tree: str = "dependency", dsom: bool = False, **settings: Any
) -> TrainSettings:
    """The settings of a preset for a kind of trees, some of them changed; `dsom` makes its model a dSOM.

    >>> settings = make_settings("bllip-sm", tree="constituency", dsom=True, epochs=3)
    >>> settings.hidden_size, settings.syntactic_size, settings.num_slots, settings.epochs
    (500, 100, 30, 3)
    """
    for name, value, choices in (("preset", preset, PRESETS), ("tree", tree, NUM_SLOTS)):
        if value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    base: dict[str, Any] = {**PRESETS[preset], "num_slots": NUM_SLOTS[tree]}
    if not settings.get("prediction_network", True):
        base["next_attachment"] = "sampled"  # there is none to be told
    if dsom:
        base["syntactic_size"] = 50 if preset == "small" else 100
    for name in settings:
        if name.startswith("label_smoothing"):
            refuse_label_smoothing()
        if name not in SETTINGS:
            raise ValueError(f"{name} is no setting; there are {', '.join(SETTINGS)}")
    made = TrainSettings(**{**base, **settings})
    check_settings(made)
    return made


def check_settings(settings: TrainSettings) -> None:
    """Refuses what cannot be meant; the model's configuration checks its own part."""
    for name in ("epochs", "batch_size", "gradient_accumulation"):
        if getattr(settings, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(settings, name)}")
    for name in ("word_dropout", "weight_decay"):
        if not 0 <= getattr(settings, name) < math.inf:
            raise ValueError(f"{name} must be a number from 0 on, got {getattr(settings, name)}")
    if settings.learning_rate <= 0:
        raise ValueError(f"learning_rate must be above 0, got {settings.learning_rate}")
    if settings.schedule not in SCHEDULES:
        raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {settings.schedule!r}")
    if settings.trainer.get("label_smoothing_factor"):
        refuse_label_smoothing()


def refuse_label_smoothing() -> None:
    raise ValueError("label smoothing is not possible: the Trainer's would leave out the structure loss")


def training_arguments(settings: TrainSettings, run: Path, processes: int) -> TrainingArguments:
    """The settings in the Trainer's words."""
    share = processes * settings.gradient_accumulation
    if settings.batch_size % share:
        raise ValueError(
            f"batch_size must be a multiple of processes × gradient_accumulation = {share}, got {settings.batch_size}"
        )
    parse_only = settings.lm_loss_weight == 0  # perplexity then says nothing
    plateau = {"mode": "max" if parse_only else "min", "factor": 0.5, "patience": 0}
    ours: dict[str, Any] = {
        "output_dir": str(run.absolute()),
        "num_train_epochs": settings.epochs,
        "per_device_train_batch_size": settings.batch_size // share,
        "per_device_eval_batch_size": settings.batch_size // share,
        "gradient_accumulation_steps": settings.gradient_accumulation,
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": SCHEDULES[settings.schedule],
        "lr_scheduler_kwargs": plateau if settings.schedule == "plateau" else {},
        "warmup_steps": 0.02 if settings.schedule == "cosine" else 0,  # a share of all steps
        "adam_beta1": settings.beta1,
        "adam_beta2": 0.999,
        "weight_decay": settings.weight_decay,
        "max_grad_norm": 1.0,
        "bf16": settings.bf16,
        "seed": settings.seed,
        "use_cpu": not torch.accelerator.is_available(),
        "use_cache": True,  # goes into the model's configuration, for generation; in training it changes nothing
        "train_sampling_strategy": "sequential",  # the order is that of LengthGrouped
        "remove_unused_columns": False,
        "label_names": ["labels"],
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "save_total_limit": None,  # the callback `Checkpoints` removes old ones
        "metric_for_best_model": "p_acc" if parse_only else "ppl",
        "greater_is_better": parse_only,
        "restore_callback_states_from_checkpoint": True,
        "logging_steps": 50,
        "logging_nan_inf_filter": False,  # the callback `Divergence` stops the training instead
        "report_to": ["tensorboard"] if find_spec("tensorboard") else [],
        "disable_tqdm": True,
    }
    if clash := sorted(ours.keys() & settings.trainer.keys()):
        raise ValueError(f"trainer arguments {', '.join(clash)} are set by settings of their own")
    try:
        return TrainingArguments(**ours, **settings.trainer)
    except TypeError as error:
        raise ValueError(f"trainer arguments: {error}") from None


Builder = Callable[[TrainSettings, PreTrainedTokenizerFast], PreTrainedModel]


def make_model(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new SOM, which knows the pieces that continue words."""
    model = SOMForCausalLM(make_config(settings, tokenizer))
    if model.config.word_pieces:
        model.model.continues.copy_(torch.tensor(continuing_tokens(tokenizer)))
    model.generation_config.suppress_tokens = never_generated(tokenizer)
    return model


def begin_with(model: SOMForCausalLM, start: str, tokenizer: PreTrainedTokenizerFast) -> None:
    """Copy the weights of a checkpoint, which must fit."""
    other = load_of_same_words(start, model, tokenizer)
    for name in (*SIZES, "layer_norm_eps"):
        wanted, found = getattr(model.config, name), getattr(other.config, name)
        if wanted != found:
            raise ValueError(f"{start}: expected a model with {name} {wanted}, this one has {found}")
    model.load_state_dict(other.state_dict())


def make_config(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> SOMConfig:
    """The configuration of the model, or one line on what is wrong with it."""
    shared = {one.name for one in fields(settings)} & {one.name for one in fields(SOMConfig)}
    values: dict[str, Any] = {name: getattr(settings, name) for name in shared}
    try:
        # a model that was trained on one guess of p' is used with one, the others with the mixture over all guesses
        marginal = settings.next_attachment != "sampled"
        values["word_pieces"] = settings.word_pieces and any(continuing_tokens(tokenizer))
        return SOMConfig(marginal=marginal, **vocabulary(tokenizer), **values)
    except StrictDataclassError as error:
        raise ValueError(str(error.__cause__)) from None


def vocabulary(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """The part of a configuration that the tokenizer decides."""
    specials = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    return {"vocab_size": len(tokenizer), **specials}


# Data


class TrainingData(NamedTuple):
    train: datasets.Dataset
    validation: datasets.Dataset
    tokenizer: PreTrainedTokenizerFast
    fingerprint: str


def load_data(folder: Path) -> TrainingData:
    """A prepared data set and its tokenizer, or an error that says what is wrong with the folder."""
    if not (folder / SUMMARY).is_file():
        raise ValueError(f"{folder}: expected a folder made by `som prepare`, there is no {SUMMARY} in it")
    splits = datasets.load_from_disk(str(folder))
    tokenizer = load_tokenizer(folder)
    for name in ("train", "validation"):
        if not len(splits[name]):
            raise ValueError(f"{folder}: expected sentences in the split {name}, there are none")
        largest = token_ids(splits[name]).max()
        if largest >= len(tokenizer):
            raise ValueError(
                f"{folder}: the tokenizer is not the one the data were made with: "
                f"it has {len(tokenizer)} tokens, the split {name} has the id {largest}"
            )
    files = [*sorted(folder.glob("*/*.arrow")), folder / "tokenizer.json"]
    return TrainingData(
        train=splits["train"].select_columns([*COLUMNS, "length"]),
        # similar lengths together, so that little is padded
        validation=splits["validation"]
        .select(lengths(splits["validation"]).argsort(stable=True))
        .select_columns(COLUMNS),
        tokenizer=tokenizer,
        fingerprint=fingerprint(files=files),
    )


def token_ids(dataset: datasets.Dataset) -> np.ndarray:
    """All tokens of a data set, one after the other."""
    return np.concatenate([chunk.flatten().to_numpy() for chunk in dataset.data.column("input_ids").chunks])


def lengths(dataset: datasets.Dataset) -> Tensor:
    return torch.tensor(dataset.data.column("length").to_numpy())


class WordDropout:
    """Reads a word as its UNK class, with the chance rate / (rate + its count in training).

    Kiperwasser & Goldberg (2016) do so for parsers: rare words are not learnt by heart, and UNK classes are read more
    often than unknown words alone would have it. What is to be predicted stays the word itself.
    """

    def __init__(self, rate: float, tokenizer: PreTrainedTokenizerFast, dataset: datasets.Dataset):
        if not isinstance(tokenizer, SOMTokenizer):
            raise ValueError("word_dropout needs UNK classes, which only a word vocabulary has; expected 0")
        kept = {*tokenizer.all_special_tokens, *(word for word in tokenizer.known if word.startswith("UNK-"))}
        words = {word: index for word, index in tokenizer.known.items() if word not in kept}
        self.unknown = np.arange(len(tokenizer))  # (V,): what a token is read as
        self.unknown[list(words.values())] = [tokenizer.unknown_id(word) for word in words]
        self.chance = rate / (rate + np.bincount(token_ids(dataset), minlength=len(tokenizer)))  # (V,)

    def __call__(self, row: Mapping[str, list[int]], key: Sequence[int]) -> dict[str, list[int]]:
        """A row as it is read; what is drawn depends on the key alone."""
        ids = np.array(row["input_ids"])
        dropped = np.random.default_rng(key).random(len(ids)) < self.chance[ids]
        return {**row, "labels": row["input_ids"], "input_ids": np.where(dropped, self.unknown[ids], ids).tolist()}


class LengthGrouped(torch.utils.data.Dataset):
    """Sentences in an order where each batch has similar lengths; a function of the seed and the epoch alone.

    The Trainer's own grouping draws from the global random state, which processes do not share and which a run resumed
    in the middle of an epoch does not have again.
    """

    def __init__(self, dataset: datasets.Dataset, batch_size: int, seed: int, word_dropout: WordDropout | None = None):
        self.lengths = lengths(dataset)
        self.dataset = dataset.select_columns(COLUMNS)
        self.batch_size, self.seed, self.word_dropout = batch_size, seed, word_dropout
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Called by the data loader before each epoch."""
        self.epoch = epoch
        generator = torch.Generator().manual_seed((self.seed << 20) + epoch)
        shuffled = torch.randperm(len(self.lengths), generator=generator)
        pools = shuffled.split(50 * self.batch_size)
        order = torch.cat([pool[self.lengths[pool].argsort(stable=True)] for pool in pools])
        batches = order.split(self.batch_size)
        whole = len(order) // self.batch_size  # a smaller batch stays the last
        places = [*torch.randperm(whole, generator=generator).tolist(), *range(whole, len(batches))]
        self.order = torch.cat([batches[place] for place in places]).tolist()

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, list[int]]]:
        places = [self.order[index] for index in indices]
        rows = self.dataset.__getitems__(places)
        if self.word_dropout is None:
            return rows
        return [self.word_dropout(row, (self.seed, self.epoch, at)) for row, at in zip(rows, places, strict=True)]


# Validation


def sentence_counts(outputs: Tensor | tuple[Tensor, ...], labels: Tensor) -> Tensor:
    """(B, 4 + 2 a parser): nats and tokens, those of EOS alone, and each parser's correct and all decisions.

    A model without parsers has only logits to show."""
    if isinstance(outputs, Tensor):
        return torch.stack(word_counts(outputs, labels[:, 1:]), dim=1)
    logits, _, _, depths, best, attach_logits, *next_attach_logits = outputs
    targets = labels[:, 1:].masked_fill(depths[:, :-1] == IGNORED, IGNORED)  # nothing predicts BOS
    counts, label = word_counts(logits, targets), best[:, 1:] - 1
    for guess in (attach_logits[:, 1:], *(one[:, :-1] for one in next_attach_logits)):
        counts += [((guess.argmax(-1) == label) & (label >= 0)).sum(1), (label >= 0).sum(1)]
    return torch.stack([count.double() for count in counts], dim=1)


def word_counts(logits: Tensor, targets: Tensor) -> list[Tensor]:
    """Four of (B,): nats and tokens, those of EOS alone."""
    nll = torch.zeros(targets.shape, dtype=torch.float64, device=targets.device)
    seen = targets != IGNORED
    nll[seen] = F.cross_entropy(logits[:, :-1][seen].float(), targets[seen], reduction="none").double()
    last = seen & (seen.flip(1).cumsum(1).flip(1) == 1)  # EOS
    return [nll.sum(1), seen.sum(1).double(), (nll * last).sum(1), last.sum(1).double()]


def validation_metrics(prediction: Any) -> dict[str, float | None]:
    """Perplexity with and without EOS, and the accuracy of p and, where there is one, of p'."""
    nll, tokens, eos_nll, sentences, *accuracies = prediction.predictions.sum(0).tolist()
    pairs = zip(("p_acc", "p_next_acc"), zip(accuracies[::2], accuracies[1::2], strict=True), strict=False)
    return {
        "ppl": Perplexity(nll, tokens).value,
        "ppl_without_eos": Perplexity(nll - eos_nll, tokens - sentences).value,
        **{name: Accuracy(*pair).value for name, pair in pairs},
    }


# What happens on the way


class Checkpoints(TrainerCallback):
    """Asks for checkpoints between the ends of epochs, also to stop after one when a signal has come.

    Each is written down beforehand as the run's, and old ones are removed. A log entry before every checkpoint makes
    the averages in the log start anew there, so that a resumed run logs what it would have logged."""

    def __init__(self, run: Path, save_steps: int, signals: Signals):
        self.run, self.save_steps, self.signals = run, save_steps, signals

    def on_step_end(self, args, state, control, **kwargs):
        between = state.epoch != int(state.epoch)  # else the end of the epoch saves: nothing is written twice
        due = self.save_steps and state.global_step % self.save_steps == 0
        if (self.is_stopping() or due) and between:
            control.should_log = control.should_save = True
        self.note(state, control)

    def on_epoch_end(self, args, state, control, **kwargs):
        control.should_log = True
        self.note(state, control)

    def on_save(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            remove_old(self.run, state.best_global_step, state.global_step)
        if self.is_stopping():
            raise KeyboardInterrupt  # not the Trainer's way to stop, which would end the epoch, too

    def note(self, state, control) -> None:
        if control.should_save and state.is_world_process_zero:
            note_files(self.run, f"checkpoint-{state.global_step}")

    def is_stopping(self) -> bool:
        """Whether a signal has come to any of the processes, which all have to stop after the same step."""
        came = torch.tensor(float(self.signals.number is not None), device=PartialState().device)
        return bool(reduce(came, "sum") > 0)


class Divergence(TrainerCallback):
    """Stops a training whose loss is no longer a finite number, before such weights get into a checkpoint."""

    def on_train_begin(self, args, state, control, **kwargs):
        self.args, self.state = args, state
        for module in {kwargs["model"], kwargs["model"].base_model}:  # the second knows before there is a loss
            module.register_forward_hook(self.check)

    def check(self, module: PreTrainedModel, inputs: tuple, output: Any) -> None:
        """A forward hook."""
        for name in ("last_hidden_state", "loss"):
            value = getattr(output, name, None)
            if value is not None and not (finite := value.isfinite()).all():
                what = "loss" if name == "loss" else "hidden state, and with it the loss,"
                self.stop(what, value[~finite].flatten()[0].item(), self.state.global_step + module.training)

    def on_log(self, args, state, control, **kwargs):
        norm = kwargs["logs"].get("grad_norm", 0.0)
        if not math.isfinite(norm) and not args.fp16:  # whose steps are left out then
            self.stop("norm of the gradient", norm, state.global_step)

    def stop(self, what: str, value: float, step: int) -> None:
        raise ValueError(
            f"{self.args.output_dir}: training diverged: at step {step} the {what} is {value}; earlier checkpoints "
            f"are kept; train anew with a learning rate below {self.args.learning_rate:g}"
        )


class JsonLines(TrainerCallback):
    """The log, one JSON object a line; resuming takes back what came after the checkpoint."""

    def __init__(self, path: Path):
        self.path = path

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            write_whole(self.path, "".join(json.dumps(entry) + "\n" for entry in state.log_history))

    def on_log(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(state.log_history[-1]) + "\n")


class ProgressBar(TrainerCallback):
    """One live bar in terminals, and one line for every validation everywhere."""

    def __init__(self, progress: Progress):
        self.progress = progress
        self.started = time.monotonic()

    def on_train_begin(self, args, state, control, **kwargs):
        self.task = self.progress.add_task("training", total=state.max_steps, completed=state.global_step)

    def on_step_end(self, args, state, control, **kwargs):
        self.progress.update(self.task, completed=state.global_step)

    def on_log(self, args, state, control, **kwargs):
        if "loss" in state.log_history[-1]:
            self.progress.update(self.task, description=f"loss {state.log_history[-1]['loss']:.3f}")

    def on_prediction_step(self, args, state, control, **kwargs):
        self.progress.update(self.task, description="validating")

    def on_evaluate(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            minutes, seconds = divmod(round(time.monotonic() - self.started), 60)
            self.progress.console.print(
                f"epoch {state.epoch:.4g}  {metrics_line(kwargs['metrics'])}  [{minutes}:{seconds:02}]",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )


def metrics_line(metrics: Mapping[str, float]) -> str:
    """The measures of a validation for the eye.

    >>> metrics_line({"eval_ppl": 121.66, "eval_p_acc": 0.8512, "eval_p_next_acc": 0.7})
    "ppl 121.7  p acc 85.1 %  p' acc 70.0 %"
    """
    names = {"eval_p_acc": "p acc", "eval_p_next_acc": "p' acc"}
    shares = [f"  {label} {metrics[name]:.1%}" for name, label in names.items() if name in metrics]
    return f"ppl {metrics['eval_ppl']:.1f}{''.join(shares)}".replace("%", " %")


# Runs


def train(
    data_dir: str | Path,
    out_dir: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    build: Builder = make_model,
    **given: Any,
) -> dict[str, Any]:
    """Train a model on prepared data and return its validation metrics; the best model is then in `out_dir`.

    `build` makes the model, a SOM unless others are to be compared with it; `given` are arguments of `make_settings`.
    A resumed run keeps the settings it was begun with and ends with the weights it would have had without the break;
    only `epochs` may be changed. Ctrl-C and SIGTERM save a checkpoint, then raise `Interrupted`.
    """
    state = PartialState(cpu=not torch.accelerator.is_available())
    run, data = Path(out_dir), load_data(Path(data_dir))
    seen = record_text(run)
    record = open_run(run, data, given, resume, overwrite)
    settings = make_settings(**record["given"])
    args = training_arguments(settings, run, state.num_processes)
    trainer = make_trainer(settings, args, data, run, build)
    if settings.start and not (resume and seen and any(is_complete(one, record) for one in own_checkpoints(run))):
        begin_with(trainer.model, settings.start, data.tokenizer)  # type: ignore[arg-type]  # only SOMs begin so
    state.wait_for_everyone()  # all have looked at the folder
    with only_training(run, seen):
        if state.is_main_process:
            begin_run(run, record, resume)
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
        with progress_bar(PartialState().is_main_process) as progress:
            trainer.add_callback(ProgressBar(progress))
            last = None if checkpoint is None else str(checkpoint)
            trainer.train(resume_from_checkpoint=last, ignore_keys_for_eval=["past_key_values"])


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
    if settings.teachers:
        teach(model, settings.teachers, tokenizer, args.device)  # type: ignore[arg-type]  # only SOMs are taught
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
    if settings.early_stopping:
        trainer.add_callback(EarlyStoppingCallback(settings.early_stopping))
    trainer.remove_callback(PrinterCallback)
    torch.manual_seed(settings.seed + args.process_index)  # processes drop and decide differently
    return trainer


@contextmanager
def progress_bar(shown: bool) -> Iterator[Progress]:
    columns = TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, disable=not shown) as progress:
        yield progress


def open_run(run: Path, data: TrainingData, given: dict[str, Any], resume: bool, overwrite: bool) -> dict[str, Any]:
    """The record of a new run or of the one to be resumed; refuses folders that are neither."""
    known = (run / RUN).is_file()
    if run.exists() and not run.is_dir():
        raise FileExistsError(f"{run}: expected a folder, this is a file")
    if run.is_dir() and any(path.name != LOCK for path in run.iterdir()) and not known:
        raise FileExistsError(f"{run}: expected a new or empty folder, this one holds something else")
    if known and not resume and not overwrite:
        raise FileExistsError(f"{run}: holds a run already; --resume continues it, --overwrite replaces it")
    if known:
        refuse_foreign_checkpoints(run)
    for other in (given.get("start"), *given.get("teachers", ())):
        if other and run.resolve() in (Path(other).resolve(), *Path(other).resolve().parents):
            raise ValueError(f"{other}: expected a model outside of {run}, where the new one goes")
    if given.get("start") and not (known and resume):
        config = load(given["start"])[0].config
        given = {**{name: getattr(config, name) for name in SIZES}, **given}
    settings = asdict(make_settings(**given))
    if known and resume:
        return resumed(read_record(run), run, data, given)
    return {
        "command": shlex.join(sys.argv),
        "given": given,
        "settings": settings,
        "data": data.fingerprint,
        "processes": PartialState().num_processes,
        "threads": torch.get_num_threads(),
        "files": [],
        "versions": versions(),
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
    warn_of_other_threads(run, record)
    return {**record, "given": given, "settings": settings, "files": sorted(own_files(run, record))}


def warn_of_other_threads(run: Path, record: dict[str, Any]) -> None:
    before, now = record.get("threads"), torch.get_num_threads()
    if before not in (None, now) and PartialState().is_main_process:
        change = f"was begun with {before} threads and goes on with {now}"
        warnings.warn(f"{run}: {change}: weights may differ in their last digits", stacklevel=2)


def begin_run(run: Path, record: dict[str, Any], resume: bool) -> None:
    """Write the record into the folder, without what an earlier run or a kill has left there."""
    if not resume and (run / RUN).is_file():
        remove_run(run)
    write_record(run, record)
    remove_incomplete(run)


def end_run(run: Path) -> dict[str, Any]:
    """Puts the best checkpoint's model into the run's folder and returns what was measured of it."""
    last = last_checkpoint(run)
    assert last is not None, "every epoch ends with a checkpoint"
    state = trainer_state(last)
    best = run / f"checkpoint-{state['best_global_step']}"
    names = model_files(best)
    with scratch_folder(run) as scratch:
        note_files(run, *names)
        for name in names:
            shutil.copy2(best / name, scratch)
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


# Breaks


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
        if not functions & {"_save_checkpoint", "on_log", "note_files", "end_run"}:
            raise
        free = shutil.disk_usage(run).free >> 20
        remove_incomplete(run)
        raise OSError(
            f"{run}: a file could not be written, {free} MB were free ({' '.join(str(error).split())}); "
            "earlier checkpoints are whole: make room and use --resume"
        ) from error
