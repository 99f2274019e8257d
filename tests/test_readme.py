"""README is true: every snippet in it runs, and prints what is shown; every file it names is there."""

import json
import re

import pytest
from readme import README, ROOT, make_world, run_all, snippets, with_outputs

from som.inference.loading import SHIPPED

TEXT = README.read_text("utf-8")


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> list[str]:
    """What each snippet printed."""
    folder = tmp_path_factory.mktemp("readme")
    make_world(folder)
    return list(run_all(snippets(TEXT), folder, SHIPPED))


def test_every_snippet_runs(printed):
    assert len(printed) == TEXT.count("\n```") // 2
    for snippet, output in zip(snippets(TEXT), printed, strict=True):
        assert output or snippet.kind != "text", f"README.md:{snippet.line}: nothing was printed"


def test_snippets_print_what_is_shown(printed):
    assert with_outputs(TEXT, printed) == TEXT, "`python tests/readme.py` writes the outputs"


def test_the_figures_of_the_shipped_model_are_those_of_its_evaluations():
    ewt, beam = (json.loads((ROOT / f"results/shipped/{name}.json").read_text()) for name in ("ewt", "ewt-beam"))
    ppl, uf1 = (ewt["treebank"]["measures"][name] for name in ("ppl", "uf1_binarised"))
    told = f"a perplexity of {ppl:.1f} on its test\nsplit and a UF1 of {100 * uf1:.1f} against its binarised trees"
    assert told in TEXT
    assert f"with a beam of {100 * beam['treebank']['measures']['uf1_binarised']:.1f};" in TEXT


def test_files_that_are_named_exist():
    table = TEXT[TEXT.index("## Where things are") :]
    first_cells = " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))
    named = re.findall(r"`(.*?)`", first_cells)
    assert len(named) > 15
    for name in [*named, *re.findall(r"\]\(([\w/]+\.\w+)\)", TEXT)]:
        assert (ROOT / name).exists() or (ROOT / "som" / name).is_file(), name


@pytest.mark.parametrize("broken", ["```ruby\nputs 1\n```", "```console\nls\n```", "```python\n1 +\n```"])
def test_a_snippet_that_cannot_be_run_is_no_success(broken, tmp_path):
    with pytest.raises((AssertionError, SyntaxError)):
        list(run_all(snippets(broken), tmp_path, tmp_path))


def test_a_fence_that_is_not_understood_is_found():
    with pytest.raises(AssertionError, match="a fence that is no snippet"):
        snippets("- in a list:\n  ```console\n  $ ls\n  ```\n")
