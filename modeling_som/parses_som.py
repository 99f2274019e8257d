"""The trees of sentences: found by a method, labelled where the model knows labels, and written on one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from .modeling_som import SOMForCausalLM
from .scoring_som import FoundTree, Method, find_trees, label_trees, score
from .sentences_som import Sentence
from .tags_som import NO_CHAIN, PARTIAL, Labels, Part, binary_children

Built = TypeVar("Built")


def parse_sentences(
    model: SOMForCausalLM,
    sentences: Sequence[Sentence],
    method: Method,
    batch_size: int | None = None,
    log_probs: bool = True,
) -> Iterator[tuple[Sentence, FoundTree]]:
    """The sentences with their trees, and the labels of these where the model knows them.

    Without `log_probs`, a method that follows one tree predicts no words, which is most of the work."""
    if not method.k and not log_probs:
        return zip(sentences, find_trees(model, sentences, batch_size=batch_size), strict=True)
    scored = list(score(model, [sentence.ids for sentence in sentences], method, batch_size=batch_size))
    labels = label_trees(model, sentences, [one.depths for one in scored])
    trees = (FoundTree(one.depths, label, one.log_prob) for one, label in zip(scored, labels, strict=True))
    return zip(sentences, trees, strict=True)


def parse_record(
    words: list[str],
    offsets: list[tuple[int, int]],
    depths: list[int],
    log_prob: float | None = None,
    labels: Labels | None = None,
) -> dict[str, Any]:
    """A parse as plain data; heads and relations are None without labels of dependencies."""
    return {
        "words": words,
        "offsets": offsets,
        "depths": depths,
        "first_siblings": sibling_numbers(depths),
        "brackets": bracketed(words, depths, labels),
        "heads": labels.heads if labels else None,
        "relations": labels.relations if labels else None,
        "log_prob": log_prob,
    }


def sibling_numbers(depths: Sequence[int]) -> list[int]:
    """The word with which each word's left sibling begins, counted from 1; 0 is BOS.

    >>> sibling_numbers([1, 2, 2, 3])  # ((the cat) (sat down))
    [0, 1, 1, 3]
    """
    first: dict[Part, int] = {("leaf", word): word for word in range(len(depths))}
    for i, (left, _) in binary_children(depths).items():
        first["node", i] = first[left]
    return [0, *(first["node", i] + 1 for i in range(1, len(depths)))]


def build_tree(
    depths: Sequence[int],
    labels: Labels | None,
    leaf: Callable[[int, str | None], Built],
    constituent: Callable[[str | None, list[Built]], Built],
) -> Built:
    """Builds a tree from its words up: a `leaf` of each word and its tag, a `constituent` of a tag and its parts.

    With labels, steps of the binarisation disappear; a word of a constituency tree with no category above it has no
    tag. Without labels the tree is binary and nothing has a tag."""
    tags = [None if tag == NO_CHAIN else tag for tag in labels.leaf] if labels else [None] * len(depths)
    parts: dict[Part, list[Built]] = {("leaf", word): [leaf(word, tag)] for word, tag in enumerate(tags)}
    for i, (left, right) in binary_children(depths).items():
        together, tag = [*parts.pop(left), *parts.pop(right)], labels.node[i] if labels else None
        parts["node", i] = together if tag == PARTIAL else [constituent(tag, together)]
    (whole,) = parts.values()
    alone = len(depths) == 1 and tags == [None]
    return constituent(None, whole) if alone else whole[0]


def bracketed(words: Sequence[str], depths: Sequence[int], labels: Labels | None = None) -> str:
    """The tree on one line; round brackets in words are written -LRB- and -RRB-.

    >>> bracketed(["the", "cat", ":-)"], [1, 2, 2])
    '((the cat) :--RRB-)'
    >>> labels = Labels(["det", "head", "head"], [None, "nsubj", "root"], [2, 3, 0], ["det", "nsubj", "root"])
    >>> bracketed(["the", "cat", "sleeps"], [1, 2, 2], labels)
    '(root (nsubj (det the) (head cat)) (head sleeps))'
    """
    escaped = [word.replace("(", "-LRB-").replace(")", "-RRB-") for word in words]
    no_tag = "* " if labels else ""

    def leaf(word: int, tag: str | None) -> str:
        return escaped[word] if tag is None else f"({tag} {escaped[word]})"

    def constituent(tag: str | None, parts: list[str]) -> str:
        return f"({no_tag if tag is None else tag + ' '}{' '.join(parts)})"

    return build_tree(depths, labels, leaf, constituent)
