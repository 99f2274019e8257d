"""The tokenizer of a word vocabulary: a fast tokenizer whose unknown words keep what their spelling says of them."""

import json
import os
import re
from collections.abc import Container, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import EncodingFast

# `AutoTokenizer` looks up the class that tokenizer_config.json names. "SOMTokenizer" there would make it ask whether
# to run the checkpoint's code (y/N) wherever this project is not imported, and "PreTrainedTokenizerFast" would give
# the plain class where it is. So the file names a class that does not exist: `som` registers the name for
# `SOMTokenizer`, and elsewhere transformers drops "Fast" after "Fast" until it finds `TokenizersBackend`, its plain
# fast tokenizer. With `trust_remote_code=True`, the file's auto_map leads to `SOMTokenizer` in any case.
SAVED_CLASS = "TokenizersBackendFast"
SUFFIXES = ("ed", "ing", "ion", "er", "est", "ly", "ity", "y", "al")
UNK_CLASS = re.compile(rf"UNK(-(INITC|KNOWNLC|CAPS|LC|NUM|DASH|s|{'|'.join(SUFFIXES)}))+")
STOP_STRING_PROBE = "abcdef"  # see `_convert_id_to_token`


def unk_class(word: str, vocabulary: Container[str]) -> str:
    """The class of a word outside the vocabulary: its case, digits, hyphens and ending.

    >>> [unk_class(word, {"running"}) for word in ("1,234", "Running", "mid-1990s", "nominally", "%")]
    ['UNK-NUM', 'UNK-INITC-KNOWNLC-ing', 'UNK-LC-NUM-DASH-s', 'UNK-LC-ly', 'UNK']
    """
    digit, hyphen = any(map(str.isdigit, word)), "-" in word
    capitals, lower = sum(map(str.isupper, word)), word.lower()
    parts = ["UNK", *_case(word, capitals, vocabulary)]
    parts += ["NUM"] * digit + ["DASH"] * hyphen
    if lower.endswith("s") and len(word) >= 3:
        parts += ["s"] * (lower[-2] not in "siu")
    elif len(word) >= 5 and not hyphen and not (digit and capitals):
        parts += [suffix for suffix in SUFFIXES if lower.endswith(suffix)][:1]
    return "-".join(parts)


def _case(word: str, capitals: int, vocabulary: Container[str]) -> list[str]:
    """The part of an UNK class that tells the case."""
    if word[:1].isupper():
        if capitals > 1:
            return ["CAPS"]
        return ["INITC", "KNOWNLC"] if word.lower() in vocabulary else ["INITC"]
    if capitals and not word[0].isalpha():
        return ["CAPS"]
    return ["LC"] * any(map(str.islower, word))


class SOMTokenizer(PreTrainedTokenizerFast):
    """A word-level fast tokenizer that gives each unknown word the id of its UNK class, found through its offsets.

    Who adds what: `tokenizer(text)` puts BOS in front and nothing behind, so that the first word is scored, a prompt
    can be continued, and the tools of others need no option (asking them for a BOS as well would double it). EOS is
    added by the caller where whole sentences are wanted, as in training. Batches are padded on the left,
    since `generate` continues rows at their right end; everything else gives the same numbers on either side.

    Words are split like a treebank's: text that is already in tokens stays as it is. `decode` gives running text, with
    full stops, clitics, quotes and brackets attached to their words. Each word brings the space in front of it, so the
    text of new tokens can be appended to a prompt; a text that begins with BOS begins without the space.

    UNK classes are no words: a text that spells one has an unknown word there. Special tokens spelled in a text are
    understood, as in other tokenizers, unless `split_special_tokens=True` is given, as it is wherever `som` reads.
    """

    _auto_class = "AutoTokenizer"  # what `register_for_auto_class` does, but that imports torch

    def _save_pretrained(
        self, save_directory: str | os.PathLike, file_names: tuple[str, ...], *args: Any, **kwargs: Any
    ) -> tuple[str, ...]:
        """Names, in the configuration that was just written, the class to load where no remote code is wanted."""
        file = next(Path(name) for name in file_names if name.endswith("tokenizer_config.json"))
        config = json.loads(file.read_text(encoding="utf-8"))
        # one "Fast" is dropped before the class is looked up
        config["tokenizer_class"] = SAVED_CLASS + "Fast"
        file.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return super()._save_pretrained(save_directory, file_names, *args, **kwargs)

    @cached_property
    def classes(self) -> dict[str, int]:
        """The UNK classes of the vocabulary."""
        return {token: index for token, index in self.get_vocab().items() if UNK_CLASS.fullmatch(token)}

    @cached_property
    def known(self) -> dict[str, int]:
        """The words of the vocabulary: its tokens without special tokens and UNK classes."""
        others = {*self.all_special_tokens, *self.classes}
        return {token: index for token, index in self.get_vocab().items() if token not in others}

    @cached_property
    def unknown_ids(self) -> set[int]:
        """Plain UNK and the ids of the UNK classes."""
        return {self.unk_token_id, *self.classes.values()}

    def word_id(self, word: str) -> int:
        """The id of a word, or that of its UNK class, or plain UNK for a class that training has not seen."""
        return self.known[word] if word in self.known else self.unknown_id(word)

    def unknown_id(self, word: str) -> int:
        """What a word's id would be if it were not known."""
        return self.classes.get(unk_class(word, self.known), self.unk_token_id)

    def tokenize(
        self, text: str, pair: str | None = None, add_special_tokens: bool = False, **kwargs: Any
    ) -> list[str]:
        encoded = self._encode_plus(text, pair, add_special_tokens=add_special_tokens, **kwargs)
        return list(self.convert_ids_to_tokens(encoded.input_ids))

    def _encode_plus(  # type: ignore[override]
        self,
        text: Any,
        text_pair: Any = None,
        is_split_into_words: bool = False,
        return_tensors: Any = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        if not _is_batch(text, is_split_into_words):
            pairs = None if text_pair is None else [text_pair]
            encoded = self._encode_plus([text], pairs, is_split_into_words, return_tensors, **kwargs)
            alone = return_tensors is None and "overflow_to_sample_mapping" not in encoded
            return _first_row(encoded) if alone else encoded
        encoded = super()._encode_plus(text, text_pair, is_split_into_words=is_split_into_words, **kwargs)
        samples = encoded.get("overflow_to_sample_mapping", range(len(text)))
        for row, sample, encoding in zip(encoded["input_ids"], samples, encoded.encodings or [], strict=True):
            if not self.unknown_ids.isdisjoint(row):
                pair = None if text_pair is None else text_pair[sample]
                self._classify(row, encoding, _texts(text[sample], pair, is_split_into_words), is_split_into_words)
        return BatchEncoding(encoded.data, encoded.encodings, tensor_type=return_tensors)

    def _classify(self, row: list[int], encoding: EncodingFast, texts: Sequence, is_split_into_words: bool) -> None:
        """Replace, in place, each UNK in a row of ids by the class of the characters that its offsets point at.

        A class spelled in the text is an unknown word like any other, and is replaced as well.
        """
        places = zip(encoding.sequence_ids, encoding.word_ids, encoding.offsets, strict=True)
        for index, (sequence, word_index, (start, end)) in enumerate(places):
            if row[index] in self.unknown_ids and sequence is not None:
                text = texts[sequence][word_index] if is_split_into_words else texts[sequence]
                if text[start:end] != self.unk_token:  # a special token, where those are understood
                    row[index] = self.word_id(text[start:end])

    def _decode(self, token_ids: int | list[int], *args: Any, **kwargs: Any) -> str:
        text = super()._decode(token_ids, *args, **kwargs)
        whole = not isinstance(token_ids, int) and self.bos_token_id in token_ids
        return text.removeprefix(" ") if whole else text

    def _convert_id_to_token(self, index: int) -> str | None:
        """Used by the `stop_strings` of `generate` alone: they tokenize this probe and expect to get it back, in order
        to find out what each token looks like after a word; in a word vocabulary it has become an UNK class."""
        return STOP_STRING_PROBE if index == self.word_id(STOP_STRING_PROBE) else super()._convert_id_to_token(index)


def _is_batch(text: Any, is_split_into_words: bool) -> bool:
    """Whether this is a list of texts, not one text or one list of words."""
    return isinstance(text, list | tuple) and not (is_split_into_words and (not text or isinstance(text[0], str)))


def _texts(text: Any, pair: Any, is_split_into_words: bool) -> tuple:
    """One text, or a pair given apart or as a tuple, as a tuple of its texts."""
    if pair is not None:
        return (text, pair)
    return tuple(text) if _is_batch(text, is_split_into_words) else (text,)


def _first_row(encoded: BatchEncoding) -> BatchEncoding:
    """A batch of one text without its batch dimension."""
    data = {name: value[0] if isinstance(value[0], list) else value for name, value in encoded.items()}
    return BatchEncoding(data, encoded.encodings)


def load_tokenizer(path: str | Path) -> PreTrainedTokenizerFast:
    """A saved tokenizer, without running code that lies beside it and without asking whether to.

    That of a word vocabulary is a `SOMTokenizer` also where another tool has saved it as a plain fast tokenizer.
    """
    from transformers import AutoTokenizer  # which needs torch; tokenizers do not
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    tokenizer: Any = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    named = "SOMTokenizer" in str(get_tokenizer_config(path).get("auto_map"))
    if (named or any(map(UNK_CLASS.fullmatch, tokenizer.get_vocab()))) and not isinstance(tokenizer, SOMTokenizer):
        tokenizer = SOMTokenizer.from_pretrained(path)
    for name in ("is_local", "local_files_only"):  # about this loading, and no part of what is saved again
        tokenizer.init_kwargs.pop(name, None)
    return tokenizer


def continuing_tokens(tokenizer: PreTrainedTokenizerBase) -> list[bool]:
    """Of every token, whether it is a piece that continues a word; none in a word vocabulary."""
    if hasattr(tokenizer, "word_id"):
        return [False] * len(tokenizer)
    whole = set(tokenizer.all_special_tokens)
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    if not any(token.startswith("Ġ") for token in tokens):  # another convention: no token is known to continue a word
        return [False] * len(tokens)
    return [not token.startswith("Ġ") and token not in whole for token in tokens]


def never_generated(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids that are no words to generate: special tokens but EOS, and the classes of unknown words."""
    unknown = getattr(tokenizer, "unknown_ids", ())  # of a word vocabulary
    return sorted({*tokenizer.all_special_ids, *unknown} - {tokenizer.eos_token_id})


__all__ = ["SAVED_CLASS", "UNK_CLASS", "SOMTokenizer", "unk_class"]
