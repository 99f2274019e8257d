import json
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from datasets import Dataset, DatasetDict, load_from_disk
from trees_enumerated import all_trees

from modeling_som.sentences_som import encode_words, running_text
from modeling_som.tokenization_som import load_tokenizer
from som.data.collator import SOMCollator
from som.data.datasets import (
    ENCODED,
    PREPARE_LOCK,
    SPLITS,
    fingerprint,
    in_use,
    prepare,
    token_siblings,
    treebank_dataset,
)
from som.data.sources import hub_sentences
from som.data.summary import typical_tree, vocabulary_advice
from som.data.vocabularies import make_tokenizer
from som.syntax.labels import Tags
from som.syntax.oracle import first_siblings, gold_depths, tree_from_depths
from som.syntax.treebanks import Example, TreebankError, read_file, read_treebank, to_conllu
from som.syntax.trees import Tree, binarise

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data is not there")

DOG = (["the", "dog", "barks"], [2, 3, 0])
HEARING = (["a", "hearing", "is", "scheduled", "on", "the", "issue", "today"], [2, 4, 4, 0, 7, 7, 2, 4])
CAT = (["the", "unbelievable", "cat", "barks", "today"], [3, 3, 4, 0, 4])
SENTENCES = {"train": [DOG, DOG, HEARING, HEARING], "validation": [CAT], "test": [HEARING, DOG]}


@pytest.fixture
def files(tmp_path):
    """A tiny treebank: one file a split."""
    paths = {}
    for split, sentences in SENTENCES.items():
        paths[split] = [tmp_path / f"{split}.conllu"]
        paths[split][0].write_text("".join(to_conllu(*sentence) for sentence in sentences))
    return paths


def rows(dataset):
    return [dict(row) for row in dataset]


def test_a_data_set_comes_back_from_disk_as_it_was_made(files, tmp_path):
    prepare(files, tmp_path / "out")
    data = load_from_disk(tmp_path / "out")
    assert isinstance(data, DatasetDict) and list(data) == ["train", "validation", "test"]
    assert data["train"].features == ENCODED
    tokenizer = make_tokenizer("word", [words for words, _ in SENTENCES["train"]])
    for split, sentences in SENTENCES.items():
        assert data[split]["words"][:] == [words for words, _ in sentences]
        for row, example in zip(data[split], read_treebank(files[split]), strict=True):
            ids = [tokenizer.bos_token_id, *map(tokenizer.word_id, row["words"]), tokenizer.eos_token_id]
            assert row["input_ids"] == ids
            assert row["first_sibling"] == first_siblings(Tree(("BOS", example.tree, "EOS")))
            assert Tree.parse(row["tree"]) == example.tree
            assert row["length"] == len(ids) == len(row["first_sibling"])


def test_the_summary_counts_what_is_there(files, tmp_path):
    summary = prepare(files, tmp_path / "out", num_slots=2)
    assert json.loads((tmp_path / "out" / "som.json").read_text()) == summary
    assert (summary["tokenizer"], summary["silver"], summary["num_slots"]) == ("word", None, 2)
    # dog: the 1, dog 2, barks 2; hearing: a 1, hearing 2, is 2, scheduled 2, on 2, the 3, issue 3, today 2
    assert summary["splits"]["test"] == {
        "files": [str(files["test"][0])],
        "trees": "dependency",
        "sentences": 2,
        "words": 11,
        "tokens": 11,
        "depth_max": 3,
        "depth_median": 2.5,
        "depth_mean": 2.5,
        "token_depth_mean": 22 / 11,
        "lifted_arcs": 1,
        "lifted_sentences": 1,
        "clamped": 1,
        "unknown": 0,
        "told": 0,
        "skipped": 0,
    }
    assert summary["splits"]["validation"]["unknown"] == 2


@pytest.mark.parametrize("tree", all_trees(4), ids=str)
@pytest.mark.parametrize("pieces", [(1, 1, 1, 1), (2, 1, 3, 1), (1, 3, 1, 2)])
def test_pieces_of_a_word_are_a_flat_constituent_in_its_place(tree, pieces):
    pieces = pieces[: len(tree.words())]

    def cut(text):  # the same done to the tree itself
        for word, count in enumerate(pieces):
            if count > 1:
                text = text.replace(str(word), f"({' '.join(f'{chr(97 + word)}{chr(97 + n)}' for n in range(count))})")
        return Tree.parse(text)

    assert token_siblings(first_siblings(tree), pieces) == first_siblings(Tree(("BOS", cut(str(tree)), "EOS")))


def test_depths_made_from_the_data_give_the_trees_back(files, tmp_path):
    prepare(files, tmp_path / "out")
    for row in load_from_disk(tmp_path / "out")["test"]:
        depths = gold_depths(row["first_sibling"])
        assert tree_from_depths(depths[1:-1], row["words"]) == binarise(Tree.parse(row["tree"]))


def test_words_in_pieces_are_constituents_of_the_data(files, tmp_path):
    prepare(files, tmp_path / "out", tokenizer="bpe:300")
    (row,) = load_from_disk(tmp_path / "out")["validation"]
    tokenizer = make_tokenizer("bpe:300", [words for words, _ in SENTENCES["train"]])
    tokens = tokenizer.convert_ids_to_tokens(row["input_ids"])[1:-1]
    spans = tree_from_depths(gold_depths(row["first_sibling"])[1:-1], tokens).spans()
    starts = [index for index, token in enumerate(tokens) if token.startswith("Ġ")]
    assert len(starts) == len(row["words"]) < len(tokens)
    for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True):
        assert end - start == 1 or (start, end) in spans


@pytest.mark.parametrize("num_proc", [1, 2])
def test_rows_keep_the_order_of_the_files_whatever_the_number_of_processes(tmp_path, num_proc):
    files = []
    for name in range(5):
        files.append(tmp_path / f"{9 - name}.conllu")
        files[-1].write_text("".join(to_conllu([f"w{name}", f"v{number}"], [2, 0]) for number in range(30)))
    summary = prepare(dict.fromkeys(("train", "validation", "test"), files), tmp_path / "out", num_proc=num_proc)
    expected = [[f"w{name}", f"v{number}"] for name in range(5) for number in range(30)]
    for split in load_from_disk(tmp_path / "out").values():
        assert split["words"][:] == expected
    assert summary["splits"]["test"]["sentences"] == 150


def content(folder):
    """Every file of a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("kind", ["word", "bpe:300"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_one_file_is_read_by_several_processes_to_the_same_bytes(tmp_path, monkeypatch, end, kind):
    file = tmp_path / "one.conllu"
    relations = [["root", "a", f"b{number % 5}"] for number in range(40)]
    sentences = [
        to_conllu([f"w{number % 7}."] * count, [0, 1, 1][:count], relations[number][:count])
        for number, count in enumerate([1, 2, 3, 1] * 10)
    ]
    sentences[9:12] = ["1\tbad\n\n"] * 3  # a part with nothing else
    file.write_bytes("".join(sentences).replace("\n", end).encode())
    splits = dict.fromkeys(("train", "validation", "test"), [file])
    prepare(splits, tmp_path / "whole", tokenizer=kind, skip_bad=True)
    monkeypatch.setattr("som.syntax.treebanks.PART", 50)
    for count in (1, 3):
        prepare(splits, tmp_path / str(count), tokenizer=kind, skip_bad=True, num_proc=count)
        assert content(tmp_path / str(count)) == content(tmp_path / "whole")
    train = load_from_disk(tmp_path / "3")["train"]
    assert train["words"][:] == [list(example.words) for example in read_file(file) if isinstance(example, Example)]


def test_an_indented_file_of_brackets_is_read_by_several_processes_to_the_same_bytes(tmp_path, monkeypatch):
    file = tmp_path / "one.mrg"
    file.write_text("".join(f" (S (NP (NN w{number % 7}))\n    (VP (VB x)))\n" for number in range(40)))
    splits = dict.fromkeys(("train", "validation", "test"), [file])
    prepare(splits, tmp_path / "whole")
    monkeypatch.setattr("som.syntax.treebanks.PART", 100)
    for count in (1, 2):
        prepare(splits, tmp_path / str(count), num_proc=count)
        assert content(tmp_path / str(count)) == content(tmp_path / "whole")


def test_of_several_processes_the_first_error_in_the_file_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("som.syntax.treebanks.PART", 50)
    file, good = tmp_path / "one.conllu", to_conllu(["a", "b"], [2, 0])
    file.write_text(good * 20 + "1\tbad\n\n" + good * 40 + "1\tworse\n\n" + good * 20)
    with pytest.raises(TreebankError, match="one.conllu:61: expected 10 columns"):
        prepare(dict.fromkeys(("train", "validation", "test"), [file]), tmp_path / "out", num_proc=2)


def test_a_changed_file_changes_the_data(files, tmp_path):
    prepare(files, tmp_path / "out")
    before = load_from_disk(tmp_path / "out")["test"]
    files["test"][0].write_text(to_conllu(*CAT))
    prepare(files, tmp_path / "out", overwrite=True)
    after = load_from_disk(tmp_path / "out")["test"]
    assert (before._fingerprint, before["words"][:]) != (after._fingerprint, after["words"][:])
    assert after["words"][:] == [CAT[0]]


def test_fingerprints_tell_content_names_and_versions_apart(files, monkeypatch):
    path = files["train"][0]
    names = {fingerprint("a"), fingerprint("b"), fingerprint("a", files=[path])}
    path.write_text("other")
    names.add(fingerprint("a", files=[path]))
    monkeypatch.setattr("som.data.datasets.CONVERSION_VERSION", 99)
    names.add(fingerprint("a", files=[path]))
    assert len(names) == 5


def test_the_same_files_give_the_same_fingerprint_again(files, tmp_path):
    prints = []
    for _ in range(2):
        prepare(files, tmp_path / "out", overwrite=True)
        prints.append({split: data._fingerprint for split, data in load_from_disk(tmp_path / "out").items()})
    assert prints[0] == prints[1]


def test_a_bad_sentence_stops_everything_or_is_counted(files, tmp_path):
    good = files["train"][0].read_text()
    files["train"][0].write_text(good + "1\tbad\n\n" + good)
    with pytest.raises(TreebankError, match=r"train.conllu:\d+: expected 10 columns"):
        prepare(files, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.conllu", "train.conllu", "validation.conllu"]
    summary = prepare(files, tmp_path / "out", skip_bad=True)
    assert summary["splits"]["train"]["skipped"] == 1
    assert summary["splits"]["train"]["sentences"] == 8
    assert len(load_from_disk(tmp_path / "out")["train"]) == 8


def test_where_nothing_can_be_read_skipping_does_not_help(files, tmp_path):
    files["test"][0].write_text("")
    with pytest.raises(TreebankError, match="test.conllu:1: .* got an empty file"):
        prepare(files, tmp_path / "out", skip_bad=True)


def test_a_missing_split_is_named(files, tmp_path):
    del files["validation"]
    with pytest.raises(TreebankError, match="got none for validation"):
        prepare(files, tmp_path / "out")


def test_only_prepared_data_is_ever_replaced_and_only_when_asked(files, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    prepare(files, out)  # an empty folder will do
    with pytest.raises(FileExistsError, match="--overwrite would replace"):
        prepare(files, out)
    prepare(files, out, overwrite=True)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(FileExistsError, match="holds something else"):
            prepare(files, foreign, overwrite=overwrite)
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]


def test_a_failure_leaves_the_old_data_as_it_was(files, tmp_path):
    prepare(files, tmp_path / "out")
    before = rows(load_from_disk(tmp_path / "out")["test"])
    files["test"][0].write_text("1\tbad\n")
    with pytest.raises(TreebankError):
        prepare(files, tmp_path / "out", overwrite=True)
    assert rows(load_from_disk(tmp_path / "out")["test"]) == before
    assert not list(tmp_path.glob(".out-*"))


def test_sentences_from_elsewhere_are_kept_beside_the_data(tmp_path):
    sentences = {split: (to_conllu(*one) for one in many) for split, many in SENTENCES.items()}
    summary = prepare(sentences, tmp_path / "out", silver="spacy")
    assert summary["silver"] == "spacy"
    assert summary["splits"]["test"]["files"] == ["test.conllu"]
    assert [list(e.words) for e in read_treebank([tmp_path / "out" / "test.conllu"])] == [HEARING[0], DOG[0]]


def hub_folder(path, tokens, head):
    rows = Dataset.from_dict({"tokens": [tokens], "head": [head]})
    DatasetDict({"train": rows, "dev": rows, "test": rows}).save_to_disk(path)
    return str(path)


def test_a_data_set_of_others_is_read_by_its_words_and_heads(tmp_path):
    name = hub_folder(tmp_path / "hub", ["don't", "do", "n't", "-LRB-"], ["None", "0", "1", "1"])
    assert list(hub_sentences(name, "validation")) == [to_conllu(["do", "n't", "("], [0, 1, 1])]
    # without the data set's own index file: as the Hub would have it
    Dataset.from_dict({"words": [DOG[0]], "heads": [DOG[1]]}).to_parquet(tmp_path / "plain" / "train.parquet")
    assert list(hub_sentences(str(tmp_path / "plain"), "train")) == [to_conllu(*DOG)]
    with pytest.raises(TreebankError, match="expected a split test, got train"):
        list(hub_sentences(str(tmp_path / "plain"), "test"))


def test_a_data_set_of_others_without_trees_is_refused(tmp_path):
    with pytest.raises(TreebankError, match="hub: train, row 0: expected one root in the sentence, got 2"):
        list(hub_sentences(hub_folder(tmp_path / "hub", ["a", "b"], [0, 0]), "train"))
    Dataset.from_dict({"text": ["a"]}).to_parquet(tmp_path / "plain" / "train.parquet")
    with pytest.raises(TreebankError, match="expected a column tokens or words or form, got text"):
        list(hub_sentences(str(tmp_path / "plain"), "train"))


@pytest.mark.parametrize(
    ("tokens", "head", "complaint"),
    [
        (["a", "b"], ["0", "x"], "expected words with the numbers of their heads, got 'b' with 'x'"),
        (["a", " "], ["0", "1"], "expected words with the numbers of their heads, got '' with '1'"),
        (["a", "b"], ["0"], "expected as many heads as words, got 1 for 2"),
        (["a"], ["2"], "expected a head in 0…1, got 2"),
        ([], [], "expected one root in the sentence, got 0"),
    ],
)
def test_a_bad_row_of_others_is_named_or_counted(tmp_path, tokens, head, complaint):
    rows = Dataset.from_dict({"tokens": [DOG[0], tokens], "head": [list(map(str, DOG[1])), head]})
    DatasetDict({"train": rows, "validation": rows, "test": rows}).save_to_disk(tmp_path / "hub")
    with pytest.raises(TreebankError, match=f"hub: train, row 1: {complaint}"):
        list(hub_sentences(str(tmp_path / "hub"), "train"))
    sources = {split: hub_sentences(str(tmp_path / "hub"), split, skip_bad=True) for split in SPLITS}
    summary = prepare(sources, tmp_path / "out", skip_bad=True)
    assert [(split["sentences"], split["skipped"]) for split in summary["splits"].values()] == [(1, 1)] * 3


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_holds_every_row_as_if_it_stood_alone(files, tmp_path, side):
    prepare(files, tmp_path / "out")
    data = load_from_disk(tmp_path / "out")["test"]
    tokenizer = make_tokenizer("word", [words for words, _ in SENTENCES["train"]])
    tokenizer.padding_side = side
    batch = SOMCollator(tokenizer)(rows(data))
    assert set(batch) == {"input_ids", "attention_mask", "labels", "first_sibling"}
    assert {tensor.shape for tensor in batch.values()} == {torch.Size([2, 10])}
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}
    for index, row in enumerate(data):
        real = slice(10 - row["length"], None) if side == "left" else slice(0, row["length"])
        padded = torch.ones(10, dtype=torch.bool)
        padded[real] = False
        assert batch["attention_mask"][index].tolist() == (~padded).long().tolist()
        assert batch["input_ids"][index][real].tolist() == row["input_ids"]
        assert batch["labels"][index][real].tolist() == [-100, *row["input_ids"][1:]]
        assert batch["first_sibling"][index][real].tolist() == row["first_sibling"]
        assert set(batch["input_ids"][index][padded].tolist()) <= {tokenizer.pad_token_id}
        assert set(batch["labels"][index][padded].tolist()) <= {-100}
        assert set(batch["first_sibling"][index][padded].tolist()) <= {-100}


def test_rows_without_trees_make_batches_too():
    tokenizer = make_tokenizer("word", [["a", "a"]])
    assert "first_sibling" not in SOMCollator(tokenizer)([{"input_ids": [1, 2]}])


def test_an_eos_that_is_also_bos_or_pad_is_still_a_label_at_the_end_of_a_row():
    tokenizer = make_tokenizer("word", [["a", "a"]])
    tokenizer.pad_token = tokenizer.eos_token
    batch = SOMCollator(tokenizer)([{"input_ids": [2, 4, tokenizer.eos_token_id]}, {"input_ids": [2]}])
    assert batch["labels"][0].tolist() == [-100, 4, tokenizer.eos_token_id]


def test_the_tree_to_show_is_a_typical_one(files, tmp_path):
    prepare(files, tmp_path / "out")
    assert typical_tree(tmp_path / "out").tree.words() == tuple(HEARING[0])


def test_a_tree_too_long_to_look_at_is_not_shown(tmp_path):
    long, short = (["w"] * n for n in (2000, 15))
    for name, sentences in (("long", [long]), ("both", [long, short])):
        text = "".join(to_conllu(words, [0, *range(1, len(words))]) for words in sentences)
        (tmp_path / name).write_text(text)
        prepare({split: [tmp_path / name] for split in ("train", "validation", "test")}, tmp_path / f"{name}-out")
    assert typical_tree(tmp_path / "long-out") is None
    assert typical_tree(tmp_path / "both-out").tree.words() == tuple(short)


@pytest.mark.parametrize("kind", ["word", "bpe:300"])
def test_the_tree_to_show_has_the_labels_of_the_data(tmp_path, kind):
    relations = ["det", "root", "mark", "obj"]
    (tmp_path / "a.conllu").write_text(to_conllu(["This", "is", "unbelievable", "!"], [2, 0, 4, 2], relations))
    prepare({split: [tmp_path / "a.conllu"] for split in SPLITS}, tmp_path / "out", tokenizer=kind)
    tags = typical_tree(tmp_path / "out").tags
    assert tags == Tags(("det", "head", "mark", "head"), (None, "partial", "root", "obj"))


@pytest.mark.parametrize("kind", ["bpe:300", pytest.param(f"gpt2:{DATA / 'gpt2-bpe'}", marks=needs_data)])
def test_tags_of_byte_pairs_are_those_of_the_words(tmp_path, kind):
    """Each at the first piece of its word; other pieces, BOS and EOS have none."""
    words = ["The", "unbelievable", "xylophone", "wasn't", "unconstitutionally", "big", "!"]
    relations = ["det", "amod", "nsubj", "cop", "advmod", "root", "punct"]
    text = to_conllu(words, [3, 3, 6, 6, 6, 0, 6], relations)
    (tmp_path / "a.conllu").write_text(text + to_conllu(["dogs", "bark"], [2, 0]))
    files = {split: [tmp_path / "a.conllu"] for split in SPLITS}
    of_words = prepare(files, tmp_path / "words")
    of_pieces = prepare(files, tmp_path / "pieces", tokenizer=kind)
    assert of_words["tree_tags"] == of_pieces["tree_tags"]
    data = [load_from_disk(tmp_path / name)["train"] for name in ("words", "pieces")]
    tokenizer, split = load_tokenizer(tmp_path / "pieces"), 0
    for word_row, row in zip(*data, strict=True):
        pieces = [len(ids) for ids in encode_words(tokenizer, row["words"])]
        starts = list(accumulate(pieces, initial=1))[:-1]
        split += sum(count > 1 for count in pieces)
        for name in ("leaf_tag", "node_tag"):
            tags = dict(enumerate(row[name]))
            assert [tags.pop(start) for start in starts] == word_row[name][1:-1]
            assert set(tags.values()) == {-100}
    assert split >= 3 and of_words["tree_tags"][data[1][0]["leaf_tag"][1]] == "det"


def test_relations_of_others_are_kept(tmp_path):
    rows = {"tokens": [["du", "de", "le", "chat"], ["chat"]], "head": [["None", "3", "3", "0"], ["0"]]}
    relations = {"deprel": [["_", "case", "det", "root"], [None]]}
    Dataset.from_dict({**rows, **relations}).to_parquet(tmp_path / "hub" / "train.parquet")
    sentences = [to_conllu(["de", "le", "chat"], [3, 3, 0], ["case", "det", "root"]), to_conllu(["chat"], [0])]
    assert list(hub_sentences(str(tmp_path / "hub"), "train")) == sentences


def test_a_vocabulary_whose_classes_tell_nothing_is_advised_against(tmp_path):
    """Of a script without case and English endings, unknown words are all alike."""
    for name, words in (("en", ["dog", "dogs", "walking", "1,234"]), ("th", ["หมา", "แมว", "นก", "ปลา"])):
        (tmp_path / name).write_text("".join(to_conllu([word, word[::-1]], [2, 0]) for word in words))
        summary = prepare({split: [tmp_path / name] for split in SPLITS}, tmp_path / f"{name}-out")
        counts = summary["splits"]["validation"]
        assert (counts["unknown"], counts["told"]) == ((8, 4) if name == "en" else (8, 0))
        assert ("--tokenizer bpe:8000" in vocabulary_advice(summary)) == (name == "th")
    summary = prepare({split: [tmp_path / "th"] for split in SPLITS}, tmp_path / "bpe-out", tokenizer="bpe:300")
    assert vocabulary_advice(summary) == ""


def test_what_a_killed_preparation_left_is_removed_by_the_next_one_alone(files, tmp_path):
    """And neither what another one is still writing, nor what somebody else called so."""
    left, used, foreign = (tmp_path / f".out-{name}" for name in ("left", "used", "foreign"))
    for folder in (left, used, foreign):
        folder.mkdir()
        (folder / "data").write_text("x")
    (left / PREPARE_LOCK).touch()
    with in_use(used):
        prepare(files, tmp_path / "out")
        assert [folder.exists() for folder in (left, used, foreign)] == [False, True, True]


@needs_data
def test_gpt2_pieces_of_ewt_are_constituents(tmp_path):
    path = [DATA / "ud" / "en_pronouns-ud-test.conllu.gz"]
    kind = f"gpt2:{DATA / 'gpt2-bpe'}"
    summary = prepare(dict.fromkeys(("train", "validation", "test"), path), tmp_path / "out", tokenizer=kind)
    assert summary["splits"]["test"]["unknown"] == 0
    tokenizer = make_tokenizer(kind, [])
    for row in load_from_disk(tmp_path / "out")["test"]:
        assert tokenizer.decode(row["input_ids"][1:-1]) == f" {running_text(row['words'])}"


def test_a_treebank_is_a_data_set_for_the_trainer_by_one_function(tmp_path):
    text = "1\tdogs\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tbark\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    (tmp_path / "a.conllu").write_text(text)
    tokenizer = make_tokenizer("word:1", [["dogs", "bark"]])
    rows = treebank_dataset([tmp_path / "a.conllu"], tokenizer, ["head", "nsubj", "root"])
    assert rows[0]["input_ids"] == [2, tokenizer.word_id("dogs"), tokenizer.word_id("bark"), 3]
    assert rows[0]["first_sibling"] == [-1, 0, 1, 0]
    assert (rows[0]["leaf_tag"], rows[0]["node_tag"]) == ([-100, 1, 0, -100], [-100, -100, 2, -100])
    assert treebank_dataset([tmp_path / "a.conllu"], tokenizer).column_names == ["input_ids", "first_sibling"]
    (tmp_path / "b.conllu").write_text(text.replace("\t2\t", "\t9\t"))
    with pytest.raises(ValueError, match="expected a head in 0…2, got 9"):
        treebank_dataset([tmp_path / "b.conllu"], tokenizer)
