"""Reports: one page each, made of the same parts, in which what a treebank has otherwise is marked."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import CORPUS, make_model
from rich.table import Table

from modeling_som.tags_som import Labels
from som import cli
from som.data import prepare
from som.data.vocabularies import make_tokenizer
from som.inference import Parse, load, surprisals
from som.syntax import Example, Tags, Tree, builtin_treebank, dependency_tags, read_treebank, to_conllu
from som.training.models import vocabulary
from som.view import Section, html, learning_curves, trees
from som.view.sections import against_gold, figures, validation

SVG = "{http://www.w3.org/2000/svg}"


class Page(HTMLParser):
    """What a page consists of."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.text, self.addresses = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href", "xlink:href")]

    def handle_data(self, data):
        self.text += data

    def stands_alone(self) -> bool:
        return not {"script", "link", "img", "iframe"} & set(self.tags) and all(a[0] == "#" for a in self.addresses)


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """A small treebank, prepared, and a model trained on it."""
    folder = tmp_path_factory.mktemp("world")
    sentences = list(builtin_treebank("test"))[:40]
    (folder / "few.conllu").write_text("".join(sentences), encoding="utf-8")
    splits = [flag for split in ("train", "validation", "test") for flag in (f"--{split}", str(folder / "few.conllu"))]
    assert cli.main(["prepare", *splits, "--out", str(folder / "data")]) == 0
    train = ["train", str(folder / "data"), "--out", str(folder / "run"), "--epochs", "1", "--hidden-size", "16"]
    assert cli.main([*train, "--report", str(folder / "run.html")]) == 0
    return folder


def test_text_in_a_report_is_escaped():
    section = Section("<s>", "a & b", [("<i>", {"<j>": "<k>"})], "<fold>", {"<caption>": "<svg></svg>"})
    page = html("<title>", [section])
    assert "<svg></svg>" in page and "a &amp; b" in page
    assert not re.search("<(s|i|j|k|fold|caption|title><)>", page)


def test_the_report_of_a_training_has_curves_trees_terms_settings_and_origin(world):
    page = Page((world / "run.html").read_text("utf-8"))
    assert page.stands_alone() and page.tags.count("svg") >= 5
    for part in ("parses while it reads", "epoch 1", "never seen", "What the words mean", "hidden_size", "torch"):
        assert part in page.text
    assert "som" in page.text.rpartition("command")[2]
    assert re.search(r"commit\s*[0-9a-f]{7}", page.text) or "not in a clone" in page.text
    assert re.search(r"<details><summary>All \d+ of them", (world / "run.html").read_text("utf-8"))


def test_curves_of_shares_are_in_per_cent_and_ticks_are_whole_epochs(tmp_path):
    entries = [{"epoch": float(n), "loss": 3.0, "eval_p_acc": 0.9 + n / 100} for n in range(1, 4)]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, entries)))
    figure = learning_curves(tmp_path / "log")
    loss, _, accuracy = figure.axes
    assert accuracy.lines[0].get_ydata().tolist() == pytest.approx([91, 92, 93])
    assert (loss.get_ylabel(), accuracy.get_ylabel()) == ("nats", "per cent")
    (tmp_path / "log").write_text(json.dumps(entries[0]))
    for axes in (loss, learning_curves(tmp_path / "log").axes[0]):
        assert all(tick == int(tick) for tick in axes.get_xticks())


def test_the_validation_split_of_prepared_data_is_that_of_its_file(world):
    found, wanted = validation(world / "data"), list(read_treebank([world / "few.conllu"]))
    assert [(one.words, one.tree, one.tags) for one in found] == [
        (one.words, one.tree, one.tags.universal()) for one in wanted
    ]


@pytest.mark.parametrize("kind", ["word", "bpe:300"])
def test_tags_of_the_validation_split_that_training_has_not_leave_the_others_in_their_place(tmp_path, kind):
    words, heads = ["This", "is", "unbelievable", "!"], [2, 0, 4, 2]
    relations = {"train": ["det", "root", "mark", "obj"], "validation": ["vocative", "root", "mark", "dislocated"]}
    for split, given in relations.items():
        (tmp_path / split).write_text(to_conllu(words, heads, given) + to_conllu(words, heads))
    files = {split: [tmp_path / name] for split, name in (("test", "train"), *zip(relations, relations, strict=True))}
    prepare(files, tmp_path / "data", tokenizer=kind)
    assert [example.tags for example in validation(tmp_path / "data")] == [
        Tags((None, "head", "mark", "head"), (None, "partial", "root", None)),
        None,
    ]


def test_the_report_of_an_evaluation_has_the_figures_of_the_terminal_and_trees(world, capsys):
    out = world / "eval.html"
    assert (
        cli.main(["evaluate", str(world / "run"), "--treebank", str(world / "few.conllu"), "--report", str(out)]) == 0
    )
    printed, page = capsys.readouterr().out, Page(out.read_text("utf-8"))
    assert out.as_uri() in printed and page.stands_alone() and page.tags.count("svg") >= 4
    (perplexity,) = re.findall(r"ppl, with EOS +│ +([\d.,]+)", printed)
    assert perplexity in page.text and "UAS" in page.text and "som evaluate" in page.text
    assert "On few, by the method marginal" in page.text and "sentences of so many words" in page.text


def test_lines_of_a_table_that_say_nothing_are_left_out():
    table = Table("", "all", "1–10", title="t")
    for row in (("ppl", "3.1", "–"), ("LAS", "–", "–")):
        table.add_row(*row)
    assert [name for name, _ in figures(table, "On t").table] == ["ppl"]


def test_a_report_is_refused_before_any_work_where_it_cannot_be_a_page(world, capsys):
    for command in (
        ["evaluate", "--treebank", str(world / "few.conllu")],
        ["train", str(world / "data"), "--out", "x"],
    ):
        assert cli.main([*command, "--report", "tensorboard"]) == 2
        assert "tensorboard: expected a page that ends in .html" in capsys.readouterr().err


def read(words: list[str]):
    tokenizer = make_tokenizer("word", CORPUS)
    return surprisals(make_model(**vocabulary(tokenizer)), tokenizer, words)


def marked(picture: str, tag: str) -> list[str]:
    found = ElementTree.fromstring(picture).iter(SVG + tag)
    return [one.text for one in found if "wrong" in one.get("class", "").split()]


def places_of(picture: str, words: list[str]) -> list[str]:
    found = ElementTree.fromstring(picture).iter(SVG + "text")
    return [one.get("x") for one in found if one.text in words]


def test_constituents_and_labels_that_the_treebank_has_otherwise_are_marked():
    words, heads, relations = ["the", "dog", "sees", "it"], [2, 3, 0, 3], ["det", "nsubj", "root", "obj"]
    tree, tags = Tree.parse("((the dog) sees it)"), dependency_tags(heads, relations)
    gold = Example(tuple(words), tree, "", tags=tags)
    right = Parse(words, [], [1, 2, 2, 2], labels=Labels(list(tags.leaf), list(tags.node)))
    (caption,) = against_gold(gold, right, read(words))
    assert caption.endswith("As in the treebank.")
    renamed = Parse(words, [], [1, 2, 2, 2], labels=Labels([*tags.leaf[:3], "obl"], list(tags.node)))
    ours, theirs = against_gold(gold, renamed, read(words)).items()
    assert places_of(ours[1], words) == places_of(theirs[1], words)  # one above the other
    assert "2 of 2 constituents, 5 of 6 labels" in ours[0] and marked(ours[1], "text") == ["obl"]
    assert marked(ours[1], "path") == []
    other = Parse(
        words, [], [1, 2, 3, 2], labels=Labels(["det", "head", "head", "obj"], [None, "nsubj", "acl", "root"])
    )
    ours, theirs = against_gold(gold, other, read(words)).values()
    assert len(marked(ours, "path")) == 2 and len(marked(theirs, "path")) == 1


def test_without_labels_binary_trees_are_compared():
    gold = Example(("the", "old", "dog"), Tree.parse("(the old dog)"), "")
    (caption,) = against_gold(gold, Parse(list(gold.words), [], [1, 2, 2]), read(list(gold.words)))
    assert caption.endswith("As in the treebank.")
    ours, theirs = against_gold(gold, Parse(list(gold.words), [], [1, 2, 3]), read(list(gold.words))).values()
    assert len(marked(ours, "path")) == len(marked(theirs, "path")) == 1


def test_sentences_too_long_for_a_picture_are_not_shown(checkpoint):
    long = Example(("dog",) * 60, Tree.parse(f"({'dog ' * 60})"), "", tags=Tags(("x",) * 60, (None,) * 60))
    assert trees(*load(checkpoint), [long]).pictures == {}


@pytest.mark.parametrize("command", ["parse", "surprisal"])
def test_format_html_is_a_page_with_a_picture_of_each_sentence_and_no_markup_from_words(run, command):
    code, out, _ = run(command, "--format", "html", "--words", "the dog <script>alert(1)</script>", "a cat .")
    page = Page(out)
    assert code == 0 and page.stands_alone() and page.tags.count("svg") == 2 and out.endswith("</html>\n")
    assert "<script>alert(1)</script>" in page.text and "What the words mean" in page.text
    for part in ("parses while it reads", "checkpoint", "methodgreedy", f"som {command}", "torch"):
        assert part in re.sub("\n", "", page.text)


@pytest.mark.parametrize("command", ["parse", "surprisal"])
def test_a_sentence_too_long_for_a_page_is_told_and_the_others_are_shown(run, command):
    code, out, complaints = run(command, "--format", "html", "dog " * 300, "a cat .")
    assert code == 2 and "too many to draw" in complaints and Page(out).tags.count("svg") == 1
