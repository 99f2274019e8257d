"""How figures are shown in terminals: tables and cells."""

from __future__ import annotations

from rich.table import Table


def table_of_numbers(title: str, *columns: str) -> Table:
    """An empty table: names on the left, then these columns."""
    table = Table(title=title)
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
