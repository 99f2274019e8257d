"""Labelled trees as users meet them: prepared, learnt, parsed, written and measured."""

import json

import nltk
import pytest
from datasets import load_from_disk

import som
from modeling_som.tags_som import Labels
from som.cli import main
from som.data import prepare
from som.inference import Parse
from som.syntax import Accuracy, Brackets, read_treebank
from som.training import train
from som.view.trace import trace

TINY = {"hidden_size": 16, "num_slots": 6, "batch_size": 8, "learning_rate": 0.02, "weight_decay": 0.0, "epochs": 25}
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


def test_the_page_shows_the_labels(dependencies):
    shown = trace(*som.load(dependencies[0]), "the dog sees the cat .")
    assert [word.tag for word in shown.words] == ["det", "head", "head", "det", "head", "punct", None]
    assert sorted(shown.labels) == [(0, 2, "nsubj"), (0, 6, "root"), (3, 5, "obj")]


def test_relations_are_not_measured_against_categories(dependencies, constituents):
    model, tokenizer = som.load(dependencies[0])
    total = som.evaluate(model, tokenizer, read_treebank([constituents[1]])).counts.total
    assert (total.heads.total, total.labelled.gold) == (0, 0)


def test_sentences_without_relations_are_read_beside_those_with_them(tmp_path):
    (tmp_path / "a.conllu").write_text(conllu(SENTENCES[0], "dogs/2/_ bark/0/_"))
    summary = prepare({split: [tmp_path / "a.conllu"] for split in ("train", "validation", "test")}, tmp_path / "data")
    assert "nsubj" in summary["tree_tags"]
    assert load_from_disk(str(tmp_path / "data"))["train"][1]["leaf_tag"] == [-100] * 4
