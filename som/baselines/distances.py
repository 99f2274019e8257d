"""Syntactic distances: one number for each word, the larger the higher its subtree splits from what is before it.

Shen et al. (2018) use them to describe binary trees: the distance of a word is the height of the lowest constituent
that it shares with the word before. Only the order of the distances within a sentence matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from modeling_som.scoring_som import BATCH_TOKENS, batches, evaluating
from modeling_som.sentences_som import Sentence
from som.syntax import Tree, tree_from_depths


def tree_from_distances(distances: Sequence[float], words: Sequence[str]) -> Tree:
    """Split a sentence before the word of the largest distance, then its two parts in the same way.

    Shen et al. (2018, 2019) split off that word as well, which favours trees that branch to the right (Dyer et al.
    2019); this does not. Of equal distances the last counts; the first word's says nothing.

    >>> str(tree_from_distances([9, 1, 3, 2], ["the", "cat", "sat", "down"]))
    '((the cat) (sat down))'
    """
    ranks = {distance: rank for rank, distance in enumerate(sorted(set(distances), reverse=True))}
    return tree_from_depths([ranks[distance] for distance in distances], words)


def distances_from_siblings(first_siblings: Sequence[int]) -> list[int]:
    """The distances of a tree: of token i, the height of the constituent whose right child begins with token i.

    Here is (BOS ((the cat) (sat down)) EOS), binarised; the first distance is none.

    >>> distances_from_siblings([-1, 0, 1, 1, 3, 0])
    [0, 3, 1, 2, 1, 4]
    """
    distances = [0] * len(first_siblings)
    stack: list[tuple[int, int]] = []  # first token and height of each subtree on the current path
    for token, sibling in enumerate([*first_siblings, 0]):  # at last, whatever is open is closed
        while len(stack) > 1 and stack[-1][0] > sibling:
            (right, height), (left, left_height) = stack.pop(), stack.pop()
            distances[right] = 1 + max(height, left_height)
            stack.append((left, distances[right]))
        stack.append((token, 0))
    return distances


def distance_trees(model: Any, sentences: Sequence[Sentence]) -> Iterator[Tree]:
    """The trees over words of a model that has `distances(input_ids)`, (B, T); pieces of a word do not split it."""
    results: dict[int, Tree] = {}
    with torch.inference_mode(), evaluating(model):
        for batch in batches([sentence.ids for sentence in sentences], None, BATCH_TOKENS // 4, model.device):
            for place, row in zip(batch.places, model.distances(batch.ids).tolist(), strict=True):
                sentence = sentences[place]
                results[place] = tree_from_distances([row[start] for start in sentence.starts], sentence.words)
    for place in range(len(sentences)):
        yield results.pop(place)


def ranking_loss(distances: Tensor, first_sibling: Tensor) -> Tensor:
    """How much the order of distances (B, T) differs from that of the trees; summed over sentences, see below.

    A pair of words whose distances differ in the tree costs max(0, 1 - how much further apart the right one is): the
    hinge of Shen et al. (2018, "Straight to the tree"). The mean over the pairs of a sentence counts once for each
    word of it, so that dividing the sum by the number of words weighs sentences as the loss of words does."""
    gold, words = gold_distances(first_sibling)
    ranked = gold[:, :, None] > gold[:, None, :]  # (B, T, T): token i is to be above token j
    ranked &= words[:, :, None] & words[:, None, :]
    hinge = (1 - distances[:, :, None] + distances[:, None, :]).relu().masked_fill(~ranked, 0)
    pairs = ranked.sum(dim=(1, 2)).clamp(min=1)
    return (hinge.sum(dim=(1, 2)) / pairs * words.sum(dim=1)).sum()


def gold_distances(first_sibling: Tensor) -> tuple[Tensor, Tensor]:
    """Distances (B, T) of the trees, and for which tokens (B, T) they are between two words: not BOS, the first word,
    EOS or padding, which is on the right."""
    rows = [[sibling for sibling in row if sibling >= -1] for row in first_sibling.tolist()]
    gold, words = torch.zeros_like(first_sibling), torch.zeros_like(first_sibling, dtype=torch.bool)
    for place, row in enumerate(rows):
        gold[place, : len(row)] = torch.tensor(distances_from_siblings(row))
        words[place, 2 : len(row) - 1] = True
    return gold, words
