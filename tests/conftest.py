"""Small models with weights that are not tiny, so that a wrong state shows in every logit."""

import io
import os
import random

import pytest
import torch
from hypothesis import settings as hypothesis_settings

from configuration_som import SOMConfig
from modeling_som import SOMForCausalLM
from som import cli
from som.data.vocabularies import make_tokenizer
from som.syntax.oracle import first_siblings, tree_from_depths
from som.training.models import vocabulary

hypothesis_settings.register_profile("ci", derandomize=True)  # the same examples every time: no luck, good or bad
if os.environ.get("CI"):
    hypothesis_settings.load_profile("ci")

CORPUS = [text.split() for text in ("the old dog sees the cat .", "the cat sees a dog and the old dog sees a cat .")]


def make_model(seed: int = 0, dtype=torch.float64, **settings) -> SOMForCausalLM:
    sizes = {"vocab_size": 23, "hidden_size": 8, "num_slots": 4}
    specials = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    dropout = {"dropout": 0.0, "embedding_dropout": 0.0, "output_dropout": 0.0}
    torch.manual_seed(seed)
    model = SOMForCausalLM(SOMConfig(**{**sizes, **specials, **dropout, **settings})).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
        if model.config.word_pieces:
            model.model.continues[5::3] = True
    return model


def random_first_siblings(length: int, rng: random.Random) -> list[int]:
    """Labels of a random tree over BOS, words and EOS."""
    depths = [0, 1]
    while len(depths) < length - 1:
        depths.append(rng.randint(2, depths[-1] + 1))
    return first_siblings(tree_from_depths([*depths, 1]))


@pytest.fixture(scope="module", params=["word", "bpe:300"])
def checkpoint(request, tmp_path_factory) -> str:
    """A model saved with a tokenizer of its own, one of words and one of pieces."""
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = make_tokenizer(request.param, CORPUS)
    make_model(dtype=torch.float32, **vocabulary(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def run(checkpoint, capsys, monkeypatch):
    """Runs a command on the checkpoint; returns the exit code, what it printed and what it complained of."""

    def run(command: str, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = cli.main([command, *arguments, "--model", checkpoint])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def tiny() -> SOMForCausalLM:
    return make_model()


@pytest.fixture
def sentences() -> list[tuple[list[int], list[int]]]:
    """Ids and first siblings of a few sentences of different lengths."""
    rng = random.Random(1)
    return [
        ([0, *(rng.randrange(3, 23) for _ in range(length - 2)), 1], random_first_siblings(length, rng))
        for length in (9, 5, 7, 3)
    ]


def pad(rows: list[list[int]], side: str, fill: int) -> torch.Tensor:
    width = max(map(len, rows))
    padding = [[fill] * (width - len(row)) for row in rows]
    both = zip(rows, padding, strict=True)
    return torch.tensor([gap + row if side == "left" else row + gap for row, gap in both])


def batch_of(sentences, side: str) -> dict[str, torch.Tensor]:
    """Padded with an ordinary word, so that a model that reads it shows."""
    ids, siblings = zip(*sentences, strict=True)
    return {
        "input_ids": pad(list(ids), side, 5),
        "attention_mask": pad([[1] * len(row) for row in ids], side, 0),
        "labels": pad(list(ids), side, -100),
        "first_sibling": pad(list(siblings), side, -100),
    }
