"""n-grams with Kneser-Ney smoothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import log

from modeling_som.scoring_som import Scored


class KneserNey:
    """An n-gram model with interpolated Kneser-Ney smoothing, one discount per order, down to equal probabilities.

    Below the highest order, an n-gram counts as often as there are different words before it; only those that begin
    with BOS, which nothing can precede, count as often as they occur.

    >>> model = KneserNey([[0, 1, 2, 3], [0, 1, 3]], vocab_size=5, order=3)
    >>> [round(sum(model.probability(word, context) for word in range(5)), 6) for context in [(), (0, 1), (4, 4)]]
    [1.0, 1.0, 1.0]
    """

    def __init__(self, sentences: Iterable[Sequence[int]], vocab_size: int, order: int):
        if order < 1:
            raise ValueError(f"order must be at least 1, got {order}")
        self.vocab_size, self.order = vocab_size, order
        self.followers: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for ids in sentences:
            for t in range(1, len(ids)):
                self.followers[tuple(ids[max(0, t - order + 1) : t])][ids[t]] += 1
        self.count_continuations()
        self.totals = {context: words.total() for context, words in self.followers.items()}
        self.discounts = [self.discount(length) for length in range(order)]

    def count_continuations(self) -> None:
        for length in reversed(range(1, self.order)):
            for context in [context for context in self.followers if len(context) == length]:
                for word in self.followers[context]:
                    self.followers[context[1:]][word] += 1

    def discount(self, length: int) -> float:
        """What is taken off every count after contexts of a length: n1 / (n1 + 2 n2) of counts 1 and 2."""
        tables = [words for context, words in self.followers.items() if len(context) == length]
        kinds = Counter(count for words in tables for count in words.values())
        return kinds[1] / (kinds[1] + 2 * kinds[2]) if kinds[1] and kinds[2] else 0.75

    def probability(self, word: int, context: Sequence[int]) -> float:
        """Of a word after others; of these, at most the last `order - 1` matter."""
        probability = 1 / self.vocab_size
        context = tuple(context)[max(0, len(context) - self.order + 1) :]
        for start in reversed(range(len(context) + 1)):
            seen = context[start:]
            if seen not in self.followers:
                break  # nor were longer ones
            words, discount = self.followers[seen], self.discounts[len(seen)]
            kept, freed = max(words[word] - discount, 0), discount * len(words)
            probability = (kept + freed * probability) / self.totals[seen]
        return probability

    def __call__(self, sequences: Sequence[Sequence[int]]) -> Iterator[Scored]:
        """Scores sequences of ids."""
        for ids in sequences:
            contexts = ((ids[t], ids[max(0, t - self.order + 1) : t]) for t in range(1, len(ids)))
            yield Scored([log(self.probability(word, context)) for word, context in contexts], depths=[])
