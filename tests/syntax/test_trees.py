import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees_enumerated import all_trees

from som.syntax.trees import Tree, binarise, escape, unescape

WORD = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1)
TREES = st.recursive(WORD, lambda nodes: st.lists(nodes, min_size=1, max_size=4).map(lambda c: Tree(tuple(c))))


def test_there_are_as_many_small_trees_as_the_schroeder_and_catalan_numbers_say():
    counts = [len(set(all_trees(leaves, min_leaves=leaves))) for leaves in range(1, 7)]
    assert counts == [1, 1, 3, 11, 45, 197]
    assert [len(set(all_trees(leaves, True, leaves))) for leaves in range(1, 7)] == [1, 1, 2, 5, 14, 42]


@pytest.mark.parametrize("tree", all_trees(5), ids=str)
def test_writing_and_reading_a_tree_are_inverse(tree):
    assert Tree.parse(str(tree)) == tree
    assert Tree.from_events(tree.events()) == tree
    assert eval(repr(tree)) == tree


@given(TREES)
def test_any_words_survive_writing_and_reading(node):
    tree = node if isinstance(node, Tree) else Tree((node,))
    if not any("-LRB-" in word or "-RRB-" in word for word in tree.words()):
        assert Tree.parse(str(tree)) == tree


def test_brackets_inside_words_are_escaped_and_only_they():
    tree = Tree((":-)", "(", "-", "B-"))
    assert str(tree) == "(:--RRB- -LRB- - B-)"
    assert Tree.parse(str(tree)) == tree
    assert unescape(escape("f(x)")) == "f(x)"


def test_trees_are_equal_by_value_and_only_then():
    trees = list(all_trees(5))
    copies = [Tree.parse(str(tree)) for tree in trees]
    assert set(trees) == set(copies)
    assert sum(a == b for a in trees for b in copies) == len(trees)
    assert Tree(("a", "b")) != "(a b)"
    assert Tree(("(", "a", ")")) != Tree((Tree(("a",)),))


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "expected one tree"),
        ("a", "expected one tree"),
        ("(a) (b)", "expected one tree in brackets, got 2"),
        ("(a b", "1 bracket"),
        ("a)", "closes nothing"),
        ("(a ())", "closes an empty constituent"),
    ],
)
def test_what_is_not_one_tree_is_refused(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        Tree.parse(text)


@pytest.mark.parametrize("tree", all_trees(5, min_leaves=2), ids=str)
def test_binarising_keeps_every_span_and_adds_only_prefixes_of_constituents(tree):
    binary = binarise(tree)
    assert binary.words() == tree.words()
    assert len(binary.spans()) == len(binary.words()) - 1
    assert set(tree.spans()) <= set(binary.spans())
    starts = {start for start, _ in tree.spans()}
    assert all(start in starts for start, _ in binary.spans())
    assert binarise(binary) == binary


def test_binarising_drops_unary_constituents_but_keeps_a_root_over_a_single_word():
    assert str(binarise(Tree.parse("(((a) ((b c))) d e)"))) == "(((a (b c)) d) e)"
    assert str(binarise(Tree.parse("((a))"))) == "(a)"


@pytest.mark.parametrize("text", ["({} {})", "({1} {0})"])
def test_very_deep_trees_are_no_problem(text):
    node: Tree | str = "x"
    for _ in range(5000):
        node = Tree(("y", node) if text == "({} {})" else (node, "y"))
    assert isinstance(node, Tree)
    assert Tree.parse(str(node)) == node
    assert hash(node) == hash(Tree.parse(str(node)))
    assert len(node.words()) == 5001
    assert len(node.spans()) == 5000
    assert binarise(node) == node
    assert len(node.to_nltk().label()) == 1


def test_nltk_gets_the_same_tree():
    assert Tree.parse("(a (b c))").to_nltk().pformat() == "(* a (* b c))"
