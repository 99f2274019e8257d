"""SyntaxGym's test suites: their items, prediction formulas and circuits.

An item of a suite is a sentence in several conditions, cut into numbered regions. Predictions compare surprisals of
regions, summed over their tokens; an empty region has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from som.evaluation.formulas import Formula

# what a suite's name begins with, and its circuit
CIRCUITS = {
    "npi": "Licensing",
    "reflexive": "Licensing",
    "fgd": "Long-Distance Dependencies",
    "cleft": "Long-Distance Dependencies",
    "number": "Agreement",
    "npz": "Garden-Path Effects",
    "mvrr": "Garden-Path Effects",
    "subordination": "Gross Syntactic State",
    "center": "Center Embedding",
}
UNPUBLISHED = ("fgd-embed3", "fgd-embed4", "nn-nv-rpl")  # the authors leave these out: 31 suites of 34
ConditionKey = tuple[str, int, str]  # suite, item, condition


@dataclass(frozen=True)
class SuiteSentence:
    """An item in one condition: its text, and where in it each region is (an empty one: nowhere, start = end)."""

    key: ConditionKey
    text: str
    spans: dict[int, tuple[int, int]]

    @classmethod
    def join(cls, key: ConditionKey, contents: Mapping[int, str]) -> SuiteSentence:
        """Join the regions by single spaces.

        >>> sentence = SuiteSentence.join(("npz", 1, "no-comma"), {1: "As he", 2: " shot", 3: "", 4: "the  woman"})
        >>> sentence.text, sentence.spans
        ('As he shot the woman', {1: (0, 5), 2: (6, 10), 3: (10, 10), 4: (11, 20)})
        """
        text, spans = "", {}
        for number, content in contents.items():
            words = " ".join(content.split())
            start = len(text) + bool(text and words)
            text = f"{text} {words}".strip()
            spans[number] = (start, len(text))
        return cls(key, text, spans)

    def region(self, number: int) -> str:
        """The text of a region."""
        start, end = self.spans[number]
        return self.text[start:end]

    def regions(self, offsets: Iterable[tuple[int, int]], surprisals: Iterable[float]) -> dict[int, float]:
        """Sum surprisals of tokens over the regions; a token belongs where its last character is.

        Tokens without characters, such as BOS, belong nowhere.
        """
        sums = dict.fromkeys(self.spans, 0.0)
        for (start, end), surprisal in zip(offsets, surprisals, strict=True):
            if start < end:
                number = next((number for number, span in self.spans.items() if span[0] < end <= span[1]), None)
                if number is None:
                    raise ValueError(f"{where(self.key)}: no region has characters {start}…{end} of {self.text!r}")
                sums[number] += surprisal
        return sums


@dataclass(frozen=True)
class Suite:
    """A suite's predictions, and its items as sentences by condition."""

    name: str
    predictions: tuple[Formula, ...]
    items: dict[int, dict[str, SuiteSentence]]

    def sentences(self) -> Iterator[SuiteSentence]:
        """Every sentence, item by item."""
        for conditions in self.items.values():
            yield from conditions.values()

    def critical(self, item: int) -> Iterator[str]:
        """The texts of an item's regions that predictions look at."""
        for number, condition in sorted(frozenset().union(*(formula.names for formula in self.predictions))):
            yield self.items[item][condition].region(number)

    def items_with_unknown_words(self, is_known: Callable[[str], bool]) -> list[int]:
        """The items that have, in a critical region, a word outside the vocabulary."""
        return [
            item
            for item in self.items
            if not all(is_known(word) for text in self.critical(item) for word in text.split())
        ]


def where(key: ConditionKey) -> str:
    return f"suite {key[0]}, item {key[1]}, condition {key[2]}"


def load_suites(folder: str | Path) -> list[Suite]:
    """Every suite (.json) of a folder, in the order of their names."""
    paths = sorted(Path(folder).glob("*.json"))
    if not paths:
        raise ValueError(f"{folder}: expected SyntaxGym suites, files that end in .json, found none")
    return [load_suite(path) for path in paths]


def load_suite(path: Path) -> Suite:
    """One suite; anything malformed is a ValueError that says where."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return read_suite(data)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: expected a suite in JSON: {error}") from error
    except (ValueError, OSError) as error:  # text that is not UTF-8 is a ValueError as well
        raise ValueError(f"{path}: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{path}: brackets are nested too deeply") from error


def read_suite(data: Any) -> Suite:
    """A suite from its JSON."""
    meta = part(data, "meta", dict, "the suite")
    name, metric = part(meta, "name", str, "meta"), meta.get("metric", "sum")
    if metric != "sum":
        raise ValueError(f"expected surprisals to be aggregated by sum, got {metric!r}")
    formulas = [read_prediction(entry, number) for number, entry in enumerate(parts(data, "predictions"), 1)]
    items: dict[int, dict[str, SuiteSentence]] = {}
    for entry in parts(data, "items"):
        item = part(entry, "item_number", int, "an item")
        if item in items:
            raise ValueError(f"item {item} occurs twice")
        items[item] = read_item(entry, name, item)
        check_names(formulas, items[item], item)
    return Suite(name, tuple(formulas), items)


def read_prediction(entry: Any, number: int) -> Formula:
    if part(entry, "type", str, f"prediction {number}") != "formula":
        raise ValueError(f"prediction {number}: expected the type formula, got {entry['type']!r}")
    try:
        return Formula.parse(part(entry, "formula", str, f"prediction {number}"))
    except ValueError as error:
        raise ValueError(f"prediction {number}: {error}") from error


def read_item(entry: Any, suite: str, item: int) -> dict[str, SuiteSentence]:
    """The sentences of an item by condition."""
    sentences: dict[str, SuiteSentence] = {}
    for condition in parts(entry, "conditions", f"item {item}"):
        name = part(condition, "condition_name", str, f"item {item}")
        key = (suite, item, name)
        regions = parts(condition, "regions", where(key))
        contents = {part(r, "region_number", int, where(key)): part(r, "content", str, where(key)) for r in regions}
        if name in sentences or len(contents) < len(regions):
            raise ValueError(f"{where(key)}: a condition or a region occurs twice")
        sentences[name] = SuiteSentence.join(key, contents)
    return sentences


def check_names(formulas: Sequence[Formula], sentences: Mapping[str, SuiteSentence], item: int) -> None:
    """Refuse predictions about regions that an item does not have."""
    for index, formula in enumerate(formulas, 1):
        for number, condition in sorted(formula.names):
            if condition not in sentences or number not in sentences[condition].spans:
                missing = f"region {number} of condition {condition}"
                raise ValueError(f"prediction {index} is about {missing}, which item {item} does not have")


def part(data: Any, name: str, kind: type, place: str) -> Any:
    """A field of a JSON object, of the right type."""
    value = data.get(name) if isinstance(data, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{place}: expected {name!r}, {KIND_NAMES[kind]}, got {str(value)[:40]!r}")
    return value


def parts(data: Any, name: str, place: str = "the suite") -> list:
    """A field that is a list with something in it."""
    values = part(data, name, list, place)
    if not values:
        raise ValueError(f"{place}: {name!r} is empty")
    return values


KIND_NAMES = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}


def circuit(suite: str) -> str | None:
    """The circuit that a suite of this name belongs to.

    >>> circuit("npz_obj_mod"), circuit("nn-nv-rpl")
    ('Garden-Path Effects', None)
    """
    return CIRCUITS.get(re.split(r"[-_0-9]", suite)[0])


def circuit_means(suites: Mapping[str, float]) -> dict[str, float]:
    """The mean over the published suites of each circuit, from scores by suite."""
    scores: dict[str, list[float]] = {}
    for name, score in suites.items():
        if name not in UNPUBLISHED and (of := circuit(name)):
            scores.setdefault(of, []).append(score)
    return {name: fmean(values) for name, values in sorted(scores.items())}
