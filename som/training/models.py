"""The model that a run trains: a new SOM, or one that begins with the weights of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from configuration_som import SOMConfig
from modeling_som import SOMForCausalLM
from modeling_som.tokenization_som import continuing_tokens, never_generated
from som.training.distillation import load_with_same_vocabulary
from som.training.settings import START_SETTINGS, TrainSettings

Builder = Callable[[TrainSettings, PreTrainedTokenizerFast], PreTrainedModel]


def make_model(
    settings: TrainSettings, tokenizer: PreTrainedTokenizerFast, kind: type[SOMForCausalLM] = SOMForCausalLM
) -> PreTrainedModel:
    """A new SOM of some kind, which knows the pieces that continue words."""
    model = kind(make_config(settings, tokenizer))
    if model.config.word_pieces:
        model.model.continues.copy_(torch.tensor(continuing_tokens(tokenizer)))
    model.generation_config.suppress_tokens = never_generated(tokenizer)
    return model


def begin_with(
    model: PreTrainedModel,
    start: str,
    tokenizer: PreTrainedTokenizerFast,
    kind: type[PreTrainedModel] = SOMForCausalLM,
) -> None:
    """Copy the weights of a checkpoint of some kind, which must fit; parts that it does not have stay as they are."""
    other = load_with_same_vocabulary(start, model, tokenizer, kind)
    for name in (*START_SETTINGS, "layer_norm_eps"):
        wanted, found = (getattr(one.config, name, None) for one in (model, other))
        if wanted != found:
            raise ValueError(f"{start}: expected a model with {name} {wanted}, this one has {found}")
    if getattr(other.config, "tree_tags", []) not in ([], getattr(model.config, "tree_tags", [])):
        raise ValueError(f"{start}: expected a model without tags or with those of the data")
    model.load_state_dict({**model.state_dict(), **other.state_dict()})  # its own tagger, where tags join later


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
