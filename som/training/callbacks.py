"""What happens during training: checkpoints, the log, progress."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import reduce
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from modeling_som.counts_som import WORD_COUNTS
from som.files import usual_mode, write_whole
from som.interruption import Signals
from som.progress import Progress as Lines
from som.training.runs import note_files, remove_old


class Checkpoints(TrainerCallback):
    """Asks for checkpoints between the ends of epochs, also to stop after one when a signal has come.

    Each is written down beforehand as the run's, and old ones are removed. A log entry before every checkpoint makes
    the averages in the log start anew there, so that a resumed run logs what it would have logged."""

    def __init__(self, run: Path, save_steps: int, signals: Signals):
        self.run, self.save_steps, self.signals = run, save_steps, signals

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        between = state.epoch != int(state.epoch)  # else the end of the epoch saves: nothing is written twice
        due = self.save_steps and state.global_step % self.save_steps == 0
        if (self.is_stopping() or due) and between:
            control.should_log = control.should_save = True
        self.note(state, control)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        control.should_log = True
        self.note(state, control)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            checkpoint = self.run / f"checkpoint-{state.global_step}"
            shutil.copy2(self.run / WORD_COUNTS, checkpoint)
            for weights in checkpoint.glob("*.safetensors"):  # which the library keeps from everybody else
                weights.chmod(usual_mode(checkpoint))
            remove_old(self.run, state.best_global_step, state.global_step)
        if self.is_stopping():
            raise KeyboardInterrupt  # not the Trainer's way to stop, which would end the epoch, too

    def note(self, state: TrainerState, control: TrainerControl) -> None:
        if control.should_save and state.is_world_process_zero:
            note_files(self.run, f"checkpoint-{state.global_step}")

    def is_stopping(self) -> bool:
        """Whether a signal has come to any of the processes, which all have to stop after the same step."""
        came = torch.tensor(float(self.signals.number is not None), device=PartialState().device)
        return bool(reduce(came, "sum") > 0)


class Divergence(TrainerCallback):
    """Stops a training whose loss is no longer a finite number, before such weights get into a checkpoint."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
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

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        norm = kwargs["logs"].get("grad_norm", 0.0)
        if not math.isfinite(norm) and not args.fp16:  # whose steps are left out then
            self.stop("norm of the gradient", norm, state.global_step)

    def stop(self, what: str, value: float, step: int) -> None:
        raise ValueError(
            f"{self.args.output_dir}: training diverged: at step {step} the {what} is {value}; earlier checkpoints "
            f"are kept; train anew with a learning rate below {self.args.learning_rate:g}"
        )


class JsonLines(TrainerCallback):
    """The log, one JSON object per line; resuming takes back what came after the checkpoint."""

    def __init__(self, path: Path):
        self.path = path

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            write_whole(self.path, "".join(json.dumps(entry) + "\n" for entry in state.log_history))

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(state.log_history[-1]) + "\n")


class ProgressBar(TrainerCallback):
    """One live bar in terminals, in log files a line every so often, and one line for every validation everywhere."""

    def __init__(self, progress: Progress, lines: Lines):
        self.progress, self.lines = progress, lines
        self.started = time.monotonic()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.task = self.progress.add_task("training", total=state.max_steps, completed=state.global_step)
        self.lines.total, self.lines.count = state.max_steps, state.global_step

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.progress.update(self.task, completed=state.global_step)
        self.lines.count = state.global_step

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if "loss" in state.log_history[-1]:
            self.progress.update(self.task, description=f"loss {state.log_history[-1]['loss']:.3f}")

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.progress.update(self.task, description="validating")

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
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


@contextmanager
def progress_bar(shown: bool) -> Iterator[Progress]:
    columns = TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, disable=not shown) as progress:
        yield progress
