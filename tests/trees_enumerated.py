"""Every small tree and every small sequence of decisions, for tests whose sentence begins with "for every"."""

from collections.abc import Iterator
from functools import cache

from som.syntax.trees import Tree

Node = Tree | str


def all_trees(max_leaves: int, binary: bool = False, min_leaves: int = 1) -> Iterator[Tree]:
    """Every tree without needless unary constituents; its words are their own positions, from 0."""
    for leaves in range(min_leaves, max_leaves + 1):
        for node in _nodes(0, leaves, binary):
            yield node if isinstance(node, Tree) else Tree((node,))


@cache
def _nodes(start: int, end: int, binary: bool) -> tuple[Node, ...]:
    if end - start == 1:
        return (str(start),)
    return tuple(Tree(children) for children in _forests(start, end, binary))


def _forests(start: int, end: int, binary: bool) -> Iterator[tuple[Node, ...]]:
    """Two or more nodes, or exactly two, that cover start … end−1."""
    for split in range(start + 1, end):
        for head in _nodes(start, split, binary):
            yield from ((head, tail) for tail in _nodes(split, end, binary))
            if not binary:
                yield from ((head, *tail) for tail in _forests(split, end, binary))


def all_depths(length: int, num_slots: int) -> Iterator[tuple[int, ...]]:
    """Every sequence of decisions for so many tokens, the first of them at depth 0."""
    if length == 1:
        yield (0,)
        return
    for depths in all_depths(length - 1, num_slots):
        for depth in range(1, min(depths[-1] + 1, num_slots) + 1):
            yield (*depths, depth)
