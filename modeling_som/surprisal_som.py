"""What a SOM says of each word of a sentence, for experiments on how people read: surprisal, in bits, and its parts,
entropies, and what the word does to the tree.

A word's surprisal is −log2 of its probability by the chosen method (see `scoring_som`), summed over its pieces. With
`beam`, it is what the trees that were kept before the word expect, before any of those with the word is dropped.
Beside it stand the two parts of another quantity, the surprisal of the word together with the attachment it has in the
sentence's parse (which, with `particles` or `beam`, is chosen when the whole sentence has been read):
structural, −log2 p'(attachment), and lexical, −log2 p(word | attachment). A word whose attachment is forced has no
other reading left, so its surprisal is the sum of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import log
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from .counts_som import WordCounts, find_word_counts
from .modeling_som import SOMForCausalLM
from .scoring_som import Method, Reading, Scored, read_sequences, score
from .sentences_som import Sentence
from .tags_som import PARTIAL, Labels, binary_children


@dataclass(frozen=True)
class RankedParse:
    """A tree of the words read so far, and how probable it is among those compared with it."""

    brackets: str
    depths: list[int]  # of the words
    probability: float


@dataclass(frozen=True)
class WordSurprisal:
    """One word; all surprisals and entropies in bits."""

    number: int  # words count from 1, BOS is 0
    word: str
    start: int
    end: int
    tokens: str  # what the vocabulary has for it: the word, its class if it is unknown, its pieces
    surprisal: float
    structural: float | None  # None without prediction network, as is entropy_before
    lexical: float
    entropy_before: float | None  # of p', which does not yet know the word
    entropy_after: float  # of p, which does
    depth: int
    closed: int  # constituents that its attachment shows to be complete
    opened: int  # 1 if it begins one with its left sister, 0 if it goes on with one
    open: int  # constituents begun and not finished
    next_entropy: float  # of the word itself, before it is seen; of its first piece
    entropy_reduction: float | None  # that minus the next word's; None for EOS
    unknown: bool | None  # not in the training data; None if these are not known, or for EOS, as is log_frequency
    length: int  # characters
    log_frequency: float | None  # log10 of (count + 1) per million words of the training data
    parses: list[RankedParse] = field(default_factory=list)  # best first


def read_words(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sentence],
    method: Method,
    batch_size: int | None = None,
    depths: Sequence[Sequence[int]] | None = None,
    forced: Sequence[Sequence[int]] | None = None,
) -> Iterator[tuple[list[WordSurprisal], Reading]]:
    """The words of each sentence, and the reading that they come from.

    `depths` are decisions for all tokens, of which those at the places in `forced` leave no choice.
    """
    sequences, many = [sentence.ids for sentence in sentences], bool(method.k)
    scored: list[Scored | None] = [None] * len(sentences)
    if many:
        scored = list(score(model, sequences, method, batch_size=batch_size, entropies=True))
        depths = [one.depths for one in scored if one is not None]
    readings = read_sequences(model, sequences, depths, batch_size, entropies=not many, tags=True)
    counts, tags = find_word_counts(tokenizer), model.config.tree_tags
    forced = forced or [()] * len(sentences)
    for sentence, reading, one, places in zip(sentences, readings, scored, forced, strict=True):
        costs = token_costs(reading, method, one, places)
        tokens = tokenizer.convert_ids_to_tokens(sentence.ids)
        labels = word_labels(sentence, reading, tags, tokenizer.eos_token_id)
        yield word_surprisals(sentence, tokens, reading, costs, labels, counts, tokenizer.eos_token), reading


def with_end(sentence: Sentence, eos: str) -> Sentence:
    """The sentence with EOS as its last word."""
    end = sentence.offsets[-1][1]
    place = len(sentence.ids) - 1
    words, offsets, starts = [*sentence.words, eos], [*sentence.offsets, (end, end)], [*sentence.starts, place]
    return replace(sentence, words=words, offsets=offsets, starts=starts)


class Costs(NamedTuple):
    """Of the tokens after the first, log-probabilities (T - 1,); and entropies (T,) of what follows each, in nats."""

    total: Tensor
    structural: Tensor | None
    lexical: Tensor
    entropies: Tensor


def token_costs(reading: Reading, method: Method, scored: Scored | None, forced: Sequence[int]) -> Costs:
    """What each token costs; `forced` are the places of tokens whose attachment was."""
    attach = torch.tensor(reading.depths[1:])[:, None] - 1
    prior, words = reading.prior, reading.words
    lexical = words.gather(1, torch.zeros_like(attach) if prior is None else attach)[:, 0]
    structural = torch.zeros_like(lexical) if prior is None else prior.gather(1, attach)[:, 0]
    # pieces inside a word are attached by rule, and predicted by the mixture over all guesses of p'
    if prior is not None and reading.inside.any():
        lexical = torch.where(reading.inside, (prior + words).logsumexp(dim=1), lexical)
        structural = structural.masked_fill(reading.inside, 0)
    if scored is None:
        total, entropies = log_totals(reading, method).clone(), reading.entropies
    else:
        both = scored.prefix_log_probs, scored.entropies
        total, entropies = (torch.tensor(row, dtype=torch.float64) for row in both)
    assert entropies is not None, "they were asked for"
    total[[place - 1 for place in forced]] = (structural + lexical)[[place - 1 for place in forced]]
    return Costs(total, None if prior is None else structural, lexical, entropies)


def log_totals(reading: Reading, method: Method) -> Tensor:
    """(T - 1,): log-probability of each token after the first."""
    if reading.prior is None:
        return reading.words[:, 0]
    if method.name == "greedy":
        return reading.words.gather(1, reading.prior.argmax(dim=1, keepdim=True))[:, 0]
    return (reading.prior + reading.words).logsumexp(dim=1)


def word_labels(sentence: Sentence, reading: Reading, tags: Sequence[str], eos: int) -> Labels | None:
    """The labels of the parse; EOS has none."""
    starts = [start for start in sentence.starts if sentence.ids[start] != eos]
    return reading.labels(starts, tags)


def word_surprisals(
    sentence: Sentence,
    tokens: Sequence[str],
    reading: Reading,
    costs: Costs,
    labels: Labels | None,
    counts: WordCounts | None,
    eos: str,
) -> list[WordSurprisal]:
    """Sums over the pieces of each word, and what its attachment does to the tree."""
    tree = tree_changes(sentence.of_words(reading.depths), labels)
    rows = []
    for i, (start, stop) in enumerate(word_places(sentence)):
        piece = slice(start - 1, stop - 1)
        first, following = costs.entropies[[start - 1, stop - 1]].tolist()
        word, is_end = sentence.words[i], tokens[start] == eos
        rows.append(
            WordSurprisal(
                number=i + 1,
                word=word,
                start=sentence.offsets[i][0],
                end=sentence.offsets[i][1],
                tokens=" ".join(tokens[start:stop]),
                surprisal=bits(costs.total[piece]),
                structural=None if costs.structural is None else bits(costs.structural[piece]),
                lexical=bits(costs.lexical[piece]),
                entropy_before=None if reading.prior is None else entropy(reading.prior[start - 1]),
                entropy_after=entropy(reading.posterior[start - 1]),
                depth=reading.depths[start],
                **tree[i]._asdict(),
                next_entropy=first / log(2),
                entropy_reduction=None if is_end else (first - following) / log(2),
                unknown=None if is_end or counts is None else word not in counts,
                length=0 if is_end else len(word),
                log_frequency=None if is_end or counts is None else counts.log_frequency(word),
            )
        )
    return rows


class TreeChange(NamedTuple):
    """What a word's attachment does to the tree, in constituents of two or more words."""

    closed: int
    opened: int
    open: int


def tree_changes(depths: Sequence[int], labels: Labels | None) -> list[TreeChange]:
    """Constituents that each word's attachment closes and opens, and those that are open then, BOS's left out.

    Without labels every step of the binarisation is a constituent.

    >>> tree_changes([1, 2, 2, 3], None)  # ((the cat) (sat down))
    [TreeChange(closed=0, opened=1, open=0), TreeChange(closed=0, opened=1, open=1), \
TreeChange(closed=1, opened=1, open=1), TreeChange(closed=0, opened=1, open=2)]
    """
    goes_on = words_that_go_on(depths, labels)
    return [
        TreeChange(before + 1 - depth - (word in goes_on), 1 - (word in goes_on), depth - 1)
        for word, (before, depth) in enumerate(pairwise([0, *depths]))
    ]


def words_that_go_on(depths: Sequence[int], labels: Labels | None) -> set[int]:
    """The words whose left sister is a part of the constituent that they go on with; none without labels."""
    if labels is None:
        return set()
    children = binary_children(depths[: len(labels.leaf)])
    return {i for i, ((kind, node), _) in children.items() if kind == "node" and labels.node[node] == PARTIAL}


def word_places(sentence: Sentence) -> list[tuple[int, int]]:
    """First and 1 + last token of each word."""
    return list(zip(sentence.starts, [*sentence.starts[1:], len(sentence.ids)], strict=True))


def bits(log_probs: Tensor) -> float:
    return 0.0 - log_probs.sum().item() / log(2)


def entropy(log_probs: Tensor) -> float:
    """In bits.

    >>> round(entropy(torch.tensor([0.5, 0.5, 0.0]).log()), 6)
    1.0
    """
    return torch.special.entr(log_probs.exp()).sum().item() / log(2)
