"""Sharing a model: its card, whose numbers come from evaluation files alone, and its way to the Hub."""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import requires, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from huggingface_hub import (
    CommitOperationAdd,
    EvalResult,
    HfApi,
    ModelCard,
    ModelCardData,
    RepoCard,
    SpaceCardData,
)
from huggingface_hub.utils import validate_repo_id
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from modeling_som import SOMForCausalLM
from modeling_som.counts_som import save_word_counts
from som.evaluation import LABELS, SECTIONS, cell
from som.files import write_whole
from som.inference import load, quiet
from som.locating import find_checkpoint

TEMPLATE = Path(__file__).with_name("card.md")
CARD = "README.md"
WEIGHTS = "model.safetensors"
PACKAGE_ROOT = Path(__file__).parent.parent  # of this package and those that come with it
SPACE = Path(__file__).parent / "view" / "space"
WITHOUT_CUDA = "https://download.pytorch.org/whl/cpu"  # a Space has no GPU, unless one is paid for


@dataclass(frozen=True)
class Results:
    """One section of an evaluation file: what was measured, on what, by which command."""

    title: str
    command: str
    measures: dict[str, float | None]  # None where nothing was counted

    @property
    def rows(self) -> dict[str, str]:
        """Labels and figures as the card shows them."""
        return {LABELS.get(name, name): cell(name, value) for name, value in self.shown.items()}

    @property
    def shown(self) -> dict[str, float | None]:
        """What is worth showing: where words are not in pieces, perplexity per word is the same as per token."""
        whole = self.measures.get("ppl") == self.measures.get("ppl_per_word")
        return {name: value for name, value in self.measures.items() if not (whole and "per_word" in name)}

    def eval_results(self) -> list[EvalResult]:
        """The figures as the card's metadata hold them."""
        return [
            EvalResult(
                task_type="text-generation",
                dataset_type=slug(self.title),
                dataset_name=self.title,
                metric_type=slug(name),
                metric_name=LABELS.get(name, name),
                metric_value=round(value, 4),
            )
            for name, value in self.shown.items()
            if value is not None
        ]


def slug(text: str) -> str:
    """A name that metadata can hold.

    >>> slug("SG, all 34 suites")
    'sg_all_34_suites'
    """
    return "_".join(re.findall(r"\w+", text.lower()))


def read_results(file: str | Path) -> list[Results]:
    """The sections of a file written by `som evaluate --json`."""
    try:
        data = json.loads(Path(file).read_text(encoding="utf-8"))
        sections = [data[name] for name in SECTIONS if name in data]
        results = [Results(section["title"], data["command"], section["measures"]) for section in sections]
    except (ValueError, LookupError, TypeError):
        results = []
    if not results:
        raise ValueError(f"{file}: expected a file written by som evaluate --json")
    return results


def make_card(
    model: SOMForCausalLM,
    repo_id: str | None,
    results: Sequence[str | Path] = (),
    title: str | None = None,
    license: str | None = None,
    language: str | None = "en",
    datasets: Sequence[str] = (),
    limits: str | None = None,
) -> ModelCard:
    """The card of a model, with the numbers of evaluation files and the commands that gave them.

    `repo_id` is where the model is on the Hub, None for the model that comes with the package; without a title, its
    last part is the model's name. `limits` says in Markdown what the model gets wrong."""
    title = title or (repo_id or "som").rpartition("/")[2]
    sections = [section for file in results for section in read_results(file)]
    data = ModelCardData(
        model_name=title,
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["som", "syntax", "parsing", "language-modeling"],
        license=license,
        language=language,
        datasets=list(datasets) or None,
        eval_results=[result for section in sections for result in section.eval_results()] or None,
        results_files=[str(file) for file in results] or None,
    )
    source = {"trained on": ", ".join(datasets), "licence": license}
    known = describe_model(model) | {name: value for name, value in source.items() if value}
    text: dict[str, Any] = {"title": title, "repo_id": repo_id, "facts": known, "tables": sections, "limits": limits}
    return ModelCard.from_template(data, template_path=str(TEMPLATE), **text)


def describe_model(model: SOMForCausalLM) -> dict[str, Any]:
    """What the model is, in words."""
    config = model.config
    disentangled = f"dSOM, {config.semantic_size} semantic + {config.syntactic_size} syntactic"
    return {
        "kind": disentangled if config.syntactic_size else "SOM",
        "parameters": f"{model.num_parameters():,}",
        "hidden size": config.hidden_size,
        "slots": config.num_slots,
        "vocabulary": f"{config.vocab_size:,}",
        "oracle": config.oracle,
        "prediction network": "yes" if config.prediction_network else "no",
        "next attachment in training": config.next_attachment,
        "default method": "marginal" if config.marginal else "greedy",
    }


def write_card(
    checkpoint: str | Path, results: Sequence[str | Path], repo_id: str | None, **settings: Any
) -> ModelCard:
    """Write the card of a checkpoint beside its weights; settings are those of `make_card`."""
    model, _ = load(checkpoint)
    card = make_card(model, repo_id, results, **settings)
    write_whole(Path(checkpoint) / CARD, str(card))
    return card


def find_disagreements(card_file: str | Path, root: str | Path = ".") -> list[str]:
    """Where a card and the evaluation files that it names, relative to `root`, do not say the same."""
    card = ModelCard.load(card_file)
    named = card.data.get("results_files") or []
    sections = [section for file in named for section in read_results(Path(root) / file)]
    metadata = {(r.dataset_name, r.metric_type): r.metric_value for r in card.data.eval_results or []}
    files = {(r.dataset_name, r.metric_type): r.metric_value for s in sections for r in s.eval_results()}
    found = [
        f"{', '.join(key)}: the card has {metadata.get(key)}, its files {files.get(key)}"
        for key in sorted(metadata.keys() | files.keys())
        if metadata.get(key) != files.get(key)
    ]
    lines = {line for s in sections for line in (s.command, *(f"| {k} | {v} |" for k, v in s.rows.items()))}
    return found + [f"not in the card: {line}" for line in sorted(lines - set(card.text.splitlines()))]


def push(
    checkpoint: str | Path,
    repo_id: str,
    results: Sequence[str | Path] = (),
    dry_run: bool = True,
    private: bool = False,
    **settings: Any,
) -> dict[str, int]:
    """Upload weights, code, tokenizer and card, unless it is a dry run; return the files and their sizes.

    A card that lies with the checkpoint is kept unless there are results for a new one; settings are those of
    `make_card`.
    """
    check_repository(repo_id)
    with TemporaryDirectory() as scratch:
        folder, old_card = Path(scratch), Path(checkpoint) / CARD
        model = stage_model(checkpoint, folder)
        keep = old_card.is_file() and not results
        card = read_kept_card(old_card, repo_id) if keep else str(make_card(model, repo_id, results, **settings))
        (folder / CARD).write_text(card, encoding="utf-8")
        return send(folder, repo_id, dry_run, private)


def push_space(
    checkpoint: str | Path, repo_id: str, dry_run: bool = True, private: bool = False, license: str | None = None
) -> dict[str, int]:
    """Upload an app that shows the model, as a Gradio Space, unless it is a dry run; return the files and their sizes.

    The Space holds all that it runs: the app, the model, and this package.
    """
    check_repository(repo_id)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        stage_model(checkpoint, folder / "models" / Path(checkpoint).resolve().name)
        stage_app(folder, repo_id, license)
        return send(folder, repo_id, dry_run, private, {"repo_type": "space", "space_sdk": "gradio"})


def check_repository(repo_id: str) -> None:
    validate_repo_id(repo_id)
    if "/" not in repo_id:
        raise ValueError(f"expected a repository as ORG/NAME, got {repo_id!r}")


def stage_model(checkpoint: str | Path, folder: Path) -> SOMForCausalLM:
    """Put into the folder what is to be uploaded of a model and nothing else: no optimiser states, no logs."""
    model, tokenizer = load(checkpoint)
    with quiet():
        model.save_pretrained(folder)
    keep_types(Path(find_checkpoint(checkpoint)) / WEIGHTS, folder / WEIGHTS)
    tokenizer.save_pretrained(folder)
    save_word_counts(tokenizer, folder)
    return model


def keep_types(stored: Path, saved: Path) -> None:
    """Give the weights that were saved the number types that they had where they were stored: loading widens them."""
    if not (stored.is_file() and saved.is_file()):
        return
    types = {name: weight.dtype for name, weight in load_file(stored).items()}
    with safe_open(saved, "pt") as file:
        about = file.metadata()
    weights = {name: weight.to(types.get(name, weight.dtype)) for name, weight in load_file(saved).items()}
    save_file(weights, saved, metadata=about)


def stage_app(folder: Path, repo_id: str, license: str | None = None) -> None:
    """Put into the folder the app of a Space, this package without its own model, and what it needs."""
    leave_out = shutil.ignore_patterns("__pycache__", "checkpoint")
    for package in ("som", "modeling_som"):
        shutil.copytree(PACKAGE_ROOT / package, folder / package, ignore=leave_out)
    shutil.copy(PACKAGE_ROOT / "configuration_som.py", folder)
    shutil.copy(SPACE / "app.py", folder)
    (folder / "requirements.txt").write_text(requirements(), encoding="utf-8")
    data = SpaceCardData(
        title=repo_id.rpartition("/")[2],
        sdk="gradio",
        sdk_version=version("gradio"),
        python_version=".".join(platform.python_version_tuple()[:2]),
        app_file="app.py",
        license=license,
        emoji="🌳",
        colorFrom="yellow",
        colorTo="blue",
    )
    card = RepoCard.from_template(data, template_path=str(SPACE / CARD), repo_id=repo_id, version=version("som-lm"))
    (folder / CARD).write_text(f"{card}\n", encoding="utf-8")


def requirements() -> str:
    """What this package needs, in the versions that are installed here; Gradio comes with the Space."""
    needed = [found for found in requires("som-lm") or () if "extra ==" not in found]
    names = [re.match(r"[\w.-]+", found)[0] for found in needed]  # type: ignore[index]  # each begins with a name
    pinned = [f"{name}=={version(name).partition('+')[0]}" for name in names]
    return "\n".join([f"--extra-index-url {WITHOUT_CUDA}", *pinned, ""])


def read_kept_card(file: Path, repo_id: str) -> str:
    """The text of a card, unless it is ours and has readers load a model from elsewhere."""
    card = file.read_text("utf-8")
    named = re.search(r'^name = "(.*)"$', card, re.MULTILINE)
    packaged = re.search(r"^model, tokenizer = som\.load\(\)$", card, re.MULTILINE)
    found = named[1] if named else "the model in the package" if packaged else repo_id
    if found != repo_id:
        raise ValueError(f"{file}: is a card of {found}, expected one of {repo_id}: --results makes a new one")
    return card


def send(
    folder: Path, repo_id: str, dry_run: bool, private: bool, kind: Mapping[str, Any] | None = None
) -> dict[str, int]:
    """Upload all files of a folder, unless it is a dry run; return them with their sizes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in files}
    if not dry_run:
        upload(repo_id, names, private, kind or {})
    return {name: path.stat().st_size for name, path in names.items()}


def upload(repo_id: str, files: Mapping[str, Path], private: bool, kind: Mapping[str, Any]) -> None:
    """Put the files into the repository in one commit, so that it never holds half a model."""
    operations = [CommitOperationAdd(name, path) for name, path in files.items()]
    message = "Upload a SOM: weights, code, tokenizer, " + ("app" if kind else "card")
    try:
        api = HfApi()
        api.create_repo(repo_id, private=private, exist_ok=True, **kind)
        api.create_commit(repo_id, operations, commit_message=message, repo_type=kind.get("repo_type"))
    except Exception as error:  # whatever the HTTP library of this version of huggingface_hub raises
        raise OSError(f"{repo_id}: the Hub did not take the {'Space' if kind else 'model'}: {error}") from error
