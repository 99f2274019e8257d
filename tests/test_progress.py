"""What long work says of itself."""

import sys
import time

import pytest

from som import progress as module
from som.progress import progress


@pytest.fixture
def quickly(monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.01)


def wait_for(capsys, text: str) -> str:
    """Standard error, as soon as the text is in it."""
    seen = ""
    while text not in seen:
        time.sleep(0.01)
        seen += capsys.readouterr().err
    return seen


def test_a_log_file_gets_a_line_every_so_often_also_while_nothing_is_finished(quickly, capsys):
    with progress("som parse", total=2000) as bar:
        wait_for(capsys, "som parse: 0 of 2,000 sentences [0:00]\n")
        bar.update(1500)
        assert "\r" not in wait_for(capsys, "som parse: 1,500 of 2,000 sentences [")
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""  # it is over


def test_work_that_is_not_to_be_shown_is_silent(quickly, capsys):
    with progress("som parse", shown=False) as bar:
        bar.update()
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress("som parse", total=4) as bar:
        bar.bar.delay = 0
        bar.update(4)
        bar.bar.refresh()
    assert "som parse: 100%" in capsys.readouterr().err
