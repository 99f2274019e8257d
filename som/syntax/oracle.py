"""From trees to the decisions that build them and back, and the four oracles: the definition, in plain Python.

Depth 0 is the root, deeper is larger. BOS sits at 0, every later token at 1 … min(previous depth + 1, num_slots).
"""

import sys
from collections.abc import Sequence

from som.syntax.trees import Bracket, Tree

ORACLES = ("dynamic", "dynamic_paper", "static", "left_branching")
UNBOUNDED = sys.maxsize


def first_siblings(tree: Tree) -> list[int]:
    """First token of the smallest binarised constituent that contains token i but does not start with it, or −1.

    >>> first_siblings(Tree.parse("(BOS ((the cat) (sat down)) EOS)"))
    [-1, 0, 1, 1, 3, 0]
    """
    siblings: list[int] = []
    starts: list[int] = []  # of the open constituents, outermost first, so never decreasing
    for event in tree.events():
        if event is Bracket.OPEN:
            starts.append(len(siblings))
        elif event is Bracket.CLOSE:
            starts.pop()
        else:
            siblings.append(next((start for start in reversed(starts) if start < len(siblings)), -1))
    return siblings


def left_branching_siblings(length: int) -> list[int]:
    """First siblings of the trivial tree over BOS, words and EOS, of so many tokens in all.

    >>> left_branching_siblings(6)
    [-1, 0, 1, 1, 1, 0]
    """
    return [-1, 0, *[1] * (length - 3), 0][:length]


def gold_depths(first_siblings: Sequence[int], num_slots: int = UNBOUNDED) -> list[int]:
    """The depths that build the tree; deeper than `num_slots` there is only one depth, `num_slots`.

    >>> gold_depths([-1, 0, 1, 1, 3, 0])
    [0, 1, 2, 2, 3, 1]
    """
    depths: list[int] = []
    for sibling in first_siblings:
        depths.append(0 if sibling < 0 else min(depths[sibling] + 1, num_slots))
    return depths


def tree_from_depths(depths: Sequence[int], words: Sequence[str] | None = None) -> Tree:
    """Read the binary tree off the depths of its tokens: split before the last smallest depth, and so on.

    The first token's depth says nothing about the tree, so any stretch of a sentence can be read.

    >>> str(tree_from_depths([1, 2, 2, 3], ["the", "cat", "sat", "down"]))
    '((the cat) (sat down))'
    """
    if not depths:
        raise ValueError("a tree needs at least one token")
    stack: list[tuple[Tree | str, int]] = []  # finished subtrees on the current path, depths strictly increasing
    for word, depth in zip(words or map(str, range(len(depths))), depths, strict=True):
        _merge_down_to(stack, depth)
        stack.append((word, depth))
    _merge_down_to(stack, min(depths))
    ((root, _),) = stack
    return root if isinstance(root, Tree) else Tree((root,))


def _merge_down_to(stack: list[tuple[Tree | str, int]], depth: int) -> None:
    while len(stack) > 1 and stack[-1][1] >= depth:
        right, _ = stack.pop()
        left, left_depth = stack.pop()
        stack.append((Tree((left, right)), left_depth))


def oracle_depth(first_sibling: int, depths: Sequence[int], num_slots: int = UNBOUNDED) -> int:
    """The best depth for the next token after the `depths` taken, whatever errors are among them.

    The token joins its first sibling, unless a token in between was attached higher up. While slots suffice, this
    keeps every gold constituent that can still be built.

    >>> oracle_depth(1, [0, 1, 2, 3])
    2
    >>> oracle_depth(1, [0, 1, 1])
    1
    """
    return min(depths[first_sibling] + 1, *depths[first_sibling + 1 :], num_slots)


def printed_labels(first_siblings: Sequence[int], depths: Sequence[int], num_slots: int = UNBOUNDED) -> list[int]:
    """The labels of the paper's Algorithm 1: each from its first sibling's label, not from where that was put.

    Here token 3 gets 3, though after depth 1 it can reach no further than 2.

    >>> printed_labels([-1, 0, 1, 2, 0], [0, 1, 1, 2, 1])
    [0, 1, 2, 3, 1]
    """
    labels = [0]
    for t, sibling in enumerate(first_siblings[1:], start=1):
        labels.append(min(labels[sibling] + 1, *depths[sibling + 1 : t], num_slots))
    return labels


def oracle_labels(
    oracle: str, first_siblings: Sequence[int], depths: Sequence[int], num_slots: int = UNBOUNDED
) -> list[int]:
    """One oracle's label for every token, at the states that the decisions `depths` lead through.

    The static oracle's labels are the gold depths: with it, decisions are forced to be gold.

    >>> [oracle_labels(oracle, [-1, 0, 1, 2, 0], [0, 1, 1, 2, 1]) for oracle in ORACLES]
    [[0, 1, 2, 2, 1], [0, 1, 2, 2, 1], [0, 1, 2, 3, 1], [0, 1, 2, 1, 1]]
    """
    if oracle == "static":
        return gold_depths(first_siblings, num_slots)
    if oracle == "dynamic_paper":  # clamped to what can be reached
        printed = printed_labels(first_siblings, depths, num_slots)
        return [0, *(min(label, depths[t] + 1) for t, label in enumerate(printed[1:]))]
    if oracle == "left_branching":
        first_siblings = left_branching_siblings(len(first_siblings))
    return [0, *(oracle_depth(first_siblings[t], depths[:t], num_slots) for t in range(1, len(first_siblings)))]
