"""How unknown words are spelled, so that every word form has a probability of its own in a word vocabulary, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import log

from modeling_som import SOMTokenizer
from som.baselines.ngrams import KneserNey
from som.evaluation import Counts, Report, TreebankCounts
from som.syntax import Example, Perplexity

FIRST, LAST = 257, 256  # beside the 256 bytes; FIRST is never predicted
ORDER = 7  # the best of 3 to 7 on the validation split of AMALGUM, of words seen three times in train-xs


class Spelling:
    """n-grams of bytes for every UNK class, learnt from the words of training data that the vocabulary lacks.

    A known word has its form from its id, so its spelling costs nothing. An unknown one has the log-probability of its
    bytes and of an end, given its class. Forms that are known, or of another class, get some probability, too, which
    is lost: perplexity with spelling is an upper bound, as is that of byte pairs, which can split a word in many ways.

    >>> from som.data import make_tokenizer
    >>> counts = {"the": 5, "zyzzyva": 1, "zyzzyx": 1}
    >>> spelling = Spelling(counts, make_tokenizer("word", [["the", "zyzzyva"], ["the", "zyzzyx"]]))
    >>> spelling.log_prob("the"), spelling.log_prob("zyzzyva") > spelling.log_prob("quokka")
    (0.0, True)
    """

    def __init__(self, counts: Mapping[str, int], tokenizer: SOMTokenizer, order: int = ORDER):
        self.tokenizer = tokenizer
        words: dict[int, list[list[int]]] = defaultdict(list)
        for word in sorted(counts.keys() - tokenizer.known.keys()):
            words[tokenizer.unknown_id(word)] += [byte_symbols(word)] * counts[word]
        # plain UNK may have no words of its own: its bytes are then equally likely
        self.classes = {index: KneserNey(words[index], LAST + 1, order) for index in sorted(tokenizer.unknown_ids)}

    def log_prob(self, word: str) -> float:
        """In nats, given the word's id."""
        if word in self.tokenizer.known:
            return 0.0
        model, symbols = self.classes[self.tokenizer.unknown_id(word)], byte_symbols(word)
        return sum(log(model.probability(symbols[t], symbols[:t])) for t in range(1, len(symbols)))


def byte_symbols(word: str) -> list[int]:
    return [FIRST, *word.encode("utf-8", "surrogatepass"), LAST]


def add_spelling(
    report: Report[TreebankCounts], spelling: Spelling, examples: Sequence[Example]
) -> Report[TreebankCounts]:
    """The report of these sentences, in whose perplexity per word every character is now accounted for."""
    log_prob = cache(spelling.log_prob)
    costs = (Perplexity(-sum(map(log_prob, example.words)), tokens=0) for example in examples)
    counts = (Counts(words_with_eos=cost, words_without_eos=cost) for cost in costs)
    return replace(report, counts=report.counts + TreebankCounts.of(examples, counts))
