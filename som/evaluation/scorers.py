"""Models as scorers: whatever gives the tokens of a sentence probabilities can be measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from transformers import PreTrainedTokenizerFast

from modeling_som.scoring_som import Scored
from modeling_som.sentences_som import split_words

Scorer = Callable[[Sequence[Sequence[int]]], Iterable[Scored]]  # of sequences of ids, in their order


def score_once(scorer: Scorer, sequences: Sequence[Sequence[int]]) -> list[Scored]:
    """Scores of sequences, equal ones (also texts that a vocabulary does not tell apart) scored once and equally."""
    unique = list(dict.fromkeys(map(tuple, sequences)))
    scored = dict(zip(unique, scorer(unique), strict=True))
    return [scored[tuple(sequence)] for sequence in sequences]


def known_to(tokenizer: PreTrainedTokenizerFast) -> Callable[[str], bool] | None:
    """Whether all words of a text are in a word vocabulary; None for other vocabularies, which know every word."""
    if not hasattr(tokenizer, "known"):
        return None
    return lambda text: all(word in tokenizer.known for word in split_words(tokenizer, text)[0])
