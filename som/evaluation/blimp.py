"""BLiMP: minimal pairs, and how often the good sentence of a pair is the more probable one."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table
from transformers import PreTrainedTokenizerFast

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Method, score
from som.evaluation.display import percent, table_of_numbers
from som.evaluation.syntaxgym import Scorer, score_once
from som.syntax import Accuracy


@dataclass(frozen=True)
class Pair:
    """Two sentences, and the paradigm, phenomenon and field of linguistics that their contrast is about."""

    paradigm: str
    phenomenon: str
    field: str
    good: str
    bad: str


NAMES = {"UID": "uid"}  # the files of single paradigms and their collections spell it differently
FIELDS = {"syntax/semantics": "syntax_semantics"}  # one paradigm spells it differently


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
        data = {NAMES.get(name, name): value for name, value in data.items()}
    names = ("uid", "linguistics_term", "field", "sentence_good", "sentence_bad")
    for name in names:
        if not isinstance(data, dict) or not isinstance(data.get(name), str):
            raise ValueError(f"expected an object with the texts {', '.join(names)}; {name} is missing")
    paradigm, phenomenon, field, good, bad = (data[name] for name in names)
    return Pair(paradigm, phenomenon, FIELDS.get(field, field), good, bad)


@dataclass(frozen=True)
class BlimpReport:
    """Pairs judged rightly, by paradigm, phenomenon and field."""

    paradigms: dict[str, Accuracy]
    phenomena: dict[str, Accuracy]
    fields: dict[str, Accuracy]
    ties: int = 0  # pairs of equal likelihood, judged wrongly: a vocabulary may not tell their sentences apart

    @property
    def pairs(self) -> int:
        return sum(accuracy.total for accuracy in self.paradigms.values())

    @property
    def mean(self) -> float | None:
        """The mean over paradigms."""
        scores = [accuracy.value for accuracy in self.paradigms.values() if accuracy.value is not None]
        return fmean(scores) if scores else None

    def to_json(self) -> dict[str, Any]:
        """The shares as plain data."""
        groups = {"paradigms": self.paradigms, "phenomena": self.phenomena, "fields": self.fields}
        shares = {group: {name: count.value for name, count in counts.items()} for group, counts in groups.items()}
        return {"mean": self.mean, "pairs": self.pairs, "ties": self.ties, **shares}


def score_blimp(pairs: Sequence[Pair], log_likelihoods: Sequence[tuple[float, float]]) -> BlimpReport:
    """Judge pairs by the log-likelihoods of their good and bad sentence; equal ones are judged wrongly.

    >>> pair = Pair("anaphor", "agreement", "morphology", "He sees himself.", "He sees herself.")
    >>> score_blimp([pair, pair], [(-20.0, -21.0), (-20.0, -20.0)]).mean
    0.5
    """
    report = BlimpReport({}, {}, {}, ties=sum(good == bad for good, bad in log_likelihoods))
    for pair, (good, bad) in zip(pairs, log_likelihoods, strict=True):
        judged = Accuracy(int(good > bad), 1)
        for counts, name in (
            (report.paradigms, pair.paradigm),
            (report.phenomena, pair.phenomenon),
            (report.fields, pair.field),
        ):
            counts[name] = counts.get(name, Accuracy()) + judged
    return report


def evaluate_blimp(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    pairs: Sequence[Pair],
    method: str | Method | None = None,
    k: int | None = None,
    seed: int = 0,
    **options: Any,
) -> BlimpResult:
    """How often the model prefers the good sentence; options are those of `som.inference.score`."""
    method = Method.of(model, method, k, seed)
    return judge_pairs(partial(score, model, method=method, **options), tokenizer, pairs, method.name)


def judge_pairs(scorer: Scorer, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair], method: str) -> BlimpResult:
    """How often the good sentence is the more probable one, from BOS to EOS, EOS counted, whatever the model."""
    texts = [text for pair in pairs for text in (pair.good, pair.bad)]
    rows = tokenizer(texts, split_special_tokens=True)["input_ids"]
    ids = [[*row, tokenizer.eos_token_id] for row in rows]
    log_probs = [one.log_prob for one in score_once(scorer, ids)]
    return BlimpResult(method, score_blimp(pairs, list(zip(log_probs[::2], log_probs[1::2], strict=True))))


@dataclass(frozen=True)
class BlimpResult:
    """A model's judgements, to be shown and kept."""

    method: str
    report: BlimpReport

    @property
    def title(self) -> str:
        return f"BLiMP, {self.method}"

    def measures(self) -> dict[str, float | None]:
        fields = {field: accuracy.value for field, accuracy in sorted(self.report.fields.items())}
        ties = {"pairs of equal likelihood": self.report.ties / self.report.pairs}
        return {"BLiMP, mean of paradigms": self.report.mean, **fields, **ties}

    def to_json(self) -> dict[str, Any]:
        about = {"title": self.title, "method": self.method, "measures": self.measures()}
        return {**about, **self.report.to_json()}

    def __rich__(self) -> Table:
        """Paradigms, phenomena and fields, then the mean over paradigms; in per cent of pairs."""
        table = table_of_numbers(self.title, "pairs", "right")
        for counts in (self.report.paradigms, self.report.phenomena, self.report.fields):
            for name, accuracy in sorted(counts.items()):
                table.add_row(name, f"{accuracy.total:,}", percent(accuracy.value))
            table.add_section()
        table.add_row("mean of paradigms", f"{self.report.pairs:,}", percent(self.report.mean), style="bold")
        table.add_row("equal likelihood, judged wrong", f"{self.report.ties:,}", "")
        return table
