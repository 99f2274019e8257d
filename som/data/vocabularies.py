"""Vocabularies as fast tokenizers: words with UNK classes, GPT-2's byte pairs, byte pairs learnt from the data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub import hf_hub_download
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from modeling_som import SOMTokenizer
from modeling_som.sentences_som import CLITIC, NOT, spacing
from modeling_som.tokenization_som import UNK_CLASS, load_tokenizer, unk_class

Fast = TypeVar("Fast", bound=PreTrainedTokenizerFast)
PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<s>", "</s>"
GPT2_END, GPT2_PAD = "<|endoftext|>", "<|pad|>"
ABBREVIATIONS = r"(?:Co|Corp|Dr|Inc|Jr|Ltd|Mr|Mrs|Ms|Prof|Sr|St|etc|vs)\."
ALNUM = r"[\p{L}\p{M}\p{N}]"
CASE = {"UNK", "LC", "INITC", "KNOWNLC", "CAPS"}  # parts of UNK classes
URL = r"(?:https?://|www\.)\S*[^\s.,;:!?'\"’”)\]}>]"  # without the marks behind it
LOCAL = r"[\p{L}\p{N}._%+-]"  # characters of an e-mail address before the @; tried once per run of them
EMAIL = rf"(?<!{LOCAL}){LOCAL}++@[\p{{L}}\p{{N}}_-]++(?:\.[\p{{L}}\p{{N}}_-]++)++"


def word_pattern(words: Iterable[str]) -> str:
    """A regular expression each match of which is one token, for a treebank with these words.

    Text already in tokens should come out as it went in: marks that stand alone stay whole, and so do the treebank's
    abbreviations; what treebanks split (clitics, the full stop of a sentence) is split.
    """
    learnt = (re.escape(word) for word in words if re.fullmatch(r"[^\W\d_]+\.", word))
    abbreviations = "|".join([ABBREVIATIONS, *learnt])
    return "|".join(
        (
            f"{URL}|{EMAIL}",
            r"(?<!\S)[^\s\p{L}\p{N}]+(?!\S)|-[LR][RCS]B-",  # marks that stand alone: `` -- ... :) -LRB-
            rf"(?:\p{{L}}\.){{2,}}|\b(?:{abbreviations}|\p{{Lu}}\.)(?=\s+\S|[,;:])",  # U.S. Mr. J.
            rf"{ALNUM}+?(?={NOT})|{NOT}|{CLITIC}",  # do n't, CA N'T, the dog 's
            r"\b(?:[Cc]an(?=not\b)|CAN(?=NOT\b))",
            rf"(?:(?<!\S)\.)?{ALNUM}+(?:(?!{CLITIC})(?:[-'’.,:/&_@]|\\/){ALNUM}+)*",  # .5 1,234 mid-1990s AT&T O'Brien
            r"\.{2,}|[!?]+|-{2,}|``|''",
            r"\S",
        )
    )


def make_tokenizer(kind: str, sentences: Iterable[Sequence[str]]) -> PreTrainedTokenizerFast:
    """The tokenizer of a vocabulary: `word[:N]` (words seen at least N times, 2 by default) and `bpe:N`, both learnt
    in one pass over lists of words; `gpt2[:FOLDER]`; `model:CHECKPOINT` (that of a model).

    >>> tokenizer = make_tokenizer("word", [["the", "cat", "sees", "the", "cat"]])
    >>> tokenizer.decode(tokenizer("the cat purrs")["input_ids"])
    '<s> the cat UNK-LC-s'
    """
    counts, ends = Counter[str](), Counter[str]()
    for words in sentences:
        counts.update(words)
        ends.update(words[-1:])
    return learn_tokenizer(kind, counts, ends)


def learn_tokenizer(kind: str, counts: Mapping[str, int], ends: Mapping[str, int]) -> PreTrainedTokenizerFast:
    """The same from how often each word occurs, in the order in which words come, and how often it ends a sentence."""
    name, _, option = kind.partition(":")
    if kind == "word" or (name == "word" and option.isdecimal() and int(option) > 0):
        return word_tokenizer(counts, int(option or 2))
    if name == "gpt2":
        return gpt2_tokenizer(Path(option) if option else None)
    if name == "bpe" and option.isdecimal():
        return bpe_tokenizer(int(option), counts, ends)
    if name == "model" and option:
        return model_tokenizer(option)
    raise ValueError(f"a vocabulary is word[:N], bpe:N, gpt2[:FOLDER] or model:CHECKPOINT, got {kind!r}")


def word_tokenizer(counts: Mapping[str, int], min_count: int = 2) -> SOMTokenizer:
    """Word types seen at least `min_count` times, the UNK classes of the others, and the special tokens.

    A word spelled like a special token or a class is never known: the token's id would be the word's.
    """
    specials = (PAD, UNK, BOS, EOS)
    words = (word for word, count in Counter(counts).most_common() if count >= min_count)
    known = {word: None for word in words if word not in specials and not UNK_CLASS.fullmatch(word)}
    classes = {unk_class(word, known) for word in counts.keys() - known.keys()}
    tokens = (*specials, *sorted(classes - {"UNK"}), *known)
    backend = Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}, unk_token=UNK))
    set_word_rules(backend, known)
    return with_special_tokens(SOMTokenizer, backend, pad_token=PAD, unk_token=UNK, bos_token=BOS, eos_token=EOS)


def telling_classes(tokenizer: PreTrainedTokenizerFast) -> set[int]:
    """The UNK classes that tell more of a word than its case: an ending, a number, a hyphen; none of byte pairs."""
    classes = getattr(tokenizer, "classes", {})
    return {index for name, index in classes.items() if not CASE.issuperset(name.split("-"))}


def set_word_rules(backend: Tokenizer, words: Iterable[str]) -> None:
    """How a word vocabulary splits text into words and joins words to text."""
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(word_pattern(words)), behavior="removed", invert=True)
    no_space = "|".join(map(re.escape, (PAD, BOS, EOS)))
    space = decoders.Replace(Regex(rf"\A(?!(?:{no_space})\z)"), " ")
    backend.decoder = decoders.Sequence([space, decoders.Fuse(), *spacing()])


def bpe_tokenizer(size: int, counts: Mapping[str, int], ends: Mapping[str, int]) -> PreTrainedTokenizerFast:
    """A byte-level BPE of `size` tokens, learnt from sentences with so many of each word, and so many at the end."""
    specials, alphabet = [PAD, BOS, EOS], pre_tokenizers.ByteLevel.alphabet()
    if size < len(specials) + len(alphabet):
        raise ValueError(f"bpe:N needs N of at least {len(specials) + len(alphabet)}, the bytes and marks, got {size}")
    backend = byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    split, backend.pre_tokenizer = backend.pre_tokenizer, pre_tokenizers.WhitespaceSplit()
    backend.train_from_iterator(parts_of_words(split, counts, ends), trainer)
    backend.pre_tokenizer = split
    return with_special_tokens(PreTrainedTokenizerFast, backend, pad_token=PAD, bos_token=BOS, eos_token=EOS)


def parts_of_words(
    split: pre_tokenizers.PreTokenizer, counts: Mapping[str, int], ends: Mapping[str, int]
) -> Iterator[str]:
    """What words are split into, as often as they occur: of a sentence, that depends on nothing but where it ends."""
    for word, count in counts.items():
        last = ends.get(word, 0)
        if count > last:
            yield from many_times(split.pre_tokenize_str(f"{word} x")[:-1], count - last)
        if last:
            yield from many_times(split.pre_tokenize_str(word), last)


def many_times(parts: Sequence[tuple[str, Any]], times: int) -> Iterator[str]:
    """So often, in texts that are not too long."""
    words = [part for part, _ in parts]
    yield from repeat(" ".join(words * 1000), times // 1000)
    yield " ".join(words * (times % 1000))


def gpt2_tokenizer(folder: Path | None = None) -> PreTrainedTokenizerFast:
    """GPT-2's 50,257 byte pairs and a PAD; its end-of-text token is both BOS and EOS, as it is in GPT-2."""
    vocabulary, merges = (gpt2_file(folder, name) for name in ("vocab.json", "merges.txt"))
    backend = byte_level(models.BPE.from_file(vocabulary, merges))
    return with_special_tokens(
        PreTrainedTokenizerFast, backend, pad_token=GPT2_PAD, bos_token=GPT2_END, eos_token=GPT2_END
    )


def gpt2_file(folder: Path | None, name: str) -> str:
    """The path of one of GPT-2's two vocabulary files, in the folder or fetched from the Hub."""
    if folder:
        if not (folder / name).is_file():
            raise ValueError(f"{folder}: expected GPT-2's vocab.json and merges.txt, found no {name}")
        return str(folder / name)
    try:
        return hf_hub_download("openai-community/gpt2", name)
    except Exception as error:
        raise ValueError(
            f"GPT-2's {name} cannot be downloaded from the Hub; give its folder as gpt2:FOLDER"
        ) from error


def model_tokenizer(checkpoint: str) -> PreTrainedTokenizerFast:
    """The tokenizer of a model that was trained before."""
    try:
        tokenizer = load_tokenizer(checkpoint)
    except (OSError, ValueError) as error:
        raise ValueError(f"{checkpoint}: expected a checkpoint with a tokenizer") from error
    if None in (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id):
        raise ValueError(f"{checkpoint}: expected a tokenizer with tokens for beginning, end and padding")
    return tokenizer


def byte_level(model: models.BPE) -> Tokenizer:
    """A byte-level tokenizer whose words begin with a space, the first and those split off by `word_pattern` included.

    So "it sleeps." and "it sleeps ." have the same ids, those that a model trained on a treebank knows. Decoded, the
    first word keeps its space, as in GPT-2: new tokens can be appended to a prompt.
    """
    backend = Tokenizer(model)
    words = pre_tokenizers.Split(Regex(word_pattern(())), behavior="removed", invert=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=True)])
    backend.decoder = decoders.Sequence([decoders.ByteLevel(), *spacing()])
    return backend


def with_special_tokens(tokenizer_class: type[Fast], backend: Tokenizer, bos_token: str, **tokens: str) -> Fast:
    """The tokenizer with its special tokens and the conventions that `SOMTokenizer` explains."""
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in (bos_token, *tokens.values())])
    backend.post_processor = processors.TemplateProcessing(
        single=f"{bos_token} $A",
        pair=f"{bos_token} $A $B:1",
        special_tokens=[(bos_token, backend.token_to_id(bos_token))],
    )
    return tokenizer_class(
        tokenizer_object=backend,
        bos_token=bos_token,
        **tokens,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )
