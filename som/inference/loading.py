"""Loading a checkpoint: the model and its tokenizer, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import logging

from modeling_som import SOMForCausalLM
from modeling_som.tokenization_som import load_tokenizer
from som.locating import find_checkpoint

SHIPPED = Path(__file__).parents[1] / "checkpoint"
JSON_FILES: dict[str, tuple[str, ...]] = {  # of a checkpoint, with keys that must be there
    "config.json": (),
    "generation_config.json": (),
    "tokenizer.json": ("model", "added_tokens"),
    "tokenizer_config.json": (),
}
AnyModel = TypeVar("AnyModel", bound=PreTrainedModel)


def load(
    path: str | Path | None = None,
    kind: type[SOMForCausalLM] = SOMForCausalLM,
    device: str | torch.device | None = None,
) -> tuple[SOMForCausalLM, PreTrainedTokenizerFast]:
    """A checkpoint's model, ready to score, and its tokenizer; without a path, those that come with the package.

    The model is on the CPU unless another `device` is given, such as "cuda".
    """
    if path is None and not SHIPPED.is_dir():
        raise ValueError("no checkpoint comes with this installation: name one")
    return load_checkpoint(SHIPPED if path is None else path, kind, device)


def load_checkpoint(
    path: str | Path, kind: type[AnyModel], device: str | torch.device | None = None
) -> tuple[AnyModel, PreTrainedTokenizerFast]:
    """The same for a model of any class."""
    path = find_checkpoint(path)
    with quiet(), damage_reported(path):
        check_json_files(Path(path))
        check_kind(path, kind)
        model = load_weights(path, kind)
    with quiet(), damage_reported(path, "its tokenizer"):
        if Path(path).is_dir() and not (Path(path) / "tokenizer.json").is_file():
            raise CheckpointError(f"{path}: expected a checkpoint with its tokenizer, found no tokenizer.json")
        tokenizer = load_tokenizer(path)
    if None in (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id):
        raise CheckpointError(f"{path}: expected a tokenizer with tokens for beginning, end and padding")
    if len(tokenizer) > model.config.vocab_size:
        sizes = f"{len(tokenizer)} tokens, the model only {model.config.vocab_size}"
        raise CheckpointError(f"{path}: the tokenizer does not match the model: it knows {sizes}")
    return move_to_device(model.eval(), device), tokenizer


def move_to_device(model: AnyModel, device: str | torch.device | None) -> AnyModel:
    """The model there, or one line on why not: torch raises another error for each kind of device."""
    try:
        return model if device is None else model.to(device)  # type: ignore[arg-type]  # the library's type of `to`
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device {str(device)!r} cannot be used: {str(error).splitlines()[0]}") from None


def check_json_files(folder: Path) -> None:
    """Validate that the files which libraries take for granted are what they should be, as far as they are there."""
    for name, needed in JSON_FILES.items():
        if (file := folder / name).is_file():
            try:
                content = json.loads(file.read_text(encoding="utf-8"))
            except ValueError as error:
                raise CheckpointError(f"{file}: expected JSON: {error}") from None
            if not isinstance(content, dict):
                raise CheckpointError(f"{file}: expected a JSON object, found {json.dumps(content)[:40]}")
            if missing := [key for key in needed if key not in content]:
                raise CheckpointError(f"{file}: expected a tokenizer, found no {missing[0]!r} in it")


def check_kind(path: str | Path, kind: type[PreTrainedModel]) -> None:
    """Validate that the configuration is that of a model of this class."""
    config = PreTrainedConfig.get_config_dict(path)[0]
    expected = kind.config_class.model_type  # type: ignore[union-attr]  # there is one
    if (model_type := config.get("model_type")) != expected:
        found = f"a model of type {model_type!r}" if model_type else "no model's config.json"
        raise CheckpointError(f"{path}: expected a {expected.upper()} checkpoint, found {found}")
    if (architectures := config.get("architectures") or ["SOMModel"]) not in (["SOMModel"], [kind.__name__]):
        found = architectures[0] if isinstance(architectures, list) else json.dumps(architectures)
        raise CheckpointError(f"{path}: expected a {kind.__name__}, found a {found}")


def load_weights(path: str | Path, kind: type[AnyModel]) -> AnyModel:
    """The model of a checkpoint that has all of its weights and no others; never from a pickle, which may run code.

    The library itself would fill in missing weights at random."""
    loaded: Any = kind.from_pretrained(
        path, use_safetensors=True, output_loading_info=True, ignore_mismatched_sizes=True
    )
    model, report = loaded
    for problem in ("missing", "unexpected", "mismatched"):
        if keys := sorted(report[f"{problem}_keys"]):
            raise CheckpointError(f"{path}: expected the weights of the model, {problem}: {described_weights(keys)}")
    if broken := [name for name, weight in model.named_parameters() if not weight.isfinite().all()]:
        raise CheckpointError(f"{path}: expected finite weights, these are not: {described_weights(broken)}")
    return model


def described_weights(keys: Sequence[str | tuple[str, Sequence[int], Sequence[int]]]) -> str:
    """The first of these weights, with its shapes if it does not match, and how many others there are.

    >>> described_weights(["a", "b"]), described_weights([("a", (3,), (4,))])
    ('a and 1 more', 'a has shape [3] instead of [4]')
    """
    name, *shapes = [keys[0]] if isinstance(keys[0], str) else keys[0]
    sizes = " has shape {} instead of {}".format(*map(list, shapes)) if shapes else ""
    return f"{name}{sizes}" + (f" and {len(keys) - 1} more" if len(keys) > 1 else "")


class CheckpointError(ValueError):
    """What is wrong with a checkpoint, in one line."""


@contextmanager
def damage_reported(path: str | Path, part: str = "the model") -> Iterator[None]:
    """Turns what libraries raise over damaged files, each another thing, into a `CheckpointError`."""
    try:
        yield
    except CheckpointError:
        raise
    except SafetensorError as error:
        raise CheckpointError(f"{path}: expected a checkpoint: model.safetensors is damaged: {error}") from error
    except Exception as error:
        reason = " ".join(str(error).split("\n")[:2])
        if isinstance(error, StrictDataclassError):
            reason = f"config.json: {reason.rpartition('Error: ')[2]}"
        elif not isinstance(error, OSError | ValueError):
            reason = f"a file of {part} is damaged"
        elif isinstance(error, OSError) and not Path(path).is_dir():
            reason = "no such folder, and no such model on the Hub"
        raise CheckpointError(f"{path}: expected a checkpoint: {reason}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bar over a handful of weights, and no table of what is wrong with them: we raise an error."""
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
