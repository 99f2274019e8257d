"""How often words occur in the training data of a checkpoint: a small file beside the weights."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import log10
from pathlib import Path

from transformers import PreTrainedTokenizerBase
from transformers.utils import cached_file

WORD_COUNTS = "word_counts.json.gz"


@dataclass(frozen=True)
class WordCounts:
    """The word forms of some data, case kept, and how often each occurs there.

    >>> counts = WordCounts({"the": 2, "cat": 1})
    >>> "cat" in counts, "Cat" in counts, round(counts.log_frequency("the"), 6), round(counts.log_frequency("dog"), 6)
    (True, False, 6.0, 5.522879)
    """

    counts: Mapping[str, int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum(self.counts.values()))

    def __add__(self, other: WordCounts) -> WordCounts:
        return WordCounts(dict(Counter(self.counts) + Counter(other.counts)))

    def __contains__(self, word: str) -> bool:
        return word in self.counts

    def log_frequency(self, word: str) -> float:
        """log10 of (count + 1) per million words."""
        return log10((self.counts.get(word, 0) + 1) / self.total * 1e6)  # type: ignore[attr-defined]

    def to_bytes(self) -> bytes:
        """The file: the same counts always give the same bytes."""
        text = json.dumps(dict(sorted(self.counts.items())), ensure_ascii=False, separators=(",", ":"))
        return gzip.compress(text.encode("utf-8", "surrogatepass"), mtime=0)

    @classmethod
    def read(cls, file: str | Path) -> WordCounts:
        try:
            counts = json.loads(gzip.decompress(Path(file).read_bytes()))
            if not (
                isinstance(counts, dict) and counts and all(isinstance(n, int) and n > 0 for n in counts.values())
            ):
                raise ValueError
        except (ValueError, EOFError, gzip.BadGzipFile):
            raise ValueError(f"{file}: expected counts of words, as `som prepare` writes them") from None
        return cls(counts)


def find_word_counts(tokenizer: PreTrainedTokenizerBase) -> WordCounts | None:
    """The counts that lie beside a tokenizer, in its folder or on the Hub, read once; None if there are none."""
    if "word_counts" not in vars(tokenizer):
        name, no = tokenizer.name_or_path, "_raise_exceptions_for_"
        lenient = {f"{no}{what}": False for what in ("missing_entries", "connection_errors", "gated_repo")}
        file = cached_file(name, WORD_COUNTS, **lenient) if name else None
        vars(tokenizer)["word_counts"] = None if file is None else WordCounts.read(file)
    return vars(tokenizer)["word_counts"]


def save_word_counts(tokenizer: PreTrainedTokenizerBase, folder: str | Path) -> None:
    """Write the tokenizer's counts, if there are any, into a folder where it is saved."""
    if (counts := find_word_counts(tokenizer)) is not None:
        (Path(folder) / WORD_COUNTS).write_bytes(counts.to_bytes())
