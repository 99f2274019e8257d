"""Measures as counts that add: batches, shards and runs sum, and the ratio is taken last; None where nothing counted.

Brackets are unlabelled and summed over the corpus, not averaged over sentences, as EVALB does. Every constituent
counts, that of the whole sentence included, and every token is a word, punctuation too (EVALB without DELETE_LABEL).
One function serves both conventions: against binarised trees (`binarise` the gold tree) and against the n-ary trees.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from som.syntax.trees import Bracket, Tree, escape

LabelledSpan = tuple[str, int, int]  # category, first word, 1 + last word


@dataclass(frozen=True)
class Perplexity:
    """Negative log-likelihood in nats, and over how many tokens (or words) it is spread.

    >>> (Perplexity(math.log(4), 1) + Perplexity(math.log(16), 2)).value
    4.0
    """

    nats: float = 0.0
    tokens: int = 0

    def __add__(self, other: Perplexity) -> Perplexity:
        return Perplexity(self.nats + other.nats, self.tokens + other.tokens)

    @property
    def value(self) -> float | None:
        if not self.tokens:
            return None
        mean = self.nats / self.tokens
        return math.exp(mean) if mean < 700 else math.inf  # e^700 is about the largest float


@dataclass(frozen=True)
class Accuracy:
    """How many decisions were right, of how many.

    >>> (Accuracy.of([1, 2, 3], [1, 2, 4]) + Accuracy(1, 1)).value
    0.75
    """

    correct: int = 0
    total: int = 0

    @classmethod
    def of(cls, predictions: Sequence, labels: Sequence) -> Accuracy:
        """Compare decision by decision; of a model that takes none, nothing is counted."""
        pairs = list(zip(predictions, labels, strict=True)) if predictions else []
        return cls(sum(prediction == label for prediction, label in pairs), len(pairs))

    def __add__(self, other: Accuracy) -> Accuracy:
        return Accuracy(self.correct + other.correct, self.total + other.total)

    @property
    def value(self) -> float | None:
        return self.correct / self.total if self.total else None


@dataclass(frozen=True)
class Brackets:
    """Constituents that two trees share, and those of each.

    >>> Brackets.of(Tree.parse("(the (old dog) barks)"), Tree.parse("((the old) (dog barks))"))
    Brackets(matched=1, gold=2, predicted=3)
    """

    matched: int = 0
    gold: int = 0
    predicted: int = 0

    @classmethod
    def of(cls, gold: Tree, predicted: Tree) -> Brackets:
        """Count the constituents of two trees over the same words."""
        if gold.words() != predicted.words():
            raise ValueError(
                f"the trees have different words: {' '.join(gold.words())} / {' '.join(predicted.words())}"
            )
        ours, theirs = Counter(gold.spans()), Counter(predicted.spans())
        return cls((ours & theirs).total(), ours.total(), theirs.total())

    @classmethod
    def of_labelled(cls, gold: Iterable[LabelledSpan], predicted: Iterable[LabelledSpan]) -> Brackets:
        """Count labelled constituents: categories with the words they span.

        >>> Brackets.of_labelled([("S", 0, 3), ("NP", 0, 1)], [("S", 0, 3), ("VP", 0, 1)])
        Brackets(matched=1, gold=2, predicted=2)
        """
        ours, theirs = Counter(gold), Counter(predicted)
        return cls((ours & theirs).total(), ours.total(), theirs.total())

    def __add__(self, other: Brackets) -> Brackets:
        return Brackets(self.matched + other.matched, self.gold + other.gold, self.predicted + other.predicted)

    @property
    def precision(self) -> float | None:
        return self.matched / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        return self.matched / self.gold if self.gold else None

    @property
    def f1(self) -> float | None:
        return 2 * self.matched / (self.gold + self.predicted) if self.gold and self.predicted else None


def evalb_line(tree: Tree) -> str:
    """The tree as EVALB and PYEVALB read it: every constituent and every word has a label, X.

    >>> evalb_line(Tree.parse("(the (old dog) barks)"))
    '(X (X the) (X (X old) (X dog)) (X barks))'
    """
    parts = [
        "(X" if event is Bracket.OPEN else ")" if event is Bracket.CLOSE else f"(X {escape(str(event))})"
        for event in tree.events()
    ]
    return " ".join(parts).replace(" )", ")")


def left_branching_tree(words: Sequence[str]) -> Tree:
    """The tree that every n-ary tree of one level is binarised to.

    >>> str(left_branching_tree("abcd"))
    '(((a b) c) d)'
    """
    return merge_neighbours(words, lambda length: 0)


def right_branching_tree(words: Sequence[str]) -> Tree:
    """Every word is the sister of all that follow; hard to beat in English where punctuation is left out.

    >>> str(right_branching_tree("abcd"))
    '(a (b (c d)))'
    """
    return merge_neighbours(words, lambda length: length - 2)


def random_tree(words: Sequence[str], random: Random) -> Tree:
    """Neighbours merged in random order until one tree is left."""
    return merge_neighbours(words, lambda length: random.randrange(length - 1))


def merge_neighbours(words: Sequence[str], choose: Callable[[int], int]) -> Tree:
    """Merge two neighbours at a time, the first of which is chosen by the number of constituents left."""
    nodes: list[Tree | str] = list(words)
    while len(nodes) > 1:
        left = choose(len(nodes))
        nodes[left : left + 2] = [Tree((nodes[left], nodes[left + 1]))]
    (root,) = nodes
    return root if isinstance(root, Tree) else Tree((root,))
