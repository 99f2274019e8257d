"""Treebanks to data sets: a `DatasetDict` on disk with its tokenizer, and the batches made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import Dataset, DatasetDict, Features, List, NamedSplit, Value, load_dataset, load_from_disk
from rich.table import Table
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from som.oracle import first_siblings, gold_depths
from som.treebanks import (
    CONVERSION_VERSION,
    HEAD,
    TreebankError,
    check_heads,
    clean_word,
    read_file,
    to_conllu,
    treebank_files,
)
from som.trees import Tree
from som.vocabularies import encode_sentences, make_tokenizer

SPLITS = ("train", "validation", "test")
SUMMARY = "som.json"  # also the sign that a folder holds prepared data
IGNORED = -100  # what losses leave out

INTEGERS = List(Value("int32"))
PARSED = Features(
    words=List(Value("string")),
    tree=Value("string"),
    first_sibling=INTEGERS,  # of words, without BOS and EOS
    lifted=Value("int32"),
    error=Value("string"),  # in the place of a sentence that cannot be read
)
ENCODED = Features(
    input_ids=INTEGERS,
    first_sibling=INTEGERS,  # of tokens, from BOS to EOS
    words=List(Value("string")),
    tree=Value("string"),
    length=Value("int32"),
)
COUNTS = Features({name: Value("int32") for name in ("depth", "depth_sum", "lifted", "unknown")})

Source = Sequence[str | Path] | Iterator[str]  # files and folders, or CoNLL-U sentences from elsewhere


def prepare(
    splits: Mapping[str, Source],
    out: str | Path,
    tokenizer: str = "word",
    num_slots: int = 15,
    skip_bad: bool = False,
    num_proc: int = 1,
    overwrite: bool = False,
    silver: str | None = None,
) -> dict[str, Any]:
    """Write the data set of a treebank and its tokenizer to a folder, whole or not at all; return the summary.

    Sentences that do not come from files are kept, as CoNLL-U, beside the data. `silver` names the parser whose trees
    these are, where they are not gold.
    """
    for split in SPLITS:
        if split not in splits:
            raise TreebankError(f"expected the splits {', '.join(SPLITS)}, got none for {split}")
    with written_whole(Path(out), overwrite) as folder:
        scratch = folder.parent
        files = {split: source_files(splits[split], folder / f"{split}.conllu") for split in SPLITS}
        parsed = {split: parse(files[split], split, scratch, skip_bad, num_proc) for split in SPLITS}
        vocabulary = make_tokenizer(tokenizer, parsed["train"]["words"])
        encoded = {split: encode(parsed[split], vocabulary, scratch / f"{split}.arrow", num_proc) for split in SPLITS}
        summary: dict[str, Any] = {
            "tokenizer": tokenizer,
            "vocab_size": len(vocabulary),
            "silver": silver,
            "num_slots": num_slots,
            "conversion_version": CONVERSION_VERSION,
            "splits": {split: summarise(encoded[split], num_slots) for split in SPLITS},
        }
        for split, counts in summary["splits"].items():
            counts["skipped"] = len(parsed[split]) - len(encoded[split])
            counts["files"] = [str(file).removeprefix(f"{folder}/") for file in files[split]]
        DatasetDict({split: encoded[split].select_columns(list(ENCODED)) for split in SPLITS}).save_to_disk(folder)
        vocabulary.save_pretrained(folder)
        (folder / SUMMARY).write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return summary


@contextmanager
def written_whole(folder: Path, overwrite: bool) -> Iterator[Path]:
    """A new folder, inside a scratch folder, that takes its place only when everything in it has been written."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder}: expected a new or empty folder, this is a file")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / SUMMARY).is_file():
            raise FileExistsError(f"{folder}: expected a new or empty folder, this one holds something else")
        if not overwrite:
            raise FileExistsError(f"{folder}: holds prepared data already, which --overwrite would replace")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        new = Path(scratch) / "new"
        new.mkdir()
        yield new
        if folder.exists():
            folder.rename(Path(scratch) / "old")
        new.rename(folder)


def source_files(source: Source, path: Path) -> list[Path]:
    """The files of a source; sentences from elsewhere are first written to `path`."""
    if isinstance(source, Sequence):
        return treebank_files(source)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(sentence.rstrip("\n") + "\n\n" for sentence in source)
    return [path]


# From files to rows


def parse(files: Sequence[Path], split: str, scratch: Path, skip_bad: bool, num_proc: int) -> Dataset:
    """The sentences of the files with their trees, one a row, in the order of the files."""
    names = [str(file) for file in files]
    dataset = Dataset.from_generator(
        parsed_rows,
        features=PARSED,
        cache_dir=str(scratch),
        gen_kwargs={"files": names, "skip_bad": skip_bad},
        num_proc=min(num_proc, len(files)) if min(num_proc, len(files)) > 1 else None,
        split=NamedSplit(split),
        fingerprint=fingerprint(split, str(skip_bad), *names, files=files),
    )
    errors = dataset.data.column("error").drop_null()
    if len(errors) and (not skip_bad or len(errors) == len(dataset)):
        raise TreebankError(errors[0].as_py())
    return dataset


def parsed_rows(files: Sequence[str], skip_bad: bool) -> Iterator[dict[str, Any]]:
    """A row for every sentence; a bad one has its error, and ends the reading unless bad ones are skipped."""
    for file in files:
        for example in read_file(Path(file)):
            if isinstance(example, TreebankError):
                yield {"words": [], "tree": None, "first_sibling": [], "lifted": None, "error": str(example)}
                if not skip_bad:
                    return
            else:
                yield {
                    "words": example.words,
                    "tree": str(example.tree),
                    "first_sibling": first_siblings(example.tree),
                    "lifted": example.lifted,
                    "error": None,
                }


def fingerprint(*parts: str, files: Sequence[Path] = ()) -> str:
    """A name for what a conversion gives: other files, other content or another version, another name.

    Data sets and everything computed from them are cached under it; by itself, `datasets` looks at the code and the
    names of files alone.
    """
    digest = sha256("\0".join([str(CONVERSION_VERSION), *parts]).encode())
    for path in files:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()[:32]


def encode(parsed: Dataset, tokenizer: PreTrainedTokenizerFast, cache_file: Path, num_proc: int) -> Dataset:
    """The rows as token ids with the first siblings of tokens, and what is counted of them; bad rows disappear."""
    return parsed.map(
        encode_batch,
        batched=True,
        remove_columns=parsed.column_names,
        features=Features({**ENCODED, **COUNTS}),
        fn_kwargs={"tokenizer": tokenizer},
        num_proc=num_proc if num_proc > 1 else None,
        cache_file_name=str(cache_file),
        new_fingerprint=fingerprint(parsed._fingerprint, tokenizer.backend_tokenizer.to_str()),
        desc="Encoding",
    )


def encode_batch(batch: Mapping[str, list], tokenizer: PreTrainedTokenizerFast) -> dict[str, list]:
    good = [row for row, error in enumerate(batch["error"]) if error is None]
    known = getattr(tokenizer, "known", None)  # a word vocabulary, the only kind with unknown words
    columns: dict[str, list] = {name: [] for name in (*ENCODED, *COUNTS)}
    for row, pieces in zip(good, encode_sentences(tokenizer, [batch["words"][row] for row in good]), strict=True):
        words = batch["words"][row]
        ids = [tokenizer.bos_token_id, *(piece for word in pieces for piece in word), tokenizer.eos_token_id]
        siblings = token_siblings(batch["first_sibling"][row], [len(word) for word in pieces])
        depths = gold_depths(siblings)[1:-1]
        values = {
            "input_ids": ids,
            "first_sibling": siblings,
            "words": words,
            "tree": batch["tree"][row],
            "length": len(ids),
            "depth": max(depths),
            "depth_sum": sum(depths),
            "lifted": batch["lifted"][row],
            "unknown": sum(word not in known for word in words) if known else 0,
        }
        for name, value in values.items():
            columns[name].append(value)
    return columns


def token_siblings(word_siblings: Sequence[int], pieces: Sequence[int]) -> list[int]:
    """First siblings of BOS, the pieces of all words and EOS; a word's pieces are a flat constituent in its place.

    Here is (a (b c)), b in three pieces: (BOS (a ((b1 b2 b3) c)) EOS).

    >>> token_siblings([-1, 0, 1], pieces=[1, 3, 1])
    [-1, 0, 1, 2, 2, 2, 0]
    """
    starts = list(accumulate(pieces, initial=1))
    siblings = [-1]
    for word, (sibling, count) in enumerate(zip(word_siblings, pieces, strict=True)):
        siblings.append(starts[sibling] if sibling >= 0 else 0)
        siblings += [starts[word]] * (count - 1)
    return [*siblings, 0]


# Data sets of others


def hub_sentences(name: str, split: str, skip_bad: bool = False) -> Iterator[str]:
    """CoNLL-U sentences of a data set on the Hub, NAME[:CONFIGURATION], or in a folder, with words and heads."""
    dataset = _hub_split(name, split)
    words_column = _column(dataset, name, ("tokens", "words", "form"))
    heads_column = _column(dataset, name, ("head", "heads"))
    for number, row in enumerate(dataset):
        try:
            yield _hub_sentence(row[words_column], row[heads_column])
        except ValueError as error:
            if not skip_bad:
                raise TreebankError(f"{name}: {split}, row {number}: {error}") from None
            yield f"# row {number}: {error}"  # no sentence, which is counted where it is read


def _hub_sentence(words: Sequence[str], heads: Sequence[int | str | None]) -> str:
    """CoNLL-U of a row; multi-word tokens have no head, and heads do not count them."""
    if len(words) != len(heads):
        raise ValueError(f"expected as many heads as words, got {len(heads)} for {len(words)}")
    pairs = [(clean_word(word), str(head)) for word, head in zip(words, heads, strict=True)]
    pairs = [(word, head) for word, head in pairs if head not in ("None", "_")]
    for word, head in pairs:
        if not word or not HEAD.fullmatch(head):
            raise ValueError(f"expected words with the numbers of their heads, got {word!r} with {head!r}")
    numbers = [int(head) for _, head in pairs]
    check_heads(numbers)
    return to_conllu([word for word, _ in pairs], numbers)


def _hub_split(name: str, split: str) -> Dataset:
    path, _, configuration = name.partition(":")
    if (Path(path) / "dataset_dict.json").is_file():
        splits = load_from_disk(path)
    else:
        splits = load_dataset(path, configuration or None)
    for alias in (split, "dev" if split == "validation" else split):
        if alias in splits:
            return splits[alias]
    raise TreebankError(f"{name}: expected a split {split}, got {', '.join(splits)}")


def _column(dataset: Dataset, name: str, candidates: Sequence[str]) -> str:
    for column in candidates:
        if column in dataset.column_names:
            return column
    raise TreebankError(f"{name}: expected a column {' or '.join(candidates)}, got {', '.join(dataset.column_names)}")


# What is in a data set


def summarise(encoded: Dataset, num_slots: int) -> dict[str, Any]:
    """Counts of one split; depths as in the model, BOS at 0, and a tree is as deep as its deepest token."""
    columns = {name: encoded.data.column(name) for name in ("length", *COUNTS)}
    depth = columns["depth"].to_numpy()
    tokens = int(columns["length"].to_numpy().sum()) - 2 * len(encoded)  # BOS and EOS are no words
    lifted = columns["lifted"].drop_null().to_numpy()
    kinds = {0: "dependency", len(encoded): "constituency"}
    return {
        "trees": kinds.get(columns["lifted"].null_count, "mixed"),
        "sentences": len(encoded),
        "words": pc.sum(pc.list_value_length(encoded.data.column("words"))).as_py(),
        "tokens": tokens,
        "depth_max": int(depth.max()),
        "depth_median": float(np.median(depth)),
        "depth_mean": float(depth.mean()),
        "token_depth_mean": int(columns["depth_sum"].to_numpy().sum()) / tokens,
        "lifted_arcs": int(lifted.sum()),
        "lifted_sentences": int((lifted > 0).sum()),
        "clamped": int((depth > num_slots).sum()),
        "unknown": int(columns["unknown"].to_numpy().sum()),
    }


def summary_table(summary: Mapping[str, Any]) -> Table:
    """The summary as a table for the terminal."""
    splits = summary["splits"].values()
    trees = "/".join(dict.fromkeys(split["trees"] for split in splits))
    quality = f"silver {trees} trees by {summary['silver']}" if summary["silver"] else f"{trees} trees"
    table = Table(
        title=f"{quality}, vocabulary {summary['tokenizer']} of {summary['vocab_size']:,}",
        caption="BOS has depth 0, the first word 1; a tree is as deep as its deepest token",
    )
    table.add_column("")
    for name in summary["splits"]:
        table.add_column(name, justify="right")
    rows = {
        "sentences": lambda split: f"{split['sentences']:,}",
        "skipped, bad": lambda split: f"{split['skipped']:,}",
        "words": lambda split: f"{split['words']:,}",
        "tokens a word": lambda split: f"{split['tokens'] / split['words']:.2f}",
        "unknown words": lambda split: f"{split['unknown'] / split['words']:.2%}",
        "tree depth, max": lambda split: f"{split['depth_max']}",
        "tree depth, median": lambda split: f"{split['depth_median']:g}",
        "tree depth, mean": lambda split: f"{split['depth_mean']:.2f}",
        "token depth, mean": lambda split: f"{split['token_depth_mean']:.2f}",
        f"clamped at {summary['num_slots']} slots": lambda split: f"{split['clamped']:,}",
        "lifted arcs (sentences)": lambda split: f"{split['lifted_arcs']:,} ({split['lifted_sentences']:,})",
    }
    for name, cell in rows.items():
        table.add_row(name, *(cell(split) for split in splits))
    return table


def typical_tree(folder: str | Path) -> Tree:
    """A tree to show: the first of the training split that is neither very short nor very long."""
    train = load_from_disk(str(folder))["train"]
    lengths = enumerate(len(words) for words in train[: min(len(train), 1000)]["words"])
    return Tree.parse(train[next((row for row, length in lengths if 6 <= length <= 12), 0)]["tree"])


# Batches


@dataclass(frozen=True)
class SOMCollator:
    """Pads rows on the tokenizer's side to one length.

    `first_sibling` counts the row's own tokens, as if it stood alone: padding on the left does not shift it. A row's
    labels are what it reads, unless it has others; its first token has none, as nothing predicts it.
    """

    tokenizer: PreTrainedTokenizerFast

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        batch = {  # (B, T) each
            "input_ids": self.pad([row["input_ids"] for row in rows], self.tokenizer.pad_token_id),
            "attention_mask": self.pad([[1] * len(row["input_ids"]) for row in rows], 0),
            "labels": self.pad([[IGNORED, *row.get("labels", row["input_ids"])[1:]] for row in rows], IGNORED),
        }
        if "first_sibling" in rows[0]:
            batch["first_sibling"] = self.pad([row["first_sibling"] for row in rows], IGNORED)
        return batch

    def pad(self, rows: Sequence[Sequence[int]], value: int) -> Tensor:
        length = max(map(len, rows))
        left = self.tokenizer.padding_side == "left"
        padding = [[value] * (length - len(row)) for row in rows]
        return torch.tensor([[*p, *row] if left else [*row, *p] for p, row in zip(padding, rows, strict=True)])
