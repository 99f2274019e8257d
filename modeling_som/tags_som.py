"""Labelled trees: one tag for every node of the binary tree that was built, and dependencies read off them.

Inner node i is the one whose right child begins with token i, so leaf i and node i are all there is to tag. A node is
tagged as a child of its parent, from its own vector, its sister's and its parent's. Where tokens are pieces of words,
the word is the leaf and only its first piece counts as a token here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .configuration_som import SOMConfig
from .layout_som import NONE, Layout
from .operators_som import Dropout

PARTIAL, HEAD, ROOT = "partial", "head", "root"  # tags of dependency trees that are no relations


# ---------------------------------------------------------------------------------------------- where the nodes are


class Spans(NamedTuple):
    """Of every token (B, C), in columns of its row: what inner node i spans, and what its children are."""

    start: Tensor  # first token of the node's left child
    end: Tensor  # 1 + last token of its right child
    left: Tensor  # the token whose inner node the left child is, or -1 where it is a leaf
    right: Tensor  # the same for the right child


def node_spans(depths: Tensor, inside: Tensor | None = None) -> Spans:
    """Reads the inner nodes off depths (B, C), negative behind the end of a row; tokens `inside` a word are no words.

    Token i joins the subtree that begins with the last shallower token; what begins with i ends before the next token
    that is as shallow. EOS, and any other token at depth 1, closes the words' tree, whose tokens lie at depth 1 and
    deeper: its left child is that tree without BOS.

    >>> spans = node_spans(torch.tensor([[0, 1, 2, 2, 3, 1]]))  # BOS ((the cat) (sat down)) EOS
    >>> spans.start[0, 2:].tolist(), spans.end[0, 2:].tolist(), spans.left[0, 2:].tolist(), spans.right[0, 2:].tolist()
    ([1, 1, 3, 1], [3, 5, 5, 6], [-1, 2, -1, 3], [-1, 4, -1, -1])
    """
    B, C = depths.shape
    columns, levels = torch.arange(C), torch.arange(int(depths.max()) + 2)
    word = depths[..., None] if inside is None else depths.masked_fill(inside, NONE)[..., None]  # (B, C, 1)
    last_at = torch.where(word == levels, columns[:, None], -1).cummax(1).values  # (B, C, levels): up to a column
    last_upto = last_at.cummax(2).values
    ended = torch.cat([depths, depths.new_full((B, 1), NONE)], dim=1)[..., None] <= levels
    next_upto = torch.where(ended, torch.arange(C + 1)[:, None], C).flip(1).cummin(1).values.flip(1)
    rows, depth = torch.arange(B)[:, None], depths.clamp(min=1)
    before, deep = (columns - 1).clamp(min=0)[None], depth.clamp(min=2)
    start = last_upto[rows, before, deep - 1]
    end = next_upto[rows, columns + 1, depth]
    left, right = last_at[rows, before, deep], last_at[rows, end - 1, depth + 1]
    return Spans(start, end, torch.where(left > start, left, -1), torch.where(right > columns, right, -1))


class TreeNodes(NamedTuple):
    """The nodes that are tagged: R children of inner nodes, as rows of the forest, and which node each one is."""

    child: Tensor  # (R,)
    sister: Tensor  # (R,)
    parent: Tensor  # (R,)
    is_right: Tensor  # (R,)
    is_leaf: Tensor  # (R,)
    token: Tensor  # (R,) the token that names the leaf or the inner node, among the P of the batch

    @classmethod
    def of(cls, layout: Layout, inside: Tensor | None) -> TreeNodes:
        """All children of inner nodes, left ones first; of tokens at depth 1, only the words' tree on their left."""
        row, column, depth = layout.batch.row, layout.batch.column, layout.depths  # (P,)
        inside_grid = None if inside is None else layout.batch.justify(inside.cpu().long(), fill=0).bool()
        spans = Spans(*(grid[row, column] for grid in node_spans(layout.depth_grid[:, 1:], inside_grid)))
        first = torch.arange(len(row)) - column  # (P,) place of the row's first token
        joins = (column >= 2) if inside is None else (column >= 2) & ~inside.cpu()
        i = joins.nonzero().flatten()
        inner = depth[i] >= 2
        ends = layout.starts[(first + spans.end - 1)[i]]
        left = layout.starts[i - 1] + (depth[i] - 1).clamp(min=1)
        right = torch.where(inner, ends, layout.starts[i]) + depth[i]
        parent = torch.where(inner, ends, layout.starts[i]) + depth[i] - 1
        left_leaf, right_leaf = spans.left[i] < 0, spans.right[i] < 0
        left_token = first[i] + torch.where(left_leaf, spans.start[i], spans.left[i])
        right_token = torch.where(right_leaf, i, first[i] + spans.right[i])
        every, some = torch.ones_like(inner), inner
        pairs = [(left, right), (right, left), (parent, parent), (~every, every), (left_leaf, right_leaf)]
        pairs.append((left_token, right_token))
        return cls(*(torch.cat([one, other[some]]) for one, other in pairs))


def matching_tags(tags: Tensor, gold: Spans, built: Spans, labelled: Tensor) -> Tensor:
    """(B, C): the gold tag of every built inner node that spans a gold one, NONE for the others.

    `labelled` says which gold nodes there are. Nodes are compared by what they span, whatever is inside."""
    B, C = tags.shape
    row = torch.arange(B)[:, None]
    keys, wanted = ((row * C + spans.start) * (C + 1) + spans.end for spans in (gold, built))
    known, order = keys[labelled].sort()
    if not len(known):
        return torch.full_like(tags, NONE)
    place = torch.searchsorted(known, wanted).clamp(max=len(known) - 1)
    return torch.where(known[place] == wanted, tags[labelled][order][place], NONE)


# ---------------------------------------------------------------------------------------------- the classifier


class Tagger(nn.Module):
    """Scores the tags of a node from its vector, its sister's, its parent's, and whether it is the right child.

    Of a dSOM it reads the syntactic segments alone."""

    def __init__(self, config: SOMConfig):
        super().__init__()
        self.semantic_size = config.semantic_size if config.syntactic_size else 0
        size = config.syntactic_size or config.hidden_size
        self.hidden = nn.Linear(3 * size, config.hidden_size)
        self.side = nn.Embedding(2, config.hidden_size)
        self.score = nn.Linear(config.hidden_size, len(config.tree_tags))
        self.dropout = Dropout(config.dropout)

    def forward(self, child: Tensor, sister: Tensor, parent: Tensor, is_right: Tensor) -> Tensor:
        """(R, D) each, (R,) → (R, tags)."""
        vectors = torch.stack([child, sister, parent], dim=1)[..., self.semantic_size :].flatten(1)
        hidden = self.hidden(self.dropout(vectors)) + self.side(is_right.long())
        return self.score(self.dropout(hidden.relu()))


# ---------------------------------------------------------------------------------------------- reading them


@dataclass(frozen=True)
class Labels:
    """The tags of a binary tree of n words, decided; where they are those of dependencies, also what these are."""

    leaf: list[str]
    node: list[str | None]  # of the inner node whose right child begins with each word, so none for the first
    heads: list[int] | None = None  # counted from 1, 0 for the root
    relations: list[str] | None = None
    probabilities: list[float] | None = None  # of the relations


class Choice(NamedTuple):
    """The best way to read a subtree: its score, whether its head is known, and what its children are."""

    score: float
    left: tuple[str, bool] | None = None  # the left child's tag, and whether its own head is known
    right: str | None = None


Scores = Sequence[Sequence[float]]  # (n, tags): log-probabilities


def decode_labels(depths: Sequence[int], leaf: Scores, node: Scores, tags: Sequence[str]) -> Labels:
    """The best tags that make a tree: of dependencies where `head` is among the tags, otherwise of constituents."""
    return (decode_dependencies if HEAD in tags else decode_constituents)(depths, leaf, node, tags)


def decode_constituents(depths: Sequence[int], leaf: Scores, node: Scores, tags: Sequence[str]) -> Labels:
    """The best category of every node; only a left child can be a mere step of the binarisation."""
    children = binary_children(depths)
    left = {pair[0] for pair in children.values()}
    whole = [place for place, tag in enumerate(tags) if tag != PARTIAL]
    nodes: list[str | None] = [None] * len(depths)
    for i in children:
        allowed = range(len(tags)) if ("node", i) in left else whole
        nodes[i] = tags[max(allowed, key=node[i].__getitem__)]
    return Labels([tags[max(whole, key=scores.__getitem__)] for scores in leaf], nodes)


def decode_dependencies(depths: Sequence[int], leaf: Scores, node: Scores, tags: Sequence[str]) -> Labels:
    """The best dependency tree of n words, given their depths and the log-probabilities (n, tags) of the tags.

    Exact: bottom-up over the binary tree with two states per span, its head known or its dependents waiting for it.
    """
    return Table(depths, leaf, node, tags).labels()


class Table:
    """Scores of every span of a binary tree: [waiting for the head, head known]."""

    def __init__(self, depths, leaf, node, tags):
        self.tags, self.index = tags, {tag: place for place, tag in enumerate(tags)}
        relations = [place for place, tag in enumerate(tags) if tag not in (PARTIAL, HEAD, ROOT)]
        self.leaf, self.node, self.n = leaf, node, len(depths)
        self.best = {
            (kind, i): max(relations, key=scores.__getitem__)
            for kind, rows in (("leaf", leaf), ("node", node))
            for i, scores in enumerate(rows)
        }
        self.children = binary_children(depths)  # of inner node i: left and right, as ("leaf" | "node", word)
        self.choices: dict[int, list[Choice | None]] = {}
        for i in self.order():
            self.choices[i] = self.choose(i)

    def order(self) -> list[int]:
        """Inner nodes, children before parents."""
        order, stack = [], [self.root] if self.children else []
        while stack:
            i = stack.pop()
            order.append(i)
            stack += [child for kind, child in self.children[i] if kind == "node"]
        return order[::-1]

    @property
    def root(self) -> int:
        below = {child for pair in self.children.values() for kind, child in pair if kind == "node"}
        return next(i for i in self.children if i not in below)

    def states(self, part: tuple[str, int]) -> list[float | None]:
        """Scores of a span with its head waiting and known."""
        kind, i = part
        if kind == "leaf":
            return [None, 0.0]
        return [None if choice is None else choice.score for choice in self.choices[i]]

    def log_prob(self, part: tuple[str, int], tag: int) -> float:
        kind, i = part
        return (self.leaf if kind == "leaf" else self.node)[i][tag]

    def left_options(self, part: tuple[str, int]):
        """(known afterwards, score, tag, state of the child) of the ways in which the left child can be read."""
        waiting, known = self.states(part)
        relation = self.best[part]
        if known is not None:
            yield False, known + self.log_prob(part, relation), self.tags[relation], True
        if part[0] == "leaf":
            yield True, self.log_prob(part, self.index[HEAD]), HEAD, True
            return
        for state, score in ((False, waiting), (True, known)):
            if score is not None:
                yield state, score + self.log_prob(part, self.index[PARTIAL]), PARTIAL, state

    def choose(self, i: int) -> list[Choice | None]:
        left, right = self.children[i]
        _, known = self.states(right)
        relation = self.best[right]
        best: list[Choice | None] = [None, None]
        for has_head, score, tag, state in self.left_options(left):
            ways = []
            if known is not None:
                ways.append((has_head, known + self.log_prob(right, relation), self.tags[relation]))
            if right[0] == "leaf" and not has_head:
                ways.append((True, self.log_prob(right, self.index[HEAD]), HEAD))
            for after, more, right_tag in ways:
                old = best[after]
                if old is None or score + more > old.score:
                    best[after] = Choice(score + more, (tag, state), right_tag)
        return best

    def labels(self) -> Labels:
        """The best reading, with its heads."""
        heads, relations, chances = [0] * self.n, [ROOT] * self.n, [1.0] * self.n
        tag_of: dict[tuple[str, int], str] = {("leaf", 0): ROOT}
        if self.children:
            tag_of = {("node", self.root): ROOT}
            self.read(heads, relations, chances, tag_of)
        leaf = [tag_of["leaf", word] for word in range(self.n)]
        return Labels(leaf, [tag_of.get(("node", word)) for word in range(self.n)], heads, relations, chances)

    def read(
        self, heads: list[int], relations: list[str], chances: list[float], tag_of: dict[tuple[str, int], str]
    ) -> None:
        """Fills in the heads of the best reading, and the tags that gave them."""
        head_of, waiting = {}, {}  # of inner nodes: their head, or those that wait
        state = {self.root: True}
        for i in reversed(self.order()):  # from the root down: which state each node is read in
            choice = self.choices[i][state[i]]
            assert choice is not None and choice.left is not None
            for (kind, child), known in zip(self.children[i], (choice.left[1], True), strict=True):
                if kind == "node":
                    state[child] = known
        for i in self.order():
            choice = self.choices[i][state[i]]
            head, wait = None, []
            for part, tag in zip(self.children[i], (choice.left[0], choice.right), strict=True):
                tag_of[part] = tag
                word = part[1] if part[0] == "leaf" else head_of[part[1]]
                if tag == PARTIAL:
                    head, wait = head_of[part[1]], list(waiting[part[1]])
                elif tag == HEAD:
                    head = word
                else:
                    relations[word] = tag
                    chances[word] = self.chance(part, tag)
                    wait.append(word)
                if head is not None:
                    for dependent in wait:
                        heads[dependent] = head + 1
                    wait = []
            head_of[i], waiting[i] = head, wait

    def chance(self, part: tuple[str, int], tag: str) -> float:
        return exp(self.log_prob(part, self.index[tag]))


def binary_children(depths: Sequence[int]) -> dict[int, tuple[tuple[str, int], tuple[str, int]]]:
    """Of every inner node of the binary tree of n words, named by the word its right child begins with, the children.

    >>> binary_children([1, 2, 2, 3])  # ((the cat) (sat down))
    {1: (('leaf', 0), ('leaf', 1)), 3: (('leaf', 2), ('leaf', 3)), 2: (('node', 1), ('node', 3))}
    """
    children: dict[int, tuple[tuple[str, int], tuple[str, int]]] = {}
    path: list[tuple[int, tuple[str, int]]] = []  # words that joined what is still open, and what begins with each
    for word, depth in enumerate([*depths, 0]):
        while len(path) > 1 and depths[path[-1][0]] >= depth:
            joined, right = path.pop()
            first, left = path.pop()
            children[joined] = (left, right)
            path.append((first, ("node", joined)))
        path.append((word, ("leaf", word)))
    return children
