"""SyntaxGym and BLiMP: formulas worked out by hand, regions found in the text, errors that say where."""

import copy
import gzip
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from som.data.vocabularies import make_tokenizer
from som.evaluation.blimp import Pair, compare_likelihoods, read_blimp
from som.evaluation.formulas import Formula
from som.evaluation.suites import CIRCUITS, UNPUBLISHED, SuiteSentence, circuit, load_suites, read_suite
from som.evaluation.syntaxgym import judge_predictions

DATA = Path(__file__).parents[3] / "shared" / "data"
NPZ = {
    "meta": {"name": "npz_tiny", "metric": "sum"},
    "region_meta": {"1": "start", "2": "comma", "3": "verb"},
    "predictions": [
        {"type": "formula", "formula": "[(3;%none%) > (3;%comma%)] & [(1;%none%) = (1;%comma%)]"},
        {"type": "formula", "formula": "(3;%none%) - (3;%comma%) > 2"},
    ],
    "items": [
        {
            "item_number": number,
            "conditions": [
                {
                    "condition_name": condition,
                    "regions": [
                        {"region_number": 1, "content": "As he shot"},
                        {"region_number": 2, "content": comma},
                        {"region_number": 3, "content": f" the  {noun} yelled "},
                    ],
                }
                for condition, comma in (("none", ""), ("comma", ","))
            ],
        }
        for number, noun in ((1, "woman"), (2, "zebra"))
    ],
}


def surprisals(none: float, comma: float, start: float = 1.0) -> dict:
    return {"none": {1: 1.0, 2: 0.0, 3: none}, "comma": {1: start, 2: 0.5, 3: comma}}


# ---------------------------------------------------------------------------------------------- formulas

VALUES = {(1, "a"): 2.0, (2, "a"): 3.0, (1, "b"): 5.0, (2, "b-c_d"): 0.5}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(1;%a%) < (2;%a%)", True),  # 2 < 3
        ("(1;%a%)>(2;%a%)", False),
        ("(1;%a%) + (2;%a%) = (1;%b%)", True),  # 2 + 3 = 5
        ("[ (1;%a%) + (2;%a%) ] < [ (1;%b%) + (2;%b-c_d%) ]", True),  # 5 < 5.5
        ("(1;%b%) - (2;%a%) - (1;%a%) = 0", True),  # (5 − 3) − 2, from the left; 5 − (3 − 2) would be 4
        ("(1;%b%) - [(2;%a%) - (1;%a%)] = 4", True),
        ("[(1;%b%)-(1;%a%)]+[[(1;%b%)+(2;%a%)]-[(2;%a%)+(1;%a%)]]>0", True),  # 3 + (8 − 5)
        ("[(1;%a%) < (2;%a%)] & [(1;%b%) < (2;%a%)]", False),  # 2 < 3 and 5 < 3
        ("[(1;%a%) < (2;%a%)] & [(1;%b%) > (2;%a%)] & (2;%b-c_d%) < 0.6", True),
        ("[[(1;%b%) - (2;%a%)] > [(2;%a%) - (1;%a%)]]", True),  # 2 > 1
        ("  (1;%a%) > 1.5  ", True),
        ("((1;%a%) > 1.5)", True),
        ("(1;%a%) = 2.0005", True),  # equal to a thousandth
        ("(1;%a%) = 2.01", False),
    ],
)
def test_formulas_worked_out_by_hand(text, expected):
    assert Formula.parse(text).holds(VALUES) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a region .* at character 1"),
        ("(1;%a%) >", "expected a region .* at character 10"),
        ("[(1;%a%) > 2", "expected a closing bracket at character 13"),
        ("[(1;%a%) > 2)", "expected a closing bracket at character 13"),
        ("(1;%a%) > 2 ]", "expected the end at character 12"),
        ("(1;%a%) > 2 > 1", "expected the end at character 12"),
        ("(1;%a%) ≥ 2", "expected the end at character 8"),
        ("(1;a) > 2", "expected a region .* at character 2|closing bracket"),
        ("(1;%a%) + 2", "expected a comparison, got a number"),
        ("[(1;%a%) > 2] + 1 > 0", "expected a number, got a comparison"),
        ("(1;%a%) & (1;%a%) > 2", "expected a comparison, got a number"),
        ("__import__('os')", "expected a region .* at character 1"),
    ],
)
def test_a_malformed_formula_is_refused_with_its_place(text, message):
    with pytest.raises(ValueError, match=message):
        Formula.parse(text)


def test_formulas_of_thousands_of_terms_are_read_and_evaluated():
    terms = " + ".join(["(1;%a%)"] * 5000)
    assert Formula.parse(f"{terms} = 10000").holds(VALUES)
    assert Formula.parse(" & ".join(["(1;%a%) < 3"] * 5000)).holds(VALUES)
    with pytest.raises(ValueError, match="expected at most 50 brackets in each other at character 52") as caught:
        Formula.parse("[" * 5000 + "(1;%a%) < 3" + "]" * 5000)
    assert len(str(caught.value)) < 400


@given(st.text("()[]<>=&+-;% 12ab.", max_size=30))
def test_any_other_text_is_a_formula_or_a_value_error(text):
    try:
        formula = Formula.parse(text)
    except ValueError:
        return
    assert formula.holds(dict.fromkeys(formula.names, 1.0)) in (True, False)


# ---------------------------------------------------------------------------------------------- regions


def test_regions_are_found_in_the_sentence():
    none, comma = read_suite(NPZ).items[1].values()
    assert (none.text, comma.text) == ("As he shot the woman yelled", "As he shot , the woman yelled")
    assert [comma.region(number) for number in (1, 2, 3)] == ["As he shot", ",", "the woman yelled"]
    assert [none.region(number) for number in (1, 2, 3)] == ["As he shot", "", "the woman yelled"]


def test_a_sentence_may_begin_with_an_empty_region():
    sentence = SuiteSentence.join(("s", 1, "c"), {1: " ", 2: "It", 3: "'s", 4: ""})
    assert sentence.text == "It 's" and sentence.spans == {1: (0, 0), 2: (0, 2), 3: (3, 5), 4: (5, 5)}


@pytest.mark.parametrize("kind", ["word", "bpe:300"])
def test_every_token_counts_once_in_its_region(kind):
    contents = {1: "The teacher 's class", 2: "", 3: "does n't", 4: ",", 5: "mid-1990s .", 6: "end."}
    sentence = SuiteSentence.join(("s", 1, "c"), contents)
    tokenizer = make_tokenizer(kind, [["The", "teacher", "is"]] * 2)
    encoded = tokenizer(sentence.text, return_offsets_mapping=True)
    pieces = {number: len(tokenizer(text, add_special_tokens=False).input_ids) for number, text in contents.items()}
    sums = sentence.regions(encoded.offset_mapping, [1.0] * len(encoded.input_ids))  # BOS has no characters
    assert sums == pieces and sums[2] == 0 and sum(sums.values()) == len(encoded.input_ids) - 1


def test_tokens_that_carry_the_space_before_them_belong_to_their_word():
    sentence = SuiteSentence.join(("s", 1, "c"), {1: "It", 2: "'s"})
    assert sentence.regions([(0, 2), (2, 4), (4, 5)], [1.0, 2.0, 4.0]) == {1: 1.0, 2: 6.0}


def test_tokens_of_another_text_are_refused():
    with pytest.raises(ValueError, match="suite s, item 1, condition c: no region has characters 3…9"):
        SuiteSentence.join(("s", 1, "c"), {1: "It"}).regions([(3, 9)], [1.0])


# ---------------------------------------------------------------------------------------------- scores


def test_items_pass_when_all_predictions_hold_or_when_the_first_does():
    suite = read_suite(NPZ)
    given = {
        **{("npz_tiny", 1, condition): regions for condition, regions in surprisals(none=9, comma=5).items()},
        **{("npz_tiny", 2, condition): regions for condition, regions in surprisals(none=9, comma=8).items()},
    }
    report = judge_predictions([suite], given)
    assert report.outcomes == {"npz_tiny": {1: (True, True), 2: (True, False)}}
    assert report.suite_accuracy() == {"npz_tiny": 0.5} and report.suite_accuracy("first") == {"npz_tiny": 1.0}
    assert report.circuit_accuracy() == {"Garden-Path Effects": 0.5} and report.mean() == 0.5
    assert json.loads(json.dumps(report.to_json()))["first"]["mean_published"] == 1.0


def test_means_are_over_suites_not_items_and_the_unpublished_are_left_out():
    suites = []
    for name, items in (("npz_a", 1), ("number_a", 2), ("mvrr_a", 2), ("fgd-embed3", 2), ("nn-nv-rpl", 2)):
        data = copy.deepcopy(NPZ)
        data["meta"]["name"] = name
        data["items"] = data["items"][:items]
        suites.append(read_suite(data))
    passing = {"npz_a": [1], "number_a": [], "mvrr_a": [2], "fgd-embed3": [1, 2], "nn-nv-rpl": [1, 2]}
    given = {
        sentence.key: surprisals(9 if item in passing[suite.name] else 1, 5)[condition]
        for suite in suites
        for item, conditions in suite.items.items()
        for condition, sentence in conditions.items()
    }
    report = judge_predictions(suites, given)
    assert report.mean() == pytest.approx((1 + 0 + 0.5) / 3)
    assert report.mean(published=False) == pytest.approx((1 + 0 + 0.5 + 1 + 1) / 5)
    assert report.circuit_accuracy() == {"Agreement": 0.0, "Garden-Path Effects": 0.75}


def test_unknown_words_are_looked_for_in_critical_regions_only():
    suite = read_suite(NPZ)
    given = {sentence.key: surprisals(9, 5)[sentence.key[2]] for sentence in suite.sentences()}
    assert judge_predictions([suite], given, is_known=lambda word: word != "zebra").unknown == {"npz_tiny": [2]}
    assert judge_predictions([suite], given, is_known=lambda word: word != ",").unknown == {"npz_tiny": []}
    assert judge_predictions([suite], given).unknown == {}


def test_missing_surprisals_and_those_that_are_no_numbers_are_refused():
    suite = read_suite(NPZ)
    with pytest.raises(ValueError, match="suite npz_tiny, item 1, condition none: there are no surprisals"):
        judge_predictions([suite], {})
    given = {sentence.key: surprisals(math.nan, 5)[sentence.key[2]] for sentence in suite.sentences()}
    with pytest.raises(ValueError, match="item 1: a surprisal is not a number"):
        judge_predictions([suite], given)


# ---------------------------------------------------------------------------------------------- files


def broken(change) -> dict:
    data = copy.deepcopy(NPZ)
    change(data)
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the suite: expected 'meta', an object"),
        (broken(lambda d: d.pop("items")), "the suite: expected 'items', a list, got 'None'"),
        (broken(lambda d: d.update(items=[])), "'items' is empty"),
        (broken(lambda d: d["meta"].update(metric="median")), "aggregated by sum, got 'median'"),
        (broken(lambda d: d["predictions"][1].update(type="eval")), "prediction 2: expected the type formula"),
        (broken(lambda d: d["predictions"][1].update(formula="(3;%none%) >")), "prediction 2: expected a region"),
        (
            broken(lambda d: d["predictions"][0].update(formula="(9;%none%) > 0")),
            "prediction 1 is about region 9 of condition none, which item 1 does not have",
        ),
        (broken(lambda d: d["items"][1]["conditions"].pop()), "condition comma, which item 2 does not have"),
        (broken(lambda d: d["items"][1].update(item_number=1)), "item 1 occurs twice"),
        (broken(lambda d: d["items"][0].update(item_number="1")), "an item: expected 'item_number', a whole number"),
        (
            broken(lambda d: d["items"][0]["conditions"][0]["regions"][0].update(content=None)),
            "suite npz_tiny, item 1, condition none: expected 'content', a text, got 'None'",
        ),
        (
            broken(lambda d: d["items"][0]["conditions"][0]["regions"][0].update(region_number=2)),
            "condition none: a condition or a region occurs twice",
        ),
    ],
)
def test_a_malformed_suite_is_refused_with_file_and_place(data, message, tmp_path):
    (tmp_path / "suite.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        load_suites(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'suite.json'}: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{", "expected a suite in JSON"), (b"\xff\xfe", "utf-8"), (b"", "in JSON"), (b"[" * 100_000, "nested")],
)
def test_a_file_that_is_no_json_is_refused(content, message, tmp_path):
    (tmp_path / "suite.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"suite.json: .*{message}"):
        load_suites(tmp_path)


def test_a_folder_without_suites_is_refused(tmp_path):
    with pytest.raises(ValueError, match="expected SyntaxGym suites"):
        load_suites(tmp_path)


def test_the_published_suites_are_read_whole():
    if not (DATA / "syntaxgym").is_dir():
        pytest.skip(f"SyntaxGym's suites are not at {DATA}")
    suites = load_suites(DATA / "syntaxgym" / "suites")
    assert len(suites) == 34 and sum(len(suite.items) for suite in suites) == 842
    assert sum(len(list(suite.sentences())) for suite in suites) == 3304
    assert {suite.name for suite in suites if len(suite.predictions) > 1} == {"fgd_hierarchy", "nn-nv-rpl"}
    circuits = json.loads((DATA / "syntaxgym" / "circuits.json").read_text(encoding="utf-8"))
    assert set(UNPUBLISHED) == set(circuits["excluded_by_authors"])
    assert {suite.name: circuit(suite.name) for suite in suites} == {
        **circuits["suite_to_circuit"],
        **circuits["excluded_by_authors"],
    }
    assert {tag: circuit for circuit, tags in circuits["tags"].items() for tag in tags} == CIRCUITS


def test_a_garden_path_of_the_published_suites_worked_out_by_hand():
    if not (DATA / "syntaxgym").is_dir():
        pytest.skip(f"SyntaxGym's suites are not at {DATA}")
    suite = next(suite for suite in load_suites(DATA / "syntaxgym" / "suites") if suite.name == "npz_obj")
    at_verb = {"no-obj_no-comma": 12.0, "no-obj_comma": 8.0, "obj_no-comma": 9.0, "obj_comma": 7.0}
    given = {
        sentence.key: {**dict.fromkeys(sentence.spans, 1.0), 5: at_verb[sentence.key[2]]}
        for sentence in suite.sentences()
    }
    assert judge_predictions([suite], given).mean() == 1.0  # 12 > 8, 12 > 9, and 12 − 8 > 9 − 7
    given |= {key: {**regions, 5: 5.0} for key, regions in given.items() if key[1:] == (1, "obj_comma")}
    assert judge_predictions([suite], given).mean() == pytest.approx(23 / 24)  # 12 − 8 is not greater than 9 − 5


# ---------------------------------------------------------------------------------------------- BLiMP

LINE = {"uid": "p", "linguistics_term": "t", "field": "syntax/semantics", "sentence_good": "a", "sentence_bad": "b"}


def test_pairs_are_read_from_plain_and_compressed_files(tmp_path):
    upstream = {**LINE, "UID": "p", "field": "syntax"}
    del upstream["uid"]
    text = json.dumps(LINE) + "\n" + json.dumps(upstream) + "\n"
    (tmp_path / "plain.jsonl").write_text(text, encoding="utf-8")
    with gzip.open(tmp_path / "packed.jsonl.gz", "wt", encoding="utf-8") as packed:
        packed.write(text)
    expected = [Pair("p", "t", "syntax_semantics", "a", "b"), Pair("p", "t", "syntax", "a", "b")]
    assert list(read_blimp(tmp_path / "plain.jsonl")) == list(read_blimp(tmp_path / "packed.jsonl.gz")) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ":1: expected pairs of sentences, found an empty file"),
        (b"[]\n", ":1: expected an object with the texts .*; uid is missing"),
        (json.dumps(LINE).encode() + b"\n{", ":2: expected a pair in JSON, got '{'"),
        (json.dumps(LINE).encode() + b'\n{"uid": "p"}\n', ":2: .*linguistics_term is missing"),
        (b"\xff\n", ":1: "),
    ],
)
def test_a_malformed_file_of_pairs_is_refused_with_its_line(content, message, tmp_path):
    (tmp_path / "blimp.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=f"blimp.jsonl{message}"):
        list(read_blimp(tmp_path / "blimp.jsonl"))


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b'{"uid": "p"}', mtime=0)[:-9]])
def test_a_broken_archive_of_pairs_is_refused(content, tmp_path):
    (tmp_path / "blimp.jsonl.gz").write_bytes(content)
    with pytest.raises(ValueError, match="blimp.jsonl.gz:1: "):
        list(read_blimp(tmp_path / "blimp.jsonl.gz"))


def test_a_pair_is_right_when_the_good_sentence_is_more_probable():
    pairs = [Pair("p", "t", "f", "a", "b")] * 3 + [Pair("q", "t", "g", "a", "b")]
    report = compare_likelihoods(pairs, [(-1.0, -2.0), (-2.0, -1.0), (-1.0, -1.0), (-1.0, -math.inf)])
    assert report.to_json() == {
        "mean": (1 / 3 + 1) / 2,
        "pairs": 4,
        "ties": 1,
        "pairs_with_unknown_words": None,
        "paradigms": {"p": 1 / 3, "q": 1.0},
        "phenomena": {"t": 0.5},
        "fields": {"f": 1 / 3, "g": 1.0},
    }


def test_blimp_has_67_paradigms_of_a_thousand_pairs():
    if not (DATA / "blimp").is_dir():
        pytest.skip(f"BLiMP is not at {DATA}")
    pairs = list(read_blimp(DATA / "blimp" / "blimp.jsonl.gz"))
    report = compare_likelihoods(pairs, [(0.0, -1.0)] * len(pairs))
    assert len(pairs) == 67_000 and {accuracy.total for accuracy in report.paradigms.values()} == {1000}
    assert set(report.fields) == {"syntax", "morphology", "semantics", "syntax_semantics"} and report.mean == 1.0
