"""What a model is trained on: prepared data, in batches of similar lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import datasets
import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from modeling_som import SOMTokenizer
from modeling_som.counts_som import WordCounts
from modeling_som.tokenization_som import load_tokenizer
from som.data import SUMMARY, count_words, fingerprint, tag_names

TREE_COLUMNS = ["input_ids", "first_sibling"]
TAG_COLUMNS = ["leaf_tag", "node_tag"]


class TrainingData(NamedTuple):
    train: datasets.Dataset
    validation: datasets.Dataset
    tokenizer: PreTrainedTokenizerFast
    fingerprint: str
    tree_tags: list[str]
    word_counts: WordCounts  # of the training split

    def without_tags(self) -> TrainingData:
        """For models that have no use for them."""
        train, validation = (
            self.train.select_columns([*TREE_COLUMNS, "length"]),
            self.validation.select_columns(TREE_COLUMNS),
        )
        return self._replace(train=train, validation=validation, tree_tags=[])


def load_data(folder: Path) -> TrainingData:
    """A prepared data set and its tokenizer, or an error that says what is wrong with the folder."""
    if not (folder / SUMMARY).is_file():
        raise ValueError(f"{folder}: expected a folder made by `som prepare`, there is no {SUMMARY} in it")
    splits = datasets.load_from_disk(str(folder))
    tree_tags = tag_names(folder)
    columns = [*TREE_COLUMNS, *(TAG_COLUMNS if tree_tags else ())]
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
        train=splits["train"].select_columns([*columns, "length"]),
        # similar lengths together, so that little is padded
        validation=splits["validation"]
        .select(lengths(splits["validation"]).argsort(stable=True))
        .select_columns(columns),
        tokenizer=tokenizer,
        fingerprint=fingerprint(files=files),
        tree_tags=tree_tags,
        word_counts=count_words(splits["train"]),
    )


def token_ids(dataset: datasets.Dataset) -> np.ndarray:
    """All tokens of a data set, one after the other."""
    return np.concatenate([chunk.flatten().to_numpy() for chunk in dataset.data.column("input_ids").chunks])


def lengths(dataset: datasets.Dataset) -> Tensor:
    return torch.tensor(dataset.data.column("length").to_numpy())


class WordDropout:
    """Reads a word as its UNK class, with the chance rate / (rate + its count in training).

    Kiperwasser & Goldberg (2016) do so for parsers: rare words are not memorized, and UNK classes are read more
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
        self.dataset = dataset.remove_columns("length")
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
