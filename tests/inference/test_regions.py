"""Regions by the rules for experiments on reading, each column against its rule."""

from dataclasses import replace

import pytest
from test_inference import VOCABULARIES, make_pair

from som.inference.regions import region_rows
from som.inference.surprisal import MEASURES, surprisals

TEXT = "the owners. see (the old dog) ."
SPANS = [(0, 3), (4, 11), (12, 15), (16, 20), (21, 24), (25, 29), (30, 31)]


@pytest.fixture(params=VOCABULARIES)
def rows(request):
    found = surprisals(*make_pair(request.param), TEXT)
    frequencies = iter(range(len(found), 0, -1))
    return [replace(row, unknown=row.word == "owners", log_frequency=float(next(frequencies))) for row in found]


def test_every_column_follows_its_rule(rows):
    regions = region_rows(rows, TEXT, SPANS)
    assert [region.word for region in regions] == TEXT.split()
    assert [region.number for region in regions] == [1, 2, 3, 4, 5, 6, 7]
    for region, (start, end) in zip(regions, SPANS, strict=True):
        inside = [row for row in rows if start <= row.start < end]
        for name in ("surprisal", "structural", "lexical", "closed", "opened", "entropy_reduction"):
            assert getattr(region, name) == pytest.approx(sum(getattr(row, name) for row in inside))
        for name in ("next_entropy", "entropy_before"):
            assert getattr(region, name) == getattr(inside[0], name)
        for name in ("entropy_after", "open", "depth"):
            assert getattr(region, name) == getattr(inside[-1], name)
        assert (region.start, region.end, region.length) == (start, end, end - start)
        assert region.unknown == (region.word == "owners.")
        assert region.tokens == " ".join(row.tokens for row in inside)
    spoken = [row.log_frequency for row in rows if row.word not in ".()"]
    assert [region.log_frequency for region in regions] == [*spoken, rows[-1].log_frequency]  # "." alone is its own


def test_a_region_of_several_words_has_the_length_that_was_shown(rows):
    first, last = region_rows(rows, TEXT, [(0, 15), (16, 31)])
    assert (first.word, first.length, last.length) == ("the owners. see", 15, 15)
    assert first.log_frequency == min(row.log_frequency for row in rows[:4] if row.word != ".")
    assert first.surprisal + last.surprisal == pytest.approx(sum(row.surprisal for row in rows))


def test_words_that_are_regions_stay_as_they_are():
    rows = surprisals(*make_pair("word"), "the old dog")
    assert region_rows(rows, "the old dog", [(0, 3), (4, 7), (8, 11)]) == rows


def test_what_is_not_known_of_a_word_is_not_known_of_its_region():
    rows = surprisals(*make_pair("word", prediction_network=False), "the dog.")
    _, region = region_rows(rows, "the dog.", [(0, 3), (4, 8)])
    assert {name for name in MEASURES if getattr(region, name) is None} == {
        *("structural", "entropy_before", "unknown", "log_frequency")
    }


def test_the_end_of_the_sentence_stays_on_its_own():
    *words, end = surprisals(*make_pair("word"), "the dog.", eos=True)
    regions = region_rows([*words, end], "the dog.", [(0, 3), (4, 8)])
    assert regions[:-1] == region_rows(words, "the dog.", [(0, 3), (4, 8)])
    assert regions[-1] == replace(end, number=3)


@pytest.mark.parametrize(
    "spans, message",
    [
        ([(0, 3), (4, 5), (5, 7)], "the word 'dog' lies in no region, or in two"),
        ([(4, 7)], "the word 'the' lies in no region"),
        ([(0, 3), (4, 7), (8, 9)], "region 3, '.', is not made of whole words"),
    ],
)
def test_regions_that_words_do_not_fill_are_refused(spans, message):
    rows = surprisals(*make_pair("word"), "the dog .")
    with pytest.raises(ValueError, match=message):
        region_rows(rows[:2], "the dog .", spans)
