"""Vocabularies as fast tokenizers: words with UNK classes, GPT-2's byte pairs, byte pairs learnt from the data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub import hf_hub_download
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.models.auto.tokenization_auto import get_tokenizer_config

from modeling_som import SOMTokenizer
from modeling_som.tokenization_som import UNK_CLASS, unk_class

Fast = TypeVar("Fast", bound=PreTrainedTokenizerFast)
PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<s>", "</s>"
GPT2_END, GPT2_PAD = "<|endoftext|>", "<|pad|>"

ABBREVIATIONS = r"(?:Co|Corp|Dr|Inc|Jr|Ltd|Mr|Mrs|Ms|Prof|Sr|St|etc|vs)\."
ALNUM = r"[\p{L}\p{M}\p{N}]"
CLITIC = r"['’](?:s|re|ve|ll|d|m|S|RE|VE|LL|D|M)\b"
NOT = r"(?:n['’]t|N['’]T)\b"
URL = r"(?:https?://|www\.)\S*[^\s.,;:!?'\"’”)\]}>]"  # without the marks behind it
LOCAL = r"[\p{L}\p{N}._%+-]"  # characters of an e-mail address before the @; tried once per run of them
EMAIL = rf"(?<!{LOCAL}){LOCAL}++@[\p{{L}}\p{{N}}_-]++(?:\.[\p{{L}}\p{{N}}_-]++)++"
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
    name, _, option = kind.partition(":")
    if kind == "word" or (name == "word" and option.isdecimal() and int(option) > 0):
        return word_tokenizer(sentences, int(option or 2))
    if name == "gpt2":
        return gpt2_tokenizer(Path(option) if option else None)
    if name == "bpe" and option.isdecimal():
        return bpe_tokenizer(int(option), sentences)
    if name == "model" and option:
        return model_tokenizer(option)
    raise ValueError(f"a vocabulary is word[:N], bpe:N, gpt2[:FOLDER] or model:CHECKPOINT, got {kind!r}")


def word_tokenizer(sentences: Iterable[Sequence[str]], min_count: int = 2) -> SOMTokenizer:
    """Word types seen at least `min_count` times, the UNK classes of the others, and the special tokens.

    A word spelled like a special token or a class is never known: the token's id would be the word's.
    """
    counts = Counter(word for words in sentences for word in words)
    specials = (PAD, UNK, BOS, EOS)
    words = (word for word, count in counts.most_common() if count >= min_count)
    known = {word: None for word in words if word not in specials and not UNK_CLASS.fullmatch(word)}
    classes = {unk_class(word, known) for word in counts.keys() - known.keys()}
    tokens = (*specials, *sorted(classes - {"UNK"}), *known)
    backend = Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}, unk_token=UNK))
    set_word_rules(backend, known)
    return finish(SOMTokenizer, backend, pad_token=PAD, unk_token=UNK, bos_token=BOS, eos_token=EOS)


def set_word_rules(backend: Tokenizer, words: Iterable[str]) -> None:
    """How a word vocabulary splits text into words and joins words to text."""
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(word_pattern(words)), behavior="removed", invert=True)
    no_space = "|".join(map(re.escape, (PAD, BOS, EOS)))
    space = decoders.Replace(Regex(rf"\A(?!(?:{no_space})\z)"), " ")
    backend.decoder = decoders.Sequence([space, decoders.Fuse(), *spacing()])


def spacing() -> list[decoders.Decoder]:
    """The steps of `SPACING`, as part of a decoder that is saved with the tokenizer."""
    return [decoders.Replace(Regex(pattern), content) for pattern, content in SPACING]


def running_text(words: Iterable[str]) -> str:
    """Words as text, with the spaces that `decode` gives.

    >>> running_text(["I", "ca", "n't", "(", "or", "wo", "n't", ")", "say", '"', "go", '"', "."])
    'I can\\'t (or won\\'t) say "go".'
    """
    return decoders.Sequence(spacing()).decode(["".join(f" {word}" for word in words)]).removeprefix(" ")


def bpe_tokenizer(size: int, sentences: Iterable[Sequence[str]]) -> PreTrainedTokenizerFast:
    """A byte-level BPE of `size` tokens, learnt from the sentences."""
    specials, alphabet = [PAD, BOS, EOS], pre_tokenizers.ByteLevel.alphabet()
    if size < len(specials) + len(alphabet):
        raise ValueError(f"bpe:N needs N of at least {len(specials) + len(alphabet)}, the bytes and marks, got {size}")
    backend = byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator((" ".join(words) for words in sentences), trainer)
    return finish(PreTrainedTokenizerFast, backend, pad_token=PAD, bos_token=BOS, eos_token=EOS)


def gpt2_tokenizer(folder: Path | None = None) -> PreTrainedTokenizerFast:
    """GPT-2's 50,257 byte pairs and a PAD; its end-of-text token is both BOS and EOS, as it is in GPT-2."""
    vocabulary, merges = (gpt2_file(folder, name) for name in ("vocab.json", "merges.txt"))
    backend = byte_level(models.BPE.from_file(vocabulary, merges))
    return finish(PreTrainedTokenizerFast, backend, pad_token=GPT2_PAD, bos_token=GPT2_END, eos_token=GPT2_END)


def gpt2_file(folder: Path | None, name: str) -> str:
    """The path of one of GPT-2's two vocabulary files, in the folder or fetched from the Hub."""
    if folder:
        if not (folder / name).is_file():
            raise ValueError(f"{folder}: expected GPT-2's vocab.json and merges.txt, found no {name}")
        return str(folder / name)
    try:
        return hf_hub_download("openai-community/gpt2", name)
    except Exception as error:
        raise ValueError(f"GPT-2's {name} is not to be had from the Hub; give its folder as gpt2:FOLDER") from error


def model_tokenizer(checkpoint: str) -> PreTrainedTokenizerFast:
    """The tokenizer of a model that was trained before."""
    try:
        tokenizer = load_tokenizer(checkpoint)
    except (OSError, ValueError) as error:
        raise ValueError(f"{checkpoint}: expected a checkpoint with a tokenizer") from error
    if None in (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id):
        raise ValueError(f"{checkpoint}: expected a tokenizer with tokens for beginning, end and padding")
    return tokenizer


def load_tokenizer(path: str | Path) -> PreTrainedTokenizerFast:
    """A saved tokenizer, without running code that lies beside it and without asking whether to.

    That of a word vocabulary is a `SOMTokenizer` also where another tool has saved it as a plain fast tokenizer.
    """
    tokenizer: Any = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    named = "SOMTokenizer" in str(get_tokenizer_config(path).get("auto_map"))
    if (named or any(map(UNK_CLASS.fullmatch, tokenizer.get_vocab()))) and not isinstance(tokenizer, SOMTokenizer):
        tokenizer = SOMTokenizer.from_pretrained(path)
    for name in ("is_local", "local_files_only"):  # about this loading, and no part of what is saved again
        tokenizer.init_kwargs.pop(name, None)
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


def finish(tokenizer_class: type[Fast], backend: Tokenizer, bos_token: str, **tokens: str) -> Fast:
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


def continuing_tokens(tokenizer: PreTrainedTokenizerFast) -> list[bool]:
    """Of every token, whether it is a piece that continues a word; none in a word vocabulary.

    >>> tokenizer = make_tokenizer("bpe:262", [["the", "the", "the", "the"]])
    >>> inside = continuing_tokens(tokenizer)
    >>> [inside[tokenizer.convert_tokens_to_ids(token)] for token in ("Ġthe", "he", "<s>")]
    [False, True, False]
    """
    if hasattr(tokenizer, "word_id"):
        return [False] * len(tokenizer)
    whole = set(tokenizer.all_special_tokens)
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    return [not token.startswith("Ġ") and token not in whole for token in tokens]


def never_generated(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids that are no words to generate: special tokens but EOS, and the classes of unknown words."""
    unknown = getattr(tokenizer, "unknown_ids", ())  # of a word vocabulary
    return sorted({*tokenizer.all_special_ids, *unknown} - {tokenizer.eos_token_id})


def encode_words(tokenizer: PreTrainedTokenizerFast, words: Sequence[str]) -> list[list[int]]:
    """One list of ids per word, without BOS and EOS: those of the words joined by single spaces.

    >>> tokenizer = make_tokenizer("word", [["the", "cat", "sees", "the", "cat"]])
    >>> encode_words(tokenizer, ["the", "cat"])
    [[5], [6]]
    """
    return encode_sentences(tokenizer, [words])[0]


def encode_sentences(tokenizer: PreTrainedTokenizerFast, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
    """`encode_words` for many sentences at once.

    In a word vocabulary each word is one id, whatever its spelling; of byte pairs, a word has those in its place.
    """
    if hasattr(tokenizer, "word_id"):
        ids = {word: [tokenizer.word_id(word)] for word in {word for words in sentences for word in words}}
        return [[ids[word] for word in words] for words in sentences]
    texts = [" ".join(words) for words in sentences]
    if not texts:
        return []
    encoded = tokenizer(texts, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
    return list(map(group_by_word, sentences, encoded["input_ids"], encoded["offset_mapping"]))


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
