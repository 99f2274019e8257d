"""The prediction formulas of SyntaxGym's suites: comparisons of surprisals of regions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

EQUAL_ABSOLUTE, EQUAL_RELATIVE = 1e-3, 1e-5  # surprisals that a formula calls equal differ by no more, as upstream
Name = tuple[int, str]  # region number and condition, as formulas name them
TOKEN = re.compile(r"\s*(?:\(\s*(\d+)\s*;\s*%([^%]+)%\s*\)|(\d+(?:\.\d+)?)|([-+<>=&()\[\]]))")
NESTED = 50  # brackets in each other: the parser is recursive
NUMERIC, LOGICAL = "a number", "a comparison"


@dataclass(frozen=True)
class Formula:
    """A prediction: a comparison of surprisals, or several joined by &.

    >>> formula = Formula.parse("[(5;%amb%) - (5;%unamb%)] > 0 & (4;%amb%) < 2.5")
    >>> sorted(formula.names), formula.holds({(5, "amb"): 3, (5, "unamb"): 2, (4, "amb"): 1})
    ([(4, 'amb'), (5, 'amb'), (5, 'unamb')], True)
    """

    text: str
    names: frozenset[Name]
    holds: Callable[[Mapping[Name, float]], bool] = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Formula:
        """Read a formula; an error says where it goes wrong."""
        parser = FormulaParser(text)
        kind, evaluate = parser.conjunction()
        if parser.position < len(text.rstrip()):
            raise parser.error("the end")
        parser.check(kind, LOGICAL)
        return cls(text, frozenset(parser.names), evaluate)


Evaluator = Callable[[Mapping[Name, float]], Any]


class FormulaParser:
    """A recursive parser: conjunction → comparison → sum → atom; each gives its kind and how to evaluate it."""

    def __init__(self, text: str):
        self.text, self.position, self.names = text, 0, set[Name]()
        self.open_brackets = 0

    @property
    def shown(self) -> str:
        return repr(self.text if len(self.text) <= 200 else f"{self.text[:200]}…")

    def error(self, expected: str) -> ValueError:
        return ValueError(f"expected {expected} at character {self.position + 1} of the formula {self.shown}")

    def check(self, kind: str, wanted: str) -> None:
        if kind != wanted:
            raise ValueError(f"expected {wanted}, got {kind}, in the formula {self.shown}")

    def accept(self, symbols: str) -> str:
        """The next symbol if it is one of these, which is then behind us; otherwise nothing."""
        token = TOKEN.match(self.text, self.position)
        if not token or not token[4] or token[4] not in symbols:
            return ""
        self.position = token.end()
        return token[4]

    def conjunction(self) -> tuple[str, Evaluator]:
        kind, first = self.comparison()
        parts = [first]
        while self.accept("&"):
            other, part = self.comparison()
            self.check(kind, LOGICAL)
            self.check(other, LOGICAL)
            parts.append(part)
        return kind, all_of(parts) if len(parts) > 1 else first

    def comparison(self) -> tuple[str, Evaluator]:
        kind, left = self.sum()
        operator = self.accept("<>=")
        if not operator:
            return kind, left
        other, right = self.sum()
        self.check(kind, NUMERIC)
        self.check(other, NUMERIC)
        return LOGICAL, comparison_value(operator, left, right)

    def sum(self) -> tuple[str, Evaluator]:
        kind, first = self.atom()
        terms = [(1, first)]
        while operator := self.accept("+-"):
            other, term = self.atom()
            self.check(kind, NUMERIC)
            self.check(other, NUMERIC)
            terms.append((1 if operator == "+" else -1, term))
        return kind, sum_of(terms) if len(terms) > 1 else first

    def atom(self) -> tuple[str, Evaluator]:
        if opening := self.accept("[("):
            if self.open_brackets == NESTED:
                raise self.error(f"at most {NESTED} brackets in each other")
            self.open_brackets += 1
            inner = self.conjunction()
            if not self.accept("]" if opening == "[" else ")"):
                raise self.error("a closing bracket")
            self.open_brackets -= 1
            return inner
        token = TOKEN.match(self.text, self.position)
        if not token or token[4]:
            raise self.error("a region such as (5;%condition%), a number or an opening bracket")
        self.position = token.end()
        if token[3]:
            return NUMERIC, constant(float(token[3]))
        name = (int(token[1]), token[2].strip())
        self.names.add(name)
        return NUMERIC, lambda surprisals: surprisals[name]


def constant(number: float) -> Evaluator:
    return lambda surprisals: number


def all_of(parts: Sequence[Evaluator]) -> Evaluator:
    return lambda surprisals: all(part(surprisals) for part in parts)


def sum_of(terms: Sequence[tuple[int, Evaluator]]) -> Evaluator:
    return lambda surprisals: sum(sign * term(surprisals) for sign, term in terms)


def comparison_value(operator: str, left: Evaluator, right: Evaluator) -> Evaluator:
    if operator == "<":
        return lambda surprisals: left(surprisals) < right(surprisals)
    if operator == ">":
        return lambda surprisals: left(surprisals) > right(surprisals)
    return lambda surprisals: equal(left(surprisals), right(surprisals))


def equal(left: float, right: float) -> bool:
    return abs(left - right) <= EQUAL_ABSOLUTE + EQUAL_RELATIVE * abs(right)
