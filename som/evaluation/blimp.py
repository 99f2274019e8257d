"""BLiMP: minimal pairs, and how often the good sentence of a pair is the more probable one."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table
from transformers import PreTrainedTokenizerFast

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Method, score
from som.evaluation.display import percent, table_of_numbers
from som.evaluation.report import Report
from som.evaluation.scorers import Scorer, known_to, score_once
from som.syntax import Accuracy


@dataclass(frozen=True)
class Pair:
    """Two sentences, and the paradigm, phenomenon and field of linguistics that their contrast is about."""

    paradigm: str
    phenomenon: str
    field: str
    good: str
    bad: str


SPELLINGS = {"UID": "uid"}  # the files of single paradigms and their collections spell it differently
FIELDS = {"syntax/semantics": "syntax_semantics"}  # one paradigm spells it differently
UNKNOWN = "pairs with an unknown word"


def read_blimp(path: str | Path) -> Iterator[Pair]:
    """The pairs of a file of JSON lines, plain or .gz."""
    path = Path(path)
    opened = gzip.open if path.suffix == ".gz" else open
    number = 1
    try:
        with opened(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield read_pair(line)
                number += 1
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}:{number}: {error}") from error
    if number == 1:
        raise ValueError(f"{path}:1: expected pairs of sentences, found an empty file")


def read_pair(line: str) -> Pair:
    """One pair from its line."""
    try:
        data: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected a pair in JSON, got {line.strip()[:40]!r}") from error
    if isinstance(data, dict):
        data = {SPELLINGS.get(name, name): value for name, value in data.items()}
    names = ("uid", "linguistics_term", "field", "sentence_good", "sentence_bad")
    for name in names:
        if not isinstance(data, dict) or not isinstance(data.get(name), str):
            raise ValueError(f"expected an object with the texts {', '.join(names)}; {name} is missing")
    paradigm, phenomenon, field, good, bad = (data[name] for name in names)
    return Pair(paradigm, phenomenon, FIELDS.get(field, field), good, bad)


def evaluate_blimp(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    pairs: Sequence[Pair],
    method: str | Method | None = None,
    k: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Report[BlimpCounts]:
    """How often the model prefers the good sentence; options are those of `som.score`."""
    method = Method.of(model, method, k, seed)
    return judge_pairs(partial(score, model, method=method, **options), tokenizer, pairs, method.name)


def judge_pairs(
    scorer: Scorer, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair], method: str
) -> Report[BlimpCounts]:
    """How often the good sentence is the more probable one, from BOS to EOS, EOS counted, whatever the model."""
    texts = [text for pair in pairs for text in (pair.good, pair.bad)]
    rows = tokenizer(texts, split_special_tokens=True)["input_ids"]
    ids = [[*row, tokenizer.eos_token_id] for row in rows]
    log_probs = [one.log_prob for one in score_once(scorer, ids)]
    likelihoods = list(zip(log_probs[::2], log_probs[1::2], strict=True))
    return Report("BLiMP", method, compare_likelihoods(pairs, likelihoods, known_to(tokenizer)))


def compare_likelihoods(
    pairs: Sequence[Pair],
    log_likelihoods: Sequence[tuple[float, float]],
    is_known: Callable[[str], bool] | None = None,
) -> BlimpCounts:
    """Judge pairs by the log-likelihoods of their good and bad sentence; equal ones are judged wrongly.

    With `is_known`, a predicate for texts, the pairs that have an unknown word are counted.

    >>> pair = Pair("anaphor", "agreement", "morphology", "He sees himself.", "He sees herself.")
    >>> compare_likelihoods([pair, pair], [(-20.0, -21.0), (-20.0, -20.0)]).mean
    0.5
    """
    counts = BlimpCounts(
        ties=sum(good == bad for good, bad in log_likelihoods),
        unknown=sum(not (is_known(pair.good) and is_known(pair.bad)) for pair in pairs) if is_known else None,
    )
    for pair, (good, bad) in zip(pairs, log_likelihoods, strict=True):
        judged = Accuracy(int(good > bad), 1)
        for group, name in (
            (counts.paradigms, pair.paradigm),
            (counts.phenomena, pair.phenomenon),
            (counts.fields, pair.field),
        ):
            group[name] = group.get(name, Accuracy()) + judged
    return counts


@dataclass(frozen=True)
class BlimpCounts:
    """Pairs judged rightly, by paradigm, phenomenon and field."""

    paradigms: dict[str, Accuracy] = field(default_factory=dict)
    phenomena: dict[str, Accuracy] = field(default_factory=dict)
    fields: dict[str, Accuracy] = field(default_factory=dict)
    ties: int = 0  # pairs of equal likelihood, judged wrongly: a vocabulary may not tell their sentences apart
    unknown: int | None = None  # pairs with a word outside the vocabulary, None if it knows every word

    def __add__(self, other: BlimpCounts) -> BlimpCounts:
        unknown = None if self.unknown is None or other.unknown is None else self.unknown + other.unknown
        return BlimpCounts(
            add_by_name(self.paradigms, other.paradigms),
            add_by_name(self.phenomena, other.phenomena),
            add_by_name(self.fields, other.fields),
            self.ties + other.ties,
            unknown,
        )

    @property
    def pairs(self) -> int:
        return sum(accuracy.total for accuracy in self.paradigms.values())

    @property
    def mean(self) -> float | None:
        """The mean over paradigms."""
        scores = [accuracy.value for accuracy in self.paradigms.values() if accuracy.value is not None]
        return fmean(scores) if scores else None

    def measures(self) -> dict[str, float | None]:
        fields = {name: accuracy.value for name, accuracy in sorted(self.fields.items())}
        ties = {"pairs of equal likelihood": Accuracy(self.ties, self.pairs).value}
        unknown = {} if self.unknown is None else {UNKNOWN: Accuracy(self.unknown, self.pairs).value}
        return {"BLiMP, mean of paradigms": self.mean, **fields, **ties, **unknown}

    def to_json(self) -> dict[str, Any]:
        """The shares as plain data."""
        groups = {"paradigms": self.paradigms, "phenomena": self.phenomena, "fields": self.fields}
        shares = {group: {name: count.value for name, count in counts.items()} for group, counts in groups.items()}
        totals = {"mean": self.mean, "pairs": self.pairs, "ties": self.ties, "pairs_with_unknown_words": self.unknown}
        return {**totals, **shares}

    def table(self, title: str) -> Table:
        """Paradigms, phenomena and fields, then the mean over paradigms; in per cent of pairs."""
        table = table_of_numbers(title, "pairs", "right")
        for counts in (self.paradigms, self.phenomena, self.fields):
            for name, accuracy in sorted(counts.items()):
                table.add_row(name, f"{accuracy.total:,}", percent(accuracy.value))
            table.add_section()
        table.add_row("mean of paradigms", f"{self.pairs:,}", percent(self.mean), style="bold")
        table.add_row("equal likelihood, judged wrong", f"{self.ties:,}", "")
        if self.unknown is not None:
            table.add_row(UNKNOWN, f"{self.unknown:,}", "")
        return table


def add_by_name(ours: Mapping[str, Accuracy], theirs: Mapping[str, Accuracy]) -> dict[str, Accuracy]:
    return {
        name: ours.get(name, Accuracy()) + theirs.get(name, Accuracy()) for name in dict.fromkeys([*ours, *theirs])
    }
