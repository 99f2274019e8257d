"""Measures: counted by hand, adding up, agreeing with PYEVALB."""

import math
import random
from pathlib import Path

import evaluate
import pytest
from PYEVALB import scorer, summary
from trees_enumerated import all_trees

from som.syntax.metrics import (
    Accuracy,
    Brackets,
    Perplexity,
    evalb_line,
    left_branching_tree,
    random_tree,
    right_branching_tree,
)
from som.syntax.oracle import first_siblings, left_branching_siblings
from som.syntax.trees import Tree, binarise

GOLD = [
    "((the cat) (that (the dogs) chased) sleeps)",
    "(dogs bark)",
    "(go)",
    "((a b) c (d (e f)) .)",
]
PREDICTED = [
    "((the cat) ((that (the dogs)) (chased sleeps)))",
    "(dogs bark)",
    "(go)",
    "(((a b) c) (d ((e f) .)))",
]


def total(gold: list[str], predicted: list[str]) -> Brackets:
    pairs = zip(gold, predicted, strict=True)
    return sum((Brackets.of(Tree.parse(g), Tree.parse(p)) for g, p in pairs), Brackets())


def test_brackets_counted_by_hand():
    # gold: all, the cat, that … chased, the dogs
    # predicted: all, the cat, that … sleeps, that the dogs, the dogs, chased sleeps
    assert total(GOLD[:1], PREDICTED[:1]) == Brackets(matched=3, gold=4, predicted=6)
    assert total(GOLD[1:3], PREDICTED[1:3]) == Brackets(2, 2, 2)
    # gold: all, a b, d e f, e f; predicted: all, a b, a b c, d e f ., e f ., e f
    assert total(GOLD[3:], PREDICTED[3:]) == Brackets(3, 4, 6)


def test_ratios_are_taken_over_the_corpus():
    brackets = total(GOLD, PREDICTED)
    assert (brackets.precision, brackets.recall, brackets.f1) == (8 / 14, 8 / 10, 16 / 24)


def test_against_binarised_trees_left_branching_finds_all_of_a_flat_tree():
    flat = Tree.parse("(a b c d)")
    assert Brackets.of(binarise(flat), left_branching_tree(flat.words())) == Brackets(3, 3, 3)
    assert Brackets.of(flat, left_branching_tree(flat.words())) == Brackets(1, 1, 3)


def test_constituents_of_one_child_count_once_each_as_in_evalb():
    assert Brackets.of(Tree.parse("(((a b)) c)"), Tree.parse("((a b) c)")) == Brackets(2, 3, 2)


def test_trees_over_different_words_are_refused():
    with pytest.raises(ValueError, match="different words: a b / a c"):
        Brackets.of(Tree.parse("(a b)"), Tree.parse("(a c)"))


def pyevalb(gold: list[str], predicted: list[str], folder: Path):
    """What PYEVALB counts on two files, sentence by sentence, and its summary."""
    for name, trees in (("gold", gold), ("predicted", predicted)):
        lines = [evalb_line(Tree.parse(tree)) for tree in trees]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    with (
        (folder / "gold").open(encoding="utf-8") as gold_file,
        (folder / "predicted").open(encoding="utf-8") as test_file,
    ):
        results = scorer.Scorer().score_corpus(gold_file, test_file)
    return results, summary.summary(results)


def test_the_counts_are_those_of_pyevalb(tmp_path):
    results, summed = pyevalb(GOLD, PREDICTED, tmp_path)
    for result, gold, predicted in zip(results, GOLD, PREDICTED, strict=True):
        counts = Brackets(result.matched_brackets, result.gold_brackets, result.test_brackets)
        assert counts == total([gold], [predicted])
    brackets = total(GOLD, PREDICTED)
    figures = (summed.bracket_recall, summed.bracket_prec, summed.bracker_fmeasure)
    assert figures == pytest.approx((100 * brackets.recall, 100 * brackets.precision, 100 * brackets.f1), abs=0.006)


def test_the_counts_are_those_of_pyevalb_on_all_small_trees(tmp_path):
    trees = [str(tree) for tree in all_trees(4) if len(tree.words()) == 4]
    pairs = [(gold, predicted) for gold in trees for predicted in trees]
    results, _ = pyevalb(*map(list, zip(*pairs, strict=True)), tmp_path)
    for result, (gold, predicted) in zip(results, pairs, strict=True):
        counts = Brackets(result.matched_brackets, result.gold_brackets, result.test_brackets)
        assert counts == total([gold], [predicted])


def test_brackets_in_words_survive_the_evalb_file():
    assert evalb_line(Tree((":-)", "yes"))) == "(X (X :--RRB-) (X yes))"


def test_perplexity_is_of_the_sum_whatever_the_batches():
    parts = [Perplexity(3.0, 2), Perplexity(1.5, 3), Perplexity(0.25, 1)]
    assert sum(parts, Perplexity()).value == pytest.approx(math.exp(4.75 / 6))
    assert parts[0] + parts[1] == Perplexity(4.5, 5)


def test_where_nothing_was_counted_there_is_no_figure():
    assert (Perplexity().value, Accuracy().value, Brackets().f1, Brackets().precision) == (None,) * 4
    assert Accuracy.of([], [1, 2]) == Accuracy(0, 0)


def test_nothing_matched_is_zero_and_an_impossible_word_is_infinite():
    assert Brackets(0, 2, 3).f1 == 0
    assert Perplexity(math.inf, 3).value == math.inf
    assert Perplexity(1e6, 3).value == math.inf


def test_decisions_and_labels_of_different_length_are_an_error():
    with pytest.raises(ValueError):
        Accuracy.of([1], [1, 2])


@pytest.mark.parametrize("length", range(1, 7))
def test_baselines_are_binary_trees_over_the_words(length):
    words = tuple("abcdef"[:length])
    for tree in (left_branching_tree(words), right_branching_tree(words), random_tree(words, random.Random(0))):
        assert tree.words() == words
        assert len(tree.spans()) == max(length - 1, 1) and binarise(tree) == tree


def test_left_branching_is_the_tree_of_the_trivial_oracle():
    tree = Tree(("BOS", left_branching_tree("abcd"), "EOS"))
    assert first_siblings(tree) == left_branching_siblings(6)


def test_random_trees_are_those_of_the_seed_and_vary():
    trees = [[str(random_tree("abcdefg", source)) for _ in range(5)] for source in map(random.Random, (0, 0, 1))]
    assert trees[0] == trees[1] != trees[2]
    assert len(set(trees[0])) > 1


def test_a_sentence_of_many_words_is_no_problem():
    words = [str(number) for number in range(2000)]
    assert Brackets.of(left_branching_tree(words), right_branching_tree(words)) == Brackets(1, 1999, 1999)


def test_the_metric_of_the_evaluate_library_is_the_same_function():
    metric = evaluate.load(str(Path(__file__).parents[2] / "metrics" / "uf1"))
    brackets = total(GOLD, PREDICTED)
    expected = {"f1": brackets.f1, "precision": brackets.precision, "recall": brackets.recall}
    computed = metric.compute(predictions=PREDICTED, references=GOLD)
    assert computed == {**expected, "matched": 8, "gold": 10, "predicted": 14}
    for predicted, gold in zip(PREDICTED, GOLD, strict=True):
        metric.add(prediction=predicted, reference=gold)
    assert (
        metric.compute(binarised=True)["gold"] == 6 + 1 + 1 + 6
    )  # one fewer than words, and one word alone is a constituent
