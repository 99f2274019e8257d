"""What a SOM expects and decides at every word of a sentence: the data behind the page that shows it reading.

The numbers are those of `surprisals` with the end of the sentence: this module only adds what lies beneath them, along
the same tree: p' and p over all attachments, what the word costs after each of them, and the words expected next.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import log
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Method, Reading, evaluating, read_sequences, score
from modeling_som.search_som import logsumexp_of_each
from modeling_som.sentences_som import Sentence, encode
from modeling_som.tags_som import Decided, Labels
from modeling_som.tokenization_som import continuing_tokens
from som.inference import Attach, Parse, WordSurprisal, decided_after_each_word, forced_depths, surprisals
from som.syntax import Tags, labelled_spans

LONGEST = 80  # words: more have no room on a page
EXPECTED = 10  # words of each prediction that are kept
DIGITS = 6  # of the numbers in the page
END_NAME = "end"  # what readers see of EOS
BETWEEN = "·"  # the pieces of a word


@dataclass(frozen=True)
class Place:
    """A subtree that the word can become the right sister of; costs in bits, p as a probability."""

    first: int  # the word that the subtree begins with, counted from 1; 0 is BOS
    structural: float | None  # -log2 p', before the word is seen; None without prediction network, as is the next
    lexical: float | None  # -log2 of the word's first piece, given the place
    posterior: float  # p, once the word is seen


class Expected(NamedTuple):
    """A token that may come next, as people read it."""

    text: str  # a piece that would go on with the word just read stands behind that word
    p: float
    kind: str  # "word", also for the first piece of one; "piece", "class" of unknown words, or "end"


@dataclass(frozen=True)
class WordTrace:
    """One word, or at the very end EOS: what was expected before it, and what was decided when it was read."""

    surprisal: WordSurprisal  # with the best partial parses that end in this word
    places: list[Place]  # from the root down
    taken: int  # which of them
    expected: list[Expected]  # the most probable tokens at this place, before it is seen
    pieces: list[str]  # what the vocabulary has for it, as people read it
    ends: bool = False  # whether it is EOS
    tag: str | None = None  # its relation to its head, or the category above it
    decided: int = 0  # how many words must be read before nothing can change the tag; EOS is one

    @property
    def readable(self) -> WordSurprisal:
        """The numbers, with names as people read them, none of the tokenizer's."""
        word = END_NAME if self.ends else self.surprisal.word
        return replace(self.surprisal, word=word, tokens=BETWEEN.join(self.pieces))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the page; parses as depths alone, since the page draws them itself."""
        row = rounded(asdict(self.readable))
        row["parses"] = [[parse["depths"], parse["probability"]] for parse in row["parses"]]
        places = [rounded(asdict(place)) for place in self.places]
        return {
            **row,
            "places": places,
            "taken": self.taken,
            "expected": rounded(self.expected),
            **({"tag": self.tag, "decided": self.decided} if self.tag else {}),
        }


class SpanLabel(NamedTuple):
    """The label of a constituent."""

    first: int  # its first word
    end: int  # 1 + its last word
    label: str
    decided: int  # as of a word's tag


@dataclass(frozen=True)
class Trace:
    """A sentence, word by word, along the tree in which its attachments are judged."""

    words: list[WordTrace]  # the last is EOS
    method: str
    parses_by: str  # the method that found the partial parses, and how many trees it follows
    parse: Parse  # the whole tree
    labels: Sequence[SpanLabel] = ()

    def to_dict(self) -> dict[str, Any]:
        words = [word.to_dict() for word in self.words]
        return {"words": words, "method": self.method, "parsesBy": self.parses_by, "labels": list(self.labels)}


def trace(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    text: str | Sequence[str],
    method: str | Method | None = None,
    *,
    k: int | None = None,
    seed: int = 0,
    words: bool = False,
    attach: Attach | None = None,
) -> Trace:
    """Read a sentence and keep what happens at each word; `words` says that words in a list may have spaces.

    The partial parses are those of the method where it follows many trees, otherwise those of a beam. `attach` forces
    attachments as in `surprisals`; then they are the tree so far with the best attachments of each word.
    """
    method = Method.of(model, method, k, seed, given=bool(attach))
    sentence = encode(tokenizer, text, words=words)
    if len(sentence.words) > LONGEST:
        raise ValueError(f"the page shows sentences of up to {LONGEST} words, got {len(sentence.words)}")
    forced = forced_depths(model, sentence, attach) if attach else None
    found_by = method if attach else parses_method(model, method, k, seed)
    options: dict[str, Any] = {"eos": True, "words": words, "attach": attach}
    rows = surprisals(model, tokenizer, text, method, **options)
    parsed = surprisals(model, tokenizer, text, found_by, parses=found_by.k or 4, **options)
    reading = read_as_scored(model, sentence.ids, method, forced)
    expected = expected_words(model, tokenizer, sentence, reading)
    columns = zip(rows, parsed, first_tokens(sentence), expected, pieces(tokenizer, sentence), strict=True)
    traced = [
        WordTrace(with_parses(row, other), *places(sentence, reading, token), likely, parts)
        for row, other, token, likely, parts in columns
    ]
    known = reading.labels(sentence.starts, model.config.tree_tags)
    decided = decided_after_each_word(sentence, reading, model.config.tree_tags)
    traced = [*label_words(traced[:-1], known, decided), replace(traced[-1], ends=True)]  # EOS has none
    log_prob = -log(2) * sum(row.surprisal for row in rows)
    of_words = sentence.of_words(reading.depths)
    parse = Parse(sentence.words, sentence.offsets, of_words, log_prob, known, text if isinstance(text, str) else None)
    labels = span_labels(of_words, known, decided)
    return Trace(traced, described(method), described(found_by), parse, labels)


def label_words(
    words: Sequence[WordTrace], labels: Labels | None, decided: Sequence[Decided | None]
) -> list[WordTrace]:
    """Words with their tags in the final tree, and when each is decided; as they are, of a model without tags."""
    if labels is None:
        return list(words)
    known = [set() if one is None else {word for word, tag in enumerate(one.leaf) if tag} for one in decided]
    tagged = zip(words, labels.leaf, strict=True)
    return [replace(word, tag=tag, decided=first_with(i, known)) for i, (word, tag) in enumerate(tagged)]


def span_labels(depths: Sequence[int], labels: Labels | None, decided: Sequence[Decided | None]) -> list[SpanLabel]:
    """The labels of the final tree's constituents, and when each is decided; none of a model without tags."""
    if labels is None:
        return []
    known = [constituents(depths[:n], one) if one else set() for n, one in enumerate(decided, start=1)]
    return [SpanLabel(*span, first_with(span, known)) for span in sorted(constituents(depths, labels))]


def constituents(depths: Sequence[int], labels: Labels | Decided) -> set[tuple[int, int, str]]:
    """First word, 1 + last word, and label of all constituents of several words that have one."""
    spans = labelled_spans(depths, Tags(tuple(labels.leaf), tuple(labels.node)))
    return {(start, end, label) for label, start, end in spans if end - start > 1}


def first_with(item: Any, sets: Sequence[set]) -> int:
    """The number, from 1, of the first set that has an item; where none has, of what follows the last.

    >>> first_with("a", [set(), {"a"}]), first_with("b", [set(), {"a"}])
    (2, 3)
    """
    return next((n for n, one in enumerate(sets, start=1) if item in one), len(sets) + 1)


def parses_method(model: SOMForCausalLM, method: Method, k: int | None, seed: int) -> Method:
    """The method that finds partial parses: a beam, unless the method itself follows many trees or none can."""
    return method if method.k or not model.config.prediction_network else Method.of(model, "beam", k, seed)


def described(method: Method) -> str:
    """A method and how many trees it follows.

    >>> described(Method("beam", 4)), described(Method("greedy"))
    ('beam of 4', 'greedy')
    """
    return f"{method} of {method.k}" if method.k else str(method)


def with_parses(row: WordSurprisal, other: WordSurprisal) -> WordSurprisal:
    return WordSurprisal(**{**vars(row), "parses": other.parses})


def first_tokens(sentence: Sentence) -> list[int]:
    """Place in the ids of each word's first token, that of EOS last."""
    return [*sentence.starts, len(sentence.ids) - 1]


def read_as_scored(
    model: SOMForCausalLM, ids: Sequence[int], method: Method, forced: list[int] | None = None
) -> Reading:
    """Read along the tree that is given or that the method decides on, as `surprisals` does."""
    depths = next(score(model, [ids], method)).depths if method.k else forced
    return read_sequences(model, [ids], None if depths is None else [depths], tags=True)[0]


def places(sentence: Sentence, reading: Reading, token: int) -> tuple[list[Place], int]:
    """Where the word that begins with a token can attach, and which of these places it takes.

    Places are subtrees of whole words. Where pieces attach freely, those within a word count as one place, the word.
    """
    sisters = sister_words(sentence, reading.depths[:token])
    known = reading.posterior if reading.prior is None else reading.prior
    group = torch.tensor(sisters[: int(known[token - 1].isfinite().sum())])  # one per live attachment
    firsts, index = group.unique(return_inverse=True)

    def summed(log_probs: Tensor) -> Tensor:  # (places,)
        return logsumexp_of_each(index, log_probs[token - 1, : len(group)], len(firsts))

    posterior = summed(reading.posterior).exp().tolist()
    structural: Sequence[float | None] = [None] * len(firsts)
    lexical = structural
    if reading.prior is not None:
        prior, joint = summed(reading.prior), summed(reading.prior + reading.words)
        structural, lexical = in_bits(prior), in_bits(joint - prior)
    found = list(map(Place, firsts.tolist(), structural, lexical, posterior))
    return found, int(index[reading.depths[token] - 1])


def sister_words(sentence: Sentence, depths: Sequence[int]) -> list[int]:
    """For each attachment from depth 0 down, the word that begins its sister in the tree of whole words, 0 for BOS.

    The subtree at depth e that ends at the last token begins with the last token that is no deeper than e. Inside a
    word, or in a constituent that its words have closed, it is taken for the smallest open one around it.

    >>> sentence = Sentence([0, 7, 8, 9], ["the", "dog", "barks"], [], [1, 2, 3])
    >>> sister_words(sentence, [0, 1, 2, 2])
    [0, 1, 3]
    """
    words = [0, *sentence.of_words(depths)]
    opened = [i for i, depth in enumerate(words) if depth < min(words[i + 1 :], default=depth + 1)]
    begins = [max(t for t, depth in enumerate(depths) if depth <= e) for e in range(depths[-1] + 1)]
    return [opened[bisect(opened, bisect(sentence.starts, begin)) - 1] for begin in begins]


def in_bits(log_probs: Tensor) -> list[float]:
    return (0 - log_probs / log(2)).tolist()


def pieces(tokenizer: PreTrainedTokenizerBase, sentence: Sentence) -> list[list[str]]:
    """The pieces of each word, and of EOS, as people read them."""
    starts = first_tokens(sentence)
    words = [sentence.ids[start:stop] for start, stop in zip(starts, [*starts[1:], None], strict=True)]
    return [[shown(tokenizer, token) for token in word] for word in words]


@torch.inference_mode()
def expected_words(
    model: SOMForCausalLM, tokenizer: PreTrainedTokenizerBase, sentence: Sentence, reading: Reading
) -> list[list[Expected]]:
    """For each place, the most probable tokens of the mixture over all guesses of p', with their probabilities."""
    ids = torch.tensor([sentence.ids], device=model.device)
    depths = torch.tensor([reading.depths], device=model.device)
    before = torch.tensor(first_tokens(sentence), device=model.device) - 1
    with evaluating(model):
        out = model(ids, depths=depths, marginal=reading.prior is not None, use_cache=False, logits_to_keep=before)
    best = out.logits[0].double().softmax(dim=-1).topk(min(EXPECTED, model.config.vocab_size))
    continues, unknown = continuing_tokens(tokenizer), set(getattr(tokenizer, "unknown_ids", ()))

    def kind(token: int) -> str:
        if token == tokenizer.eos_token_id:
            return "end"
        return "piece" if continues[token] else "class" if token in unknown else "word"

    return [
        [
            Expected(after(word, shown(tokenizer, token), kind(token)), p, kind(token))
            for token, p in zip(*row, strict=True)
        ]
        for word, *row in zip(["", *sentence.words], best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def after(word: str, token: str, kind: str) -> str:
    """A token as it would stand after a word.

    >>> after("barn", "ery", "piece"), after("barn", "fell", "word")
    ('barn·ery', 'fell')
    """
    return f"{word}{BETWEEN}{token}" if kind == "piece" else token


def shown(tokenizer: PreTrainedTokenizerBase, token: int) -> str:
    """A token as people read it: without the mark for the space before it, and with a word for the end."""
    if token == tokenizer.eos_token_id:
        return END_NAME
    return str(tokenizer.decode([token])).strip() or "␣"


def rounded(value: Any) -> Any:
    """Plain data with short numbers.

    >>> rounded({"p": [1 / 3, None, 3]})
    {'p': [0.333333, None, 3]}
    """
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value
