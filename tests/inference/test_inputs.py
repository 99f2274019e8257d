"""Texts as users give them: one or many, with names, with gaps, and more than fit into memory."""

import threading

import pytest
from conftest import make_model

import som
from som.data.vocabularies import make_tokenizer
from som.inference import inputs
from som.inference.surprisal import to_dicts, to_frame
from som.progress import Progress

CORPUS = [["the", "old", "dog", "sees", "the", "cat", "."], ["the", "cat", "sees", "a", "dog", "."]]
TEXTS = ["the old dog sees a cat.", "the cat", "a dog sees the old cat."]
MANY = [som.parse_all, som.surprisals_all]


@pytest.fixture(scope="module")
def pair():
    tokenizer = make_tokenizer("word", CORPUS)
    specials = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    return make_model(vocab_size=len(tokenizer), **specials), tokenizer


@pytest.mark.parametrize("function", [som.parse, som.surprisals, som.log_likelihood])
def test_a_list_of_sentences_is_not_read_as_one_of_words(pair, function):
    with pytest.raises(ValueError, match="element 0 has spaces: 'The dog barks.'; several sentences go to"):
        function(*pair, ["The dog barks.", "Hi."])
    with pytest.raises(ValueError, match="expected one sentence, a text or a list of words, got a list with"):
        function(*pair, [["the", "dog"], ["a", "cat"]])
    function(*pair, ["New York", "barks"], words=True)


@pytest.mark.parametrize("function", MANY)
def test_one_sentence_is_not_read_as_many_letters(pair, function):
    with pytest.raises(ValueError, match="expected many texts, got one: 'the dog'"):
        function(*pair, "the dog")
    with pytest.raises(ValueError, match="text 2: expected a list of words, but element 0 has spaces"):
        function(*pair, [["the", "dog"], ["the cat", "sees"]])
    assert len(function(*pair, [["New York"], "the dog"], words=True)) == 2


@pytest.mark.parametrize("function", MANY)
def test_named_texts_give_results_of_the_same_names(pair, function):
    pandas = pytest.importorskip("pandas")
    results = function(*pair, TEXTS)
    assert function(*pair, dict(zip("xyz", TEXTS, strict=True))) == dict(zip("xyz", results, strict=True))
    column = pandas.Series(TEXTS, index=[7, 3, 5], name="text")
    found = function(*pair, column)
    assert list(found.index) == [7, 3, 5] and list(found) == results and found.name == "text"


@pytest.mark.parametrize("function", MANY)
def test_a_missing_text_is_an_error_that_names_its_row_or_is_skipped(pair, function):
    pandas = pytest.importorskip("pandas")
    for gap in (None, float("nan"), pandas.NA):
        column = pandas.Series([TEXTS[0], gap, TEXTS[1]], index=["a", "b", "c"], dtype=object)
        with pytest.raises(ValueError, match="row 'b': the text is missing, got .*; missing='skip'"):
            function(*pair, column)
        assert list(function(*pair, column, missing="skip").index) == ["a", "c"]
        with pytest.raises(ValueError, match="text 2: the text is missing"):
            function(*pair, [TEXTS[0], gap])
    with pytest.raises(ValueError, match="'b': expected a text or a list of words, got 5"):
        function(*pair, {"a": "the dog", "b": 5})
    with pytest.raises(ValueError, match="missing must be 'error' or 'skip', got 'drop'"):
        function(*pair, TEXTS, missing="drop")


def test_names_of_sentences_go_into_tables_and_records(pair):
    pytest.importorskip("pandas")
    results = som.surprisals_all(*pair, {"x": "the dog", "y": "a cat"})
    assert list(to_frame(results)["sentence"]) == ["x", "x", "y", "y"]
    assert [record["sentence"] for record in to_dicts(results)] == ["x", "y"]
    assert [record["sentence"] for record in to_dicts(list(results.values()))] == [1, 2]


@pytest.mark.parametrize("function, collected", [(som.parse_each, som.parse_all), (som.surprisals_each, MANY[1])])
def test_texts_are_read_some_at_a_time(pair, function, collected, monkeypatch):
    monkeypatch.setattr(inputs, "TEXTS_AT_ONCE", 2)
    taken = []
    lines = (taken.append(text) or text for text in TEXTS * 3)
    results = function(*pair, lines)
    first = next(results)
    assert len(taken) == 2
    assert [first, *results] == collected(*pair, TEXTS * 3)
    with pytest.raises(ValueError, match="got a dict"):
        next(function(*pair, {"a": "the dog"}))


@pytest.mark.parametrize("method", ["greedy", "marginal", "beam"])
def test_the_size_of_batches_changes_no_result(pair, method):
    whole = som.parse_all(*pair, TEXTS, method)
    for size in (1, 2):
        parts = som.parse_all(*pair, TEXTS, method, batch_size=size)
        assert [one.depths for one in parts] == [one.depths for one in whole]
        assert [one.log_prob for one in parts] == pytest.approx([one.log_prob for one in whole])
        words = som.surprisals_all(*pair, TEXTS, method, batch_size=size)
        bits = [sum(word.surprisal for word in one) for one in som.surprisals_all(*pair, TEXTS, method)]
        assert [sum(word.surprisal for word in one) for one in words] == pytest.approx(bits)


@pytest.fixture
def sizes(pair):
    """How many sequences the model reads at each call."""
    sizes = []

    def note(model, arguments, options):
        sizes.append(len(arguments[0] if arguments else options["input_ids"]))

    handle = pair[0].model.register_forward_pre_hook(note, with_kwargs=True)
    yield sizes
    handle.remove()


def test_batches_have_the_size_that_is_asked_for(pair, sizes):
    som.parse_all(*pair, TEXTS, batch_size=2)
    assert sizes == [2, 1]


@pytest.mark.parametrize("steered", [{}, {"max_depth": 2}])
def test_texts_are_made_so_many_at_a_time(pair, sizes, steered):
    made = som.generate(*pair, n=5, max_new_tokens=2, batch_size=2, **steered)
    assert len(made) == 5 and len({one.text for one in made}) > 1
    assert sizes[0] == 2 and 1 in sizes


def test_progress_is_shown_where_it_is_wanted(pair, capsys, monkeypatch):
    told, line = threading.Event(), Progress.line
    monkeypatch.setattr("som.progress.SECONDS", 0.01)
    monkeypatch.setattr(Progress, "line", lambda self: (line(self), told.set())[0])
    handle = pair[0].model.register_forward_pre_hook(lambda *_: told.wait(60) and None)  # slow enough for a line
    som.parse_all(*pair, TEXTS * 5, progress=True)
    handle.remove()
    assert "of 15 sentences" in capsys.readouterr().err
    som.parse_all(*pair, TEXTS)
    assert capsys.readouterr().err == ""


def test_a_model_is_loaded_to_a_device_or_one_line_says_why_not(pair, tmp_path):
    for part in pair:
        part.save_pretrained(tmp_path)
    assert som.load(tmp_path, device="cpu")[0].device.type == "cpu"
    assert som.load(tmp_path, device="meta")[0].device.type == "meta"
    with pytest.raises(ValueError, match="device 'toaster' cannot be used: ") as caught:
        som.load(tmp_path, device="toaster")
    assert "\n" not in str(caught.value)


def test_a_dollar_in_a_picture_is_no_formula(pair):
    axes = som.inference.plot([som.surprisals(*pair, ["a$", "$b", "c$d$e"])]).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a$", "$b", "c$d$e"]
    assert not any(label.get_parse_math() for label in axes.get_xticklabels())
