"""Text as a SOM reads it: words, their pieces, and where each lies in the text."""

from __future__ import annotations

import re
import sys
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from tokenizers import Regex, decoders, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

NONE = -100  # "no label" and "masked" in every list and tensor of integers, as everywhere in transformers
CLITIC = r"['’](?:s|re|ve|ll|d|m|S|RE|VE|LL|D|M)\b"
NOT = r"(?:n['’]t|N['’]T)\b"


def encode_words(tokenizer: PreTrainedTokenizerFast, words: Sequence[str]) -> list[list[int]]:
    """One list of ids per word, without BOS and EOS."""
    return encode_sentences(tokenizer, [words])[0]


def encode_sentences(tokenizer: PreTrainedTokenizerFast, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
    """`encode_words` for many sentences at once.

    In a word vocabulary each word is one id, whatever its spelling. Of our byte pairs, a word has its own, which are
    one unit; of those of others, the ones in its place among words joined by single spaces.
    """
    types = {word for words in sentences for word in words}
    if hasattr(tokenizer, "word_id"):
        ids = {word: [tokenizer.word_id(word)] for word in types}
        return [[ids[word] for word in words] for words in sentences]
    if len(steps := pre_tokenization(tokenizer)) == 2:
        ids = {word: word_pieces(tokenizer, steps[1], word) for word in types}
        return [[ids[word] for word in words] for words in sentences]
    texts = [" ".join(words) for words in sentences]
    if not texts:
        return []
    encoded = tokenizer(texts, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
    return list(map(group_by_word, sentences, encoded["input_ids"], encoded["offset_mapping"]))


def pre_tokenization(tokenizer: PreTrainedTokenizerBase) -> Sequence[pre_tokenizers.PreTokenizer]:
    """What text goes through before it is looked up, where that is ours: a split into words, then maybe into bytes."""
    steps = tokenizer.backend_tokenizer.pre_tokenizer
    steps = list(iter(steps)) if isinstance(steps, pre_tokenizers.Sequence) else [steps]
    return steps if isinstance(steps[0], pre_tokenizers.Split) else []


def word_pieces(tokenizer: PreTrainedTokenizerFast, bytes_of: pre_tokenizers.PreTokenizer, word: str) -> list[int]:
    """The byte pairs of a word that is given as one: only the first has a space in front, wherever text is split.

    White space inside is written as treebanks are read, with an underscore."""
    parts = bytes_of.pre_tokenize_str("_".join(word.split())) if word.split() else []
    return [token.id for part, _ in parts for token in tokenizer.backend_tokenizer.model.tokenize(part)]


def group_by_word(words: Sequence[str], ids: Sequence[int], offsets: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Hand out the ids of a text to its words, which single spaces separate.

    >>> group_by_word(["it", "sleeps"], [7, 8, 9], [(0, 2), (3, 8), (8, 9)])
    [[7], [8, 9]]
    """
    groups: list[list[int]] = [[] for _ in words]
    ends = list(accumulate(len(word) + 1 for word in words))
    index = 0
    for token, (start, _) in zip(ids, offsets, strict=True):
        while start >= ends[index]:
            index += 1
        groups[index].append(token)
    return groups


@dataclass(frozen=True)
class Sentence:
    """A text as the model reads it, and where each of its words begins there."""

    ids: list[int]  # BOS, the pieces of the words, EOS if wanted
    words: list[str]
    offsets: list[tuple[int, int]]  # of the words in the text
    starts: list[int]  # place of each word's first token in ids
    text: str | None = None  # None for words that were given one by one

    def of_words(self, tokens: Sequence[int]) -> list[int]:
        """Of numbers that go with the tokens, those of the words: a word is attached where its first piece is."""
        return [tokens[start] for start in self.starts if start < len(tokens)]


def encode(
    tokenizer: PreTrainedTokenizerBase, text: str | Sequence[str], eos: bool = True, words: bool = False
) -> Sentence:
    """Reads a text, or a list of words, as one sentence from BOS to EOS.

    A list with white space in an element is refused, because it is rather a list of sentences; `words` says that
    these are words all the same, as treebanks of some languages have them.
    """
    if isinstance(text, str):
        tokens, offsets = split_words(tokenizer, text)
        encoded = tokenizer(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
        # the last word that begins before the piece ends: a piece may start with the space before its word
        owners = [bisect(offsets, (max(end - 1, start), sys.maxsize)) - 1 for start, end in encoded["offset_mapping"]]
        pieces: list[list[int]] = [[] for _ in tokens]
        for owner, token in zip(owners, encoded["input_ids"], strict=True):
            pieces[max(owner, 0)].append(token)
    else:
        check_words(text, words)
        tokens, pieces = list(text), encode_words(tokenizer, text)  # type: ignore[arg-type]  # a fast one
        offsets = joined_offsets(tokens)
    if not tokens:
        raise ValueError("the text is empty, expected at least one word")
    if missing := [word for word, ids in zip(tokens, pieces, strict=True) if not (word and ids)]:
        raise ValueError(f"the vocabulary has nothing for the word {missing[0]!r}")
    starts = list(accumulate(map(len, pieces), initial=1))[:-1]
    ids = [tokenizer.bos_token_id, *chain(*pieces), *[tokenizer.eos_token_id] * eos]
    return Sentence(ids, tokens, offsets, starts, text if isinstance(text, str) else None)


def check_words(text: Sequence[str], words: bool) -> None:
    """Refuse what is not a list of words."""
    if isinstance(text, Mapping) or not isinstance(text, Iterable):
        raise ValueError(f"expected one sentence, a text or a list of words, got {text!r}"[:200])
    for place, word in enumerate(text):
        if not isinstance(word, str):
            raise ValueError(f"expected one sentence, a text or a list of words, got a list with {word!r}"[:200])
        if not words and any(map(str.isspace, word)):
            hint = "several sentences go to the function for many, words with spaces need words=True"
            raise ValueError(f"expected a list of words, but element {place} has spaces: {word[:60]!r}; {hint}")


def joined_offsets(words: Sequence[str]) -> list[tuple[int, int]]:
    """Offsets of words that single spaces separate.

    >>> joined_offsets(["it", "sleeps"])
    [(0, 2), (3, 9)]
    """
    starts = accumulate((len(word) + 1 for word in words), initial=0)
    return [(start, start + len(word)) for start, word in zip(starts, words, strict=False)]


def split_words(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The words of a text and their offsets, as its tokenizer splits them before it looks them up."""
    # in a vocabulary of others, words are what spaces separate
    splitter, *_ = [*pre_tokenization(tokenizer), pre_tokenizers.WhitespaceSplit()]
    words = splitter.pre_tokenize_str(text)
    return [word for word, _ in words], [offset for _, offset in words]


MARK_ENDS = r"(?![^\s<\"”])"  # behind it may come a closing quote, or a special token such as </s>


# From tokens with a space in front of each to running text, step by step: a pattern and what takes its place.
SPACING = (
    (r'(?<=\s)" [^"]*\K "(?=\s|\z|<)', '"'),  # the closing quote of a pair
    (r' (?="(?:\z|<))', ""),  # a quote at the end
    (r'(?<=\s["“‘]|\s``) (?=\S)', ""),  # quotes that open
    (r"(?<=\s[(\[{]) (?=\S)", ""),
    (rf" (?=(?:[.,:;!?…%]+|[)\]}}]+|''|[”]){MARK_ENDS})", ""),
    (rf" (?={NOT}|{CLITIC})|(?<=[sS]) (?=['’]{MARK_ENDS})", ""),  # did n't, I 'm, the dogs '
    (r"(?<=\s[Cc]an) (?=not\b)|(?<=\sCAN) (?=NOT\b)", ""),
    (r"(?<=[\s(\[{\"“][$£€¥]) (?=\d)", ""),
)


def spacing() -> list[decoders.Decoder]:
    """The steps of `SPACING`, as part of a decoder that is saved with the tokenizer."""
    return [decoders.Replace(Regex(pattern), content) for pattern, content in SPACING]


def running_text(words: Iterable[str]) -> str:
    """Words as text, with the spaces that `decode` gives.

    >>> running_text(["I", "ca", "n't", "(", "or", "wo", "n't", ")", "say", '"', "go", '"', "."])
    'I can\\'t (or won\\'t) say "go".'
    """
    return decoders.Sequence(spacing()).decode(["".join(f" {word}" for word in words)]).removeprefix(" ")


def offsets_in(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where words are that follow each other in a text.

    >>> offsets_in("it isn't", ["it", "is", "n't"])
    [(0, 2), (3, 5), (5, 8)]
    """
    offsets, end = [], 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        offsets.append((start, end))
    return offsets


# Where sentences end. Abbreviations that a name or a number follows never end one; others do before words that often
# begin one.
BEFORE_NAMES = """mr mrs ms mx messrs dr prof st gen sen rep gov capt cmdr lt col maj sgt rev hon pres mt ft vs v pp
    fig figs eq sec ch vol vols art cf e.g i.e viz ca approx dept est"""
BEFORE_NUMBERS = "no nos p pp art jan feb mar apr jun jul aug sep sept oct nov dec"
SHORTENED = """inc corp co ltd llc bros jr sr etc al ph.d m.d b.a m.a esq ave blvd rd jan feb mar apr jun jul aug sep
    sept oct nov dec mon tue tues wed thu thurs fri sat sun ed eds u.s u.k"""
STARTERS = """the a an he she it they we i you this that these those there here but and or so then in on at by for from
    with after before when while if as although because since however his her its our my your their what who why how
    where which one some many most no not all both each every another"""
OPENING, CLOSING = "\"'“‘«([{¿¡", "\"'”’»)]}"
END = re.compile(rf"[.!?…]+[{re.escape(CLOSING)}]*(?=\s|$)|[。！？]+[」』”’）]*")
WORD = re.compile(rf"[^\s{re.escape(OPENING)}]+$")


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Where each sentence of a text is, by rules for texts in the Latin alphabet, mostly English.

    >>> text = 'Dr. A. Smith paid $3.50. "Really?" she asked. (He did.) See www.a.org. Fine...'
    >>> [text[start:end] for start, end in split_sentences(text)]
    ['Dr. A. Smith paid $3.50.', '"Really?" she asked.', '(He did.)', 'See www.a.org.', 'Fine...']
    """
    spans, start = [], 0
    for match in END.finditer(text):
        end = match.end()
        after = text[end : end + 100]
        if match[0][0] in "。！？" or ends_sentence(text[start : match.start()], match[0], after):
            end += len(closing_token(text[start:end], after))
            spans.append((start, end))
            start = end
    spans.append((start, len(text)))
    stripped = [(end - len(text[start:end].lstrip()), start + len(text[start:end].rstrip())) for start, end in spans]
    return [(start, end) for start, end in stripped if start < end]


def ends_sentence(before: str, mark: str, after: str) -> bool:
    """Whether this full stop, question mark or exclamation mark is the last of its sentence."""
    following = after.lstrip().lstrip(OPENING + "-–—").lstrip()
    word = match[0] if (match := WORD.search(before)) else ""
    if not following or not before.strip():
        return not following
    if not word and len(mark) == 1:  # a token on its own, in text that is already in tokens
        return following[0] not in ".!?…"
    if following[0].islower():
        return False
    return not mark.startswith(".") or mark.startswith("..") or not is_short(before, word, following)


def is_short(before: str, word: str, following: str) -> bool:
    """Whether a full stop after the word only shortens it: an initial, a number in a list, an abbreviation."""
    lower, next_word = word.lower(), re.split(r"[\s,.;:!?’']", following, maxsplit=1)[0].lower()
    if lower in BEFORE_NAMES.split() or (following[0].isdigit() and lower in BEFORE_NUMBERS.split()):
        return True
    initial = len(word) == 1 and word.isupper() and word != "I"
    if initial or (word.isdecimal() and before.strip() == word):
        return True
    dotted = re.fullmatch(r"(?:[A-Za-z]\.)+[A-Za-z]", word) is not None
    return (dotted or lower in SHORTENED.split()) and next_word not in STARTERS.split()


def closing_token(sentence: str, after: str) -> str:
    """A closing quote or bracket that spaces separate, in text that is already in tokens."""
    match = re.match(r"\s+(?:''|[”’»)\]}]|\")(?=\s|$)", after)
    if not match or (match[0].strip() == '"' and sentence.count('"') % 2 == 0):
        return ""
    return match[0]
