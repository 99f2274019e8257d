"""The built-in treebank: proper trees, disjoint splits, minimal pairs that are minimal and unseen."""

from collections import Counter

import pytest

from som.syntax.grammar import PAIR_KINDS, PAIRS_PER_KIND, SPLIT_SIZES, builtin_treebank, minimal_pairs, split_of

Rows = list[list[str]]


def rows_of(block: str) -> Rows:
    return [line.split("\t") for line in block.splitlines() if line and not line.startswith("#")]


def text_of(rows: Rows) -> str:
    return " ".join(row[1] for row in rows)


@pytest.fixture(scope="module")
def treebank() -> dict[str, list[Rows]]:
    return {split: [rows_of(block) for block in builtin_treebank(split)] for split in SPLIT_SIZES}


@pytest.fixture(scope="module")
def pairs():
    return minimal_pairs()


@pytest.fixture(scope="module")
def numbers(treebank) -> dict[str, str]:
    return {row[1]: row[5] for rows in treebank["train"] for row in rows if row[3] in ("NOUN", "PROPN")}


def test_every_split_has_its_size_and_no_sentence_twice(treebank):
    texts = [text_of(rows) for sentences in treebank.values() for rows in sentences]
    assert {split: len(sentences) for split, sentences in treebank.items()} == SPLIT_SIZES
    assert len(set(texts)) == len(texts) == sum(SPLIT_SIZES.values())


def test_splits_of_different_seeds_are_disjoint_as_well(treebank):
    train = {text_of(rows) for rows in treebank["train"]}
    assert not train & {text_of(rows_of(block)) for block in builtin_treebank("test", seed=1)}


def test_the_same_seed_gives_the_same_treebank_and_another_seed_another(treebank):
    assert [rows_of(block) for block in builtin_treebank("test")] == treebank["test"]
    assert [rows_of(block) for block in builtin_treebank("test", seed=1)] != treebank["test"]
    assert minimal_pairs(0) != minimal_pairs(1)


def test_blocks_are_conllu_and_the_text_is_that_of_the_words():
    for block in builtin_treebank("validation"):
        comments = [line for line in block.splitlines() if line.startswith("# ")]
        assert block.endswith("\n\n") and [line.split(" = ")[0] for line in comments] == ["# sent_id", "# text"]
        rows = rows_of(block)
        assert all(len(row) == 10 for row in rows) and [row[0] for row in rows] == [
            str(i + 1) for i in range(len(rows))
        ]
        text = "".join(row[1] + ("" if row[9] == "SpaceAfter=No" else " ") for row in rows).strip()
        assert comments[1] == f"# text = {text}" and text[0].isupper() and text.endswith(".")


def test_every_tree_has_one_root_no_cycle_and_no_crossing_arc(treebank):
    for rows in treebank["train"][:3000]:
        heads = [int(row[6]) for row in rows]
        assert heads.count(0) == 1 and rows[heads.index(0)][7] == "root"
        for index in range(1, len(rows) + 1):
            path = [index]
            while path[-1]:
                path.append(heads[path[-1] - 1])
                assert len(path) <= len(rows) + 1, "a cycle"
        arcs = [sorted((index + 1, head)) for index, head in enumerate(heads) if head]
        assert not any(a < c < b < d for a, b in arcs for c, d in arcs)


def test_the_language_has_all_its_constructions(treebank):
    relations = Counter(row[7] for rows in treebank["train"] for row in rows)
    wanted = "nsubj obj obl nmod acl:relcl advcl ccomp conj cc mark case det nummod amod advmod aux cop punct root"
    assert set(relations) == set(wanted.split())
    assert min(relations.values()) > 100
    words = Counter(row[1] for rows in treebank["train"] for row in rows)
    assert 300 < len(words) < 1000 and {"himself", "herself", "themselves"} <= words.keys()


def test_verbs_next_to_their_pronoun_agree_with_it(treebank):
    for rows in treebank["train"]:
        for subject, verb in zip(rows, rows[1:], strict=False):
            if subject[3] == "PRON" and subject[7] == "nsubj" and "Number" in subject[5] and "Number" in verb[5]:
                assert subject[5] == verb[5], text_of(rows)


def test_every_noun_goes_with_its_determiner(treebank):
    for rows in treebank["test"]:
        for row in rows:
            noun = rows[int(row[6]) - 1]
            if row[7] in ("det", "nummod") and row[1].lower() != "the":
                plural = row[1].lower() in ("some", "these", "those", "many", "two", "three")
                assert noun[5] == ("Number=Plur" if plural else "Number=Sing"), text_of(rows)
            if row[1].lower() in ("a", "an"):
                assert (rows[int(row[0])][1][0] in "aeiou") == (row[1].lower() == "an"), text_of(rows)


def test_there_are_equally_many_minimal_pairs_of_each_kind(pairs):
    assert Counter(pair.kind for pair in pairs) == dict.fromkeys(PAIR_KINDS, PAIRS_PER_KIND)


def difference(pair) -> tuple[list[str], str, str]:
    """The words before the one that differs, and that word in both sentences."""
    words = list(zip(pair.good.split(), pair.bad.split(), strict=True))
    ((good, bad),) = [both for both in words if len(set(both)) > 1]
    return [word for word, _ in words[: words.index((good, bad))]], good, bad


def test_pairs_differ_in_one_word_and_the_good_one_has_the_number_of_the_subject(pairs, numbers):
    for pair in pairs:
        before, good, bad = difference(pair)
        assert ({good, bad} <= {"himself", "herself", "themselves"}) == pair.kind.startswith("reflexive"), pair
        plural = good in ("are", "themselves") or (bad not in ("are", "themselves") and len(good) < len(bad))
        nouns = [numbers[word] for word in before if word in numbers]
        subject = nouns[1 if pair.kind == "agreement_in_object_relative" else 0]
        assert plural == (subject == "Number=Plur" or pair.kind == "agreement_coordination"), pair


def test_a_noun_of_the_other_number_stands_before_the_word_that_differs(pairs, numbers):
    for pair in pairs:
        nouns = {numbers[word] for word in difference(pair)[0] if word in numbers}
        assert len(nouns) == 2 or (pair.kind == "agreement_coordination" and nouns == {"Number=Sing"}), pair


def test_no_sentence_of_a_pair_is_in_the_treebank(pairs, treebank):
    seen = {text_of(rows) for sentences in treebank.values() for rows in sentences}
    assert not seen & {text for pair in pairs for text in (pair.good, pair.bad)}
    assert {split_of(pair.good) for pair in pairs} == {"pairs"}  # so they are in no treebank of any seed
    assert len({pair.good for pair in pairs}) > 0.9 * len(pairs)


def test_every_word_of_a_pair_is_learnt_in_training(pairs, treebank):
    words = Counter(row[1] for rows in treebank["train"] for row in rows)
    assert all(words[word] > 1 for pair in pairs for word in f"{pair.good} {pair.bad}".split())


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="train, validation, test, got 'dev'"):
        next(builtin_treebank("dev"))
