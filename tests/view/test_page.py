"""The page as a file: what it holds, what it may not hold, and the command that writes it."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from som import cli
from som.inference import load
from som.view import page, trace

TEXT = "the old dog sees the cat ."
NASTY = ["</script>", "<script>alert(1)</script>", "<!--", "&amp;", "a\u2028b", '"', "'"]


class Island(HTMLParser):
    """The data of a page, and the tags around it."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.inside, self.content = False, ""
        self.feed(text)
        self.data = json.loads(self.content)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href", "xlink:href", "action")]
        self.inside = ("type", "application/json") in attributes

    def handle_data(self, data):
        self.content += data * self.inside

    def handle_endtag(self, tag):
        self.inside = False


@pytest.fixture(scope="module")
def model(checkpoint):
    return load(checkpoint)


def test_the_page_stands_alone_and_is_small(model):
    twelve = trace(*model, ["dog"] * 12, "beam")
    text = page([twelve, twelve], "a model")
    island = Island(text)
    assert len(text.encode()) - len(island.content.encode()) < 100_000
    assert len(island.content.encode()) < 150_000
    assert not {"link", "img", "iframe", "object"} & set(island.tags) and not island.addresses
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|sendBeacon|import)\b\s*\(|@import|url\(", text)


def test_words_never_become_markup(model):
    plain = Island(page([trace(*model, ["dog"] * len(NASTY))], "a model"))
    nasty = page([trace(*model, NASTY, words=True)], "<b>model</b>")
    assert Island(nasty).tags == plain.tags
    assert [row["word"] for row in Island(nasty).data["sentences"][0]["words"]][: len(NASTY)] == NASTY
    assert "alert(1)</script>" not in nasty and "\u2028" not in Island(nasty).content


def test_labels_of_words_and_constituents_reach_the_page_where_there_are_any(model):
    bare = trace(*model, TEXT)
    tagged = replace(
        bare, words=[replace(bare.words[0], tag="DET", decided=2), *bare.words[1:]], labels=[(0, 3, "NP", 4)]
    )
    before, after = (Island(page([one], "a model")).data["sentences"][0] for one in (bare, tagged))
    assert "tag" not in before["words"][0] and before["labels"] == []
    assert (after["words"][0]["tag"], after["words"][0]["decided"]) == ("DET", 2) and after["labels"] == [
        [0, 3, "NP", 4]
    ]


def test_som_view_refuses_a_file_that_is_not_called_a_page(checkpoint, tmp_path, capsys):
    assert cli.main(["view", TEXT, "--model", checkpoint, "--out", str(tmp_path / "page.svg")]) == 2
    assert "page.svg: expected a page that ends in .html" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_som_view_writes_the_numbers_of_som_surprisal(checkpoint, tmp_path, capsys):
    out = tmp_path / "page.html"
    common = ["--model", checkpoint, "--method", "beam"]
    assert cli.main(["view", TEXT, "--compare", "the cat .", *common, "--k", "3", "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == out.as_uri()
    for text, sentence in zip((TEXT, "the cat ."), Island(out.read_text("utf-8")).data["sentences"], strict=True):
        assert cli.main(["surprisal", text, *common, "--particles", "3", "--eos", "--json", "-"]) == 0
        (wanted,) = json.loads(capsys.readouterr().out)
        for row, other in zip(sentence["words"], wanted["words"], strict=True):
            for name in ("number", "depth", "surprisal", "structural", "lexical", "entropy_after"):
                value = other[name]
                assert row[name] == (round(value, 6) if isinstance(value, float) else value)


def test_som_view_shows_the_page_in_a_browser_if_asked_to(checkpoint, tmp_path, monkeypatch):
    shown, out = [], tmp_path / "page.html"
    monkeypatch.setattr("webbrowser.open", shown.append)
    command = ["view", TEXT, "--model", checkpoint, "--out", str(out)]
    assert cli.main(command) == 0 and shown == []
    assert cli.main([*command, "--open"]) == 0 and shown == [out.as_uri()]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["dog " * 81], "the page shows sentences of up to 80 words, got 81"),
        (["dog", "--compare", "dog " * 90], "the page shows sentences of up to 80 words, got 90"),
        ([" "], "the text is empty, expected at least one word"),
    ],
)
def test_what_cannot_be_shown_is_one_line_and_no_file(checkpoint, tmp_path, capsys, arguments, message):
    out = tmp_path / "page.html"
    assert cli.main(["view", *arguments, "--model", checkpoint, "--out", str(out)]) == 2
    assert capsys.readouterr().err == f"som view: error: {message}\n"
    assert not out.exists()


def test_a_third_sentence_has_no_room(model):
    one = trace(*model, TEXT)
    with pytest.raises(ValueError, match="one sentence or two, got 3"):
        page([one] * 3, "a model")
