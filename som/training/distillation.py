"""Distillation: a student learns from teachers, SOMs that were trained before, besides the treebank.

Kuncoro et al. (2016) make one parser of an ensemble of parsers in this way, Kuncoro et al. (2019) teach a language
model syntax. A teacher's expectation says more than the one word and the one attachment that the treebank has, and
several teachers are better on the average than any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from modeling_som import SOMForCausalLM
from modeling_som.operators_som import mean
from modeling_som.sentences_som import NONE
from som.inference import load_checkpoint

DEAD = -1e4  # instead of -inf, which times the chance 0 is no number


def teach(
    student: SOMForCausalLM, teachers: Sequence[str], tokenizer: PreTrainedTokenizerBase, device: torch.device
) -> None:
    """Let the student learn from the checkpoints of teachers whenever it computes its loss in training."""
    if student.config.next_attachment != "oracle":
        raise ValueError("teachers need a student that learns the oracle's next attachment")
    models = []
    for teacher in teachers:
        model = load_with_same_vocabulary(teacher, student, tokenizer)
        if model.config.word_pieces != student.config.word_pieces:
            raise ValueError(f"{teacher}: expected a teacher that attaches pieces of words as the student does")
        if model.config.num_slots != student.config.num_slots or not model.config.prediction_network:
            slots = student.config.num_slots
            raise ValueError(f"{teacher}: expected a teacher with {slots} slots and a prediction network")
        models.append(model.requires_grad_(False).to(device, student.dtype))  # type: ignore[arg-type]
    student.register_forward_hook(Teachers(models), with_kwargs=True)


def load_with_same_vocabulary(
    path: str, like: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, kind: type[PreTrainedModel] = SOMForCausalLM
) -> PreTrainedModel:
    """The model of a checkpoint, which must have the same vocabulary as another one."""
    model, known = load_checkpoint(path, kind)
    if known.get_vocab() != tokenizer.get_vocab() or model.config.vocab_size != like.config.vocab_size:
        raise ValueError(f"{path}: expected the vocabulary of the data; som prepare --tokenizer model:{path} has it")
    return model


class Teachers:
    """Makes one half of a student's loss the cross-entropy with what its teachers expect.

    One of them is asked about each batch, any of them with the same chance: cross-entropies are linear in what is
    expected, so in the mean over batches this is the average of all. It is asked at the states that the student itself
    reached, so it follows the student's decisions. What to expect of a word depends on where it attaches, and the
    student learns it after the oracle's attachment: words are asked for where that is the one it took, and elsewhere
    the treebank alone tells them. Teachers read the words themselves, also where the student reads an unknown one."""

    def __init__(self, models: Sequence[SOMForCausalLM]):
        self.models = models

    def __call__(self, student: SOMForCausalLM, args: tuple, inputs: Mapping[str, Any], output: Any) -> Any:
        """A forward hook."""
        if student.training:
            labels, items = inputs["labels"], inputs.get("num_items_in_batch")
            words, attachments = (mean(total, labels, items) for total in self.cross_entropies(labels, output))
            output.loss = (output.loss + student.weigh(words, attachments, output.tag_loss)) / 2
        return output

    def cross_entropies(self, labels: Tensor, output: Any) -> tuple[Tensor, Tensor]:
        """Sums over the batch: of words, and of the decisions of both parsers."""
        teacher = self.models[int(torch.randint(len(self.models), ()))]
        decided = output.depths > 0  # (B, T), all but BOS and padding
        before = F.pad(decided[:, 1:], (0, 1))  # what is to be predicted follows
        agreed = before & F.pad((output.depths == output.oracle_depths)[:, 1:], (0, 1))
        with torch.no_grad():
            told = teacher.model(
                input_ids=labels.masked_fill(labels == NONE, teacher.config.bos_token_id or 0),  # BOS has none
                attention_mask=(output.depths != NONE).long(),
                depths=output.depths,
                use_cache=False,
            )
            words = teacher.word_logits(told.last_hidden_state[agreed])
        return (
            soft_cross_entropy(output.logits[agreed], words),
            soft_cross_entropy(output.attach_logits[decided].clamp(min=DEAD), told.attach_logits[decided])
            + soft_cross_entropy(output.next_attach_logits[before].clamp(min=DEAD), told.next_attach_logits[before]),
        )


def soft_cross_entropy(logits: Tensor, told: Tensor) -> Tensor:
    """Summed over rows."""
    return F.cross_entropy(logits, told.softmax(dim=-1), reduction="sum")
