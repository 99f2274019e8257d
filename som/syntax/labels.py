"""One tag for every node of a binary tree, from which phrases, heads and relations can be read off again.

The binarised tree of n words has n leaves and n − 1 inner nodes; inner node i is the one whose right child begins with
word i. So two lists, `leaf` and `node`, are the whole annotation. A tag says what a node is to its parent:
- in a dependency tree `partial` for a mere step of the binarisation, `head` for the leaf that heads its constituent,
  otherwise the relation of the subtree to its head, which is `root` for the whole sentence;
- in a constituency tree `partial`, or the category, unary chains joined (S+VP); for a leaf the unary chain above it,
  or `none`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PARTIAL, HEAD, ROOT, NO_CHAIN = "partial", "head", "root", "none"


@dataclass(frozen=True)
class Tags:
    """The tags of a sentence, one of each kind per word; None where there is no such node."""

    leaf: tuple[str | None, ...]
    node: tuple[str | None, ...]

    def universal(self) -> Tags:
        """Without the subtypes of relations."""
        return Tags(*(tuple(tag and universal(tag) for tag in tags) for tags in (self.leaf, self.node)))


def universal(relation: str) -> str:
    """A relation without its subtype.

    >>> universal("nmod:poss")
    'nmod'
    """
    return relation.partition(":")[0]


def dependency_tags(heads: Sequence[int], relations: Sequence[str]) -> Tags:
    """The tags of a projective dependency tree; heads are counted from 1, the root's is 0.

    >>> tags = dependency_tags([3, 3, 4, 0, 4], ["det", "amod", "nsubj", "root", "advmod"])  # the old dog barks loudly
    >>> tags.leaf, tags.node
    (('det', 'amod', 'head', 'head', 'advmod'), (None, 'partial', 'nsubj', 'partial', 'root'))
    """
    families: dict[int, list[int]] = {}  # a word with dependents, and these
    for word, head in enumerate(heads):
        if head:
            families.setdefault(head - 1, [head - 1]).append(word)
    tagged = [ROOT if not head else relation for head, relation in zip(heads, relations, strict=True)]
    leaf: list[str | None] = [HEAD if word in families else tagged[word] for word in range(len(heads))]
    node: list[str | None] = [None] * len(heads)
    first = first_words(heads)
    for head, family in families.items():
        _, *others = sorted(word if word == head else first[word] for word in family)
        for start in others:
            node[start] = PARTIAL
        node[others[-1]] = tagged[head]
    return Tags(tuple(leaf), tuple(node))


def labelled_spans(depths: Sequence[int], tags: Tags) -> list[tuple[str, int, int]]:
    """Every category of a constituency tree, with the words it spans; unary chains give several to one span.

    >>> tags = Tags(("NP", "none", "none"), (None, "S", "VP"))  # (S (NP dogs) (VP chase cats))
    >>> labelled_spans([1, 2, 3], tags)
    [('NP', 0, 1), ('S', 0, 3), ('VP', 1, 3)]
    """
    found = [(tag, word, word + 1) for word, tag in enumerate(tags.leaf) if tag not in (None, NO_CHAIN)]
    for word, tag in enumerate(tags.node):
        if tag not in (None, PARTIAL):
            start = max(w for w in range(word) if depths[w] < depths[word] or w == 0)
            end = next((w for w in range(word + 1, len(depths)) if depths[w] <= depths[word]), len(depths))
            found.append((tag, start, end))
    return [(label, start, end) for tag, start, end in found if tag for label in tag.split("+")]


def first_words(heads: Sequence[int]) -> list[int]:
    """The first word of the subtree of every word.

    >>> first_words([3, 3, 4, 0, 4])
    [0, 1, 0, 0, 4]
    """
    first = list(range(len(heads)))
    for word, head in enumerate(heads):
        above = head
        while above and first[above - 1] > word:
            first[above - 1] = word
            above = heads[above - 1]
    return first
