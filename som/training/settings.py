"""Everything that a run's result depends on but its data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments


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
    tree_tags: list[str] = field(default_factory=list)  # by default those of the data; empty for no labelled trees
    tag_loss_weight: float = 1.0
    tag_gradient: bool = True  # into the cells, too; otherwise only the classifier of the tags learns from their loss
    epochs: int = 8
    batch_size: int = 32  # sentences in a step, over all processes and accumulated batches
    learning_rate: float = 1e-3
    schedule: str = "cosine"  # or "plateau": halved whenever an epoch does not improve
    beta1: float = 0.0
    start: str = ""  # the model to begin with instead of random weights; its sizes are the new one's
    teachers: list[str] = field(default_factory=list)  # SOMs to learn from, see `som.training.distillation`
    averaging: float = 0.0  # how much of the running mean a step keeps, see `AverageWeights`
    weight_decay: float = 0.6  # much, for a small treebank that is read many times (docs/results.md)
    early_stopping: int = 0  # epochs without improvement after which training ends, 0 for never
    seed: int = 0
    save_steps: int = 0  # a checkpoint every so many steps besides those after each epoch, 0 for none
    gradient_accumulation: int = 1
    bf16: bool = False
    trainer: Mapping[str, Any] = field(default_factory=dict)  # further TrainingArguments
    report_to: list[str] = field(default_factory=list)  # of `TRACKERS`, or "none"; empty for what is installed


SETTINGS = ("preset", "tree", "dsom", *(one.name for one in fields(TrainSettings)))
START_SETTINGS = ("hidden_size", "syntactic_size", "num_slots", "word_pieces", "prediction_network")
# of runs that are older than these settings
BEFORE: dict[str, Any] = {
    "averaging": 0.0,
    "weight_decay": 0.0,
    "word_pieces": False,
    "tree_tags": [],
    "tag_loss_weight": 1.0,
    "tag_gradient": True,
}
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
TRACKERS = ("tensorboard", "wandb", "trackio")  # what draws learning curves, if it is installed
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
            raise ValueError(f"unknown setting {name}; there are {', '.join(SETTINGS)}")
    made = TrainSettings(**{**base, **settings})
    check_settings(made)
    return made


def check_settings(settings: TrainSettings) -> None:
    """Validates the settings of training; the model's configuration validates its own."""
    for name in ("epochs", "batch_size", "gradient_accumulation"):
        if getattr(settings, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(settings, name)}")
    for name in ("word_dropout", "weight_decay"):
        if not 0 <= getattr(settings, name) < math.inf:
            raise ValueError(f"{name} must be a number from 0 on, got {getattr(settings, name)}")
    if not 0 <= settings.averaging < 1:
        raise ValueError(f"averaging must be from 0 up to, but not including, 1, got {settings.averaging}")
    if settings.learning_rate <= 0:
        raise ValueError(f"learning_rate must be above 0, got {settings.learning_rate}")
    if settings.schedule not in SCHEDULES:
        raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {settings.schedule!r}")
    if settings.trainer.get("label_smoothing_factor"):
        refuse_label_smoothing()


def refuse_label_smoothing() -> None:
    raise ValueError("label smoothing is not possible: the Trainer's would leave out the structure loss")


def trackers(names: Sequence[str]) -> list[str]:
    """What the Trainer reports to: TensorBoard, if it is there, unless others are asked for, or none."""
    if not names:
        return ["tensorboard"] if find_spec("tensorboard") else []
    for name in names:
        if name not in (*TRACKERS, "none"):
            raise ValueError(f"report_to must be one of {', '.join(TRACKERS)} or none, got {name!r}")
        if name != "none" and not find_spec(name):
            raise ValueError(f"report_to {name}: {name} is not installed: pip install {name}")
    return [name for name in names if name != "none"]


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
        "report_to": trackers(settings.report_to),
        "disable_tqdm": True,
    }
    if clash := sorted(ours.keys() & settings.trainer.keys()):
        raise ValueError(f"trainer arguments {', '.join(clash)} are set by settings of their own")
    try:
        return TrainingArguments(**ours, **settings.trainer)
    except TypeError as error:
        raise ValueError(f"trainer arguments: {error}") from None
