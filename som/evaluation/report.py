"""The report that every evaluation returns: what was read, how, and counts that add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from rich.table import Table


class ReportCounts(Protocol):
    """What an evaluation counted: counts of parts add up, and `measures` takes the ratios last."""

    def __add__(self, other: Self, /) -> Self: ...

    def measures(self) -> dict[str, float | None]:
        """The figures by name; None where nothing was counted."""
        ...

    def to_json(self) -> dict[str, Any]:
        """What lies behind the measures, as plain data."""
        ...

    def table(self, title: str) -> Table:
        """The figures for a terminal."""
        ...


C = TypeVar("C", bound=ReportCounts)


@dataclass(frozen=True)
class Report(Generic[C]):
    """What a model was measured on, how, and what was counted."""

    name: str  # of the treebank, or SyntaxGym or BLiMP
    method: str
    counts: C
    gold: bool = False  # the trees were given

    @property
    def title(self) -> str:
        return f"{self.name}, {self.method}{', gold trees given' * self.gold}"

    def measures(self) -> dict[str, float | None]:
        return self.counts.measures()

    def __add__(self, other: Report[C]) -> Report[C]:
        if (self.method, self.gold) != (other.method, other.gold):
            raise ValueError(f"reports of different methods do not add: {self.title}; {other.title}")
        name = " + ".join(dict.fromkeys([self.name, other.name]))
        return Report(name, self.method, self.counts + other.counts, self.gold)

    def to_json(self) -> dict[str, Any]:
        """Measures and the counts behind them."""
        about = {"title": self.title, "name": self.name, "method": self.method, "gold": self.gold}
        return {**about, "measures": self.measures(), **self.counts.to_json()}

    def __rich__(self) -> Table:
        return self.counts.table(self.title)
