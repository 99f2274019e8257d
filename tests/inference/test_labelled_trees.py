"""Labelled trees as users meet them: prepared, learnt, parsed, written and measured."""

import gzip
import json
import sys
from pathlib import Path
from types import ModuleType

import nltk
import pytest
from datasets import load_from_disk
from hypothesis import assume, given, settings
from hypothesis import example as tried_too
from hypothesis import strategies as st

import som
from modeling_som.scoring_som import read_sequences
from modeling_som.sentences_som import encode, joined_offsets, split_words
from modeling_som.tags_som import Labels, decided_labels
from som.cli import main
from som.data import make_tokenizer, prepare
from som.data.summary import vocabulary_advice
from som.evaluation.treebanks import count_labels
from som.inference import Parse
from som.syntax import Accuracy, Brackets, builtin_treebank, read_treebank, visible
from som.training import train
from som.view.trace import trace

TINY = {"hidden_size": 16, "num_slots": 6, "batch_size": 8, "learning_rate": 0.02, "weight_decay": 0.0, "epochs": 25}
DATA = Path(__file__).parents[3] / "shared" / "data" / "ud"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data is not there")
DROPOUT = {"dropout": 0.0, "embedding_dropout": 0.0, "output_dropout": 0.0}


def conllu(*sentences: str) -> str:
    """Sentences of word/head/relation triples."""
    blocks = []
    for sentence in sentences:
        rows = (token.split("/") for token in sentence.split())
        lines = (f"{i}\t{word}\t_\t_\t_\t_\t{head}\t{rel}\t_\t_" for i, (word, head, rel) in enumerate(rows, start=1))
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n\n"


NOUNS = ("dog", "cat", "bird", "cow")
SENTENCES = [
    f"the/2/det {one}/3/nsubj sees/0/root the/5/det {other}/3/obj ./3/punct" for one in NOUNS for other in NOUNS
] + [f"a/3/det big/3/amod {noun}/4/nsubj sleeps/0/root ./4/punct" for noun in NOUNS]
TREES = "".join(
    f"(S (NP (DT the) (NN {one})) (VP (VBZ sees) (NP (NNP {other}))) (. .))\n" for one in NOUNS for other in NOUNS
)


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory):
    """A model that has learnt a few sentences with their relations by heart, and their file."""
    return learn(tmp_path_factory.mktemp("dependencies"), "all.conllu", conllu(*SENTENCES))


@pytest.fixture(scope="module")
def constituents(tmp_path_factory):
    return learn(tmp_path_factory.mktemp("constituents"), "all.mrg", TREES)


def learn(folder, name, text):
    file = folder / name
    file.write_text(text)
    prepare({split: [file] for split in ("train", "validation", "test")}, folder / "data")
    train(folder / "data", folder / "run", **TINY, **DROPOUT)
    return folder / "run", file


def test_prepared_data_have_the_tags_and_their_set(dependencies):
    data = dependencies[0].parent / "data"
    tags = json.loads((data / "som.json").read_text())["tree_tags"]
    assert tags == ["partial", "head", "root", "amod", "det", "nsubj", "obj", "punct"]
    row = load_from_disk(str(data))["train"][0]
    names = [[tags[t] if t >= 0 else None for t in row[kind]] for kind in ("leaf_tag", "node_tag")]
    assert names[0] == [None, "det", "head", "head", "det", "head", "punct", None]
    assert names[1] == [None, None, "nsubj", "partial", "partial", "obj", "root", None]


def test_data_without_tags_are_as_they_were(tmp_path, dependencies):
    files = {split: [dependencies[1]] for split in ("train", "validation", "test")}
    summary = prepare(files, tmp_path / "data", tags="none")
    assert summary["tree_tags"] == []
    assert "leaf_tag" not in load_from_disk(str(tmp_path / "data"))["train"].column_names
    with pytest.raises(ValueError, match="tags must be one of universal, full, none"):
        prepare(files, tmp_path / "other", tags="some")


def test_heads_and_relations_are_learnt_and_read(dependencies):
    model, tokenizer = som.load(dependencies[0])
    parse = som.parse(model, tokenizer, "the dog sees the cat.")
    assert parse.heads == [2, 3, 0, 5, 3, 3]
    assert parse.relations == ["det", "nsubj", "root", "det", "obj", "punct"]
    assert parse.brackets() == ("(root (nsubj (det the) (head dog)) (head sees) (obj (det the) (head cat)) (punct .))")
    assert parse.brackets(binary=True) == "((((the dog) sees) (the cat)) .)"
    assert isinstance(parse.to_nltk(), nltk.Tree) and parse.to_nltk().label() == "root"
    assert "nsubj" in parse.draw() and "nsubj" in parse.svg() == parse._repr_svg_()
    assert som.parse(model, tokenizer, "the dog sees the cat.", "beam").relations == parse.relations


@pytest.mark.parametrize("kind", ["dependencies", "constituents"])
def test_partial_parses_are_those_of_a_reader_that_has_read_no_further(kind, request):
    model, tokenizer = som.load(request.getfixturevalue(kind)[0])
    model.double()
    words = ["the", "dog", "sees", "the", "cat", "sees", "a", "big", "cow", "."]
    partial = som.partial_parses(model, tokenizer, words)
    assert [one.words for one in partial] == [words[:n] for n in range(1, len(words) + 1)]
    for one in partial:
        ids = encode(tokenizer, one.words, eos=False).ids
        (reading,) = read_sequences(model, [ids], tags=True)
        assert reading.depths[1:] == one.depths
        scores = (table[1:].tolist() for table in (reading.leaf_tags, reading.node_tags))
        assert decided_labels(one.depths, *scores, model.config.tree_tags) == one.labels
    whole = som.parse(model, tokenizer, words).labels
    last = partial[-1].labels
    assert any(last.leaf) and all(tag in (None, known) for tag, known in zip(last.leaf, whole.leaf, strict=True))
    plain, _ = som.load()
    if not plain.config.tree_tags:
        assert {one.labels for one in som.partial_parses(plain, _, "The dog barks.")} == {None}


def test_uas_and_las_are_counted_on_all_words(dependencies):
    model, tokenizer = som.load(dependencies[0])
    examples = list(read_treebank([dependencies[1]]))
    total = som.evaluate(model, tokenizer, examples).counts.total
    words = sum(len(example.words) for example in examples)
    assert total.heads == total.relations == Accuracy(words, words)
    wrong = [type(one)(**{**vars(one), "relations": tuple("x" for _ in one.words)}) for one in examples]
    total = som.evaluate(model, tokenizer, wrong).counts.total
    assert (total.heads, total.relations) == (Accuracy(words, words), Accuracy(0, words))


def test_categories_are_learnt_and_measured(constituents):
    model, tokenizer = som.load(constituents[0])
    parse = som.parse(model, tokenizer, "the dog sees cow .")
    assert parse.brackets() == "(S (NP the dog) (VP sees (NP cow)) .)"
    assert parse.heads is None
    with pytest.raises(ValueError, match="needs heads and relations"):
        parse.to_conllu()
    total = som.evaluate(model, tokenizer, read_treebank([constituents[1]])).counts.total
    assert total.labelled == Brackets(4 * 16, 4 * 16, 4 * 16)


def test_conllu_is_what_the_reader_of_treebanks_reads(dependencies, tmp_path):
    text = ["the dog sees the cat .", "a big bird sleeps."]
    assert (
        main(
            [
                "parse",
                "--model",
                str(dependencies[0]),
                "--format",
                "conllu",
                "--out",
                str(tmp_path / "a.conllu"),
                *text,
            ]
        )
        == 0
    )
    one, other = read_treebank([tmp_path / "a.conllu"])
    assert one.heads == (2, 3, 0, 5, 3, 3) and other.relations == ("det", "amod", "nsubj", "root", "punct")
    lines = (tmp_path / "a.conllu").read_text().splitlines()
    assert lines[0].startswith("# sent_id = ") and lines[1] == "# text = the dog sees the cat ."
    assert "SpaceAfter=No" in next(line for line in lines if "\tsleeps\t" in line)


def test_what_was_written_as_one_word_has_a_range_in_conllu():
    labels = Labels(["nsubj", "aux", "advmod", "head", "punct"], [None, "partial", "partial", "partial", "root"])
    labels = Labels(labels.leaf, labels.node, [4, 4, 4, 0, 4], ["nsubj", "aux", "advmod", "root", "punct"], [1.0] * 5)
    text = "I didn't sleep."
    parse = Parse(["I", "did", "n't", "sleep", "."], [(0, 1), (2, 5), (5, 8), (9, 14), (14, 15)], [1, 2, 2, 2, 2])
    parse = Parse(parse.words, parse.offsets, parse.depths, labels=labels, text=text)
    rows = [line.split("\t") for line in parse.to_conllu(7).splitlines() if line and line[0] != "#"]
    assert [row[:2] for row in rows] == [
        ["1", "I"],
        ["2-3", "didn't"],
        ["2", "did"],
        ["3", "n't"],
        ["4", "sleep"],
        ["5", "."],
    ]
    assert [row[9] for row in rows] == ["_", "_", "_", "_", "SpaceAfter=No", "_"]
    assert all(len(row) == 10 for row in rows)
    assert "RelationProbability=1.0000" in parse.to_conllu(probabilities=True)


def test_conllu_is_read_by_a_reader_that_is_not_ours(dependencies):
    model, tokenizer = som.load(dependencies[0])
    texts = ["the dog didn't see the cat.", "She  can't,\tthe cow's big!", "dog"]
    parses = som.parse_all(model, tokenizer, texts)
    written = "".join(parse.to_conllu(f"a-{n}", probabilities=True) for n, parse in enumerate(parses))
    for n, (sentence, parse) in enumerate(zip(parsed_elsewhere(written), parses, strict=True)):
        assert sentence.metadata == {"sent_id": f"a-{n}", "text": " ".join(texts[n].split())}
        words = [token for token in sentence if isinstance(token["id"], int)]
        assert [word["id"] for word in words] == list(range(1, len(parse.words) + 1))
        assert [word["form"] for word in words] == parse.words
        assert [word["head"] for word in words] == parse.heads
        assert [word["deprel"] for word in words] == parse.relations
        assert sum(word["head"] == 0 for word in words) == 1
        assert all(0 < float(word["misc"]["RelationProbability"]) <= 1 for word in words)
        assert surface_text(sentence) == sentence.metadata["text"]


ODD = st.sampled_from(
    [
        "didn't",
        "cannot",
        "CAN'T",
        "dog's",
        "I'm",
        '"',
        "''",
        "(",
        ")",
        "|",
        "=",
        "_",
        "#",
        "a|b=c",
        "...",
        "-",
        "’s",
        "é",
    ]
    + ["e\u0301", "\u200d", "\U0001f600", "หมา", "\xad", "\x1c", "\x00", "<s>", "$", "1,5", "x.", "n't", "'", "s'"]
)
SPACE = st.sampled_from(["", "", " ", "  ", "\t", "\n", "\u2028", "\xa0", "\u3000", "\r\n", "\x85"])
SPLITTER = make_tokenizer("word", [["a"]])


def chain_of(words, offsets, text=None) -> Parse:
    """Each word depends on the one before it."""
    n = len(words)
    heads, relations = list(range(n)), ["root", *["dep"] * (n - 1)]
    labels = Labels(["head"] * n, ["partial"] * n, heads, relations, [1.0] * n)
    return Parse(words, offsets, list(range(1, n + 1)), labels=labels, text=text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(ODD, SPACE), min_size=1, max_size=8).map(lambda parts: "".join(map("".join, parts))))
def test_conllu_of_odd_texts_is_read_by_a_reader_that_is_not_ours(text):
    words, offsets = split_words(SPLITTER, text)
    assume(words)
    for parse in (chain_of(words, offsets, text), chain_of(words, joined_offsets(words))):
        (sentence,) = parsed_elsewhere(parse.to_conllu(3, probabilities=True))
        assert sentence.metadata["sent_id"] == "3"
        tokens = [token for token in sentence if isinstance(token["id"], int)]
        assert [token["id"] for token in tokens] == list(range(1, len(words) + 1))
        assert [token["form"] for token in tokens] == [visible(word) for word in words]
        assert [token["head"] for token in tokens] == parse.heads
        assert surface_text(sentence) == sentence.metadata["text"]
        if parse.text:
            assert "".join(sentence.metadata["text"].split()) == "".join(map(visible, words))


@given(st.lists(st.text(max_size=4), min_size=1, max_size=5))
@tried_too(["\ue000"])
@tried_too(["a b", "\x00", "'s"])
@settings(max_examples=200, deadline=None)
def test_conllu_of_any_words_has_a_line_for_each(words):
    parse = chain_of(words, joined_offsets(words))
    (sentence,) = parsed_elsewhere(parse.to_conllu())
    tokens = [token for token in sentence if isinstance(token["id"], int)]
    assert [token["head"] for token in tokens] == parse.heads == list(range(len(words)))
    assert surface_text(sentence) == sentence.metadata["text"]


def surface_text(sentence) -> str:
    """The text that the surface tokens and their SpaceAfter spell; words under a range are not written themselves."""
    text, covered = "", 0
    for token in sentence:
        first, last = (token["id"][0], token["id"][2]) if isinstance(token["id"], tuple) else (token["id"],) * 2
        if first > covered:
            text += token["form"] + ("" if (token["misc"] or {}).get("SpaceAfter") == "No" else " ")
            covered = last
    return text.rstrip()


def parsed_elsewhere(text: str):
    return pytest.importorskip("conllu", reason="conllu is not installed: pip install 'som-lm[dev]'").parse(text)


def test_uas_and_las_are_those_of_the_conll_2018_rule(dependencies, tmp_path):
    """Of the words of both files, ranges left out: equal heads, and equal relations up to the colon."""
    gold = conllu(
        "the/2/det dog/3/nsubj:outer sees/0/root the/5/det:x cat/3/obj ,/3/punct a/8/det bird/5/appos ./3/punct",
        "a/2/det cow/0/root big/2/amod ./3/punct",
    ).replace("4\tthe\t", "4-5\tthecat\t_\t_\t_\t_\t_\t_\t_\t_\n4\tthe\t", 1)
    (tmp_path / "gold.conllu").write_text(gold)
    model, tokenizer = som.load(dependencies[0])
    examples = list(read_treebank([tmp_path / "gold.conllu"]))
    parses = som.parse_all(model, tokenizer, [list(example.words) for example in examples])
    heads = relations = total = 0
    theirs = parsed_elsewhere("".join(parse.to_conllu() for parse in parses))
    for one, other in zip(parsed_elsewhere(gold), theirs, strict=True):
        pairs = zip(*([token for token in side if isinstance(token["id"], int)] for side in (one, other)), strict=True)
        for word, found in pairs:
            same = word["head"] == found["head"]
            total, heads = total + 1, heads + same
            relations += same and word["deprel"].split(":")[0] == found["deprel"].split(":")[0]
    counts = som.evaluate(model, tokenizer, examples).counts.total
    assert (counts.heads, counts.relations) == (Accuracy(heads, total), Accuracy(relations, total))
    assert total == 13 and 0 < relations <= heads < total  # something is right and something wrong


def test_uas_and_las_counted_by_hand(tmp_path):
    """Against the heads of the file, crossing arcs as they are, relations up to the colon; ranges are no words."""
    rows = ["1\tI\t3\tnsubj", "2-3\tdon't\t_\t_", "2\tdo\t3\taux", "3\tn't\t0\troot", "3.1\tgo\t_\t_"]
    rows += ["4\tthe\t5\tdet:def", "5\tway\t2\tobl:tmod", "6\t.\t3\tpunct"]  # 2–5 crosses the root's arc
    columns = (row.split("\t") for row in rows)
    lines = (f"{number}\t{word}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_" for number, word, head, relation in columns)
    (tmp_path / "gold.conllu").write_text("\n".join(lines) + "\n\n")
    (example,) = read_treebank([tmp_path / "gold.conllu"])
    heads = [3, 3, 0, 5, 3, 2]  # of "way" and "." wrong; that of "way" is what lifting made of the file
    relations = ["nsubj", "cop", "root", "det", "obl", "punct"]  # of "do" wrong, too
    labels = Labels(["head"] * 6, [None] * 6, heads, relations)
    counts = count_labels(example, encode(SPLITTER, list(example.words)), None, labels)
    assert example.lifted == 1
    assert (counts.heads, counts.relations) == (Accuracy(4, 6), Accuracy(3, 6))


SCRIPTS = [  # made up: subject, object, verb in Thai, Uyghur, Coptic, Korean, Armenian, Telugu and Vietnamese
    "แมว/2/nsubj เห็น/0/root หมา/2/obj",
    "مۈشۈك/3/nsubj ئىتنى/3/obj كۆردى/0/root ./3/punct",
    "ⲡ/2/det ⲣⲱⲙⲉ/3/nsubj ⲛⲁⲩ/0/root",
    "고양이가/3/nsubj 개를/3/obj 봤다/0/root ./3/punct",
    "Կատուն/2/nsubj տեսավ/0/root շանը/2/obj :/2/punct",
    "పిల్లి/3/nsubj కుక్కను/3/obj చూసింది/0/root",
    "con_mèo/2/nsubj thấy/0/root con_chó/2/obj",
]


@pytest.mark.parametrize("kind", ["word", "bpe:400"])
def test_treebanks_in_other_scripts_are_prepared_learnt_parsed_and_measured(kind, tmp_path):
    (tmp_path / "a.conllu").write_text(conllu(*SCRIPTS * 2), encoding="utf-8")
    files = {split: [tmp_path / "a.conllu"] for split in ("train", "validation", "test")}
    prepare(files, tmp_path / "data", tokenizer=kind)
    train(tmp_path / "data", tmp_path / "run", **{**TINY, **DROPOUT, "epochs": 1})
    model, tokenizer = som.load(tmp_path / "run")
    examples = list(read_treebank([tmp_path / "a.conllu"]))
    total = som.evaluate(model, tokenizer, examples).counts.total
    assert total.heads.total == sum(len(example.words) for example in examples)
    for sentence, example in zip(SCRIPTS, examples, strict=False):
        words = [token.split("/")[0] for token in sentence.split()]
        parse = som.parse(model, tokenizer, " ".join(words))
        assert parse.words == list(example.words) == words
        assert all(word in parse.draw() for word in words) and parse.svg() and parse.arcs()
        (elsewhere,) = parsed_elsewhere(parse.to_conllu())
        assert [token["form"] for token in elsewhere] == words


@needs_data
@pytest.mark.parametrize("kind", ["word", "bpe:300"])
@pytest.mark.parametrize("treebank", ["th_tud", "ug_udt", "cop_scriptorium", "ko_gsd", "hy_armtdp"])
def test_a_real_treebank_in_another_script_is_prepared_learnt_parsed_and_measured(treebank, kind, tmp_path):
    """Thai, Uyghur, Coptic, Korean and Armenian; for words, byte pairs are advised."""
    gold, text, parsed = (tmp_path / name for name in ("gold.conllu", "words.txt", "parsed.conllu"))
    with gzip.open(DATA / f"{treebank}-ud-dev.conllu.gz", "rt", encoding="utf-8") as file:
        gold.write_text("\n\n".join(file.read().split("\n\n")[:20]) + "\n\n", encoding="utf-8")
    summary = prepare(dict.fromkeys(("train", "validation", "test"), [gold]), tmp_path / "data", tokenizer=kind)
    assert ("try --tokenizer bpe" in vocabulary_advice(summary)) == (kind == "word")
    train(tmp_path / "data", tmp_path / "run", **{**TINY, **DROPOUT, "epochs": 1})
    examples = list(read_treebank([gold]))
    text.write_text("".join(" ".join(example.words) + "\n" for example in examples), encoding="utf-8")
    options = ["--words", "--one-sentence", "--format", "conllu", "--out", str(parsed)]
    assert main(["parse", "--model", str(tmp_path / "run"), "--file", str(text), *options]) == 0
    found = list(read_treebank([parsed]))
    assert len(found) == 20 and [one.words for one in found] == [example.words for example in examples]
    heads, others = ([head for one in side for head in one.heads] for side in (examples, found))
    total = som.evaluate(*som.load(tmp_path / "run"), examples).counts.total
    assert total.heads == Accuracy(sum(map(int.__eq__, heads, others)), len(heads)) and len(heads) == len(others)


def test_labelled_f1_is_that_of_evalb(constituents, tmp_path):
    scorer = pytest.importorskip("PYEVALB.scorer", reason="PYEVALB is not installed: pip install 'som-lm[dev]'")
    gold = [
        "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (NNP cow))) (. .))",
        "(S (NP (NNP cow)) (VP (VBZ sees) (NP (DT the) (NN bird))) (. .))",
        "(NP (NP (DT the) (NN cat)) (S (VP (VBZ sees) (NP (NNP dog)))))",
    ]
    (tmp_path / "gold.mrg").write_text("\n".join(gold) + "\n")
    model, tokenizer = som.load(constituents[0])
    examples = list(read_treebank([tmp_path / "gold.mrg"]))
    counts = Brackets()
    for line, example in zip(gold, examples, strict=True):
        tree = som.parse(model, tokenizer, list(example.words)).to_nltk()
        result = scorer.Scorer().score_trees(*map(evalb_tree, (line, with_parts_of_speech(tree))))
        counts += Brackets(result.matched_brackets, result.gold_brackets, result.test_brackets)
    assert som.evaluate(model, tokenizer, examples).counts.total.labelled == counts
    assert 0 < counts.matched < counts.gold


def evalb_tree(line: str):
    from PYEVALB.parser import create_from_bracket_string

    return create_from_bracket_string(line)


def with_parts_of_speech(tree: nltk.Tree) -> str:
    """One line; joined categories become unary chains again, and every word has a part of speech."""
    if isinstance(tree, str):
        return f"(X {tree})"
    inside = " ".join(map(with_parts_of_speech, tree))
    for label in reversed(tree.label().split("+")):
        inside = f"({label} {inside})"
    return inside


def test_a_run_can_leave_the_tags_out_and_tags_can_join_later(dependencies, tmp_path):
    data = dependencies[0].parent / "data"
    few = {**TINY, **DROPOUT, "epochs": 1}
    train(data, tmp_path / "plain", **few, tree_tags=[])
    plain, _ = som.load(tmp_path / "plain")
    assert plain.config.tree_tags == []
    train(data, tmp_path / "joined", **{**few, "start": str(tmp_path / "plain")})
    joined, tokenizer = som.load(tmp_path / "joined")
    assert som.parse(joined, tokenizer, "the dog sees the cat .").heads is not None


def test_a_spacy_doc_has_the_heads(dependencies):
    pytest.importorskip("spacy")
    doc = som.parse(*som.load(dependencies[0]), "the dog sees the cat.").to_spacy()
    assert [token.head.i for token in doc] == [1, 2, 2, 4, 2, 2]
    assert doc.text == "the dog sees the cat."


def test_spacy_is_given_words_spaces_heads_and_relations(monkeypatch):
    """With a stand-in for spaCy: a root is its own head and called ROOT, heads count from 0."""
    modules = {name: ModuleType(name) for name in ("spacy", "spacy.tokens", "spacy.vocab")}
    modules["spacy.tokens"].Doc = lambda vocab, **given: (vocab, given)
    modules["spacy.vocab"].Vocab = lambda: "a new one"
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    tags = ["nsubj", "head", "obj", "punct"], [None, "partial", "partial", "root"]
    labels = Labels(*tags, heads=[2, 0, 2, 2], relations=["nsubj", "root", "obj", "punct"])
    parse = Parse(["dogs", "see", "cats", "."], [(0, 4), (5, 8), (9, 13), (13, 14)], [1, 2, 2, 2], labels=labels)
    given = {"words": parse.words, "spaces": [True, True, False, False]}
    given |= {"heads": [1, 1, 1, 1], "deps": ["nsubj", "ROOT", "obj", "punct"]}
    assert parse.to_spacy() == ("a new one", given)
    assert parse.to_spacy("theirs") == ("theirs", given)


def test_the_page_shows_the_labels(dependencies):
    shown = trace(*som.load(dependencies[0]), "the dog sees the cat .")
    assert [word.tag for word in shown.words] == ["det", "head", "head", "det", "head", "punct", None]
    assert [label[:3] for label in shown.labels] == [(0, 2, "nsubj"), (0, 6, "root"), (3, 5, "obj")]


@pytest.mark.parametrize("method", ["greedy", "marginal", "beam"])
def test_the_page_shows_labels_as_decided_when_a_reader_has_decided_them(dependencies, method):
    model, tokenizer = som.load(dependencies[0])
    shown = trace(model, tokenizer, "the dog sees the cat .", method)
    partial = som.partial_parses(model, tokenizer, "the dog sees the cat .")
    assert shown.parse.depths == partial[-1].depths
    for n, one in enumerate(partial, start=1):
        for i, word in enumerate(shown.words[:-1]):
            assert (word.decided <= n) == (i < n and one.labels.leaf[i] is not None)
    # (the dog) is complete at "sees"; that "dog" is its head, once (the dog) sees is; "sees" waits for the end
    assert [word.decided for word in shown.words[:-1]] == [3, 4, 7, 6, 6, 7]
    assert {label.label: label.decided for label in shown.labels} == {"nsubj": 4, "obj": 6, "root": 7}


def test_relations_are_not_measured_against_categories(dependencies, constituents):
    model, tokenizer = som.load(dependencies[0])
    total = som.evaluate(model, tokenizer, read_treebank([constituents[1]])).counts.total
    assert (total.heads.total, total.labelled.gold) == (0, 0)


def test_sentences_without_relations_are_read_beside_those_with_them(tmp_path):
    (tmp_path / "a.conllu").write_text(conllu(SENTENCES[0], "dogs/2/_ bark/0/_"))
    summary = prepare({split: [tmp_path / "a.conllu"] for split in ("train", "validation", "test")}, tmp_path / "data")
    assert "nsubj" in summary["tree_tags"]
    assert load_from_disk(str(tmp_path / "data"))["train"][1]["leaf_tag"] == [-100] * 4


BRACKETED = """\
(S (NP-SBJ (NNP Kim)) (VP (VBD saw) (NP (DT the) (JJ old) (NN dog)) (ADVP (RB again))) (. .))
(UH Yes)
(X (Y (a b)))
"""


def test_the_tree_of_a_treebank_is_labelled_as_if_it_had_been_parsed(tmp_path):
    (tmp_path / "a.conllu").write_text("".join(builtin_treebank("test")))
    (tmp_path / "a.mrg").write_text(BRACKETED)
    for example in read_treebank(tmp_path):
        parse = Parse.of_tree(example.tree, example.tags)
        assert example.tree.labelled(example.tags) == parse.to_nltk()
        assert example.tree.draw(example.tags) == parse.draw()
