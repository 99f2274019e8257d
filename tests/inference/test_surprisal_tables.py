"""Tables of items: which rows come out, with which columns, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_inference import VOCABULARIES, make_pair
from transformers import AutoTokenizer

import som
from modeling_som.sentences_som import split_words
from som.inference import tables
from som.inference.loading import SHIPPED
from som.inference.surprisal import MEASURES, surprisals
from som.tables import read_table

NATURAL_STORIES = Path(__file__).parents[3] / "shared" / "data" / "naturalstories" / "words.tsv.gz"
ITEMS = [
    {"item": 1, "condition": "long", "sentence": "the old dog sees a Whale."},
    {"item": 1, "condition": "short", "sentence": "the dog sees."},
]


@pytest.fixture(params=VOCABULARIES)
def pair(request):
    return make_pair(request.param)


def column(rows, name):
    return [row[name] for row in rows]


def test_a_row_per_word_has_its_measures_and_all_columns_of_its_item(pair):
    rows = som.surprisal_table(*pair, ITEMS, "sentence", "beam", k=3)
    expected = [(item, word) for item in ITEMS for word in surprisals(*pair, item["sentence"], "beam", k=3)]
    assert len(rows) == len(expected)
    for row, (item, word) in zip(rows, expected, strict=True):
        assert {name: row[name] for name in item} == item
        assert row["sentence_id"] == ITEMS.index(item) + 1
        for name in ("number", "word", "start", "end", "tokens"):
            assert row[name] == getattr(word, name)
        assert [row[name] for name in MEASURES] == pytest.approx([getattr(word, name) for name in MEASURES])
    assert "parses" not in rows[0]


def test_regions_are_what_stands_between_spaces_or_bars(pair):
    rows = som.surprisal_table(*pair, ITEMS, "sentence", regions="spaces")
    assert column(rows, "word") == [*ITEMS[0]["sentence"].split(), *ITEMS[1]["sentence"].split()]
    for text in ("the old dog|sees a|Whale.", " | the old dog | sees a | Whale. | "):
        rows = som.surprisal_table(*pair, [{"text": text}], regions="bars")
        assert column(rows, "word") == ["the old dog", "sees a", "Whale."]
        assert column(rows, "text") == [text] * 3
        whole = surprisals(*pair, ITEMS[0]["sentence"])
        assert sum(column(rows, "surprisal")) == pytest.approx(sum(word.surprisal for word in whole))


def test_odd_characters_are_no_end_of_a_region(pair):
    text = "a\x1cb don’t\u200b 😀. \u00a0(U.S.)\u2028…"
    rows = som.surprisal_table(*pair, [{"text": text}], regions="spaces")
    assert column(rows, "word") == ["a\x1cb", "don’t\u200b", "😀.", "(U.S.)", "…"]


def test_a_row_per_region_comes_out_as_a_row_per_region(pair):
    texts = [["the old", "dog", "sees."], ["a", "cat."]]
    table = [{"story": 1, "sent": s, "shown": part, "rt": 1.5} for s, text in enumerate(texts) for part in text]
    rows = som.surprisal_table(*pair, table, "shown", sentence_columns=["story", "sent"], spillover=1)
    assert [{name: row[name] for name in table[0]} for row in rows] == table
    assert column(rows, "word") == column(table, "shown")
    assert column(rows, "sentence_id") == [1, 1, 1, 2, 2] and column(rows, "number") == [1, 2, 3, 1, 2]
    bars = som.surprisal_table(*pair, [{"text": "|".join(text)} for text in texts], regions="bars")
    assert column(rows, "surprisal") == pytest.approx(column(bars, "surprisal"))
    assert column(rows, "surprisal_1") == [None, *column(rows, "surprisal")[:2], None, rows[3]["surprisal"]]


def test_columns_with_our_names_get_another(pair):
    rows = som.surprisal_table(*pair, [{"word": "the dog", "length": 9, "surprisal_1": "x"}], "word")
    assert list(rows[0])[:3] == ["given_word", "given_length", "surprisal_1"]  # no spillover: that name is free
    assert [(row["given_word"], row["word"], row["given_length"], row["length"]) for row in rows] == [
        ("the dog", "the", 9, 3),
        ("the dog", "dog", 9, 3),
    ]
    rows = som.surprisal_table(*pair, [{"text": "the dog", "surprisal_1": "x"}], "text", spillover=1)
    assert column(rows, "given_surprisal_1") == ["x", "x"]


def test_tokens_are_taken_as_they_are(pair):
    (row,) = som.surprisal_table(*pair, [{"text": "can't"}], words=True)
    assert row["word"] == "can't"
    table = [{"s": 1, "text": "New York"}, {"s": 1, "text": "sees"}]
    rows = som.surprisal_table(*pair, table, "text", sentence_columns=["s"], words=True)
    expected = surprisals(*pair, ["New York", "sees"], words=True)
    assert column(rows, "surprisal") == pytest.approx([word.surprisal for word in expected])


def test_frames_come_back_as_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ITEMS, index=[7, 9]).assign(rt=[1.5, None])
    found = som.surprisal_table(*make_pair("word"), frame, "sentence", regions="spaces")
    assert list(found.columns[:5]) == ["item", "condition", "sentence", "rt", "sentence_id"]
    rows = som.surprisal_table(*make_pair("word"), ITEMS, "sentence", regions="spaces")
    assert found.surprisal.tolist() == pytest.approx(column(rows, "surprisal"))
    assert found.rt.isna().tolist() == [False] * 6 + [True] * 3
    with pytest.raises(ValueError, match="expected a name for each column"):
        som.surprisal_table(*make_pair("word"), frame.set_axis(["a", "a", "b", "c"], axis=1), "b")


def test_rows_without_a_text_are_an_error_or_left_out(pair):
    table = [*ITEMS, {"item": 2, "condition": None, "sentence": None}]
    with pytest.raises(ValueError, match="row 3: expected a text in column 'sentence', got an empty cell"):
        som.surprisal_table(*pair, table, "sentence")
    rows = som.surprisal_table(*pair, table, "sentence", missing="skip")
    assert rows == som.surprisal_table(*pair, ITEMS, "sentence")


# layouts


def test_the_layout_of_lm_zoo_has_its_four_columns(pair):
    rows = som.surprisal_table(*pair, ITEMS, "sentence", layout="lm-zoo", eos=True)
    expected = [word for item in ITEMS for word in surprisals(*pair, item["sentence"], eos=True)]
    assert {tuple(row) for row in rows} == {("sentence_id", "token_id", "token", "surprisal")}
    assert column(rows, "token") == [word.word for word in expected]
    assert column(rows, "token_id") == [word.number for word in expected]
    assert column(rows, "surprisal") == pytest.approx([word.surprisal for word in expected])


def test_items_of_the_sap_benchmark_are_read_in_both_forms(pair):
    texts = {"ambiguous": "the old dog sees.", "unambiguous": "the dog\\'s cat sees."}
    wide = [{"": "0", "item": "1", "disambPositionAmb": "4", "disambPositionUnamb": 4.0, **texts}]
    rows = som.surprisal_table(*pair, wide, layout="sap")
    assert column(rows, "word") == ["the", "old", "dog", "sees.", "the", "dog's", "cat", "sees."]
    assert column(rows, "word_pos") == [0, 1, 2, 3] * 2
    assert column(rows, "ambiguity") == ["ambiguous"] * 4 + ["unambiguous"] * 4
    assert [row["word"] for row in rows if row["word_pos"] == row["disambPosition_0idx"]] == ["sees.", "sees."]
    long = [{"item": "1", "ambiguity": "ambiguous", "Sentence": texts["ambiguous"]}]
    again = som.surprisal_table(*pair, long, layout="sap")
    assert column(again, "surprisal") == pytest.approx(column(rows[:4], "surprisal"))
    with pytest.raises(
        ValueError, match="row 1: expected the number of a word in column 'disambPositionAmb', got 'x'"
    ):
        som.surprisal_table(*pair, [wide[0] | {"disambPositionAmb": "x"}], layout="sap")


# many


def test_sentences_that_repeat_are_read_once(monkeypatch):
    pair, read = make_pair("word"), []
    chunk = tables.surprisals_chunk

    def counted(model, tokenizer, texts, *rest, **options):
        read.extend(texts)
        return chunk(model, tokenizer, texts, *rest, **options)

    monkeypatch.setattr(tables, "surprisals_chunk", counted)
    monkeypatch.setattr(tables, "TEXTS_AT_ONCE", 2)
    readers = [item | {"subject": subject} for subject in range(3) for item in ITEMS]
    rows = som.surprisal_table(*pair, readers, "sentence")
    assert read == column(ITEMS, "sentence")
    assert column(rows, "subject") == [0] * 11 + [1] * 11 + [2] * 11
    assert column(rows, "surprisal") == column(rows[:11], "surprisal") * 3
    monkeypatch.setattr(tables, "REMEMBERED", 1)
    assert som.surprisal_table(*pair, readers, "sentence") == rows
    assert len(read) > 4


def test_rows_are_answered_before_all_are_read(monkeypatch):
    monkeypatch.setattr(tables, "TEXTS_AT_ONCE", 2)
    model, tokenizer = make_pair("word")
    taken = []

    def rows():
        for number in range(6):
            taken.append(number)
            yield f"row {number}", {"text": "the dog"}

    plan = tables.Plan(["text"], "text")
    answers = tables.answer_items(model, tokenizer, plan.items(rows()), plan, som.Method("greedy"))
    next(answers)
    assert taken == [0, 1]


# what is refused


@pytest.mark.parametrize(
    "table, options, message",
    [
        (ITEMS, {"text_column": "sentense"}, "expected a column 'sentense', got .*; did you mean 'sentence'?"),
        ([{'"a"': "x"}, {}], {"text_column": "a"}, r"TSV is read without quotes: write it so \(in R, quote = FALSE\)"),
        (ITEMS, {}, "expected a text column, one of 'item', 'condition', 'sentence'"),
        (ITEMS, {"text_column": "item"}, "row 1: expected a text in column 'item', got 1"),
        (ITEMS, {"text_column": "sentence", "regions": "commas"}, "expected regions by spaces or bars, got 'commas'"),
        (ITEMS, {"text_column": "sentence", "layout": "wide"}, "expected the layout plain, lm-zoo, sap, got 'wide'"),
        (ITEMS, {"text_column": "sentence", "missing": "no"}, "missing must be 'error' or 'skip'"),
        ([], {"text_column": "sentence"}, "the table: expected at least one row, got none"),
        ("a.tsv", {}, "expected the rows of a table, dicts or a DataFrame, got str"),
        ([{"text": "a || b"}], {"regions": "bars"}, "row 1: expected words in every region, got none in region 2"),
        ([{"text": "|"}], {"regions": "bars"}, "row 1: expected words in every region"),
        ([{"text": " \t"}], {}, "row 1: expected a text in column 'text', got an empty cell"),
        ([{"text": "a \ud800"}], {}, "row 1: expected a text in column 'text', got characters that are none"),
        ([{"word": "a", "given_word": "b"}], {"text_column": "word"}, "expected no column 'given_word'"),
        ([{"text": "a"}, {"text": "a", "x": 1}], {}, "row 2: expected the columns of the first row, got 'x' too"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_row(table, options, message):
    with pytest.raises(ValueError, match=message):
        som.surprisal_table(*make_pair("word"), table, **options)


@pytest.mark.parametrize(
    "keys, cells, message",
    [
        (
            [1, 2, 1],
            ["the", "a", "dog"],
            "row 3: s 1 has been read: expected the rows of a sentence one after another",
        ),
        ([-1, -2], ["the", ""], "row 2: expected a text in column 'w', got an empty cell"),
        ([1, None], ["the", "a"], "row 2: expected a sentence in column 's', got an empty cell"),
    ],
)
def test_regions_without_a_sentence_are_refused(keys, cells, message):
    table = [{"s": key, "w": cell} for key, cell in zip(keys, cells, strict=True)]
    with pytest.raises(ValueError, match=message):
        som.surprisal_table(*make_pair("word"), table, "w", sentence_columns=["s"])
    with pytest.raises(ValueError, match="expected regions by bars or one per row, got both"):
        som.surprisal_table(*make_pair("word"), table, "w", sentence_columns=["s"], regions="bars")


@pytest.mark.skipif(not NATURAL_STORIES.exists(), reason="Natural Stories is not in ../shared/data")
def test_all_words_of_natural_stories_align():
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED)
    (some,) = surprisals(*make_pair("word"), "the")
    table = read_table(NATURAL_STORIES)
    plan = tables.Plan(table.columns, "word", sentence_columns=["story", "sent"])
    aligned = 0
    for item in plan.items(table.rows):
        words = [
            replace(some, word=word, start=a, end=b)
            for word, (a, b) in zip(*split_words(tokenizer, item.text), strict=True)
        ]
        rows = plan.rows(item, words)
        assert column(rows, "word") == column(rows, "given_word")
        aligned += len(rows)
    assert aligned == 10_256
