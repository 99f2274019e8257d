"""README and docs/ are true: every snippet runs and prints what is shown; every file that is named is there."""

import json
import re
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
from readme import PAGES, ROOT, make_world, page_name, run_all, snippets, with_outputs

import som
from som.cli.surprisal import COLUMN_MEANINGS
from som.evaluation import LABELS
from som.inference import Comparison, Plan, WordSurprisal
from som.inference.loading import SHIPPED

README = (ROOT / "README.md").read_text("utf-8")
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)#:]+)(?:#([\w-]+))?\)")  # to a file of the project


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    make_world(folder)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_snippet_runs_and_prints_what_is_shown(page, world, tmp_path):
    text = page.read_text("utf-8")
    folder = shutil.copytree(world, tmp_path / "here")
    printed = list(run_all(snippets(text), folder, SHIPPED, page_name(page)))
    for snippet, output in zip(snippets(text), printed, strict=True):
        assert output or snippet.kind != "text", f"{page_name(page)}:{snippet.line}: nothing was printed"
    assert with_outputs(text, printed) == text, "`python tests/readme.py` writes the outputs"


SHIPPED_FIGURES = {
    "ewt": {
        "uf1_binarised": "UF1 of {:.1f} against",
        "uas": "UAS of {:.1f}",
        "las": "LAS of {:.1f}",
        "ppl_per_word": "perplexity of {:.1f} per word",
    },
    "ewt-beam": {"uf1_binarised": "{:.1f} with beam search"},
    "syntaxgym": {"SG, 31 published suites": "{:.1f} % of SyntaxGym's"},
    "blimp": {"BLiMP, mean of paradigms": "{:.1f} % of BLiMP's"},
}


def test_the_figures_of_the_shipped_model_are_those_of_its_evaluations():
    files = {name: json.loads((ROOT / f"results/shipped/{name}.json").read_text()) for name in SHIPPED_FIGURES}
    told = " ".join(README.split())
    for name, figures in SHIPPED_FIGURES.items():
        section, *_ = (files[name][key] for key in ("treebank", "syntaxgym", "blimp") if key in files[name])
        for measure, sentence in figures.items():
            value = section["measures"][measure] * (1 if "ppl" in measure else 100)
            assert sentence.format(value) in told


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=page_name)
def test_links_lead_to_files_and_headings(page):
    for file, heading in LINK.findall(page.read_text("utf-8")):
        target = page.parent / file
        assert target.exists(), file
        if heading:
            assert heading in map(anchor, re.findall(r"^#+ (.*)", target.read_text("utf-8"), re.MULTILINE)), file


def anchor(heading: str) -> str:
    """What GitHub makes of a heading.

    >>> anchor("p, p' and `som parse`")
    'p-p-and-som-parse'
    """
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_the_map_of_the_folders_is_the_tree():
    listed = re.findall(r"^- `([\w./]+)`", README[README.index("## Folders") :], re.MULTILINE)
    assert all((ROOT / name).exists() for name in listed)
    rooms = {f"som/{room.name}/" for room in (ROOT / "som").iterdir() if (room / "__init__.py").exists()}
    assert rooms <= set(listed)


def test_every_page_is_in_the_index():
    linked = {file for file, _ in LINK.findall((DOCS / "README.md").read_text("utf-8"))}
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} <= linked


def test_the_public_names_are_those_listed():
    listed = re.findall(r"^\| `som\.(\w+)", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(som.__all__)


def test_the_glossary_explains_every_column_and_every_measure():
    glossary = (DOCS / "glossary.md").read_text("utf-8")
    for name in COLUMN_MEANINGS:
        assert f"`{name}`" in glossary, name
    assert {column.name for column in fields(WordSurprisal)} <= set(COLUMN_MEANINGS)
    tables = Plan(["text"], "text", layout="sap", parses=1).computed
    assert {name.replace("sentence_id", "sentence") for name in tables} <= set(COLUMN_MEANINGS)
    for name in Comparison([[], []]).types:
        assert f"`{name}`" in glossary or f"`{name.replace('_b', '_a')}`" in glossary, name
    for label in LABELS.values():
        assert f"**{label}**" in glossary, label


@pytest.mark.parametrize("broken", ["```ruby\nputs 1\n```", "```console\nls\n```", "```python\n1 +\n```"])
def test_a_snippet_that_cannot_be_run_is_no_success(broken, tmp_path):
    with pytest.raises((AssertionError, SyntaxError)):
        list(run_all(snippets(broken), tmp_path, tmp_path))


def test_a_fence_that_is_not_understood_is_found():
    with pytest.raises(AssertionError, match="a fence that is no snippet"):
        snippets("- in a list:\n  ```console\n  $ ls\n  ```\n")
