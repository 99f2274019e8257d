"""What holds of every system, under the names of the command line."""

import json
from dataclasses import replace
from math import log

import pytest
import torch

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Scored
from som.baselines.rnng import WORD_BEAM
from som.baselines.scoring import score_neural
from som.baselines.systems import SYSTEMS, load_baseline, system_of, train_system
from som.cli import main
from som.data.collator import SOMCollator
from som.data.datasets import prepare
from som.data.vocabularies import make_tokenizer
from som.syntax.treebanks import Example, to_conllu
from som.syntax.trees import Tree
from som.training.batches import load_data
from som.training.models import make_config
from som.training.settings import make_settings

LANGUAGE_MODELS = [name for name, system in SYSTEMS.items() if system.score is score_neural]
WORDS = [f"w{number}" for number in range(2000)]
SENTENCES = [  # words and their heads
    (["the", "old", "dog", "barks", "."], [3, 3, 4, 0, 4]),
    (["the", "dog", "sees", "the", "old", "cat"], [2, 3, 0, 6, 6, 3]),
    (["a", "cat", "barks"], [2, 3, 0]),
    (["the", "old", "cat", "sees", "a", "dog", "."], [3, 3, 4, 0, 6, 4, 4]),
]
TINY = {"hidden_size": 16, "batch_size": 2, "epochs": 2}


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer("word", [WORDS, WORDS])


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    file = tmp_path_factory.mktemp("treebank") / "tiny.conllu"
    file.write_text("".join(to_conllu(words, heads) for words, heads in SENTENCES))
    return file


@pytest.fixture(scope="module")
def data(tmp_path_factory, treebank):
    folder = tmp_path_factory.mktemp("data") / "data"
    prepare(dict.fromkeys(("train", "validation", "test"), [treebank]), folder)
    return folder


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """The folder of a short training of each system, as they are asked for."""
    folder = tmp_path_factory.mktemp("runs")

    def run(name: str):
        if not (folder / name).is_dir():
            train_system(name, data, folder / name, **TINY)
        return folder / name

    return run


def small(name: str, tokenizer):
    """A new model with weights that are not tiny, so that a wrong state shows."""
    torch.manual_seed(0)
    model = SYSTEMS[name].build(make_settings(hidden_size=16), tokenizer).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_have_about_as_many_parameters_as_a_som(name, tokenizer):
    settings = make_settings()
    som = SOMForCausalLM(make_config(settings, tokenizer))
    model = SYSTEMS[name].build(settings, tokenizer)
    inference = sum(map(torch.numel, getattr(model, "inference", torch.nn.Module()).parameters()))  # predicts no words
    assert model.num_parameters() - inference == pytest.approx(som.num_parameters(), rel=0.05)


@pytest.mark.parametrize("name", SYSTEMS)
def test_sentences_scored_together_are_scored_as_alone(name, tokenizer):
    model, sequences = small(name, tokenizer), [[0, 5, 6, 7, 1], [0, 8, 1], [0, 5, 6, 1], [0]]
    for ids, together in zip(sequences, SYSTEMS[name].score(model, sequences), strict=True):
        (alone,) = SYSTEMS[name].score(model, [ids])
        assert together.log_probs == pytest.approx(alone.log_probs, abs=1e-9)
        assert together.depths == alone.depths and len(together.log_probs) == len(ids) - 1


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_the_loss_of_words_is_that_of_the_scores(name, tokenizer):
    model, sequences = small(name, tokenizer), [[0, 5, 6, 7, 1], [0, 8, 9, 1]]
    ids = torch.tensor([sequences[0], [*sequences[1], 2]])
    labels = torch.tensor([sequences[0], [*sequences[1], -100]])
    scored = SYSTEMS[name].score(model, sequences)
    loss = model(input_ids=ids, attention_mask=(labels != -100).long(), labels=labels).loss
    assert loss.item() == pytest.approx(-sum(one.log_prob for one in scored) / 7, abs=1e-5)


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_a_few_sentences_can_be_learnt_by_heart(name, data):
    tokenizer, rows = load_data(data).tokenizer, [*load_data(data).train]
    tokenizer.padding_side = "right"
    torch.manual_seed(0)
    settings = make_settings(hidden_size=16, dropout=0.0, embedding_dropout=0.0, output_dropout=0.0)
    model, batch = SYSTEMS[name].build(settings, tokenizer).train(), SOMCollator(tokenizer)(rows)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(100):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    scored = list(SYSTEMS[name].score(model, [row["input_ids"] for row in rows]))
    nats, tokens = -sum(one.log_prob for one in scored), sum(len(one.log_probs) for one in scored)
    # beginnings differ: four sentences cannot cost less than log 4 each
    assert nats / tokens < log(4) * len(rows) / tokens + 0.1


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_trained_system_is_recorded_found_loaded_and_resumed(name, data, runs, tmp_path):
    run = runs(name)
    assert json.loads((run / "training.json").read_text())["system"] == name
    assert system_of(run) is SYSTEMS[name]
    model, tokenizer = load_baseline(run)
    assert type(model) is SYSTEMS[name].model_class and not model.training
    sequences = [tokenizer("the dog barks")["input_ids"]]
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    assert next(SYSTEMS[name].score(again, sequences)) == next(SYSTEMS[name].score(model, sequences))
    assert train_system(None, data, run, resume=True, epochs=3)["step"]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_is_measured_by_one_command(name, runs, treebank, tmp_path, capsys):
    pair = {"UID": "a", "linguistics_term": "b", "field": "c", "sentence_good": "a dog", "sentence_bad": "dog a"}
    (tmp_path / "blimp.jsonl").write_text(json.dumps(pair) + "\n")
    blimp = ["--blimp", str(tmp_path / "blimp.jsonl")]
    assert main(["evaluate", str(runs(name)), "--treebank", str(treebank), *blimp, "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    measures, has_trees = report["treebank"]["measures"], SYSTEMS[name].trees or name not in LANGUAGE_MODELS
    assert measures["ppl"] > 1 and (measures["uf1_nary"] is not None) == bool(has_trees)
    assert report["blimp"]["pairs"] == 1


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_training_has_a_report_and_advice_that_can_be_followed(name, data, runs, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert main(["train", str(data), "--out", str(runs(name)), "--resume", "--report", str(page)]) == 0
    assert page.is_file()
    assert ("som parse" in capsys.readouterr().out) == (name == "som")


def test_the_help_of_evaluation_states_the_beam_of_rnngs(capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    assert f"RNNGs are read with a beam of {WORD_BEAM} trees" in " ".join(capsys.readouterr().out.split())


def test_an_rnng_is_read_with_the_beam_that_is_asked_for(runs, treebank, capsys):
    folder, perplexities = str(runs("rnng")), []
    capsys.readouterr()  # what the training said, if it was only now
    for flags in ([], ["--method", "beam", "--k", str(WORD_BEAM)], ["--method", "beam", "--k", "1"]):
        assert main(["evaluate", folder, "--treebank", str(treebank), "--json", "-", *flags]) == 0
        perplexities.append(json.loads(capsys.readouterr().out)["treebank"]["measures"]["ppl"])
    assert perplexities[0] == perplexities[1] < perplexities[2]  # a smaller beam finds less of the probability
    assert main(["evaluate", folder, "--treebank", str(treebank), "--method", "marginal"]) == 2
    assert "--method is for SOMs" in capsys.readouterr().err


def test_the_help_of_training_names_every_system(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    named = " ".join(capsys.readouterr().out.split()).replace("- ", "-")  # long names are broken at hyphens
    assert all(name in named for name in SYSTEMS)


def test_a_run_is_resumed_as_the_system_it_was_begun_with(data, runs):
    with pytest.raises(ValueError, match="was begun with system lstm, cannot be resumed with gpt2"):
        train_system("gpt2", data, runs("lstm"), resume=True)
    with pytest.raises(ValueError, match=f"system must be one of {', '.join(SYSTEMS)}, got 'bert'"):
        train_system("bert", data, runs("lstm"))


def test_runs_from_before_systems_were_recorded_are_those_of_soms(data, tmp_path):
    train_system(None, data, tmp_path / "run", **TINY)
    file = tmp_path / "run" / "training.json"
    record = json.loads(file.read_text())
    assert record.pop("system") == "som"
    file.write_text(json.dumps(record))
    assert train_system(None, data, tmp_path / "run", resume=True, epochs=3)["epoch"] <= 3
    with pytest.raises(ValueError, match="was begun with system som, cannot be resumed with lstm"):
        train_system("lstm", data, tmp_path / "run", resume=True)


def test_settings_and_methods_of_soms_are_refused_elsewhere(data, runs, treebank, tmp_path, capsys):
    with pytest.raises(ValueError, match="oracle is a setting of SOMs, which the system lstm does not have"):
        train_system("lstm", data, tmp_path / "run", oracle="static")
    assert main(["evaluate", str(runs("lstm")), "--treebank", str(treebank), "--method", "beam"]) == 2
    assert "--method is for SOMs" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["lstm", "onlstm", "onlstm-syd", "prpn"])
def test_a_dropout_that_cannot_be_is_refused_before_the_run_begins(name, data, tmp_path):
    with pytest.raises(ValueError, match=r"output_dropout must be in \[0, 1\), got 1.5"):
        train_system(name, data, tmp_path / "run", **TINY, output_dropout=1.5)
    assert not (tmp_path / "run").exists()


def test_the_settings_of_a_system_give_way_to_those_of_the_command(data, tmp_path, capsys):
    arguments = ["train", str(data), "--system", "lstm", "--hidden-size", "8", "--epochs", "1"]
    for run, flags, beta1 in (("a", [], 0.9), ("b", ["--beta1", "0.5"], 0.5)):
        assert main([*arguments, *flags, "--out", str(tmp_path / run)]) == 0
        assert json.loads((tmp_path / run / "training.json").read_text())["settings"]["beta1"] == beta1


def test_trees_come_from_depths_or_from_the_system_itself(tokenizer):
    example = Example(["w1", "w2", "w3"], Tree.parse("(w1 (w2 w3))"), "")
    constant = replace(SYSTEMS["lstm"], score=lambda model, sequences: iter([Scored([-1.0] * 4, depths=[])]))
    assert constant.evaluate(None, tokenizer, [example], "").measures()["uf1_nary"] is None
    with_depths = replace(constant, score=lambda model, sequences: iter([Scored([-1.0] * 4, [0, 1, 2, 3, 1])]))
    assert with_depths.evaluate(None, tokenizer, [example], "").measures()["uf1_nary"] == 1
    with_trees = replace(constant, trees=lambda model, sentences: iter([Tree.parse("((w1 w2) w3)")]))
    report = with_trees.evaluate(None, tokenizer, [example], "")
    assert report.measures()["uf1_nary"] == 0.5 and report.measures()["ppl"] == pytest.approx(2.71828183)
