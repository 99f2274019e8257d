"""What is in a prepared data set: counts for each split, and a tree to look at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset, Features, Value, load_from_disk
from rich.table import Table

from som.syntax import Tree

SHOWN = 30  # words of a tree that fits on a screen
COUNTS = Features({name: Value("int32") for name in ("depth", "depth_sum", "lifted", "unknown")})


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


def typical_tree(folder: str | Path) -> Tree | None:
    """A tree to show: the first of the training split that is neither very short nor very long, or the shortest.

    None if that does not fit on a screen."""
    train = load_from_disk(str(folder))["train"]
    lengths = [len(words) for words in train[: min(len(train), 1000)]["words"]]
    row = min(range(len(lengths)), key=lambda row: (0, row) if 6 <= lengths[row] <= 12 else (1, lengths[row]))
    return Tree.parse(train[row]["tree"]) if lengths[row] <= SHOWN else None
