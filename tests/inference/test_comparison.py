"""Sentences side by side: their alignment, differences, table and picture."""

import json
from itertools import product

import pytest
from test_inference import VOCABULARIES, make_pair

import som
from som.inference.comparison import PARTS, align

TEXTS = ["The old dog sees a cat.", "the dog sees a old whale.", "the dog sees."]


@pytest.fixture(params=VOCABULARIES)
def pair(request):
    return make_pair(request.param)


def test_words_that_are_the_same_stand_above_each_other():
    horse = ["the", "horse", "raced", "past", "the", "barn", "fell"]
    control = ["The", "horse", "that", "was", "raced", "past", "the", "barn", "fell"]
    columns = align(horse, control, ["the", "horse", "fell"])
    assert columns[:5] == [(0, 0, 0), (1, 1, 1), (None, 2, None), (None, 3, None), (2, 4, None)]
    assert columns[-1] == (6, 8, 2)
    assert align(["a", "b"], ["a", "x", "b"], ["a", "y", "z", "b"]) == [
        (0, 0, 0),
        (None, 1, 1),
        (None, None, 2),
        (1, 2, 3),
    ]
    assert align(["a"], ["x", "a"]) == [(None, 0), (0, 1)]
    assert align(["a", "b"]) == [(0,), (1,)]


@pytest.mark.parametrize("first", product("ab", repeat=3), ids="".join)
def test_every_word_has_one_column_in_order(first):
    for second in product("abc", repeat=2):
        columns = align(first, second, [*second, *first])
        for place, words in enumerate((first, second, [*second, *first])):
            assert [column[place] for column in columns if column[place] is not None] == list(range(len(words)))
        assert all(any(place is not None for place in column) for column in columns)


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_differences_are_those_of_the_words(pair, method):
    found = som.compare(*pair, TEXTS, method, k=3 if method == "beam" else None)
    rows = [som.surprisals(*pair, text, method, k=3 if method == "beam" else None) for text in TEXTS]
    records = found.to_records()
    for record, column in zip(records, found.columns, strict=True):
        words = [None if i is None else rows[n][i] for n, i in enumerate(column)]
        assert [record[f"word_{name}"] for name in "abc"] == [word and word.word for word in words]
        for part, (name, word) in product(PARTS, zip("abc", words, strict=True)):
            own = None if word is None else getattr(word, part)
            assert record[f"{part}_{name}"] == (None if own is None else pytest.approx(own))
            if name != "a" and None not in (own, words[0]):
                assert record[f"{part}_a_minus_{name}"] == pytest.approx(getattr(words[0], part) - own)
            elif name != "a":
                assert record[f"{part}_a_minus_{name}"] is None
    assert found.totals()["surprisal_b"] == pytest.approx(sum(row.surprisal for row in rows[1]))
    assert list(records[0]) == list(found.types)
    assert json.loads(json.dumps(found.to_dict()))["columns"] == records


def test_the_table_has_a_line_for_each_column_and_one_for_the_sums(pair):
    found = som.compare(*pair, ["the [b]dog[/b]\x1c sees", "the cat sees"])
    lines = found.draw().rstrip("\n").split("\n")
    assert len(lines) == 3 + len(found.columns) + 2 and lines[-1].startswith("sum")
    total = found.totals()
    assert lines[-1].split()[1:3] == [f"{total['surprisal_a']:.1f}", f"{total['surprisal_b']:.1f}"]
    assert "b" in "".join(lines) and "[" in "".join(lines)  # no markup


def test_without_prediction_network_there_is_no_structural_part():
    found = som.compare(*make_pair("word", prediction_network=False), TEXTS)
    assert found.totals()["structural_a_minus_b"] is None
    assert all(record["structural_a_minus_b"] is None for record in found.to_records())
    found.plot()


def test_the_picture_has_all_sentences_and_a_panel_for_each_difference(pair):
    found = som.compare(*pair, [*TEXTS[:2], "the $dog$ sees"])
    lines, *differences = found.plot().axes
    assert [line.get_label() for line in lines.lines] == ["A", "B", "C"]
    for line, rows in zip(lines.lines, found.sentences, strict=True):
        assert list(line.get_ydata()) == pytest.approx([row.surprisal for row in rows])
    assert len(differences) == 2
    for axes, name in zip(differences, "bc", strict=True):
        values = [record[f"surprisal_a_minus_{name}"] for record in found.to_records()]
        bars = axes.containers[0]
        assert [bar.get_height() for bar in bars] == pytest.approx([value for value in values if value is not None])
    labels = [label.get_text() for label in differences[-1].get_xticklabels()]
    assert len(labels) == len(found.columns) and labels[0] == "The\nthe\nthe"


@pytest.mark.parametrize(
    "texts, message", [(["the dog"], "2 to 26 sentences to compare, got 1"), (["a"] * 27, "got 27")]
)
def test_one_sentence_cannot_be_compared(texts, message):
    with pytest.raises(ValueError, match=message):
        som.compare(*make_pair("word"), texts)
    with pytest.raises(ValueError, match="too many to draw"):
        som.compare(*make_pair("word"), ["the dog " * 101, "a"]).plot()
