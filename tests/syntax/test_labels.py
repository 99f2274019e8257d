"""Tags of trees: from treebanks, and back to labelled constituents."""

import pytest

from som.syntax.labels import NO_CHAIN, PARTIAL, Tags, dependency_tags, first_words, labelled_spans, universal
from som.syntax.oracle import first_siblings, gold_depths
from som.syntax.treebanks import category, lift, read_treebank

CONLLU = """\
# text = I did n't see the old dog
1\tI\t_\t_\t_\t_\t4\tnsubj\t_\t_
2\tdid\t_\t_\t_\t_\t4\taux\t_\t_
3\tn't\t_\t_\t_\t_\t4\tadvmod:neg\t_\t_
4\tsee\t_\t_\t_\t_\t0\troot\t_\t_
5\tthe\t_\t_\t_\t_\t7\tdet\t_\t_
6\told\t_\t_\t_\t_\t7\tamod\t_\t_
7\tdog\t_\t_\t_\t_\t4\tobj\t_\t_

"""
BRACKETS = "( (S (NP-SBJ (NNP Kim)) (VP (VBD saw) (NP (DT the) (NN dog)) (ADVP (RB again))) (. .)))\n"


def example_of(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    (example,) = read_treebank([tmp_path / name])
    return example


def test_relations_of_a_file_become_tags(tmp_path):
    example = example_of(tmp_path, "a.conllu", CONLLU)
    assert example.tags.leaf == ("nsubj", "aux", "advmod:neg", "head", "det", "amod", "head")
    assert example.tags.node == (None, PARTIAL, PARTIAL, PARTIAL, "root", PARTIAL, "obj")
    assert example.tags.universal().leaf[2] == "advmod" == universal("advmod:neg")
    assert (example.heads[0], example.relations[-1]) == (4, "obj")


def test_a_file_without_relations_has_no_tags(tmp_path):
    example = example_of(tmp_path, "a.conllu", CONLLU.replace("obj", "_"))
    assert example.tags is None and example.heads is not None


def test_a_lifted_arc_keeps_its_relation(tmp_path):
    heads, relations = [3, 4, 0, 3], ["a", "b", "root", "c"]
    rows = zip("wxyz", heads, relations, strict=True)
    lines = [f"{i}\t{w}\t_\t_\t_\t_\t{h}\t{r}\t_\t_" for i, (w, h, r) in enumerate(rows, start=1)]
    example = example_of(tmp_path, "a.conllu", "\n".join(lines) + "\n\n")
    assert example.lifted == 1 and example.heads == (3, 4, 0, 3)  # as in the file
    assert example.tags == dependency_tags(lift(heads)[0], relations)
    assert "b" in example.tags.leaf


def test_categories_and_unary_chains_become_tags(tmp_path):
    example = example_of(tmp_path, "a.mrg", BRACKETS)
    assert example.tags.leaf == ("NP", NO_CHAIN, NO_CHAIN, NO_CHAIN, "ADVP", NO_CHAIN)
    assert example.tags.node == (None, PARTIAL, PARTIAL, "NP", "VP", "S")
    depths = gold_depths(first_siblings(example.tree))
    spans = {("NP", 0, 1), ("NP", 2, 4), ("ADVP", 4, 5), ("VP", 1, 5), ("S", 0, 6)}
    assert set(labelled_spans(depths, example.tags)) == spans


def test_a_unary_chain_gives_its_categories_one_span(tmp_path):
    example = example_of(tmp_path, "a.mrg", "(S (VP (VB Go) (NP (PRP you))))\n")
    assert example.tags == Tags((NO_CHAIN, "NP"), (None, "S+VP"))
    assert labelled_spans([0, 1], example.tags) == [("NP", 1, 2), ("S", 0, 2), ("VP", 0, 2)]


@pytest.mark.parametrize("label, expected", [("NP-SBJ=2", "NP"), ("ADVP|PRT", "ADVP"), ("-LRB-", "-LRB-"), ("", "")])
def test_a_category_has_no_function_tags(label, expected):
    assert category(label) == expected


def test_the_first_word_of_a_subtree_is_found_through_all_its_words():
    assert first_words([2, 3, 0, 3, 4]) == [0, 0, 0, 3, 4]
