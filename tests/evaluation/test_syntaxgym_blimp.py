"""SyntaxGym and BLiMP with a model: surprisals of regions, likelihoods of pairs, comparison with others."""

import csv
import json
import math
from pathlib import Path

import pytest
import torch
from conftest import make_model

from modeling_som.scoring_som import log_likelihood
from modeling_som.sentences_som import encode
from som.cli import main
from som.data.vocabularies import make_tokenizer
from som.evaluation.blimp import Pair, evaluate_blimp, read_blimp
from som.evaluation.competitors import comparison, read_competitors, syntaxgym_chart
from som.evaluation.suites import load_suites, read_suite
from som.evaluation.syntaxgym import evaluate_syntaxgym

DATA = Path(__file__).parents[3] / "shared" / "data"
WORDS = ["the", "authors", "author", "near", "senators", "is", "are", "good", "hurt", "themselves", "himself", "."]


@pytest.fixture(params=["word", "bpe:280"])
def tokenizer(request):
    return make_tokenizer(request.param, [WORDS, WORDS])


def model_for(tokenizer, **settings):
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    return make_model(vocab_size=len(tokenizer), **ids, **settings)


def make_suite(formula: str, name: str = "number_src", verbs: tuple[str, ...] = ("is", "are")) -> dict:
    """Two items in two conditions: the verb agrees with the subject or does not."""

    def condition(label: str, contents: list[str]) -> dict:
        regions = [{"region_number": i, "content": content} for i, content in enumerate(contents, 1)]
        return {"condition_name": label, "regions": regions}

    items = [
        {
            "item_number": number,
            "conditions": [
                condition("match", ["the author", "", f"near the {noun}", verbs[0], "good."]),
                condition("mismatch", ["the author", "", f"near the {noun}", verbs[1], "good."]),
            ],
        }
        for number, noun in enumerate(["senators", "authors"], 1)
    ]
    predictions = [{"type": "formula", "formula": formula}]
    return {"meta": {"name": name, "metric": "sum"}, "predictions": predictions, "items": items}


def word_bits(model, tokenizer, words: list[str]) -> list[float]:
    """Surprisal of each word in bits, from the logits of this sentence alone."""
    sentence = encode(tokenizer, words, eos=False)
    log_probs = model(torch.tensor([sentence.ids])).logits[0].log_softmax(-1)
    costs = [0.0, *(-log_probs[t, sentence.ids[t + 1]].item() / math.log(2) for t in range(len(sentence.ids) - 1))]
    stops = [*sentence.starts[1:], len(sentence.ids)]
    return [sum(costs[start:stop]) for start, stop in zip(sentence.starts, stops, strict=True)]


def test_predictions_are_judged_by_the_models_surprisals_of_regions(tokenizer):
    model = model_for(tokenizer)
    bits = {
        (noun, verb): word_bits(model, tokenizer, ["the", "author", "near", "the", noun, verb, "good", "."])
        for noun in ("senators", "authors")
        for verb in ("is", "are")
    }
    formulas = {
        "(4;%match%) < (4;%mismatch%)": lambda match, mismatch: match[5] < mismatch[5],
        "(4;%match%) > (4;%mismatch%)": lambda match, mismatch: match[5] > mismatch[5],
        "(1;%match%) + (2;%match%) = (1;%mismatch%)": lambda match, mismatch: True,
        "(3;%match%) - (5;%mismatch%) > 1": lambda match, mismatch: sum(match[2:5]) - sum(mismatch[6:]) > 1,
    }
    for formula, expected in formulas.items():
        result = evaluate_syntaxgym(model, tokenizer, [read_suite(make_suite(formula))])
        assert result.counts.outcomes["number_src"] == {
            number: (expected(bits[noun, "is"], bits[noun, "are"]),)
            for number, noun in enumerate(["senators", "authors"], 1)
        }


def test_words_that_the_vocabulary_does_not_tell_apart_are_equally_surprising():
    tokenizer = make_tokenizer("word", [WORDS, WORDS])
    suite = make_suite("(4;%match%) < (4;%mismatch%)", verbs=("wug", "blick"))
    opposite = make_suite("(4;%match%) > (4;%mismatch%)", name="number_orc", verbs=("wug", "blick"))
    result = evaluate_syntaxgym(
        model_for(tokenizer, dtype=torch.float32), tokenizer, [*map(read_suite, (suite, opposite))]
    )
    assert set(result.counts.suite_accuracy().values()) == {0.0}
    assert result.counts.unknown == {"number_src": [1, 2], "number_orc": [1, 2]}
    assert result.measures()["items with an unknown critical word"] == 1.0


def test_unknown_words_are_looked_for_where_predictions_look_and_only_in_word_vocabularies():
    suite = read_suite(make_suite("(5;%match%) < (5;%mismatch%)", verbs=("wug", "blick")))
    word, pieces = (make_tokenizer(kind, [WORDS, WORDS]) for kind in ("word", "bpe:280"))
    assert evaluate_syntaxgym(model_for(word), word, [suite]).counts.unknown == {"number_src": []}
    assert evaluate_syntaxgym(model_for(pieces), pieces, [suite]).counts.unknown == {}


PAIRS = [
    Pair("agreement_1", "agreement", "morphology", "the author is good.", "the author are good."),
    Pair("agreement_1", "agreement", "morphology", "the authors are good.", "the authors is good."),
    Pair("anaphor_1", "anaphora", "syntax", "the author hurt himself.", "the author hurt themselves."),
]


@pytest.mark.parametrize("method", ["greedy", "marginal"])
def test_pairs_are_judged_by_the_likelihood_of_whole_sentences_with_eos(tokenizer, method):
    model = model_for(tokenizer)
    likelihoods = [
        [log_likelihood(model, tokenizer, text, method) for text in (pair.good, pair.bad)] for pair in PAIRS
    ]
    right = [good > bad for good, bad in likelihoods]
    result = evaluate_blimp(model, tokenizer, PAIRS, method)
    assert result.counts.paradigms["agreement_1"].correct == sum(right[:2])
    assert result.counts.fields["syntax"].correct == right[2]
    assert result.title == f"BLiMP, {method}" and result.counts.ties == 0


def test_a_pair_that_the_vocabulary_does_not_tell_apart_is_a_tie():
    tokenizer = make_tokenizer("word", [WORDS, WORDS])
    pair = Pair("p", "q", "syntax", "the wug is good.", "the blick is good.")
    report = evaluate_blimp(model_for(tokenizer, dtype=torch.float32), tokenizer, [*PAIRS, pair]).counts
    assert report.ties == 1 and report.paradigms["p"].correct == 0


def test_reports_of_parts_add_up_to_the_report_of_the_whole(tokenizer):
    model = model_for(tokenizer)
    suites = [read_suite(make_suite("(4;%match%) < (4;%mismatch%)", name)) for name in ("number_src", "npz_obj")]
    for evaluate, parts in ((evaluate_syntaxgym, suites), (evaluate_blimp, PAIRS)):
        whole = evaluate(model, tokenizer, parts)
        assert evaluate(model, tokenizer, parts[:1]) + evaluate(model, tokenizer, parts[1:]) == whole
        assert set(whole.to_json()) >= {"title", "name", "method", "gold", "measures"}
        with pytest.raises(ValueError, match="do not add: .*greedy; .*marginal"):
            whole + evaluate(model, tokenizer, parts, "marginal")
    with pytest.raises(ValueError, match="suite number_src, item 1: is in both reports"):
        evaluate_syntaxgym(model, tokenizer, suites) + evaluate_syntaxgym(model, tokenizer, suites[:1])


def test_pairs_with_words_outside_a_word_vocabulary_are_counted(tokenizer):
    pairs = [*PAIRS, Pair("p", "q", "syntax", "the wug is good.", "the wug are good.")]
    report = evaluate_blimp(model_for(tokenizer), tokenizer, pairs)
    if hasattr(tokenizer, "known"):
        assert report.counts.unknown == 1 and report.measures()["pairs with an unknown word"] == 1 / 4
    else:
        assert report.counts.unknown is None and "pairs with an unknown word" not in report.measures()


def write_competitors(path: Path, header: str = "model,corpus,suite,seeds,items,accuracy,accuracy_vote") -> Path:
    rows = [
        "rnng,lg,number_src,1,2,0.75,",
        "rnng,lg,npz_obj,1,2,0.5,",
        "ngram,,number_src,51,2,0.1,0.25",
        "ngram,,npz_obj,51,2,0,0.25",
    ]
    path.write_text("\n".join([header, *rows, ""]))
    return path


def test_competitors_are_compared_over_shared_suites_best_first(tmp_path):
    tokenizer = make_tokenizer("word", [WORDS, WORDS])
    report = evaluate_syntaxgym(model_for(tokenizer), tokenizer, [read_suite(make_suite("0 < 1"))])
    scores = comparison(report, "ours", read_competitors(write_competitors(tmp_path / "others.csv")))
    assert scores == {
        "ours": {"Agreement": 1.0, "mean": 1.0},
        "rnng lg": {"Agreement": 0.75, "mean": 0.75},
        "ngram": {"Agreement": 0.25, "mean": 0.25},
    }
    scores["x$_{$"] = scores["ngram"]
    figure = syntaxgym_chart(scores, "ours")
    figure.savefig(tmp_path / "chart.svg")  # a dollar is no mathematics, which would be an error here
    assert [axes.get_title() for axes in figure.axes] == ["Agreement", "mean"]
    assert [bar.get_width() for bar in figure.axes[0].patches] == [0.25, 0.25, 0.75, 1.0]


@pytest.fixture
def files(tmp_path):
    """A checkpoint, a folder with a suite, a file of pairs."""
    tokenizer = make_tokenizer("word", [WORDS, WORDS])
    model_for(tokenizer, dtype=torch.float32).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "number_src.json").write_text(json.dumps(make_suite("(4;%match%) < (4;%mismatch%)")))
    names = {
        "paradigm": "uid",
        "phenomenon": "linguistics_term",
        "field": "field",
        "good": "sentence_good",
        "bad": "sentence_bad",
    }
    lines = [json.dumps({theirs: getattr(pair, ours) for ours, theirs in names.items()}) for pair in PAIRS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    return tmp_path


def test_the_command_measures_both_at_once_and_draws_the_chart(files, capsys):
    others = write_competitors(files / "others.csv")
    flags = ["--syntaxgym", files / "suites", "--blimp", files / "pairs.jsonl", "--json", files / "report.json"]
    flags += ["--competitors", others, "--chart", files / "chart.svg"]
    assert main(["evaluate", *map(str, [files / "model", *flags])]) == 0
    data, printed = json.loads((files / "report.json").read_text()), capsys.readouterr().out
    assert set(data) == {"command", "commit", "versions", "syntaxgym", "blimp"}
    assert data["syntaxgym"]["measures"]["SG, 1 published suites"] == data["syntaxgym"]["all"]["mean_published"]
    assert data["blimp"]["pairs"] == 3
    assert "number_src" in printed and "agreement_1" in printed and "rnng lg" in printed
    assert "<svg" in (files / "chart.svg").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--blimp", "pairs.jsonl", "--chart", "x.svg"], "--competitors and --chart are about --syntaxgym"),
        (["--syntaxgym", "suites", "--chart", "x.bmp"], "x.bmp: expected a picture"),
        (["--syntaxgym", "."], "found none"),
        (["--syntaxgym", "suites", "--competitors", "pairs.jsonl"], "pairs.jsonl:1: expected the columns"),
        (["--blimp", "suites/number_src.json"], "number_src.json:1:"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2_before_any_model_is_loaded(
    files, flags, message, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(files)
    (tmp_path / "weightless").mkdir()
    (tmp_path / "weightless" / "config.json").write_text(
        '{"model_type": "som", "architectures": ["SOMForCausalLM"]}'
    )  # no weights
    assert main(["evaluate", str(tmp_path / "weightless"), *flags]) == 2
    error = capsys.readouterr().err
    assert message in error.splitlines()[-1]


@pytest.mark.skipif(not DATA.is_dir(), reason="the SyntaxGym suites and published scores are not here")
def test_every_published_suite_and_score_can_be_compared():
    suites = load_suites(DATA / "syntaxgym" / "suites")
    words = [word for suite in suites for s in suite.sentences() for word in s.text.split()]
    tokenizer = make_tokenizer("word", [words])
    result = evaluate_syntaxgym(model_for(tokenizer), tokenizer, suites)
    assert {"SG, 31 published suites", "SG, all 34 suites"} < set(result.measures())
    assert len(result.counts.outcomes) == 34 and sum(map(len, result.counts.outcomes.values())) == 842
    file = DATA / "syntaxgym" / "sg_results_summary.csv"
    scores = comparison(result, "ours", read_competitors(file))
    with open(file, newline="") as lines:
        rows = [r for r in csv.DictReader(lines) if (r["model"], r["corpus"]) == ("rnng", "bllip-lg")]
    agreement = [float(row["accuracy"]) for row in rows if row["suite"].startswith("number")]
    assert scores["rnng bllip-lg"]["Agreement"] == pytest.approx(sum(agreement) / 3)
    assert len(scores) == 34 and len(scores["ours"]) == 7


@pytest.mark.skipif(not DATA.is_dir(), reason="the BLiMP pairs are not here")
def test_blimp_is_read_and_judged():
    pairs = list(read_blimp(DATA / "blimp" / "blimp.jsonl.gz"))[::500]
    tokenizer = make_tokenizer("word", [pair.good.split() for pair in pairs])
    report = evaluate_blimp(model_for(tokenizer), tokenizer, pairs).counts
    assert len(report.paradigms) == 67 and report.pairs == len(pairs) == 134
