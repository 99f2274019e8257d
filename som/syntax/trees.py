"""Trees over words: the one data type that treebanks, the oracle and the measures share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from operator import not_
from typing import TYPE_CHECKING

from som.syntax.labels import NO_CHAIN, Tags

if TYPE_CHECKING:
    import nltk


class Bracket(Enum):
    """The two brackets in a tree's sequence of events, distinct from every word."""

    OPEN = "("
    CLOSE = ")"


Event = Bracket | str
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # all but tab and newline
ESCAPES = {"(": "-LRB-", ")": "-RRB-"}


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """A constituent: its children from left to right, each a word or another constituent.

    Everything below works on the sequence of events, without recursion: no sentence is too deep.

    >>> tree = Tree.parse("(the (old dog) barks)")
    >>> tree.children[0], tree.words(), tree.spans()
    ('the', ('the', 'old', 'dog', 'barks'), [(1, 3), (0, 4)])
    """

    children: tuple[Tree | str, ...]

    @classmethod
    def parse(cls, text: str) -> Tree:
        """Read one bracketed tree; round brackets inside words are written -LRB- and -RRB-."""
        brackets = {bracket.value: bracket for bracket in Bracket}
        tokens = re.findall(r"[()]|[^\s()]+", text)
        return cls.from_events(brackets.get(token) or unescape(token) for token in tokens)

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> Tree:
        """Build the tree whose traversal these events are."""
        levels: list[list[Tree | str]] = [[]]
        for event in events:
            if event is Bracket.OPEN:
                levels.append([])
            elif event is not Bracket.CLOSE:
                levels[-1].append(event)  # type: ignore[arg-type]  # a word: mypy does not narrow enums by identity
            elif len(levels) > 1 and levels[-1]:
                node = cls(tuple(levels.pop()))
                levels[-1].append(node)
            else:
                raise ValueError("a bracket closes " + ("an empty constituent" if len(levels) > 1 else "nothing"))
        if len(levels) > 1:
            raise ValueError(f"{len(levels) - 1} bracket(s) are not closed")
        if len(levels[0]) != 1 or not isinstance(levels[0][0], Tree):
            raise ValueError(f"expected one tree in brackets, got {len(levels[0])} words and trees")
        return levels[0][0]

    def events(self) -> Iterator[Event]:
        """Traverse the tree from left to right: an opening bracket, the children, a closing bracket."""
        stack: list[Tree | Event] = [self]
        while stack:
            node = stack.pop()
            if isinstance(node, Tree):
                yield Bracket.OPEN
                stack.append(Bracket.CLOSE)
                stack.extend(reversed(node.children))
            else:
                yield node

    def words(self) -> tuple[str, ...]:
        """The words at the leaves."""
        return tuple(event for event in self.events() if isinstance(event, str))

    def spans(self) -> list[tuple[int, int]]:
        """Every constituent as (first word, 1 + last word), children before parents."""
        spans, starts, position = [], [], 0
        for event in self.events():
            if event is Bracket.OPEN:
                starts.append(position)
            elif event is Bracket.CLOSE:
                spans.append((starts.pop(), position))
            else:
                position += 1
        return spans

    def to_nltk(self, label: str = "*") -> nltk.Tree:
        """The same tree for nltk, whose constituents need a label.

        >>> Tree.parse("(the (old dog) barks)").to_nltk("X").pformat()
        '(X the (X old dog) barks)'
        """
        from nltk import Tree as NltkTree

        levels: list[list] = [[]]
        for event in self.events():
            if event is Bracket.OPEN:
                levels.append([])
            elif event is Bracket.CLOSE:
                children = levels.pop()
                levels[-1].append(NltkTree(label, children))
            else:
                levels[-1].append(event)
        return levels[0][0]

    def labelled(self, tags: Tags) -> nltk.Tree:
        """The same tree for nltk, each constituent and word with its tag, where it has one.

        >>> tags = Tags(("det", "head", "head"), (None, "nsubj", "root"))
        >>> Tree.parse("((the dog) barks)").labelled(tags).pformat()
        '(root (nsubj (det the) (head dog)) (head barks))'
        """
        from nltk import Tree as NltkTree

        tree = self.to_nltk()
        for word, place in enumerate(tree.treepositions("leaves")):
            child = place[: len(place) - len(list(takewhile(not_, reversed(place))))]  # which begins with this word
            if child:  # of its siblings the last one has the tag of their constituent
                tree[child[:-1]].set_label(tags.node[word] or "*")
            if (tag := tags.leaf[word]) not in (None, NO_CHAIN):
                tree[place] = NltkTree(tag, [tree[place]])
        return tree[0] if len(tags.leaf) == 1 and isinstance(tree[0], NltkTree) else tree

    def draw(self, tags: Tags | None = None) -> str:
        """The tree as a picture of characters, with tags if they are given.

        >>> print(Tree.parse("(the (old dog) barks)").draw())
             *
         ┌───┴───┬────────┐
         │       *        │
         │   ┌───┴───┐    │
        the old     dog barks
        """
        return visible(draw_tree(self.to_nltk() if tags is None else self.labelled(tags)))

    def __eq__(self, other: object) -> bool:
        return list(self.events()) == list(other.events()) if isinstance(other, Tree) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.events()))

    def __str__(self) -> str:
        text = " ".join(event.value if isinstance(event, Bracket) else escape(event) for event in self.events())
        return text.replace("( ", "(").replace(" )", ")")

    def __repr__(self) -> str:
        return f"Tree.parse({str(self)!r})"


def draw_tree(tree: nltk.Tree) -> str:
    """A tree as a picture of characters, its words in their order."""
    from nltk.tree.prettyprinter import TreePrettyPrinter

    words, tree = tree.leaves(), tree.copy(deep=True)
    for position, leaf in enumerate(tree.treepositions("leaves")):
        tree[leaf] = position  # nltk shuffles the words of constituents that also have constituents, not numbers
    text = TreePrettyPrinter(tree, words).text(unicodelines=True)
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


def escape(word: str) -> str:
    """Write a word so that its round brackets are not taken for those of the tree.

    >>> escape(":-)"), unescape(escape(":-)"))
    (':--RRB-', ':-)')
    """
    return word.replace("(", ESCAPES["("]).replace(")", ESCAPES[")"])


def unescape(word: str) -> str:
    """The inverse of `escape`, for every word without the escapes themselves."""
    return word.replace(ESCAPES["("], "(").replace(ESCAPES[")"], ")") if "RB-" in word else word


def visible(text: str) -> str:
    """The text with signs for its control characters, which terminals would obey and XML does not allow.

    >>> visible("a\\x1b[31m b\\tc\\n")
    'a␛[31m b\\tc\\n'
    """
    return CONTROL.sub(lambda match: chr(0x2400 + ord(match[0])) if match[0] < " " else "\ufffd", text)


def binarise(tree: Tree) -> Tree:
    """Make every constituent binary, branching to the left; constituents of one child disappear.

    >>> str(binarise(Tree.parse("(a (b) c (d e f))")))
    '(((a b) c) ((d e) f))'
    """
    levels: list[list[Tree | str]] = [[]]
    for event in tree.events():
        if event is Bracket.OPEN:
            levels.append([])
            continue
        node = levels.pop()[0] if event is Bracket.CLOSE else event
        siblings = levels[-1]
        siblings[:] = [Tree((siblings[0], node)) if siblings else node]  # type: ignore[list-item]
    (root,) = levels[0]
    return root if isinstance(root, Tree) else Tree((root,))
