"""The word tokenizer: UNK classes, offsets, BOS, saving, and what others get who load it."""

import json
import os
import subprocess
import sys
import sysconfig
from itertools import pairwise, product
from pathlib import Path

import pytest
import torch
from conftest import make_model
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.models.auto.tokenization_auto import REGISTERED_TOKENIZER_CLASSES

from configuration_som import SOMConfig
from modeling_som import SOMTokenizer
from modeling_som.sentences_som import encode, running_text
from modeling_som.tokenization_som import SAVED_CLASS, load_tokenizer, unk_class
from som.data.vocabularies import make_tokenizer
from som.training.models import vocabulary

TRAIN = """\
The cat that the dogs chased sleeps .
The cat that the dogs saw walks .
Running is nice , running is n't bad , it 's 12 or 13 , is n't it ?
The zoo opened quickly in Rome , Mr. Smith and Mr. Jones said .
It 's nice , running , not bad ."""


@pytest.fixture(scope="module")
def tokenizer() -> SOMTokenizer:
    return make_tokenizer("word", map(str.split, TRAIN.splitlines()))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("1,234", "UNK-NUM"),
        ("mid-1990s", "UNK-LC-NUM-DASH-s"),
        ("glass", "UNK-LC"),
        ("Running", "UNK-INITC-KNOWNLC-ing"),
        ("Walking", "UNK-INITC-ing"),
        ("IBM", "UNK-CAPS"),
        ("eBay", "UNK-LC"),
        ("nominally", "UNK-LC-ly"),
        ("F-16", "UNK-INITC-NUM-DASH"),
        ("%", "UNK"),
        ("A", "UNK-INITC"),
        ("'Twas", "UNK-CAPS-s"),  # the first character is no letter, and there is a capital
        ("bus", "UNK-LC"),  # s after u: no -s, and no other ending either
        ("as", "UNK-LC"),  # an ending in s counts from three characters
        ("was", "UNK-LC-s"),
        ("fly", "UNK-LC"),  # other endings count from five characters
        ("needy", "UNK-LC-y"),
        ("city", "UNK-LC"),
        ("unity", "UNK-LC-ity"),  # -ity stands before -y
        ("re-entered", "UNK-LC-DASH"),  # no other ending with a hyphen
        ("B2Bing", "UNK-CAPS-NUM"),  # no other ending with both a digit and a capital
        ("b2being", "UNK-LC-NUM-ing"),
        ("Élan", "UNK-INITC"),
        ("ABS", "UNK-CAPS-s"),
        ("", "UNK"),
    ],
)
def test_unk_classes_are_those_of_the_specification(word, expected):
    assert unk_class(word, {"running"}) == expected


def test_an_unknown_word_has_the_id_of_its_class_wherever_it_stands(tokenizer):
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("The cat zoomed . Rome").input_ids)
    assert tokens == ["<s>", "The", "cat", "UNK-LC-ed", ".", "UNK-INITC"]


def test_a_class_that_training_has_not_seen_is_plain_unk(tokenizer):
    assert tokenizer.tokenize("The % F-16") == ["The", "<unk>", "<unk>"]


def test_every_way_of_calling_gives_the_same_ids(tokenizer):
    text = "The cat zoomed past Rome ."
    ids = tokenizer(text).input_ids
    assert "UNK-LC-ed" in tokenizer.convert_ids_to_tokens(ids)
    assert tokenizer.encode(text) == ids
    assert tokenizer([text, "The cat"]).input_ids[0] == ids
    assert tokenizer(text.split(), is_split_into_words=True).input_ids == ids
    assert tokenizer([text.split(), ["The"]], is_split_into_words=True).input_ids[0] == ids
    assert tokenizer(text, return_tensors="pt").input_ids.tolist() == [ids]
    assert tokenizer([text], return_tensors="pt").input_ids.tolist() == [ids]
    assert tokenizer(text, add_special_tokens=False).input_ids == ids[1:]
    assert tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) == ids[1:]


def test_padding_truncation_and_overflow_keep_the_classes(tokenizer):
    text = "The cat zoomed past Rome ."
    ids = tokenizer(text).input_ids
    padded = tokenizer([text, "zoomed"], padding=True)
    assert padded.input_ids[1] == [tokenizer.pad_token_id] * 5 + [tokenizer.bos_token_id, ids[3]]
    assert padded.attention_mask[1] == [0] * 5 + [1, 1]
    right = tokenizer([text, "zoomed"], padding=True, padding_side="right")
    assert right.input_ids[1] == [tokenizer.bos_token_id, ids[3]] + [tokenizer.pad_token_id] * 5
    assert tokenizer(text, truncation=True, max_length=4).input_ids == ids[:4]
    rows = tokenizer(text, truncation=True, max_length=3, return_overflowing_tokens=True)
    assert [token for row in rows.input_ids for token in row[1:]] == ids[1:]
    assert len(tokenizer("The cat", padding="max_length", max_length=8).input_ids) == 8
    assert tokenizer(text, return_length=True).length == [len(ids)]


def test_pairs_of_texts_are_looked_up_each_in_its_own_text(tokenizer):
    expected = ["<s>", "The", "UNK-LC-ed", "cat", "UNK-INITC"]
    batches = [
        tokenizer(["The zoomed"], ["cat Rome"]),
        tokenizer([("The zoomed", "cat Rome")]),
        tokenizer([["The", "zoomed"]], [["cat", "Rome"]], is_split_into_words=True),
        tokenizer([(["The", "zoomed"], ["cat", "Rome"])], is_split_into_words=True),
    ]
    assert tokenizer.convert_ids_to_tokens(tokenizer("The zoomed", "cat Rome").input_ids) == expected
    for batch in batches:
        assert tokenizer.convert_ids_to_tokens(batch.input_ids[0]) == expected


def test_offsets_are_those_of_the_words_in_the_text(tokenizer):
    text = "  The cat   zoomed (past Rome), isn't it?"
    encoded = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    words = [text[start:end] for start, end in encoded.offset_mapping]
    assert words == ["The", "cat", "zoomed", "(", "past", "Rome", ")", ",", "is", "n't", "it", "?"]
    assert [tokenizer.word_id(word) for word in words] == encoded.input_ids


def test_bos_stands_in_front_once_and_eos_nowhere(tokenizer):
    assert tokenizer("The cat").input_ids.count(tokenizer.bos_token_id) == 1
    assert tokenizer.eos_token_id not in tokenizer("The cat .").input_ids
    assert tokenizer("").input_ids == [tokenizer.bos_token_id]
    assert len({tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id}) == 4


def test_special_tokens_written_in_the_text_are_understood_unless_they_are_to_be_split(tokenizer):
    tokens = tokenizer.tokenize("The <unk> cat</s>")  # some tools append the EOS they want to have scored
    assert tokens == ["The", "<unk>", "cat", "</s>"]
    ids = tokenizer("<s> The <unk> cat</s><pad>", add_special_tokens=False, split_special_tokens=True).input_ids
    assert set(ids).isdisjoint({tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id})
    assert tokenizer.tokenize("The cat</s>") == ["The", "cat", "</s>"]  # the next call is as before


@pytest.mark.parametrize("word", ["UNK-LC-ed", "UNK-LC", "UNK-INITC-KNOWNLC"])
def test_a_class_spelled_in_a_text_is_an_unknown_word_like_others(tokenizer, word):
    assert unk_class(word, tokenizer.known) == "UNK-CAPS-DASH"  # which this treebank does not have
    assert tokenizer.tokenize(f"The {word} cat") == ["The", "<unk>", "cat"]
    assert tokenizer(["The", word], is_split_into_words=True).input_ids[2:] == [tokenizer.unk_token_id]
    assert tokenizer.word_id(word) == tokenizer.unk_token_id


@pytest.mark.parametrize("word", ["<s>", "</s>", "<unk>", "<pad>", "UNK-LC", "UNK-NUM"])
def test_a_treebank_with_words_like_special_tokens_has_them_as_unknown_words(word):
    tokenizer = make_tokenizer("word", [["the", word, "cat"], ["the", word, "cat"]])
    ids = [tokenizer.word_id(one) for one in ("the", word, "cat")]
    assert tokenizer.convert_ids_to_tokens(ids) == ["the", unk_class(word, {}), "cat"]
    assert encode(tokenizer, ["the", word, "cat"], eos=False).ids == [tokenizer.bos_token_id, *ids]
    assert len({*tokenizer.known.values(), *tokenizer.classes.values(), *tokenizer.all_special_ids}) == len(tokenizer)


def test_the_word_unk_is_a_word():
    tokenizer = make_tokenizer("word", [["UNK", "UNK", "once"]])
    assert tokenizer.tokenize("UNK twice") == ["UNK", "UNK-LC"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat that the dogs chased sleeps.", "The cat that the dogs chased sleeps ."),
        ("The U.S. grew 1,234.5% in the mid-1990s.", "The U.S. grew 1,234.5 % in the mid-1990s ."),
        ("I don't, can't and cannot.", "I do n't , ca n't and can not ."),
        ("She'll see the dogs' and O'Brien's bones.", "She 'll see the dogs ' and O'Brien 's bones ."),
        ('"Go!" said Mr. J. Smith (at 3:30).', '" Go ! " said Mr. J. Smith ( at 3:30 ) .'),
        ("It’s over... isn’t it?! Yes.", "It ’s over ... is n’t it ?! Yes ."),
        ("Dogs bark. Cats sleep.", "Dogs bark . Cats sleep ."),
        ("Write to a.b@c.org or www.d.org/e?f=1", "Write to a.b@c.org or www.d.org/e?f=1"),
        ("Write to a.b@c.org.", "Write to a.b@c.org ."),
        ("See www.d.org/e, http://f.org/g_(h)?", "See www.d.org/e , http://f.org/g_(h ) ?"),
        ("<a_b+c@d-e.co.uk>, x@y", "< a_b+c@d-e.co.uk > , x@y"),
        ("I CAN'T, CANNOT and DON’T.", "I CA N'T , CAN NOT and DO N’T ."),
        ("Mr. Jones etc., Inc.; they", "Mr. Jones etc. , Inc. ; they"),
        ("well--no", "well -- no"),
    ],
)
def test_raw_text_is_split_like_a_treebank_and_text_in_tokens_stays(tokenizer, text, expected):
    split = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str
    assert [word for word, _ in split(text)] == expected.split()
    assert [word for word, _ in split(expected)] == expected.split()


def test_abbreviations_are_learnt_from_the_treebank():
    split = make_tokenizer("word", [["approx.", "five"]] * 2).backend_tokenizer.pre_tokenizer.pre_tokenize_str
    assert [word for word, _ in split("It is approx. five.")] == ["It", "is", "approx.", "five", "."]


@pytest.mark.parametrize("unit", ["a", "a@", "@", "a.", "a@a.", "www.", "http://", "'", "n't", '"', "(", "-", "a-"])
def test_long_strings_without_spaces_are_split_in_linear_time(tokenizer, unit):
    text = unit * (200_000 // len(unit))  # in quadratic time, this would go on for minutes
    spans = [span for _, span in tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text)]
    assert spans[0][0] == 0 and spans[-1][1] == len(text) and all(a[1] == b[0] for a, b in pairwise(spans))


TEXTS = [
    "The cat isn't nice, it's bad.",
    "Dogs can't sleep and cannot walk; they won't.",
    "I'm here, we've seen it, you'll go, he'd say.",
    "The dogs' bones and O'Brien's cat (in Rome) cost $5 or 12%.",
    'He said "go" and "no", then: "Stop!"',
    '("Is it?" she asked.)',
    "Mr. Smith of Jones Inc., in the U.S., said so...",
    "YOU CAN'T, THEY'RE LATE!",
    "It’s “nice” [not bad], isn’t it?!",
    "A well-known cat - a nice one -- walks 1,234.5 km at 3:30.",
    "Write to a.b@c.org or see www.d.org/e.",
]


@pytest.mark.parametrize("kind", ["word", "bpe:300"])
@pytest.mark.parametrize("text", TEXTS)
def test_decoding_gives_the_text_back_and_its_tokens_are_the_same(kind, text):
    splitter = make_tokenizer("word", []).backend_tokenizer.pre_tokenizer
    words = [word for word, _ in splitter.pre_tokenize_str(text)]
    tokenizer = make_tokenizer(kind, [words, words])
    ids = tokenizer(text).input_ids
    assert tokenizer.decode(ids[1:]) == f" {text}"  # each word brings its space
    assert tokenizer.decode(ids) == f"<s> {text}"
    assert tokenizer(tokenizer.decode(ids[1:])).input_ids == ids
    assert tokenizer.decode([*ids, tokenizer.eos_token_id]) == f"<s> {text}</s>"
    assert running_text(words) == text


@pytest.mark.parametrize(
    ("prompt", "rest"), [("The cat", " isn't nice."), ("The cat is", "n't nice."), ("The cat", ", bad")]
)
def test_new_tokens_alone_decode_to_what_can_be_appended_to_the_prompt(tokenizer, prompt, rest):
    ids = tokenizer(rest, add_special_tokens=False).input_ids
    assert tokenizer.decode(ids) == rest
    whole = [*tokenizer(prompt).input_ids, *ids]
    assert tokenizer.decode(whole, skip_special_tokens=True) == prompt + rest


def test_whole_texts_begin_without_a_space_whatever_is_padded(tokenizer):
    rows = tokenizer(["The cat walks.", "The cat"], padding=True, return_tensors="pt").input_ids
    assert tokenizer.batch_decode(rows, skip_special_tokens=True) == ["The cat UNK-LC-s.", "The cat"]
    assert tokenizer.batch_decode(rows)[1] == "<pad><pad><s> The cat"
    assert tokenizer.decode(tokenizer.known["cat"]) == " cat"


LOAD = """
import builtins, sys
sys.path.append({packages!r})  # python -S: the installed packages, but not this project
builtins.input = lambda *_: print("PROMPT") or "n"
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained({folder!r}, trust_remote_code={trust})
print(*tokenizer.tokenize("The cat zoomed ."), tokenizer("The cat").input_ids, tokenizer.padding_side)
assert tokenizer.decode(tokenizer("cat isn't nice.").input_ids) == "<s> cat isn't nice."
assert not {{"tokenization_som", "som"}} & set(sys.modules)
"""


def load_elsewhere(folder: Path, trust: bool | None, cache: Path) -> str:
    """What a process without this project gets from AutoTokenizer."""
    code = LOAD.format(packages=sysconfig.get_path("purelib"), folder=str(folder), trust=trust)
    environment = {**os.environ, "HF_MODULES_CACHE": str(cache), "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=cache, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def checkpoint(tokenizer, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    SOMConfig(vocab_size=len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_process_without_the_package_loads_it_as_remote_code(tokenizer, checkpoint, tmp_path):
    ids = tokenizer("The cat").input_ids
    assert load_elsewhere(checkpoint, True, tmp_path) == f"The cat UNK-LC-ed . {ids} left"
    tokenizer.save_pretrained(tmp_path / "alone")
    assert load_elsewhere(tmp_path / "alone", True, tmp_path) == f"The cat UNK-LC-ed . {ids} left"


def test_without_remote_code_unknown_words_are_plain_unk_and_nobody_is_asked(tokenizer, tmp_path):
    folder = tmp_path / "tokenizer"
    tokenizer.save_pretrained(folder)
    ids = tokenizer("The cat").input_ids
    assert load_elsewhere(folder, None, tmp_path) == f"The cat <unk> . {ids} left"


def test_a_checkpoint_loaded_by_others_without_remote_code_gives_plain_unk(tokenizer, checkpoint, tmp_path):
    # with trust_remote_code unset, AutoConfig itself asks about the model's code before any tokenizer is looked for
    ids = tokenizer("The cat").input_ids
    assert load_elsewhere(checkpoint, False, tmp_path) == f"The cat <unk> . {ids} left"
    assert load_elsewhere(checkpoint, None, tmp_path) == f"PROMPT\nThe cat <unk> . {ids} left"


def test_a_prefix_of_file_names_is_kept(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path, filename_prefix="words")
    assert SAVED_CLASS in (tmp_path / "words-tokenizer_config.json").read_text()


def test_with_the_package_no_remote_code_is_needed(tokenizer, checkpoint, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    for folder, load in product((checkpoint, tmp_path), (AutoTokenizer.from_pretrained, load_tokenizer)):
        loaded = load(folder)
        assert type(loaded) is SOMTokenizer
        assert loaded("The cat zoomed").input_ids == tokenizer("The cat zoomed").input_ids
        assert loaded.get_vocab() == tokenizer.get_vocab()


@pytest.mark.parametrize("kind", ["word", "bpe:300"])
def test_a_tokenizer_saved_again_says_nothing_of_where_it_was_loaded(kind, tmp_path):
    make_tokenizer(kind, [["the", "cat"]]).save_pretrained(tmp_path / "first")
    load_tokenizer(tmp_path / "first").save_pretrained(tmp_path / "second")
    first, second = (
        json.loads((tmp_path / name / "tokenizer_config.json").read_text()) for name in ("first", "second")
    )
    assert first == second and not any("local" in name for name in first)


def test_a_word_vocabulary_is_recognised_whoever_saved_it(tokenizer, checkpoint, tmp_path, monkeypatch):
    PreTrainedTokenizerFast.from_pretrained(checkpoint).save_pretrained(tmp_path)  # the plain class
    assert type(AutoTokenizer.from_pretrained(tmp_path)) is not SOMTokenizer
    assert load_tokenizer(tmp_path).tokenize("The cat zoomed") == ["The", "cat", "UNK-LC-ed"]
    monkeypatch.delitem(REGISTERED_TOKENIZER_CLASSES, SAVED_CLASS)
    assert type(AutoTokenizer.from_pretrained(checkpoint)) is not SOMTokenizer
    assert type(load_tokenizer(checkpoint)) is SOMTokenizer


BESIDE = """
import builtins
builtins.input = lambda *_: exit("PROMPT")
import som
from som.training.batches import load_data
from modeling_som.tokenization_som import load_tokenizer
from som.data import make_tokenizer
model, tokenizer = som.load("som")
for loaded in (tokenizer, load_tokenizer("som"), make_tokenizer("model:som", [])):
    print(*loaded.tokenize("the old Whale"))
"""


def test_a_run_named_som_beside_a_script_is_loaded_without_a_question(tmp_path):
    tokenizer = make_tokenizer("word", [["the", "old", "Dog"], ["the", "old", "cat"]])
    make_model(dtype=torch.float32, **vocabulary(tokenizer)).save_pretrained(tmp_path / "som")
    tokenizer.save_pretrained(tmp_path / "som")
    (tmp_path / "script.py").write_text(BESIDE)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["the old UNK-INITC"] * 3
