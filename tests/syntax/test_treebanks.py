import gzip
import random
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from som.syntax.oracle import first_siblings, gold_depths
from som.syntax.treebanks import (
    Example,
    HeadError,
    TreebankError,
    file_parts,
    lift,
    listed_files,
    parse_text,
    read_file,
    read_text,
    read_treebank,
    to_conllu,
    tree_from_heads,
    treebank_files,
    wsj_files,
)
from som.syntax.trees import Tree

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data is not there")

CONLLU = """\
# sent_id = 1
# text = She didn't sleep (much).
1\tShe\tshe\tPRON\t_\t_\t4\tnsubj\t_\t_
2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdid\tdo\tAUX\t_\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\t_\t_\t4\tadvmod\t_\t_
4\tsleep\tsleep\tVERB\t_\t_\t0\troot\t_\t_
4.1\tsleep\tsleep\tVERB\t_\t_\t_\t_\t_\t_
5\t(\t(\tPUNCT\t_\t_\t6\tpunct\t_\t_
6\tmuch\tmuch\tADV\t_\t_\t4\tadvmod\t_\t_
7\t)\t)\tPUNCT\t_\t_\t6\tpunct\t_\t_
8\t.\t.\tPUNCT\t_\t_\t4\tpunct\t_\t_

# sent_id = 2
1\tHello\thello\tINTJ\t_\t_\t0\troot\t_\t_
"""

PTB = r"""
( (S
    (NP-SBJ-1 (DT The) (NN bill) )
    (VP (VBZ is)
      (VP (VBN meant)
        (NP (-NONE- *-1) )
        (S
          (NP-SBJ (-NONE- *-1) )
          (VP (TO to)
            (VP (VB cut) (-LRB- -LRB-) (NP (CD 1\/2)) (-RRB- -RRB-))))))
    (. .) ))
( (FRAG (NP (NN Yes))))
"""


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_conllu_sentences_are_read_as_worked_by_hand(tmp_path):
    first, second = read_treebank([write(tmp_path / "a.conllu", CONLLU)])
    assert first.words == ("She", "did", "n't", "sleep", "(", "much", ")", ".")
    assert str(first.tree) == "(She did n't sleep (-LRB- much -RRB-) .)"
    assert first.tree.words() == first.words
    assert second == Example(("Hello",), Tree(("Hello",)), f"{tmp_path / 'a.conllu'}:14", lifted=0)


def test_bracketed_trees_are_read_as_worked_by_hand(tmp_path):
    first, second = read_treebank([write(tmp_path / "a.mrg", PTB)])
    assert str(first.tree) == "((The bill) (is (meant (to (cut -LRB- 1/2 -RRB-)))) .)"
    assert first.words == ("The", "bill", "is", "meant", "to", "cut", "(", "1/2", ")", ".")
    assert second == Example(("Yes",), Tree(("Yes",)), f"{tmp_path / 'a.mrg'}:12", lifted=None)


@pytest.mark.parametrize("text", [CONLLU, PTB], ids=["conllu", "brackets"])
def test_gzip_byte_order_marks_and_carriage_returns_change_nothing(tmp_path, text):
    plain = list(read_treebank([write(tmp_path / "plain", text)]))
    (tmp_path / "zipped.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "windows").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    for name in ("zipped.gz", "windows"):
        other = list(read_treebank([tmp_path / name]))
        assert [(e.words, e.tree) for e in other] == [(e.words, e.tree) for e in plain]


def test_files_and_folders_are_read_in_the_order_given_and_folders_by_name(tmp_path):
    for name in ("x/b.conllu", "x/a.mrg", "x/README", "c.conllu"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, PTB if name.endswith("mrg") else CONLLU)
    files = treebank_files([tmp_path / "c.conllu", tmp_path / "x"])
    assert [file.name for file in files] == ["c.conllu", "a.mrg", "b.conllu"]
    assert len(list(read_treebank(files))) == 6


def test_the_wall_street_journal_is_split_by_sections(tmp_path):
    for section in range(25):
        (tmp_path / f"{section:02d}").mkdir()
        write(tmp_path / f"{section:02d}" / f"wsj_{section:02d}01.mrg", PTB)
    splits = {split: [file.parent.name for file in files] for split, files in wsj_files(tmp_path).items()}
    assert splits == {"train": [f"{n:02d}" for n in range(2, 22)], "validation": ["24"], "test": ["23"]}
    with pytest.raises(TreebankError, match="02: expected a folder for each section"):
        wsj_files(tmp_path / "02")


def test_lists_name_files_and_folders_inside_a_corpus(tmp_path):
    (tmp_path / "1987" / "w7_001").mkdir(parents=True)
    for name in ("w7_001.001", "w7_001.000"):
        write(tmp_path / "1987" / "w7_001" / name, PTB)
    names = write(tmp_path / "train.txt", "# mine\n1987/w7_001/w7_001.001\n\n1987/w7_001\n")
    files = listed_files(tmp_path, [names])
    assert [file.name for file in files] == ["w7_001.001", "w7_001.000", "w7_001.001"]
    with pytest.raises(TreebankError, match=r"train.txt:1: expected a file or folder in .*, got 'absent'"):
        listed_files(tmp_path, [write(names, "absent\n")])
    with pytest.raises(TreebankError, match="expected lists that name files"):
        listed_files(tmp_path, [write(names, "\n")])


def row(number, word, head):
    return f"{number}\t{word}\t_\t_\t_\t_\t{head}\t_\t_\t_\n"


@pytest.mark.parametrize(
    "text, line, complaint",
    [
        ("", 1, "got an empty file"),
        ("\n\n  \n", 1, "got an empty file"),
        ("# only this\n", 1, "only comments"),
        (row(1, "a", 0) + "2\tb\t_\n", 2, "expected 10 columns separated by tabs, got 3"),
        (row(1, "a", 0) + row(3, "b", 1), 2, "expected 2 in column 1, the word's number, got '3'"),
        (row(1, "", 0), 1, "expected a word in column 2"),
        ("#\n" + row(1, "a", "_"), 2, "expected a number in column 7, the head, got '_'"),
        (row(1, "a", 0) + row(2, "b", 3), 2, "expected a head in 0…2, got 3"),
        (row(1, "a", 0) + row(2, "b", -1), 2, "expected a number in column 7"),
        (row(1, "a", 0) + row(2, "b", 0), 2, "expected one root in the sentence, got 2"),
        ("#\n" + row(1, "a", 2) + row(2, "b", 1), 2, "expected one root in the sentence, got 0"),
        (row(1, "a", 0) + row(2, "b", 3) + row(3, "c", 2), 2, "got a circle above word 2"),
        (row(1, "a", 0) + row(2, "b", 2), 2, "got a circle above word 2"),
        ("(S (NP a)\n", 1, r"expected 1 more closing bracket\(s\)"),
        ("(S (NP a)\n(S (NP b))\n", 1, r"expected 1 more closing bracket\(s\)"),
        ("(S (NP a))\n\n(S (NP b)))\n", 3, r"expected one tree in brackets, got '\)' outside it"),
        ("(S (NP a)) (S (NP b))", 1, r"expected one tree in brackets, got '\(' outside it"),
        ("(S (NP a))\nword\n", 2, "expected one tree in brackets, got 'word' outside it"),
        ("(S\n  (NP a b))", 2, r"expected \(LABEL \(…\) …\) or \(TAG word\), got \(NP a b\)"),
        ("(S (NP a) b)", 1, r"got \(S b \(…\)\)"),
        ("(S ())", 1, r"got \(\)"),
        ("( (S (-NONE- *)))", 1, "got only traces"),
    ],
)
def test_bad_sentences_are_refused_with_file_line_and_expectation(tmp_path, text, line, complaint):
    path = write(tmp_path / "bad", text)
    with pytest.raises(TreebankError, match=complaint) as caught:
        list(read_treebank([path]))
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(caught.value)


def test_bad_files_are_refused_with_file_and_line(tmp_path):
    (tmp_path / "latin").write_bytes(row(1, "a", 0).encode() + row(2, "é", 1).encode("latin-1"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress((CONLLU.encode() + b"\n") * 100)[:-20])
    (tmp_path / "plain.gz").write_bytes(CONLLU.encode())
    (tmp_path / "folder").mkdir()
    for name, complaint in [
        ("latin", "latin:2: expected text in UTF-8"),
        ("cut.gz", r"cut.gz:\d+: expected a readable file, got"),
        ("plain.gz", "plain.gz:1: expected a readable file, got"),
        ("absent", "absent: expected a file or folder, there is none"),
        ("folder", r"folder: expected files \*.conllu.* in this folder, found none"),
    ]:
        with pytest.raises(TreebankError, match=complaint):
            list(read_treebank([tmp_path / name]))


def test_reading_goes_on_after_a_bad_sentence(tmp_path):
    bad = "1\ttruncated\n\n"
    read = list(read_file(write(tmp_path / "a.conllu", CONLLU + "\n" + bad + CONLLU)))
    assert [isinstance(example, TreebankError) for example in read] == [False, False, True, False, False]
    unclosed = "(S (NP (NN x))\n"
    read = list(read_file(write(tmp_path / "a.mrg", PTB + unclosed + PTB)))
    assert [isinstance(example, TreebankError) for example in read] == [False, False, True, False, False]


INDENTED = " (S (NP (NN x))\n    (VP (VB y)))\n\n (X (Y y)) (Z z)\n (A\n\n  b))\n (C c)\n"  # no bracket in column 1
LINES = "\ufeff(X (Y y))\n\n# (\r\n\r\n(S (A a)\n (B b))\n (S (C c))\n(S (NP d)\n\n1\tbad\n \n"


@pytest.mark.parametrize("size", [1, 64, 300])
@pytest.mark.parametrize(
    "text", [CONLLU * 5, PTB * 5, INDENTED * 9, "(X (Y y))", LINES, INDENTED + LINES, "# " + LINES, "\n" + CONLLU]
)
def test_the_parts_of_a_file_have_what_the_whole_has(tmp_path, monkeypatch, text, size):
    file = write(tmp_path / "a", text)
    whole = list(map(repr, read_file(file)))
    monkeypatch.setattr("som.syntax.treebanks.PART", size)
    parts = list(file_parts(file))
    assert len(parts) > 1 or text not in (CONLLU * 5, PTB * 5, INDENTED * 9)
    assert b"".join(part.text for part in parts) == file.read_bytes()
    assert [repr(example) for part in parts for example in part.examples()] == whole  # errors, too


@pytest.mark.parametrize("size", [50, 5000])
@pytest.mark.parametrize("content", [b"", gzip.compress((CONLLU.encode() + b"\n") * 1000)[:-20], b"\x1f\x8b"])
def test_what_is_wrong_with_a_file_is_reported_once_by_its_parts(tmp_path, monkeypatch, content, size):
    (tmp_path / "a.gz").write_bytes(content)
    whole = list(map(repr, read_file(tmp_path / "a.gz")))
    monkeypatch.setattr("som.syntax.treebanks.PART", size)
    read = list(read_file(tmp_path / "a.gz"))
    assert list(map(repr, read)) == whole
    assert [isinstance(example, TreebankError) for example in read] == [False] * (len(read) - 1) + [True]


def all_heads(length):
    """Every dependency tree over so many words."""
    for heads in product(range(length + 1), repeat=length):
        try:
            tree_from_heads([""] * length, heads)
        except HeadError:
            continue
        yield heads


def ancestors(heads, word):
    while word:
        yield word
        word = heads[word - 1]


def is_projective(heads):
    return all(
        head == 0 or head in ancestors(heads, between)
        for word, head in enumerate(heads, start=1)
        for between in range(min(word, head) + 1, max(word, head))
    )


@pytest.mark.parametrize("length, count", [(1, 1), (2, 2), (3, 9), (4, 64), (5, 625)])
def test_every_dependency_tree_is_lifted_to_a_projective_one_along_its_own_ancestors(length, count):
    trees = list(all_heads(length))
    assert len(trees) == count  # Cayley's formula: n ** (n - 1) rooted trees
    for heads in trees:
        lifted, arcs = lift(heads)
        assert is_projective(lifted)
        assert (arcs == 0) == is_projective(heads)
        for word, (new, old) in enumerate(zip(lifted, heads, strict=True), start=1):
            assert new == old or new in list(ancestors(heads, word))[2:]


def lift_by_definition(heads):
    """Looks at every arc anew after every step."""
    lifted = list(heads)
    while True:
        below = [{v for v in range(1, len(heads) + 1) if w in ancestors(lifted, v)} for w in range(1, len(heads) + 1)]
        crossing = [
            (abs(word - head), word)
            for word, head in enumerate(lifted, start=1)
            if head and not set(range(min(word, head) + 1, max(word, head))) <= below[head - 1]
        ]
        if not crossing:
            return lifted, sum(new != old for new, old in zip(lifted, heads, strict=True))
        _, word = min(crossing)
        lifted[word - 1] = lifted[lifted[word - 1] - 1]


@pytest.mark.parametrize("length", range(1, 6))
def test_lifting_is_what_its_definition_says_for_every_small_tree(length):
    assert all(lift(heads) == lift_by_definition(heads) for heads in all_heads(length))


@pytest.mark.parametrize("seed", range(10))
def test_lifting_is_what_its_definition_says_for_large_trees(seed):
    rng = random.Random(seed)
    order = rng.sample(range(1, 31), 30)
    heads = [0] * 30
    for place, word in enumerate(order[1:], start=1):
        heads[word - 1] = order[rng.randrange(max(0, place - 4), place)]
    assert lift(heads) == lift_by_definition(heads)
    assert lift(heads)[1] > 5  # or there is little to test


@pytest.mark.parametrize("length", range(1, 6))
def test_the_constituents_of_a_projective_dependency_tree_are_its_subtrees(length):
    for heads in filter(is_projective, all_heads(length)):
        words = [str(word) for word in range(1, length + 1)]
        yields = {w: [v for v in range(1, length + 1) if w in ancestors(heads, v)] for w in range(1, length + 1)}
        expected = {(min(below) - 1, max(below)) for below in yields.values() if len(below) > 1 or length == 1}
        tree, lifted = tree_from_heads(words, heads)
        assert tree.words() == tuple(words)
        assert sorted(tree.spans()) == sorted(expected)
        assert lifted == 0


def test_a_crossing_arc_is_lifted_to_the_nearest_ancestor_that_will_do():
    # A hearing is scheduled on the issue today: "on" hangs on "hearing", across "is scheduled"
    words = ["A", "hearing", "is", "scheduled", "on", "the", "issue", "today"]
    heads = [2, 4, 4, 0, 7, 7, 2, 4]
    assert lift(heads) == ([2, 4, 4, 0, 7, 7, 4, 4], 1)
    assert str(tree_from_heads(words, heads)[0]) == "((A hearing) is scheduled (on the issue) today)"


def test_a_sentence_written_as_conllu_is_read_again(tmp_path):
    text = to_conllu(["the", "dog", "barks"], [2, 3, 0], comment="mine") + to_conllu(["no"], [0])
    assert [str(example.tree) for example in read_treebank([write(tmp_path / "a", text)])] == [
        "((the dog) barks)",
        "(no)",
    ]


def test_very_long_chains_of_heads_are_no_problem(tmp_path):
    words = ["w"] * 1200
    path = write(tmp_path / "long.conllu", to_conllu(words, list(range(2, 1201)) + [0]))
    (example,) = read_treebank([path])
    assert len(example.tree.spans()) == 1199
    write(tmp_path / "long.mrg", "(X" + " (X (T w)" * 1200 + ")" * 1201)
    (example,) = read_treebank([tmp_path / "long.mrg"])
    assert max(gold_depths(first_siblings(example.tree))) == 1199


MUTATIONS = st.lists(
    st.tuples(st.sampled_from(["delete", "insert", "swap", "double"]), st.integers(0, 10**6), st.binary(max_size=3)),
    min_size=1,
    max_size=6,
)
BYTES = st.sampled_from([b"\t", b"\n", b"(", b")", b"0", b"9", b"-", b" ", b"\xff", b"\xc3", "٣".encode(), b"#"])


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.sampled_from([CONLLU, PTB]), mutations=MUTATIONS, extra=BYTES)
def test_whatever_is_done_to_a_file_only_our_error_comes_out(tmp_path, text, mutations, extra):
    data = bytearray(text.encode())
    for kind, where, noise in mutations:
        at = where % (len(data) + 1)
        if kind == "delete":
            del data[at : at + 1 + len(noise)]
        elif kind == "insert":
            data[at:at] = noise + extra
        elif kind == "swap":
            data[at : at + len(extra)] = extra
        else:
            data[at:at] = data[at : at + 30]
    path = tmp_path / "mutated"
    path.write_bytes(bytes(data))
    for example in read_file(path):
        if isinstance(example, TreebankError):
            assert str(example).startswith(f"{path}:") and "\n" not in str(example)
        else:
            assert example.tree.words() == example.words
            assert Tree.parse(str(example.tree)) == example.tree
            assert str(example.tree).encode("utf-8")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_give_only_our_error(tmp_path, data):
    for name in ("raw", "raw.gz"):
        (tmp_path / name).write_bytes(data)
        for example in read_file(tmp_path / name):
            assert isinstance(example, TreebankError | Example)


def token(i, text, head, is_space=False, dep="nsubj"):
    dep = "ROOT" if i == head else dep
    return SimpleNamespace(i=i, text=text, head=SimpleNamespace(i=head), is_space=is_space, dep_=dep)


def test_spacy_and_stanza_parses_become_conllu(monkeypatch):
    document = SimpleNamespace(
        sents=[[token(0, "Dogs", 2), token(1, " ", 0, is_space=True), token(2, "bark", 2)], [token(3, "Yes", 3)]]
    )
    spacy = SimpleNamespace(load=lambda name: SimpleNamespace(pipe=lambda texts: [document for _ in texts]))
    words = [SimpleNamespace(text="Dogs", head=2, deprel="nsubj"), SimpleNamespace(text="bark", head=0, deprel="root")]
    sentence = SimpleNamespace(words=words)
    stanza = SimpleNamespace(Pipeline=lambda *a, **k: lambda text: SimpleNamespace(sentences=[sentence]))
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    monkeypatch.setitem(sys.modules, "stanza", stanza)
    dogs = (["Dogs", "bark"], [2, 0], ["nsubj", "root"])
    assert list(parse_text(["Dogs  bark Yes"], "spacy:mine")) == [
        to_conllu(*dogs, comment="silver = spacy:mine"),
        to_conllu(["Yes"], [0], ["root"], comment="silver = spacy:mine"),
    ]
    assert list(parse_text(["Dogs bark"], "stanza")) == [to_conllu(*dogs, comment="silver = stanza")]


def test_text_is_read_line_by_line(tmp_path):
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"Zwei.\r\n"))
    assert list(read_text([write(tmp_path / "a", "One.\n\n Two. \n"), tmp_path / "b.gz"])) == ["One.", "Two.", "Zwei."]
    (tmp_path / "latin").write_bytes(b"fine\n\xe9\n")
    with pytest.raises(TreebankError, match="latin:2: expected text in UTF-8"):
        list(read_text([tmp_path / "latin"]))


def test_a_model_that_spacy_is_without_is_one_line_with_the_remedy(monkeypatch):
    def load(name):
        raise OSError(f"[E050] Can't find model '{name}'.\nIt doesn't seem to be a Python package.")

    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=load))
    for parser, model in (("spacy", "en_core_web_sm"), ("spacy:de", "de")):
        with pytest.raises(ValueError, match=f"spaCy has no model '{model}': python -m spacy download {model}$"):
            next(parse_text(["a"], parser))


def test_a_parser_that_is_unknown_or_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match=r"pip install 'som-lm\[spacy\]'"):
        list(parse_text(["a"], "spacy"))
    with pytest.raises(ValueError, match="expected the parser"):
        list(parse_text(["a"], "malt"))


@needs_data
def test_ewt_dev_has_the_depths_that_others_counted():
    examples = list(read_treebank([DATA / "ud" / "en_ewt-ud-dev.conllu.gz"]))
    assert len(examples) == 2001
    projective = [example for example in examples if not example.lifted]
    assert len(projective) == 1970
    depths = [depth for example in projective for depth in gold_depths(first_siblings(example.tree))]
    assert round(sum(depths) / len(depths), 2) == 2.04


@needs_data
def test_the_ptb_sample_has_the_sentences_and_words_that_others_counted():
    examples = list(read_treebank([DATA / "ptb-sample" / "wsj-combined.mrg.gz"]))
    assert (len(examples), sum(len(example.words) for example in examples)) == (3914, 94084)
    assert str(examples[1].tree) == (
        "((Mr. Vinken) (is (chairman (of ((Elsevier N.V.) , (the Dutch publishing group))))) .)"
    )
