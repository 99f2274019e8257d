"""The data behind the page: the numbers of `som surprisal`, and what lies beneath them."""

from dataclasses import replace

import pytest
import torch
from conftest import make_model

from modeling_som.sentences_som import encode
from modeling_som.tokenization_som import continuing_tokens
from som.data.vocabularies import make_tokenizer
from som.inference import load, surprisals
from som.syntax import tree_from_depths
from som.training.models import vocabulary
from som.view import LONGEST, trace

TEXT = "the old dog sees the cat unheard ."
CORPUS = [TEXT.split(), ["the", "cat", "and", "a", "dog"]]
METHODS = ["greedy", "marginal", "particles", "beam"]


def words_by_rule(tokens: str):
    """A model whose pieces, if words have several, belong to their word by rule."""
    tokenizer = make_tokenizer(tokens, CORPUS)
    continues = torch.tensor(continuing_tokens(tokenizer))
    model = make_model(dtype=torch.float32, **vocabulary(tokenizer), word_pieces=bool(continues.any()))
    if continues.any():
        model.model.continues.copy_(continues)
    return model, tokenizer


@pytest.mark.parametrize("method", METHODS)
def test_the_numbers_are_those_of_som_surprisal(checkpoint, method):
    model, tokenizer = load(checkpoint)
    shown = [replace(word.surprisal, parses=[]) for word in trace(model, tokenizer, TEXT, method).words]
    assert shown == surprisals(model, tokenizer, TEXT, method, eos=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tokens", ["word", "bpe:300"])
def test_the_costs_of_the_place_taken_are_the_parts_of_the_surprisal(tokens, method):
    for word in trace(*words_by_rule(tokens), TEXT, method).words:
        taken, row = word.places[word.taken], word.surprisal
        assert taken.structural == pytest.approx(row.structural)
        if " " not in row.tokens:  # further pieces of a word are counted as in the tree
            assert taken.lexical == pytest.approx(row.lexical)


def test_all_places_together_have_the_probability_of_the_mixture(checkpoint):
    for word in trace(*load(checkpoint), TEXT, "marginal").words:
        mixture = sum(2 ** -(place.structural + place.lexical) for place in word.places)
        if " " not in word.surprisal.tokens:
            assert mixture == pytest.approx(2**-word.surprisal.surprisal)
        assert sum(2**-place.structural for place in word.places) == pytest.approx(1)
        assert sum(place.posterior for place in word.places) == pytest.approx(1)


@pytest.mark.parametrize("tokens", ["word", "bpe:300"])
def test_the_places_of_a_word_are_the_subtrees_that_end_before_it(tokens):
    model, tokenizer = words_by_rule(tokens)
    words = trace(model, tokenizer, TEXT).words
    for i, word in enumerate(words):
        depths = [0, *(other.surprisal.depth for other in words[:i])]
        ending = {first for first, end in tree_from_depths(depths).spans() if end == len(depths)}
        live = sorted(ending | {len(depths) - 1})[: model.config.num_slots]
        assert [place.first for place in word.places] == live
        assert word.taken == word.surprisal.depth - 1


def test_places_inside_a_word_whose_pieces_attach_freely_are_one(checkpoint):
    for i, word in enumerate(trace(*load(checkpoint), TEXT).words):
        firsts = [place.first for place in word.places]
        assert firsts == sorted(set(firsts)) and firsts[0] == 0 and firsts[-1] <= i


def test_the_words_expected_are_the_best_of_the_model_s_own_mixture(checkpoint):
    model, tokenizer = load(checkpoint)
    model.config.marginal = True
    sentence = encode(tokenizer, TEXT)
    with torch.inference_mode():
        logits = model(torch.tensor([sentence.ids])).logits[0].double()
    for place, word in zip(
        [*sentence.starts, len(sentence.ids) - 1], trace(model, tokenizer, TEXT).words, strict=True
    ):
        best = logits[place - 1].softmax(dim=0).topk(len(word.expected)).values.tolist()
        assert [one.p for one in word.expected] == pytest.approx(best)


def test_partial_parses_are_those_of_the_beam_and_of_as_many_trees_as_asked_for(checkpoint):
    model, tokenizer = load(checkpoint)
    for word, row in zip(
        trace(model, tokenizer, TEXT, "greedy", k=3).words,
        surprisals(model, tokenizer, TEXT, "beam", k=3, eos=True, parses=3),
        strict=True,
    ):
        assert word.surprisal.parses == row.parses


def test_a_model_without_prediction_network_is_shown_by_p_alone():
    tokenizer = make_tokenizer("word", CORPUS)
    model = make_model(dtype=torch.float32, **vocabulary(tokenizer), prediction_network=False)
    words = trace(model, tokenizer, TEXT).words
    assert all(place.structural is None for word in words for place in word.places)
    assert all(word.surprisal.parses and word.expected for word in words)


def test_a_sentence_too_long_for_a_page_is_refused_in_one_line(checkpoint):
    model, tokenizer = load(checkpoint)
    with pytest.raises(ValueError, match=f"^the page shows sentences of up to {LONGEST} words, got {LONGEST + 1}$"):
        trace(model, tokenizer, ["dog"] * (LONGEST + 1))


def test_the_tokenizer_s_own_marks_are_not_shown(checkpoint):
    model, tokenizer = load(checkpoint)
    words = trace(model, tokenizer, TEXT).words
    told = [words[-1].readable.word, *(word.readable.tokens for word in words)]
    told += [one.text for word in words for one in word.expected]
    assert told[0] == "end" and not any("Ġ" in text or tokenizer.eos_token in text for text in told)
    assert words[0].readable.tokens.replace("·", "") == "the"


def test_pieces_that_go_on_with_the_word_before_stand_behind_it():
    model, tokenizer = words_by_rule("bpe:300")
    pieces = [one for word in trace(model, tokenizer, TEXT).words for one in word.expected if one.kind == "piece"]
    assert pieces and {one.text.partition("·")[0] for one in pieces} <= {"", *TEXT.split()}
    assert all("·" in one.text for one in pieces)
    whole = trace(*words_by_rule("word"), TEXT).words
    assert not [one for word in whole for one in word.expected if one.kind == "piece"]
