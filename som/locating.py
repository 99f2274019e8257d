"""Where a checkpoint is: in a folder, in the local cache of the Hub, or on the Hub.

It is found without torch or transformers, so that a wrong name is refused before they are imported.
"""

from __future__ import annotations

from pathlib import Path

HUB_SECONDS = 3.0  # that the Hub may take to say whether it has a model


def find_checkpoint(path: str | Path) -> str | Path:
    """The folder of a checkpoint, or a name that the Hub knows; one line on what is wrong if it is neither.

    A model in the local cache is read from there, without the network. `hf download OWNER/NAME` renews it.
    """
    if Path(path).is_dir():
        return path
    if not on_hub(str(path)):
        raise ValueError(f"{path}: expected a checkpoint: no such folder, and not OWNER/NAME on the Hub")
    if (folder := cached(str(path))) is None:
        check_on_hub(str(path))
    return folder or path


def on_hub(path: str) -> bool:
    """Whether this can be meant for a model on the Hub, OWNER/NAME, rather than a folder beside others that are here.

    >>> on_hub("someone/som-ewt"), on_hub("./som-ewt"), on_hub("runs/a/b"), on_hub("som-ewt")
    (True, False, False, False)
    """
    owner, slash, name = path.partition("/")
    return bool(slash and name) and "/" not in name and owner not in (".", "..", "~") and not Path(owner).is_dir()


def cached(name: str) -> Path | None:
    """The folder in the local cache of the Hub that has this model, weights and all."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = [try_to_load_from_cache(name, file) for file in ("config.json", "model.safetensors")]
    except HFValidationError as error:
        raise ValueError(f"{name}: expected a checkpoint, a folder or OWNER/NAME on the Hub: {error}") from None
    return Path(found[0]).parent if all(isinstance(file, str) for file in found) else None  # type: ignore[arg-type]


def check_on_hub(name: str) -> None:
    """Ask the Hub once, without the retries of a download, which would take half a minute without a network."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    missing = f"{name}: expected a checkpoint: no such folder, not in the local cache of the Hub"
    if constants.HF_HUB_OFFLINE:
        raise ValueError(f"{missing}, and HF_HUB_OFFLINE is set")
    try:
        HfApi().model_info(name, timeout=HUB_SECONDS)
    except GatedRepoError:
        raise ValueError(f"{name}: the Hub gives this model only to those who have asked its owner for it") from None
    except RepositoryNotFoundError:
        raise ValueError(f"{missing}, and no such model on the Hub") from None
    except Exception as error:  # whatever the library for HTTP raises
        raise ValueError(f"{missing}, and the Hub cannot be reached ({type(error).__name__})") from None
