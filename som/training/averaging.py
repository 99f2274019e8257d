"""The running mean of a training's weights, which can predict and parse better than the weights of its last step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from som.training.runs import AVERAGED_WEIGHTS


class AverageWeights(TrainerCallback):
    """Keeps the mean of the weights of all steps, in which those of earlier steps count less and less.

    After a step, `decay` is what is left of the mean before it: less in the first steps, which are far from where
    they go. Validations are of the mean, so it is by the mean that the best epoch is chosen, and `end_run` makes it
    the model of the run. Training goes on with the weights themselves, so checkpoints have both."""

    def __init__(self, run: Path, decay: float):
        self.run, self.decay = run, decay

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.weights = {name: weight.detach() for name, weight in kwargs["model"].named_parameters()}
        self.mean = {name: weight.clone() for name, weight in self.weights.items()}
        if state.global_step:
            resumed = load_file(self.run / f"checkpoint-{state.global_step}" / AVERAGED_WEIGHTS)
            for name, weight in self.mean.items():
                weight.copy_(resumed[name])
        if args.eval_on_start:
            self.exchange()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        kept = min(self.decay, (1 + state.global_step) / (10 + state.global_step))
        torch._foreach_lerp_(list(self.mean.values()), list(self.weights.values()), 1 - kept)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if control.should_evaluate:
            self.exchange()  # the validation comes next, which ends with `on_evaluate`

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.exchange()

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            checkpoint = self.run / f"checkpoint-{state.global_step}"
            whole = {**load_file(checkpoint / "model.safetensors"), **self.mean}
            whole = {name: tensor.contiguous() for name, tensor in whole.items()}
            save_file(whole, checkpoint / AVERAGED_WEIGHTS, {"format": "pt"})

    def exchange(self) -> None:
        """Puts the mean into the model in place of its weights, or the other way round."""
        for name, weight in self.weights.items():
            before = weight.clone()
            weight.copy_(self.mean[name])
            self.mean[name].copy_(before)
