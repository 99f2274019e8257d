"""The notebooks in docs/ run from top to bottom, and hold what they show."""

import pytest
from readme import NOTEBOOKS, page_name, run_notebook

from som.inference.loading import SHIPPED

nbformat = pytest.importorskip("nbformat", reason="needs nbformat: pip install nbformat")
pytest.importorskip("nbclient", reason="needs nbclient: pip install nbclient")
pytest.importorskip("ipykernel", reason="needs ipykernel: pip install ipykernel")


def shown(cell) -> list[set[str]]:
    """The kinds of what a cell shows."""
    return [set(output.get("data", {output.output_type: ""})) for output in cell.outputs]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=page_name)
def test_a_notebook_runs_and_shows_what_it_holds(file):
    held, run = nbformat.read(file, as_version=4), run_notebook(file, SHIPPED)
    pairs = [pair for pair in zip(held.cells, run.cells, strict=True) if pair[0].cell_type == "code"]
    for before, now in pairs:
        assert shown(before) == shown(now), before.source
        if ".round(" in before.source:  # digits that are the same everywhere
            assert before.outputs[0].data["text/html"] == now.outputs[0].data["text/html"], (
                "`python tests/readme.py` renews what notebooks show"
            )
    kinds = set().union(*(kind for _, now in pairs for kind in shown(now)))
    assert {"text/html", "image/svg+xml", "image/png"} <= kinds  # a table, a tree, a plot
