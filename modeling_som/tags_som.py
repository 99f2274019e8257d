"""Labelled trees: one tag for every node of the binary tree that was built, and dependencies read off them.

Inner node i is the one whose right child begins with token i, so leaf i and node i are all there is to tag. A node is
tagged as a child of its parent, from its own vector, its sister's and its parent's. Where tokens are pieces of words,
the word is the leaf and only its first piece counts as a token here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from .configuration_som import SOMConfig
from .layout_som import Layout
from .operators_som import Dropout
from .sentences_som import NONE

PARTIAL, HEAD, ROOT = "partial", "head", "root"  # tags of dependency trees that are no relations
NO_CHAIN = "none"  # tag of a word of a constituency tree with no category above it
Key = TypeVar("Key")
Value = TypeVar("Value")


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
    columns, levels = torch.arange(C), torch.arange(max(int(depths.max()), 1) + 2)
    word = depths[..., None] if inside is None else depths.masked_fill(inside, NONE)[..., None]  # (B, C, 1)
    last_at = torch.where(word == levels, columns[:, None], -1).cummax(1).values  # (B, C, levels): up to a column
    last_upto = last_at.cummax(2).values
    ends = depths if inside is None else depths.masked_fill(inside, len(levels))  # pieces end nothing
    ended = torch.cat([ends, depths.new_full((B, 1), NONE)], dim=1)[..., None] <= levels
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
    def of(cls, layout: Layout, built: Spans, inside: Tensor | None) -> TreeNodes:
        """All children of inner nodes of the tree that was built, left ones first; of tokens at depth 1, only the
        words' tree on their left."""
        row, column, depth = layout.batch.row, layout.batch.column, layout.depths  # (P,)
        spans = Spans(*(grid[row, column] for grid in built))
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

    Of a dSOM it reads the syntactic segments alone. Without `tag_gradient` its loss ends here, so that words and trees
    are learnt as if there were no tags."""

    def __init__(self, config: SOMConfig):
        super().__init__()
        self.tag_gradient = config.tag_gradient
        self.semantic_size = config.semantic_size if config.syntactic_size else 0
        size = config.syntactic_size or config.hidden_size
        self.hidden = nn.Linear(3 * size, config.hidden_size)
        self.side = nn.Embedding(2, config.hidden_size)
        self.score = nn.Linear(config.hidden_size, len(config.tree_tags))
        self.dropout = Dropout(config.dropout)

    def forward(self, child: Tensor, sister: Tensor, parent: Tensor, is_right: Tensor) -> Tensor:
        """(R, D) each, (R,) → (R, tags)."""
        vectors = torch.stack([child, sister, parent], dim=1)[..., self.semantic_size :].flatten(1)
        vectors = vectors if self.tag_gradient else vectors.detach()
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


@dataclass(frozen=True)
class Decided:
    """What is certain of the labels of a sentence after its first n words, whatever follows; None where nothing is."""

    leaf: list[str | None]
    node: list[str | None]
    heads: list[int | None] | None = None  # counted from 1
    relations: list[str | None] | None = None  # a relation can be certain before the head is


class Arcs(NamedTuple):
    """The dependencies of some words, counted from 0, and how probable their relations are."""

    heads: dict[int, int]  # counted from 1
    relations: dict[int, str]
    chances: dict[int, float]


Part = tuple[str, int]  # a node of the tree: ("leaf", word), or ("node", the word its right child begins with)


class Choice(NamedTuple):
    """The best way to read an inner node in one of its two states."""

    score: float
    left_tag: str
    left_has_head: bool
    right_tag: str


Scores = Sequence[Sequence[float]]  # (n, tags): log-probabilities


def decode_labels(depths: Sequence[int], leaf: Scores, node: Scores, tags: Sequence[str]) -> Labels:
    """The best tags that make a tree: of dependencies where `head` is among the tags, otherwise of constituents."""
    decode = decode_dependencies if HEAD in tags else decode_constituents
    return decode(depths, leaf, node, tags)


def decided_labels(depths: Sequence[int], leaf: Scores, node: Scores, tags: Sequence[str]) -> Decided:
    """What `decode_labels` will say whatever follows the first n words, given their depths and the scores of nodes.

    Only scores of children of complete nodes count, which no later word changes. A head, or a constituent that could
    still turn out to be a step of the binarisation, is decided when no reading of the rest can change it."""
    if HEAD in tags:
        return DependencyDecoder(depths, leaf, node, tags).decided()
    found, children = decode_constituents(depths, leaf, node, tags), binary_children(depths)
    inside = {part for i in complete_nodes(depths, children) for part in children[i]}
    leaf_tags = [tag if ("leaf", word) in inside else None for word, tag in enumerate(found.leaf)]
    return Decided(leaf_tags, [tag if ("node", word) in inside else None for word, tag in enumerate(found.node)])


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

    Exact: bottom-up over the binary tree with two states per node, its head known or its dependents waiting for it.
    """
    return DependencyDecoder(depths, leaf, node, tags).labels()


class DependencyDecoder:
    """A table of the best readings of every inner node, with the head known and without."""

    def __init__(self, depths: Sequence[int], leaf: Scores, node: Scores, tags: Sequence[str]):
        self.scores, self.tags, self.depths = {"leaf": leaf, "node": node}, tags, depths
        self.children, self.length = binary_children(depths), len(depths)  # children before parents
        self.index = {tag: place for place, tag in enumerate(tags)}
        self.relations = [place for place, tag in enumerate(tags) if tag not in (PARTIAL, HEAD, ROOT)]
        self.choices: dict[int, dict[bool, Choice]] = {}  # of an inner node, by whether its head is known
        for i in self.children:
            self.choices[i] = self.choose(i)

    def log_prob(self, part: Part, tag: str) -> float:
        kind, word = part
        return self.scores[kind][word][self.index[tag]]

    def best_relation(self, part: Part) -> str:
        kind, word = part
        return self.tags[max(self.relations, key=self.scores[kind][word].__getitem__)]

    def states(self, part: Part) -> dict[bool, float]:
        """Scores of what is below a node, by whether its head is known; a leaf is its own head."""
        kind, word = part
        return {True: 0.0} if kind == "leaf" else {known: way.score for known, way in self.choices[word].items()}

    def left_ways(self, part: Part) -> Iterator[tuple[bool, float, str, bool]]:
        """How a left child can be read: is there a head then, the score, the tag, and had the child a head itself."""
        states, relation = self.states(part), self.best_relation(part)
        if True in states:  # complete: it waits for its head
            yield False, states[True] + self.log_prob(part, relation), relation, True
        if part[0] == "leaf":
            yield True, self.log_prob(part, HEAD), HEAD, True
            return
        for known, score in states.items():  # it goes on into its parent
            yield known, score + self.log_prob(part, PARTIAL), PARTIAL, known

    def right_ways(self, part: Part, has_head: bool) -> Iterator[tuple[bool, float, str]]:
        """How a right child can be read beside a left one with or without a head: never as a part that goes on."""
        states, relation = self.states(part), self.best_relation(part)
        if True in states:
            yield has_head, states[True] + self.log_prob(part, relation), relation
        if part[0] == "leaf" and not has_head:
            yield True, self.log_prob(part, HEAD), HEAD

    def choose(self, i: int) -> dict[bool, Choice]:
        """The best reading of an inner node for each of its states."""
        left, right = self.children[i]
        best: dict[bool, Choice] = {}
        for has_head, score, tag, known in self.left_ways(left):
            for after, more, right_tag in self.right_ways(right, has_head):
                if after not in best or score + more > best[after].score:
                    best[after] = Choice(score + more, tag, known, right_tag)
        return best

    def labels(self) -> Labels:
        """The best reading of the sentence, whose head must be known."""
        last = list(self.children)[-1:]  # the whole sentence
        root: Part = ("node", last[0]) if last else ("leaf", 0)
        tag_of = {root: ROOT, **self.chosen_tags(dict.fromkeys(last, True))}
        arcs, words = self.arcs(tag_of), range(self.length)
        return Labels(
            [tag_of["leaf", word] for word in words],
            [tag_of.get(("node", word)) for word in words],
            [arcs.heads.get(word, 0) for word in words],
            [arcs.relations.get(word, ROOT) for word in words],
            [arcs.chances.get(word, 1.0) for word in words],
        )

    def decided(self) -> Decided:
        """What all readings of the complete constituents have in common: one or two of each, by its two states."""
        complete = complete_nodes(self.depths, self.children)
        inside = {part for i in complete for part in self.children[i]}
        tag_of: dict[Part, str] = {}
        arcs = Arcs({}, {}, {})
        for i in (i for i in complete if ("node", i) not in inside):
            readings = [self.chosen_tags({i: known}) for known in self.choices[i]]
            found = [self.arcs(reading) for reading in readings]
            tag_of |= agreed(readings)
            arcs.heads.update(agreed([one.heads for one in found]))
            arcs.relations.update(agreed([one.relations for one in found]))
        leaf, node = ([tag_of.get((kind, word)) for word in range(self.length)] for kind in ("leaf", "node"))
        heads = [arcs.heads.get(word) for word in range(self.length)]
        return Decided(leaf, node, heads, [arcs.relations.get(word) for word in range(self.length)])

    def arcs(self, tag_of: Mapping[Part, str]) -> Arcs:
        """The arcs of the nodes whose children have tags."""
        arcs = Arcs({}, {}, {})
        head_of: dict[Part, int | None] = {("leaf", word): word for word in range(self.length)}
        waiting: dict[Part, list[int]] = {}
        for i in (i for i, pair in self.children.items() if pair[0] in tag_of):
            head, wait = None, []
            for part in self.children[i]:
                word, tag = head_of[part], tag_of[part]
                if tag == PARTIAL:
                    head, wait = word, list(waiting[part])
                elif tag == HEAD:
                    head = word
                elif word is not None:
                    arcs.relations[word], arcs.chances[word] = tag, exp(self.log_prob(part, tag))
                    wait.append(word)
            if head is not None:
                arcs.heads.update(dict.fromkeys(wait, head + 1))
                wait = []
            head_of["node", i], waiting["node", i] = head, wait
        return arcs

    def chosen_tags(self, known: Mapping[int, bool]) -> dict[Part, str]:
        """The tags of all nodes below some inner nodes that do not overlap, given whether the heads of these are
        known."""
        tags: dict[Part, str] = {}
        known = dict(known)
        for i in reversed(self.children):  # parents first
            if i in known:
                choice = self.choices[i][known[i]]
                tags.update(zip(self.children[i], (choice.left_tag, choice.right_tag), strict=True))
                states = zip(self.children[i], (choice.left_has_head, True), strict=True)
                known.update((word, state) for (kind, word), state in states if kind == "node")
        return tags


def agreed(readings: Sequence[Mapping[Key, Value]]) -> dict[Key, Value]:
    """What is the same in all readings.

    >>> agreed([{"the": "det", "dog": "head"}, {"the": "det", "dog": "nsubj"}])
    {'the': 'det'}
    """
    first, *others = readings
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def complete_nodes(depths: Sequence[int], children: Iterable[int]) -> list[int]:
    """The inner nodes, of those with these names, that no further word can join: a later one is as shallow already.

    >>> complete_nodes([1, 2, 2, 3], [1, 3, 2])  # ((the cat) (sat down …
    [1]
    """
    return [i for i in children if any(depth <= depths[i] for depth in depths[i + 1 :])]


def binary_children(depths: Sequence[int]) -> dict[int, tuple[Part, Part]]:
    """The children of every inner node of the binary tree of n words, nodes before their parents.

    >>> binary_children([1, 2, 2, 3])  # ((the cat) (sat down))
    {1: (('leaf', 0), ('leaf', 1)), 3: (('leaf', 2), ('leaf', 3)), 2: (('node', 1), ('node', 3))}
    """
    children: dict[int, tuple[Part, Part]] = {}
    path: list[tuple[int, Part]] = []  # words that joined what is still open, and what begins with each
    for word, depth in enumerate([*depths, 0]):
        while len(path) > 1 and depths[path[-1][0]] >= depth:
            joined, right = path.pop()
            first, left = path.pop()
            children[joined] = (left, right)
            path.append((first, ("node", joined)))
        path.append((word, ("leaf", word)))
    return children
