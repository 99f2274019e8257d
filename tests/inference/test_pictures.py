"""Trees and surprisals as SVG."""

from xml.etree import ElementTree

import pytest

from modeling_som.tags_som import Labels
from som.inference import Parse, Surprisals, WordSurprisal, surprisal_figure, tree_figure
from som.inference.pictures import arc_levels, dependency_figure
from som.syntax import Tree

SVG = "{http://www.w3.org/2000/svg}"
TREE = Tree.parse("((the <old> dog) (sees it))")


def row(number: int, word: str, structural: float | None, lexical: float, depth: int) -> WordSurprisal:
    total = (structural or 0) + lexical
    return WordSurprisal(
        number, word, 0, 0, word, total, structural, lexical, 0.0, 0.0, depth, 0, 1, depth - 1, 0.0, 0.0, None, 3, None
    )


def parts(svg: str, tag: str, kind: str = "") -> list[ElementTree.Element]:
    root = ElementTree.fromstring(svg)
    return [one for one in root.iter(SVG + tag) if not kind or kind in one.get("class", "").split()]


def test_a_tree_holds_its_words_as_text_in_their_order():
    words = [one.text for one in parts(tree_figure(TREE), "text")]
    assert words == list(TREE.words())


def test_every_constituent_is_a_line_and_the_wrong_ones_are_marked():
    svg = tree_figure(TREE, wrong={(3, 5)})
    assert len(parts(svg, "path")) == len(TREE.spans())
    assert len(parts(svg, "path", "wrong")) == 1


def test_labels_and_tags_stand_where_they_belong():
    tags = {(place, place + 1): tag for place, tag in enumerate(["DET", "ADJ", "N", "V", "PRON"])}
    svg = tree_figure(TREE, labels={(0, 3): "NP", (1, 3): "no constituent", **tags}, wrong_labels={(0, 3), (4, 5)})
    assert [one.text for one in parts(svg, "text", "label")] == ["NP"]
    assert [one.text for one in parts(svg, "text", "small")] == ["DET", "ADJ", "N", "V", "PRON"]
    assert [one.text for one in parts(svg, "text", "wrong")] == ["NP", "PRON"]


def test_words_do_not_touch_each_other():
    svg = tree_figure(Tree.parse("(wwwwwwwwwwww mmmmmmmmmmmm 東京都庁舎 iii)"))
    first, second, third, fourth = (float(one.get("x")) for one in parts(svg, "text"))
    assert second - first > 150 and third - second > 100 and fourth - third > 40


@pytest.mark.parametrize("structural", [1.0, None])
def test_a_bit_is_as_long_in_every_picture(structural):
    short, tall = [row(1, "a", structural, 3.0, 1)], [row(1, "b", structural, 11.0, 1)]
    heights = [float(parts(surprisal_figure(rows), "rect", "lexical")[0].get("height")) for rows in (short, tall)]
    assert heights[1] / heights[0] == pytest.approx(11 / 3, rel=0.01)


def test_both_parts_of_a_surprisal_and_its_number_are_shown():
    svg = surprisal_figure([row(1, "a", 1.0, 3.0, 1), row(2, "b", 2.0, 2.5, 2)])
    structural, lexical = (
        [float(one.get("height")) for one in parts(svg, "rect", kind)] for kind in ("structural", "lexical")
    )
    assert structural[1] / lexical[1] == pytest.approx(2 / 2.5, rel=0.01)
    assert {"4.0", "4.5"} <= {one.text for one in parts(svg, "text", "small")}


def test_dependencies_are_arcs_with_their_relations():
    words, heads, relations = ["the", "<b>", "barks"], [2, 3, 0], ["det", "nsubj", "root"]
    picture = ElementTree.fromstring(dependency_figure(words, heads, relations))
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["root", "det", "nsubj", "the", "<b>", "barks"]
    assert arc_levels([(1, 2), (0, 4), (0, 2), (3, 4)]) == [1, 3, 2, 1]


def test_a_labelled_parse_is_drawn_without_the_steps_of_its_binarisation():
    labels = Labels(["det", "amod", "head", "head"], [None, "partial", "nsubj", "root"])
    parse = Parse(["the", "old", "dog", "barks"], [], [1, 2, 2, 2], labels=labels)
    assert str(parse.constituents) == "((the old dog) barks)"
    assert parse.span_labels[0, 3] == "nsubj" and (0, 2) not in parse.span_labels
    assert [one.text for one in parts(parse.svg(), "text", "label")] == ["root", "nsubj"]
    assert len(parts(parse.svg(), "path")) == 2 and len(parts(parse.svg(binary=True), "path")) == 3


def test_a_picture_that_is_a_file_needs_no_colours_of_a_page():
    parse = Parse(["the", "dog"], [], [1, 2])
    assert "var(" in parse.figure() and "var(" not in parse.svg() and "#5f6672" in parse.svg()


@pytest.mark.parametrize("word", ["<script>", "a&b", "\x1b", '"'])
def test_notebooks_show_parses_and_surprisals_in_which_no_word_becomes_markup(word):
    parse = Parse([word, "dog"], [], [1, 2], log_prob=-1.5)
    rows = Surprisals([row(1, word, 1.0, 3.0, 1), row(2, "dog", 1.0, 2.0, 2)])
    assert rows == list(rows) and len(rows[:1]) == 1
    for shown in (parse, rows):
        ElementTree.fromstring(shown._repr_svg_())
        ElementTree.fromstring(f"<div>{shown._repr_html_()}</div>")
        assert "<script" not in shown._repr_html_()
    assert "log-likelihood -1.50 nats" in parse._repr_html_() and "7.0 bits in all" in rows._repr_html_()


def test_notebooks_show_as_text_what_has_no_room_in_a_picture():
    parse = Parse(["dog"] * 300, [], [1] * 300)
    for shown in (parse, Surprisals(), Surprisals([row(1, "dog", 1.0, 3.0, 1)] * 300)):
        assert shown._repr_svg_() is None and shown._repr_html_() is None


def test_surprisals_are_drawn_with_the_labels_of_their_tree():
    rows = [row(1, "the", 1.0, 3.0, 1), row(2, "dog", 1.0, 2.0, 2), row(3, "</s>", 0.1, 0.2, 1)]
    labels = Labels(["det", "head"], [None, "root"])
    words = {one.text for one in parts(surprisal_figure(rows, labels), "text")}
    assert {"det", "head", "root", "the", "dog"} <= words
    assert "root" in Surprisals(rows, labels)._repr_svg_() and "root" in Surprisals(rows, labels)._repr_html_()
    assert "root" not in Surprisals(rows)._repr_html_()
