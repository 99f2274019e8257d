from functools import cache

import pytest
from trees_enumerated import all_depths, all_trees

from som.syntax.oracle import (
    ORACLES,
    first_siblings,
    gold_depths,
    left_branching_siblings,
    oracle_depth,
    oracle_labels,
    printed_labels,
    tree_from_depths,
)
from som.syntax.trees import Tree, binarise

BINARY_TREES = list(all_trees(6, binary=True, min_leaves=2))


@pytest.mark.parametrize("tree", all_trees(5), ids=str)
def test_depths_and_trees_are_inverse(tree):
    assert tree_from_depths(gold_depths(first_siblings(tree))) == binarise(tree)


@pytest.mark.parametrize("length", range(1, 7))
def test_every_sequence_of_decisions_is_the_gold_of_the_tree_it_builds(length):
    for depths in all_depths(length, num_slots=length):
        assert tuple(gold_depths(first_siblings(tree_from_depths(depths)))) == depths


@pytest.mark.parametrize("tree", all_trees(5), ids=str)
def test_first_siblings_are_those_of_the_definition(tree):
    spans = binarise(tree).spans()
    for token, sibling in enumerate(first_siblings(tree)):
        holders = [(end - start, start) for start, end in spans if start < token < end]
        assert sibling == (min(holders)[1] if holders else -1)
    assert first_siblings(binarise(tree)) == first_siblings(tree)


@pytest.mark.parametrize("tree", all_trees(4), ids=str)
def test_a_sentence_between_bos_and_eos_is_one_depth_further_down(tree):
    siblings = first_siblings(Tree(("BOS", tree, "EOS")))
    inner = first_siblings(tree)
    assert siblings == [-1, 0, *(sibling + 1 for sibling in inner[1:]), 0]
    assert gold_depths(siblings) == [0, *(depth + 1 for depth in gold_depths(inner)), 1]
    assert tree_from_depths(gold_depths(siblings)[1:-1]) == binarise(tree)


@pytest.mark.parametrize("num_slots", [1, 2, 3])
def test_below_the_last_slot_everything_branches_to_the_left(num_slots):
    for tree in BINARY_TREES:
        gold = gold_depths(first_siblings(tree))
        clamped = gold_depths(first_siblings(tree), num_slots)
        assert clamped == [min(depth, num_slots) for depth in gold]
    assert (
        str(tree_from_depths(gold_depths(first_siblings(Tree.parse("(0 (1 (2 (3 4))))")), 2))) == "(0 (((1 2) 3) 4))"
    )


def test_the_smallest_depth_that_stands_last_splits():
    assert str(tree_from_depths([0, 2, 1, 2, 1, 3])) == "(((0 1) (2 3)) (4 5))"
    assert str(tree_from_depths([7], ["alone"])) == "(alone)"
    with pytest.raises(ValueError):
        tree_from_depths([1, 2], ["one"])
    with pytest.raises(ValueError, match="at least one token"):
        tree_from_depths([])


def matched(depths, tree):
    return len(set(tree_from_depths(depths).spans()) & set(tree.spans()))


def best_completions(tree, num_slots):
    """How many gold constituents the best of all completions keeps, as a function of the decisions so far."""
    length = len(tree.words())

    @cache
    def best(depths):
        if len(depths) == length:
            return matched(depths, tree)
        return max(best((*depths, depth)) for depth in range(1, min(depths[-1] + 1, num_slots) + 1))

    return best


def states(tree, num_slots):
    """Every state in which a decision is to be made: the decisions before it."""
    for length in range(1, len(tree.words())):
        yield from all_depths(length, num_slots)


def follow(siblings, depths):
    """Complete a sequence of decisions as the oracle says."""
    for sibling in siblings[len(depths) :]:
        depths = (*depths, oracle_depth(sibling, depths))
    return depths


@pytest.mark.parametrize("num_slots", [2, 3, 4, 5])
def test_the_dynamic_oracle_is_optimal_in_every_state_of_every_tree_unless_slots_run_out(num_slots):
    proved = 0
    for tree in BINARY_TREES:
        siblings, best = first_siblings(tree), best_completions(tree, num_slots)
        for depths in states(tree, num_slots):
            if max(follow(siblings, depths)) <= num_slots:
                label = oracle_depth(siblings[len(depths)], depths, num_slots)
                assert best((*depths, label)) == best(depths)
                proved += 1
    # for 2 … 6 words: trees × states, all of them once there are as many slots as decisions
    assert num_slots < 5 or proved == 1 * 1 + 2 * 2 + 5 * 4 + 14 * 9 + 42 * 23


@pytest.mark.parametrize("num_slots", [1, 2, 3, 5])
def test_no_dynamic_oracle_ever_asks_for_what_cannot_be_reached(num_slots):
    for tree in BINARY_TREES:
        for depths in all_depths(len(tree.words()), num_slots):
            for oracle in ("dynamic", "dynamic_paper", "left_branching"):
                labels = oracle_labels(oracle, first_siblings(tree), depths, num_slots)
                for previous, label in zip(depths, labels[1:], strict=False):
                    assert 1 <= label <= min(previous + 1, num_slots)


def test_as_long_as_decisions_are_gold_so_are_the_labels():
    for tree in BINARY_TREES:
        gold = gold_depths(first_siblings(tree))
        for oracle in ("dynamic", "dynamic_paper", "static"):
            assert oracle_labels(oracle, first_siblings(tree), gold) == gold


def test_the_printed_oracle_is_sometimes_out_of_reach_and_sometimes_costs_constituents():
    unreachable = costly = total = 0
    for tree in all_trees(6, binary=True, min_leaves=6):
        siblings, best = first_siblings(tree), best_completions(tree, 5)
        for depths in states(tree, 5):
            t = len(depths)
            printed = printed_labels(siblings[: t + 1], depths)[t]
            label = oracle_labels("dynamic_paper", siblings[: t + 1], depths)[t]
            total += 1
            unreachable += printed > label
            costly += best((*depths, label)) < best(depths)
    assert (unreachable, costly, total) == (98, 136, 966)  # 10 % and 14 %


def test_each_oracle_labels_a_sentence_as_worked_by_hand():
    siblings, taken = [-1, 0, 1, 2, 0], [0, 1, 1, 2, 1]  # BOS (a (b c)) EOS, b wrongly attached to BOS
    labels = {oracle: oracle_labels(oracle, siblings, taken) for oracle in ORACLES}
    assert labels["dynamic"] == [0, 1, 2, 2, 1]
    assert labels["dynamic_paper"] == [0, 1, 2, 2, 1]  # printed: 3, out of reach after depth 1
    assert labels["static"] == [0, 1, 2, 3, 1]
    assert labels["left_branching"] == [0, 1, 2, 1, 1]


@pytest.mark.parametrize("length", range(2, 7))
def test_the_trivial_tree_is_left_branching_between_bos_and_eos(length):
    words = tuple(str(word) for word in range(length - 2))
    tree = Tree(("BOS", Tree(words), "EOS")) if words else Tree(("BOS", "EOS"))
    assert left_branching_siblings(length) == first_siblings(tree)
