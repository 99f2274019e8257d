"""What is in a prepared data set: counts for each split, and a tree to look at."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset, Features, Value, load_from_disk
from rich.table import Table

from modeling_som.sentences_som import NONE
from som.syntax import Tags, Tree

SUMMARY = "som.json"  # also the sign that a folder holds prepared data
RARE = 0.02  # share of unknown words that harms nobody
TELLING = 0.2  # share of unknown words with a telling class; in English treebanks about a half, elsewhere next to none
WORDS_SHOWN = 30  # words of a tree that fits on a screen
COUNTS = Features({name: Value("int32") for name in ("depth", "depth_sum", "lifted", "unknown", "told")})


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
        "told": int(columns["told"].to_numpy().sum()),
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
        "tokens per word": lambda split: f"{split['tokens'] / split['words']:.2f}",
        "unknown words": lambda split: f"{split['unknown'] / split['words']:.2%}",
        "… class beyond case": lambda split: f"{split['told'] / max(split['unknown'], 1):.2%}",
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


def vocabulary_advice(summary: Mapping[str, Any]) -> str:
    """A hint where the classes of unknown words, which were made for English, tell little of a language's words."""
    unknown, told, words = (summary["splits"]["validation"][name] for name in ("unknown", "told", "words"))
    if unknown < RARE * words or told >= TELLING * unknown:
        return ""
    share = f"of {unknown / words:.0%} unknown words in the validation split, {told / unknown:.0%}"
    return f"UNK classes are made for English: {share} have one that tells more than case; try --tokenizer bpe:8000"


class Typical(NamedTuple):
    """A tree to show, and the tags of its nodes where the data have them."""

    tree: Tree
    tags: Tags | None


def typical_tree(folder: str | Path) -> Typical | None:
    """A tree to show: the first of the training split that is neither very short nor very long, or the shortest.

    None if that does not fit on a screen."""
    train = load_from_disk(str(folder))["train"]
    lengths = [len(words) for words in train[: min(len(train), 1000)]["words"]]
    row = min(range(len(lengths)), key=lambda row: (0, row) if 6 <= lengths[row] <= 12 else (1, lengths[row]))
    if lengths[row] > WORDS_SHOWN:
        return None
    starts = [place for place, tag in enumerate(train[row].get("leaf_tag", ())) if tag != NONE]  # here all are known
    return Typical(Tree.parse(train[row]["tree"]), row_tags(train[row], starts, tag_names(folder)))


def tag_names(folder: str | Path) -> list[str]:
    """What the numbers of tags in prepared data mean."""
    return json.loads((Path(folder) / SUMMARY).read_text(encoding="utf-8")).get("tree_tags", [])


def row_tags(row: Mapping[str, Any], starts: Sequence[int], names: Sequence[str]) -> Tags | None:
    """The tags of a prepared sentence whose words start at these tokens, None for those that the training split is
    without; None where there are no others."""
    columns = [row.get(name, ()) for name in ("leaf_tag", "node_tag")]
    if all(tag == NONE for column in columns for tag in column):
        return None
    found = ([column[start] for start in starts] for column in columns)
    return Tags(*(tuple(names[tag] if tag != NONE else None for tag in tags) for tags in found))
