"""The demo from nothing to its report, on a few sentences with a tiny model."""

import re
from html.parser import HTMLParser

import pytest

from som import cli, demo
from som.syntax import grammar

TINY = ("--hidden-size", "8", "--epochs", "2", "--batch-size", "64")


@pytest.fixture(scope="module")
def small_language():
    """The built-in treebank with few sentences and pairs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammar, "SPLIT_SIZES", {"train": 128, "validation": 20, "test": 20})
        patch.setattr(grammar, "PAIRS_PER_KIND", 2)
        yield


@pytest.fixture(scope="module")
def shown(small_language, tmp_path_factory):
    """The folder of a demo."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    assert demo.demo(folder, TINY) == 0
    return folder


class Page(HTMLParser):
    """What a page consists of, and whether everything that is opened is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.attributes, self.open, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_demo_ends_with_table_tree_surprisals_and_the_path_of_its_report(shown, small_language, capsys):
    assert demo.demo(shown, TINY) == 0
    out = capsys.readouterr().out
    for name in (
        "ppl, with EOS",
        "p acc",
        "p' acc",
        "UF1, binarised",
        "UF1, n-ary",
        "minimal pairs",
        "bigrams",
        "branching",
    ):
        assert name in out
    assert "┴" in out  # a tree
    assert re.search(r"│ \*\w+ +│ +\d+\.\d │", out)  # the word that does not agree
    assert out.rstrip().endswith((shown / "report.html").as_uri())


def test_a_second_demo_trains_no_more(shown, small_language, capsys):
    weights = shown / "model" / "model.safetensors"
    before = weights.read_bytes(), (shown / "model" / "log.jsonl").read_bytes()
    assert demo.demo(shown, TINY) == 0
    assert (weights.read_bytes(), (shown / "model" / "log.jsonl").read_bytes()) == before
    assert "som prepare" not in capsys.readouterr().out


def test_the_report_is_one_page_that_needs_nothing_else(shown):
    page = Page((shown / "report.html").read_text("utf-8"))
    assert not page.open
    assert page.tags.count("svg") >= 4  # curves, a made-up sentence, sentences of the treebank, surprisals
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    references = [value for _, name, value in page.attributes if name in ("src", "href", "xlink:href")]
    assert all(value.startswith("#") for value in references)
    assert "validation perplexity" in page.text and "surprisal" in page.text


def test_the_report_explains_its_words_and_says_how_it_came_about(shown):
    page = Page((shown / "report.html").read_text("utf-8"))
    assert page.tags.count("dt") == page.tags.count("dd") > 8
    assert "som prepare builtin" in page.text and " ".join(TINY) in page.text and "torch" in page.text


def test_the_demo_also_writes_a_page_that_shows_its_model_reading(shown):
    text = (shown / "reading.html").read_text("utf-8")
    assert "Watching a SOM read" in text and '"sentences"' in text


def test_the_demo_ends_with_the_first_command_that_fails(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(cli, "main", lambda command: ran.append(command[0]) or 2)
    assert demo.demo(tmp_path) == 2
    assert ran == ["prepare"]


def test_ctrl_c_is_one_line(monkeypatch, capsys):
    def interrupted(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "demo", interrupted)
    assert demo.main() == 130
    assert capsys.readouterr().err == "demo: interrupted; the next one goes on from here\n"
