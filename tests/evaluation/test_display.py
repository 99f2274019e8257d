"""Tables of figures on screens of all widths."""

import io

import pytest
from rich.console import Console

from som.evaluation import table_of_numbers

COLUMNS = ["ΔLL per 1,000", "p", "helps in", "at word", "1 before", "2 before"]
NUMBERS = ["-12.55", "0.7100", "2/4", "+0.014", "-0.0073", "+0.00071"]


def shown(width: int) -> list[str]:
    table = table_of_numbers("a title", *COLUMNS)
    table.add_row("ppl, with EOS", *NUMBERS)
    screen = Console(file=io.StringIO(), width=width)
    screen.print(table)
    return screen.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 72, 80, 100])
def test_no_number_is_broken_or_cut(width):
    lines = shown(width)
    assert max(map(len, lines)) <= width
    (row,) = [line for line in lines if "ppl" in line]
    assert row.replace("│", " ").split() == ["ppl,", "with", "EOS", *NUMBERS]


def test_lines_are_left_out_only_where_they_do_not_fit():
    assert "│" in "".join(shown(80)) and "│" not in "".join(shown(60))


def test_a_screen_too_narrow_for_the_numbers_still_shows_every_digit():
    digits = "".join(NUMBERS).replace("/", "")
    found = "".join(shown(40))
    assert all(found.count(one) >= digits.count(one) for one in set(digits) if one.isdigit())
