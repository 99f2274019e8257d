"""The three kinds of vocabulary, and words against text."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, trainers
from transformers import AutoTokenizer

from modeling_som.sentences_som import encode, encode_sentences, encode_words, group_by_word
from modeling_som.tokenization_som import continuing_tokens, never_generated, unk_class
from som.data.vocabularies import BOS, EOS, PAD, byte_level, make_tokenizer

GPT2 = Path(__file__).parents[3] / "shared" / "data" / "gpt2-bpe"
SENTENCES = [
    ["The", "cat", "sleeps", "."],
    ["The", "dogs", "that", "the", "cat", "saw", "do", "n't", "sleep", "."],
    ["Ms.", "Smith", "'s", "mid-1990s", "café", "etc.", "is", "(", "not", ")", "nice", "!"],
]


def vocabulary(kind: str):
    if kind.startswith("gpt2") and not GPT2.is_dir():
        pytest.skip(f"GPT-2's vocabulary is not at {GPT2}")
    return make_tokenizer(kind, SENTENCES)


KINDS = ["word", "bpe:300", f"gpt2:{GPT2}"]


def test_the_word_vocabulary_holds_words_seen_twice_and_the_classes_of_the_others():
    sentences = (line.split() for line in ["b a b running Ran", "a b runs % Running 12"])
    tokenizer = make_tokenizer("word", sentences)  # one pass: this generator cannot be read again
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    classes = ["UNK-INITC", "UNK-INITC-ing", "UNK-LC-ing", "UNK-LC-s", "UNK-NUM"]
    assert tokens == ["<pad>", "<unk>", "<s>", "</s>", *classes, "b", "a"]
    assert tokenizer.vocab_size == len(tokens)


def test_rarer_words_can_be_left_to_their_classes():
    tokenizer = make_tokenizer("word:3", [["a", "a", "a", "runs", "runs", "cats", "Ran"]])
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    assert tokens == ["<pad>", "<unk>", "<s>", "</s>", "UNK-INITC", "UNK-LC-s", "a"]


def test_byte_pairs_learnt_from_counts_are_those_of_the_sentences():
    """What text is split into depends on nothing but a word and whether it is the last."""
    words = [
        "U.S.",
        "Mr.",
        "etc.",
        "no.",
        "dogs'",
        "can't",
        "``",
        ":)",
        "a@b.org",
        "www.a.org.",
        "'s",
        "n't",
        "A.",
        "1,2",
    ]
    sentences = [[first, second, first] for first in words for second in words]
    size = 700
    learnt = make_tokenizer(f"bpe:{size}", sentences).backend_tokenizer
    backend = byte_level(models.BPE())
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = [PAD, BOS, EOS]
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(map(" ".join, sentences), trainer)
    assert json.loads(learnt.to_str())["model"] == json.loads(backend.to_str())["model"]


@pytest.mark.parametrize("kind", KINDS)
def test_pad_is_not_eos_and_every_special_token_has_its_place(kind):
    tokenizer = vocabulary(kind)
    assert tokenizer.pad_token_id not in {tokenizer.bos_token_id, tokenizer.eos_token_id}
    assert None not in (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id)
    ids = tokenizer("The cat sleeps").input_ids
    assert ids[0] == tokenizer.bos_token_id and tokenizer.eos_token_id not in ids[1:]
    assert tokenizer(["The", "The cat sleeps"], padding=True).attention_mask[0][0] == 0  # on the left


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", SENTENCES, ids=" ".join)
def test_the_ids_of_words_are_those_of_the_text(kind, words):
    tokenizer = vocabulary(kind)
    ids = encode_words(tokenizer, words)
    assert len(ids) == len(words) and all(ids)
    assert [token for word in ids for token in word] == tokenizer(" ".join(words), add_special_tokens=False).input_ids


@pytest.mark.parametrize("kind", KINDS[1:])
def test_byte_pairs_of_raw_and_of_tokenised_text_are_the_same(kind):
    tokenizer = vocabulary(kind)
    raw, tokenised = "The dogs don't sleep (not nice!).", "The dogs do n't sleep ( not nice ! ) ."
    assert tokenizer(raw).input_ids == tokenizer(tokenised).input_ids
    assert tokenizer.decode(tokenizer(raw).input_ids, skip_special_tokens=True) == f" {raw}"


SPECIALS = ["<s>", "</s>", "<unk>", "<pad>", "<|endoftext|>", "<|pad|>", "UNK-LC", "UNK-LC-s"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", SPECIALS)
def test_special_tokens_in_a_text_are_ordinary_characters(kind, word):
    tokenizer = vocabulary(kind)
    specials = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
    for text in (f"The {word} sleeps", ["The", word, "sleeps"]):
        sentence = encode(tokenizer, text, eos=False)
        assert specials.isdisjoint(sentence.ids[1:])
        assert "".join(sentence.words) == f"The{word}sleeps"
        if kind == "word":
            tokens = tokenizer.convert_ids_to_tokens(sentence.ids[1:])
            assert word not in tokenizer.known and len(tokens) == len(sentence.words)
            for one, token in zip(sentence.words, tokens, strict=True):
                assert token in ({one} if one in tokenizer.known else {unk_class(one, tokenizer.known), "<unk>"})
        else:
            assert "".join(tokenizer.decode(sentence.ids[1:]).split()) == f"The{word}sleeps"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_never_generated_is_no_word(kind):
    tokenizer = vocabulary(kind)
    tokens = tokenizer.convert_ids_to_tokens(never_generated(tokenizer))
    classes = [token for token in tokenizer.get_vocab() if token.startswith("UNK-")]
    expected = {"word": ["<pad>", "<unk>", "<s>", *classes], "bpe:300": ["<pad>", "<s>"]}
    assert sorted(tokens) == sorted(expected.get(kind, ["<|pad|>"]))  # GPT-2's BOS is its EOS


@pytest.mark.parametrize("kind", KINDS[1:])
def test_offsets_of_byte_pairs_leave_the_spaces_out(kind):
    tokenizer = vocabulary(kind)
    text = "The dogs don't sleep."
    encoded = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    assert "".join(text[start:end] for start, end in encoded.offset_mapping) == text.replace(" ", "")


TINY = make_tokenizer("bpe:270", SENTENCES)
WORD = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(st.lists(WORD, min_size=1, max_size=5))
def test_byte_pairs_are_handed_out_to_the_right_words_in_any_script(words):
    groups = encode_words(TINY, words)
    assert len(groups) == len(words)
    assert ["".join(TINY.decode(group).split()) for group in groups] == words
    assert all(pieces_that_begin_a_word(TINY, group) == [0] for group in groups)


def pieces_that_begin_a_word(tokenizer, ids) -> list[int]:
    continues = continuing_tokens(tokenizer)
    return [place for place, token in enumerate(ids) if not continues[token]]


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("word", ["Yahoo!", "who's", "Sept.", "ha[[y", "w/", "+1", ":P", "xin chào", "#audiobooks"])
def test_a_word_that_text_would_split_is_one_unit_where_it_is_given_as_one(kind, word):
    tokenizer = vocabulary(kind)
    before, (ids, *_) = encode(tokenizer, ["The", "cat"]), encode_words(tokenizer, [word])
    assert pieces_that_begin_a_word(tokenizer, ids) == [0]
    assert tokenizer.decode(ids).strip() == word.replace(" ", "_")
    assert encode(tokenizer, ["The", word, "cat"], words=True).ids == [*before.ids[:2], *ids, *before.ids[2:]]


def test_many_sentences_at_once_are_the_sentences_one_by_one():
    for kind in KINDS[:2]:
        tokenizer = vocabulary(kind)
        assert encode_sentences(tokenizer, SENTENCES) == [encode_words(tokenizer, words) for words in SENTENCES]
        assert encode_sentences(tokenizer, []) == [] and encode_words(tokenizer, []) == []
        tokenizer(["The", "The cat"], padding=True, truncation=True, max_length=2)  # leaves no trace
        assert encode_sentences(tokenizer, SENTENCES) == [encode_words(tokenizer, words) for words in SENTENCES]


def test_ids_without_a_word_of_their_own_are_an_error():
    with pytest.raises(IndexError):
        group_by_word(["it"], [7, 8], [(0, 2), (3, 8)])


@pytest.mark.parametrize("kind", KINDS)
def test_saving_and_loading_changes_nothing(kind, tmp_path):
    tokenizer = vocabulary(kind)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert type(loaded) is type(tokenizer)
    for words in SENTENCES:
        text = " ".join(words)
        assert loaded(text, return_offsets_mapping=True) == tokenizer(text, return_offsets_mapping=True)
    assert (loaded.padding_side, loaded.pad_token_id) == (tokenizer.padding_side, tokenizer.pad_token_id)


def test_gpt2_keeps_its_ids_and_gets_one_more_for_padding():
    tokenizer = vocabulary(f"gpt2:{GPT2}")
    assert tokenizer("world").input_ids == [50256, 995]
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token_id) == ("<|endoftext|>",) * 2 + (50257,)
    assert (tokenizer.vocab_size, len(tokenizer)) == (50257, 50258)


def test_a_learnt_vocabulary_has_the_size_asked_for():
    assert len(vocabulary("bpe:300")) == 300


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("words", "got 'words'"),
        ("word:0", "got 'word:0'"),
        ("word:few", "got 'word:few'"),
        ("bpe", "got 'bpe'"),
        ("bpe:many", "got 'bpe:many'"),
        ("bpe:10", "at least 259.*got 10"),
        ("gpt2:/nowhere", "/nowhere: expected GPT-2's vocab.json"),
    ],
)
def test_a_vocabulary_that_cannot_be_made_is_refused_in_one_line(kind, message):
    with pytest.raises(ValueError, match=message) as caught:
        make_tokenizer(kind, SENTENCES)
    assert "\n" not in str(caught.value)


def test_the_vocabulary_of_a_model_is_taken_as_it_is(checkpoint):
    taken, own = make_tokenizer(f"model:{checkpoint}", SENTENCES), AutoTokenizer.from_pretrained(checkpoint)
    assert taken.get_vocab() == own.get_vocab() and type(taken) is type(own)


def test_a_model_without_a_vocabulary_that_marks_sentences_is_refused(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path}: expected a checkpoint with a tokenizer"):
        make_tokenizer(f"model:{tmp_path}", SENTENCES)
    tokenizer = vocabulary("bpe:300")
    tokenizer.bos_token = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="expected a tokenizer with tokens for beginning, end and padding"):
        make_tokenizer(f"model:{tmp_path}", SENTENCES)
