"""How figures are shown in terminals: tables and cells."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement, measure_renderables
from rich.table import Table


class NumbersTable(Table):
    """A table that wraps its header, and on a narrow screen goes without lines, before it breaks a number in two."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bare = copy(self)
        bare.box, bare.padding = None, (0, 1, 0, 0)
        unbounded = options.update(max_width=10_000)
        ways = (self, self.with_least_widths(console), bare.with_least_widths(console))
        fitting = (way for way in ways if Measurement.get(console, unbounded, way).maximum <= options.max_width)
        return Table.__rich_console__(next(fitting, bare), console, options)

    def with_least_widths(self, console: Console) -> NumbersTable:
        """The same with every column only as wide as its longest word, or line where lines are not wrapped."""
        options, narrow = console.options.update(max_width=10_000), copy(self)
        texts = [[column.header, *column.cells] for column in self.columns]
        widths = [measure_renderables(console, options, one) for one in texts]
        narrow.columns = [
            replace(column, width=width.maximum if column.no_wrap else width.minimum)
            for column, width in zip(self.columns, widths, strict=True)
        ]
        return narrow


def table_of_numbers(title: str, *columns: str) -> Table:
    """An empty table: names on the left, then these columns."""
    table = NumbersTable(title=title)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    return table


def cell(name: str, value: float | None) -> str:
    """A figure as the table shows it: perplexities as they are, shares in per cent."""
    if value is None:
        return "–"
    if name.startswith("ppl"):
        return f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"
    return f"{100 * value:.2f}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"
