"""Unknown words get a probability of their own inside their UNK class."""

import math
from collections import Counter

import pytest

from som.baselines import Spelling, add_spelling
from som.baselines.spelling import LAST, byte_symbols
from som.data import make_tokenizer
from som.evaluation import Counts, Report, TreebankCounts
from som.syntax import Example, Perplexity
from som.syntax.trees import Tree

SENTENCES = [
    ["the", "cats", "walked"],
    ["the", "dogs", "talked", "."],
    ["the", "dogs", "barked"],
    ["The", "Ünïcode", "."],
]


@pytest.fixture(scope="module")
def spelling():
    counts = Counter(word for words in SENTENCES for word in words)
    return Spelling(counts, make_tokenizer("word", SENTENCES))


def test_known_words_cost_nothing_and_unknown_ones_something(spelling):
    assert spelling.log_prob("the") == spelling.log_prob("dogs") == 0
    assert spelling.log_prob("walked") < 0


def test_the_next_byte_or_the_end_is_certain_in_every_class_and_after_every_beginning(spelling):
    for model in spelling.classes.values():
        for beginning in (byte_symbols("")[:1], byte_symbols("wal")[:-1], byte_symbols("ß€")[:-1]):
            assert math.isclose(sum(model.probability(symbol, beginning) for symbol in range(LAST + 1)), 1)


def test_words_like_those_of_the_class_are_likelier(spelling):
    assert spelling.log_prob("walked") > spelling.log_prob("stalked") > spelling.log_prob("zyxqjed")


@pytest.mark.parametrize("word", ["", "😀", "\ud800", "x" * 500, "Ünïcode", "3,14"])
def test_every_string_has_a_spelling(spelling, word):
    assert -math.inf < spelling.log_prob(word) < 0


def test_a_class_without_words_of_its_own_spells_with_equal_chances(spelling):
    model = spelling.classes[spelling.tokenizer.unk_token_id]
    assert math.isclose(model.probability(LAST, byte_symbols("")[:1]), 1 / (LAST + 1))


def test_only_perplexity_per_word_has_the_spelling(spelling):
    sentences = [("the", "dogs"), ("the", "stalked")]
    examples = [Example(words, Tree.parse(f"({' '.join(words)})"), "here") for words in sentences]
    cost = Perplexity(6.0, tokens=3)
    counts = TreebankCounts.of(examples, [Counts(with_eos=cost, words_with_eos=cost, words_without_eos=cost)] * 2)
    before = Report("test", "greedy", counts)
    after = add_spelling(before, spelling, examples)
    assert (after.title, after.measures()["ppl"]) == (before.title, before.measures()["ppl"])
    assert math.isclose(after.measures()["ppl_per_word"], math.exp((12 - spelling.log_prob("stalked")) / 6))
    assert add_spelling(before, spelling, [examples[0], examples[0]]) == before
