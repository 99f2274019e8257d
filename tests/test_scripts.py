"""The scripts behind the results, on a toy version of their data: what they record, skip, go on with and refuse."""

import gzip
import importlib
import json
import math
import os
import re
import shutil
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file

import som
from modeling_som.sentences_som import encode
from som.evaluation.blimp import UNKNOWN
from som.syntax import grammar
from som.syntax.metrics import evalb_line
from som.syntax.treebanks import Example, read_treebank
from som.syntax.trees import Tree

ROOT = Path(__file__).parent.parent
LEAF = re.compile(r"\(X ([^()\s]+)\)")
SUITE = {
    "meta": {"name": "npz_obj", "metric": "sum"},
    "predictions": [{"type": "formula", "formula": "(2;%a%) < (2;%b%)"}],
    "items": [
        {
            "item_number": 1,
            "conditions": [
                {
                    "condition_name": name,
                    "regions": [{"region_number": n, "content": c} for n, c in enumerate(text, 1)],
                }
                for name, text in {"a": ["the dog", "barks"], "b": ["the dogs", "barks"]}.items()
            ],
        }
    ],
}
PAIR = {
    "uid": "agreement",
    "linguistics_term": "agreement",
    "field": "syntax",
    "sentence_good": "the dog barks .",
    "sentence_bad": "the dog bark .",
}


@pytest.fixture(scope="module")
def scripts():
    """Imports a script; the trial is made still smaller."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        lab, shared, xs = map(importlib.import_module, ("lab", "shared_rows", "open_xs"))
        patch.setitem(lab.TINY, "hidden_size", 8)
        patch.setitem(lab.TINY, "sentences", 12)
        patch.setattr(shared, "RATES", dict.fromkeys(("LSTM", "GPT-2"), (1e-3, 3e-3)))
        patch.setitem(xs.BUDGET, "batch_size", 8)
        patch.setitem(xs.SOMS, "dSOM", {"syntactic_size": 2})
        yield importlib.import_module


def zipped(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A folder with data under the names of the real ones, all of it of the built-in treebank."""
    folder = tmp_path_factory.mktemp("lab")
    sentences = list(islice(grammar.builtin_treebank("train"), 60))
    conllu = "\n\n".join(sentence.strip() for sentence in sentences) + "\n\n"
    tests = (f"{name}-ud-test" for name in ("ewt", "gum", "partut", "lines", "pronouns", "pud"))
    for name in ("ewt-ud-train", "ewt-ud-dev", *tests):
        zipped(folder / "data" / "ud" / f"en_{name}.conllu.gz", conllu)
    others = "\n\n".join(sentence.strip() for sentence in sentences[40:]) + "\n\n"  # with words not seen in training
    for name, text in {"train-xs": conllu, "train-sm": conllu, "dev": conllu, "test": others}.items():
        zipped(folder / "data" / "amalgum" / f"{name}.conllu.gz", text)
    trees = [evalb_line(example.tree) + "\n" for example in read_treebank([next((folder / "data" / "ud").iterdir())])]
    zipped(folder / "data" / "ptb-sample" / "wsj-combined.mrg.gz", "".join(trees))
    (folder / "data" / "ptb-sample" / "index.csv").write_text("file,sentences\n" + "x,1\n" * len(trees))
    make_stories(folder / "data" / "naturalstories", conllu, trees)
    (folder / "data" / "syntaxgym" / "suites").mkdir(parents=True)
    (folder / "data" / "syntaxgym" / "suites" / "npz_obj.json").write_text(json.dumps(SUITE))
    zipped(folder / "data" / "blimp" / "blimp.jsonl.gz", json.dumps(PAIR) + "\n")
    for section in (*range(2, 22), 23, 24):
        (folder / "wsj" / f"{section:02}").mkdir(parents=True)
        (folder / "wsj" / f"{section:02}" / f"wsj_{section:02}01.mrg").write_text("".join(trees))
    (folder / "list.txt").write_text("02\n")
    return folder


def make_stories(folder: Path, conllu: str, trees: list[str]) -> None:
    """Natural Stories in small: times of words as they were shown, and trees."""
    times = "n_subj\tmean_rt\tmean_log_rt\tsd_log_rt\tgpt3_logprob"
    random, rows = Random(0), [f"story\tzone\tsent\tpos\tword\ttokens\t{times}"]
    for number, tree in enumerate(trees):
        *words, mark = LEAF.findall(tree)
        shown = [*words[:-1], words[-1] + mark]
        for place, (word, tokens) in enumerate(zip(shown, [*words[:-1], f"{words[-1]} {mark}"], strict=True), 1):
            time = 5.5 + random.random()
            gpt3 = "" if (number, place) == (0, 1) else -10 * random.random()  # it has nothing before the first word
            cells = (number // 3, place, number, place, word, tokens, 80, 300, time, 0.3, gpt3)
            rows.append("\t".join(map(str, cells)))
    zipped(folder / "words.tsv.gz", "\n".join(rows) + "\n")
    zipped(folder / "stories-ud.conllu.gz", conllu)
    placed = [LEAF.sub(r"(X \1/1.2)", tree.replace(" (", "\n(")) for tree in trees]  # also in the first column
    zipped(folder / "stories-penn.mrg.gz", "".join(f"(ROOT {tree.strip()})\n" for tree in placed))


def arguments(script: str, lab: Path) -> list[str]:
    """A command line for some rows of a table."""
    rows = {
        "open_ablation": ["SOM", "− prediction network − LM loss", "gold trees at inference", "dSOM"],
        "open_language_models": ["SOM, marginal", "LSTM", "GPT-2", "Kneser-Ney"],
        "open_domains": ["SOM"],
        "open_parsing": ["SOM", "right-branching trees", "oracle binary trees"],
        "open_syntax": ["SOM", "LSTM"],
        "open_shipped": ["SOM, taught, beam", "LSTM"],
        "open_xs": ["SOM", "SOM, words seen three times", "LSTM", "Kneser-Ney", "RNNG"],
        "open_systems": [
            "SOM",
            "ON-LSTM",
            "RNNG, one tree",
            "RNNG → URNNG",
            "shift-reduce",
            "Kneser-Ney",
            "left-branching trees",
        ],
        "open_tags": ["no tags", "tags, no gradient into the cells"],
        "open_en": ["som-en", "som-en, gold last", "som-en, averaged"],
        "open_reading": ["SOM, shipped", *(f"{name}, a million words" for name in MILLION), "GPT-3 (davinci)"],
        "ptb": [
            "SOM, constituency trees",
            "shift-reduce, constituency trees",
            "random trees, constituency trees",
            "SOM, dependency trees",
        ],
        "bllip": ["dSOM, xs, constituency trees"],
    }
    ud, lists = lab / "data" / "ud", [f"--{split}={lab}/list.txt" for split in ("train", "validation", "test")]
    where = {
        "ptb": [
            "--wsj",
            f"{lab}/wsj",
            "--dependencies",
            *(f"{ud}/en_ewt-ud-{s}.conllu.gz" for s in ("train", "dev", "test")),
        ],
        "bllip": ["xs", f"--bllip={lab}/wsj", *lists, f"--suites={lab}/data/syntaxgym/suites"],
    }.get(script, [f"--data={lab}/data"])
    common = [f"--runs={lab}/runs", f"--results={lab}/results", "--tiny", "--seeds", "0", "--only", *rows[script]]
    return [*where, *common]


MILLION = ("SOM", "LSTM", "Kneser-Ney")
OPEN = (
    *("ablation", "language_models", "domains", "parsing", "syntax", "shipped"),
    *("xs", "systems", "tags", "en", "reading"),
)
SCRIPTS = (*(f"open_{table}" for table in OPEN), "ptb", "bllip")


@pytest.fixture(scope="module")
def done(scripts, lab):
    """Every script has been called once; the model that ships is measured by commands."""
    shutil.copytree(ROOT / "results" / "shipped", lab / "results" / "shipped")
    for script in SCRIPTS:
        assert scripts(script).run(arguments(script, lab)) == 0, script
    return lab


def results(folder: Path, script: str) -> list[dict]:
    return [json.loads(file.read_text()) for file in (folder / "results" / script).iterdir()]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_result_says_how_it_came_about(script, done):
    asked = arguments(script, done)
    found = results(done, script)
    assert {result["row"] for result in found} == set(asked[asked.index("--only") + 1 :])
    for result in found:
        assert result["table"] == script
        assert result["seed"] == 0
        assert result["settings"]["hidden_size"] == 8
        assert result["command"].startswith(f"python scripts/{script}.py ")
        assert "commit" in result
        assert {"python", "torch", "transformers"} <= set(result["versions"])
        assert result["evaluations"]


def test_rows_measure_what_they_are_named_after(done):
    by_row = {result["row"]: result for result in results(done, "open_ablation")}
    measures = {row: result["evaluations"]["test"]["measures"] for row, result in by_row.items()}
    assert measures["gold trees at inference"]["uf1_binarised"] == 1
    assert by_row["gold trees at inference"]["evaluations"]["test"]["gold"]
    assert measures["− prediction network − LM loss"]["p_next_acc"] is None
    assert by_row["dSOM"]["parameters"] < by_row["SOM"]["parameters"]
    assert len(by_row["SOM"]["validations"]) == 1  # an epoch
    (oracle,) = [one for one in results(done, "open_parsing") if one["row"] == "oracle binary trees"]
    assert oracle["evaluations"]["test"]["measures"]["uf1_binarised"] == 1
    (ngrams,) = [one for one in results(done, "open_language_models") if one["row"] == "Kneser-Ney"]
    assert ngrams["tried"][str(ngrams["order"])] == min(ngrams["tried"].values())
    (lstm,) = [one for one in results(done, "open_language_models") if one["row"] == "LSTM"]
    others = [json.loads(file.read_text()) for file in (done / "runs/tiny/ewt-word").glob("lstm_*/training.json")]
    assert len(others) == 2  # learning rates
    assert lstm["best"]["ppl"] == min(other["validation"]["ppl"] for other in others)
    assert (done / "runs/tiny/ewt-word/taught_som-0").is_dir()  # what scripts/shipped_checkpoint.sh packs


def test_the_comparison_at_the_papers_scale_says_what_its_table_shows(scripts, done):
    by_row = {result["row"]: result for result in results(done, "open_xs")}
    for row, result in by_row.items():
        assert set(result["evaluations"]) == {"validation", "test", "EWT test", "syntaxgym", "blimp"}
        words = row == "SOM, words seen three times"
        for section, share in (("syntaxgym", "items with an unknown critical word"), ("blimp", UNKNOWN)):
            assert (share in result["evaluations"][section]["measures"]) == words
        assert result["vocabulary"] > 0
        if row != "Kneser-Ney":
            assert result["parameters"] > 0 and result["speed"]["words_per_second"] > 0
    pieces = by_row["SOM"]["evaluations"]["test"]
    assert pieces["counts"]["p"]["total"] == pieces["counts"]["words_with_eos"]["tokens"]
    assert pieces["counts"]["with_eos"]["tokens"] > pieces["counts"]["words_with_eos"]["tokens"]
    page = scripts("tables").TABLES["open_xs"](scripts("tables").read_result_rows(done / "results" / "open_xs"))
    for column in ("parameters", "words/s", "vocabulary", "ppl per word", "EWT, UF1", "Garden-Path Effects", UNKNOWN):
        assert f"| {column} |" in page


def test_reading_times_are_regressed_on_every_model_that_is_there(scripts, done, capsys):
    by_row = {result["row"]: result["evaluations"] for result in results(done, "open_reading")}
    for row, evaluations in by_row.items():
        is_som = row.startswith("SOM")
        assert set(evaluations) == ({"reading", "Penn", "UD"} if is_som else {"reading"})
        reading = evaluations["reading"]
        named = {*reading["measures"], *reading["without_use"]}
        assert named == {"surprisal", *(scripts("open_reading").OF_SOMS if is_som else ())}
        assert reading["measures"].keys() == reading["p"].keys()
    words = {evaluations["reading"]["report"]["words"] for evaluations in by_row.values()}
    assert len(words) == 1  # the same ones for all
    assert by_row["SOM, shipped"]["Penn"]["counts"]["sentences"] == 12
    flags = [f"--data={done}/data", f"--runs={done}/nowhere", f"--results={done}/results", "--tiny"]
    assert scripts("open_reading").run([*flags, "--only", "LSTM, a million words"]) == 0
    assert "LSTM, a million words: left out, scripts/open_xs.py has not made" in capsys.readouterr().out


def test_what_the_tokens_of_a_shown_word_cost_is_summed(scripts):
    words, tokenizer = ["don't", "go."], som.load()[1]
    sentence = encode(tokenizer, " ".join(words), eos=False)
    assert sentence.words == ["do", "n't", "go", "."]
    bits, go = [2.0**place for place in range(len(sentence.ids) - 1)], sentence.starts[2] - 1  # BOS costs nothing
    costs = scripts("open_reading").region_bits(words, sentence, [-math.log(2) * one for one in bits])
    assert costs == pytest.approx([sum(bits[:go]), sum(bits[go:])])


def test_the_speed_of_training_is_measured_without_changing_model_or_data(scripts, done):
    folder = done / "runs" / "tiny"
    files = sorted((folder / "data" / "xs-bpe16000").rglob("*"))
    model, _ = som.load(folder / "xs-bpe16000" / "som-0")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    speed = scripts("record").training_speed(model, folder / "data" / "xs-bpe16000", batch_size=5, batches=2)
    assert speed["words_per_second"] > 0 and not model.training
    assert sorted((folder / "data" / "xs-bpe16000").rglob("*")) == files  # a run knows its data by these files
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(weight, before[name], rtol=0, atol=0)


def test_the_lstm_beside_the_shipped_one_is_the_better_of_its_trainings(scripts, monkeypatch):
    shipped, shared = scripts("open_shipped"), scripts("shared_rows")
    monkeypatch.setattr(shared, "find_best_rate", lambda lab, name: 1e-3)
    monkeypatch.setattr(shipped, "train_lstm", lambda lab, name, rate, seed: Path(name))
    tried = dict(zip(shipped.LSTMS, (90.0, 80.0), strict=True))
    monkeypatch.setattr(scripts("record"), "validation_ppl", lambda run: tried[run.name])
    monkeypatch.setattr(shared, "evaluate_neural_run", lambda lab, run, name: {"measured": run.name})
    expected = {"tried": tried, "measured": "shipped LSTM 1.0"}
    assert shipped.measure_lstm(scripts("lab").Lab(), "LSTM", 0) == expected


def test_a_learning_rate_once_found_serves_all_seeds_and_tables(scripts, tmp_path, monkeypatch):
    shared, Lab = scripts("shared_rows"), scripts("lab").Lab
    monkeypatch.setattr(shared, "train_neural", lambda lab, name, seed, rate: rate)
    monkeypatch.setattr(scripts("record"), "validation_ppl", lambda rate: -rate)  # the highest would be taken
    (tmp_path / "open_language_models").mkdir()
    result = {"settings": {}, "training": {"learning_rate": 1e-3}}
    (tmp_path / "open_language_models" / "lstm-0.json").write_text(json.dumps(result))
    assert shared.find_best_rate(Lab(results=tmp_path), "LSTM") == 1e-3
    assert shared.find_best_rate(Lab(results=tmp_path), "GPT-2") == 3e-3  # no result
    other = Lab(results=tmp_path, sizes={"hidden_size": 8})
    assert shared.find_best_rate(other, "LSTM") == 3e-3  # the result is of another size


def test_blimp_is_read_by_the_first_seed_alone_and_shown_all_the_same(scripts, done):
    first = next(one for one in results(done, "open_syntax") if one["row"] == "SOM")
    sizes = {"hidden_size": 8, "epochs": 1}
    lab = scripts("lab").Lab(data=done / "data", runs=done / "runs" / "tiny", sentences=12, sizes=sizes)
    second = {**first, **scripts("open_syntax").measure_som(lab, "SOM", 1)}
    assert set(first["evaluations"]) == {"syntaxgym", "blimp"}
    assert set(second["evaluations"]) == {"syntaxgym"}
    *_, header, _, alone = scripts("tables").syntax({"SOM": [first]}).splitlines()
    *_, both = scripts("tables").syntax({"SOM": [first, second]}).splitlines()
    assert "BLiMP, mean of paradigms" in header
    assert alone == both  # one seed


@pytest.mark.parametrize("script", [f"open_{table}" for table in OPEN])
def test_every_result_in_the_repository_counts_as_done(script, scripts, monkeypatch, capsys):
    monkeypatch.setattr(scripts("record"), "check_file", lambda path: path)  # nothing is read
    monkeypatch.delitem(sys.modules, script, raising=False)  # the real settings, not those of the trial
    lab, record = scripts("lab"), scripts("record")
    files = list((ROOT / "results" / script).glob("*.json"))
    here = lab.Lab(script=script, results=ROOT / "results", budget=lab.OPEN)
    rows = scripts(script).rows(here)
    for result in map(json.loads, (file.read_text("utf-8") for file in files)):
        assert list(rows)[result["place"]] == result["row"]
        record.record(here, result["place"], result["row"], rows[result["row"]], result["seed"])
    assert capsys.readouterr().out.count("done before") == len(files)


@pytest.mark.parametrize("settings", [{"hidden_size": 64}, {"dsom": True}, {"dropout": 0.2}, {"tree": "constituency"}])
def test_a_result_of_a_model_that_was_trained_otherwise_is_refused(scripts, settings):
    lab, record = scripts("lab"), scripts("record")
    here = lab.Lab(script="open_ablation", results=ROOT / "results", budget=lab.OPEN)
    row = scripts("open_ablation").rows(here)["SOM"]
    changed = replace(row, training={**row.training, **settings})
    with pytest.raises(ValueError, match="som-0.json: was trained with .*, expected .*: remove it or use --results"):
        record.record(here, 0, "SOM", changed, 0)


def test_a_result_that_says_nothing_of_its_training_counts_as_done(scripts, tmp_path, capsys):
    lab, record = scripts("lab"), scripts("record")
    here = lab.Lab(script="table", results=tmp_path)
    row = record.TableRow(lambda seed: pytest.fail("measured again"), {"a": 1}, {"hidden_size": 64})
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "som-0.json").write_text(json.dumps({"settings": {"a": 1}}))
    record.record(here, 0, "SOM", row, 0)
    assert "done before" in capsys.readouterr().out


RUNS = {  # what trainings of earlier sessions are called; a new name would train them again
    "open_ablation": "ewt-word/som-0 ewt-word/no_lm_loss-0 ewt-word/dsom-0",
    "open_language_models": "ewt-word/som-0 ewt-word/lstm_0_003-0 ewt-word/gpt_2_0_001-0",
    "open_parsing": "ptb-sample/som-0",
    "open_shipped": "ewt-word/shipped_som-1 ewt-word/taught_som-0 ewt-word/shipped_lstm_0_3-0",
    "open_xs": "xs-bpe16000/som-0 xs-bpe16000/lstm-0 xs-word3/som_words_seen_three_times-0",
    "open_systems": "ewt-word/on_lstm_0_001_trial-0",
    "open_tags": "ewt-word/no_tags-0 ewt-word/tags_no_gradient_into_the_cells-0",
    "open_en": "sm-bpe16000/som_en-0 ewt-som-en/som_en-0",
    "ptb": "ptb-constituency/shift_reduce-0 ptb-dependency/som-0",
    "bllip": "bllip-xs-constituency/dsom-0",
}


@pytest.mark.parametrize("script", RUNS)
def test_runs_and_data_keep_their_names(script, done):
    for name in RUNS[script].split():
        assert (done / "runs" / "tiny" / name / "training.json").is_file()
        assert (done / "runs" / "tiny" / "data" / Path(name).parent / "som.json").is_file()


@pytest.mark.parametrize("script", SCRIPTS)
def test_finished_rows_are_skipped(script, scripts, done, monkeypatch, capsys):
    monkeypatch.setattr(scripts("record"), "train", lambda *args, **settings: pytest.fail("trained again"))
    before = results(done, script)
    assert scripts(script).run(arguments(script, done)) == 0
    assert capsys.readouterr().out.count("done before") == len(before)
    assert results(done, script) == before


def test_an_interrupted_row_goes_on_where_it_was(scripts, done, tmp_path, monkeypatch, capsys):
    shutil.copytree(done, tmp_path / "lab")
    lab, record = tmp_path / "lab", scripts("record")
    (lab / "results" / "open_ablation" / "som-0.json").unlink()
    checkpoints = sorted((lab / "runs" / "tiny" / "ewt-word" / "som-0").glob("checkpoint-*/trainer_state.json"))
    times = [file.stat().st_mtime_ns for file in checkpoints]
    with monkeypatch.context() as patch:
        patch.setattr(record, "evaluate", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        assert scripts("open_ablation").run(arguments("open_ablation", lab)) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert not (lab / "results" / "open_ablation" / "som-0.json").exists()
    assert scripts("open_ablation").run(arguments("open_ablation", lab)) == 0
    assert (lab / "results" / "open_ablation" / "som-0.json").is_file()
    assert [file.stat().st_mtime_ns for file in checkpoints] == times  # nothing was trained again


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--epochs", "2"], "som-0.json: was made with"),
        (["--data", "nowhere"], "nowhere: there is no such folder; --data names that of treebanks and suites"),
        (["--data", "tests"], "tests/ud/en_ewt-ud-train.conllu.gz: there is no such file"),
        (["--only", "SOMM"], "there is no row 'SOMM'; there are SOM;"),
    ],
)
def test_what_cannot_be_done_is_one_line(change, message, scripts, done, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert scripts("open_domains").run([*arguments("open_domains", done), *change]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_data_made_of_other_files_are_refused(scripts, lab, tmp_path):
    def prepared(train: str) -> Path:
        names = {"train": train, "validation": "ewt-ud-dev", "test": "ewt-ud-test"}
        splits = {split: (lab / "data" / "ud" / f"en_{name}.conllu.gz",) for split, name in names.items()}
        return scripts("record").prepare_once(scripts("lab").Lab(runs=tmp_path), "ewt", splits)

    assert prepared("ewt-ud-train") == prepared("ewt-ud-train")
    with pytest.raises(ValueError, match="ewt: train was not made of .*en_pud-ud-test"):
        prepared("pud-ud-test")


def test_other_sizes_than_the_tables_have_folders_of_their_own(scripts):
    lab = scripts("lab")
    commands = ([], ["--epochs", "2", "--hidden-size", "64"], ["--tiny"])
    made = [lab.Lab.of("table", lab.make_parser("").parse_args(flags), flags) for flags in commands]
    seen = [(str(one.runs), str(one.results)) for one in made]
    sizes, tiny = "runs/epochs_2_hidden_size_64", "runs/tiny"
    assert seen == [("runs", "results"), (sizes, f"{sizes}/results"), (tiny, f"{tiny}/results")]


def test_trees_written_for_a_trial_are_read_as_they_were(scripts, tmp_path):
    trees = [Tree.parse("(a (b c) d)"), Tree(("alone",)), Tree(("(", Tree(("1/2", "$")), ")"))]
    file = scripts("record").write_trees(tmp_path / "trees.mrg", [Example(tree.words(), tree, "") for tree in trees])
    assert [example.tree for example in read_treebank([file])] == trees


@pytest.fixture
def pages(tmp_path) -> list[Path]:
    """Copies of the pages with results."""
    return [Path(shutil.copy(ROOT / "docs" / name, tmp_path)) for name in ("results.md", "reading.md")]


def test_the_pages_get_tables_and_pictures(scripts, done, pages):
    arguments = [f"--results={done}/results", "--page", *map(str, pages)]
    assert scripts("tables").run(arguments) == 0
    texts = [page.read_text() for page in pages]
    assert "No results yet" not in "".join(texts)
    assert texts[0].startswith("# Results\n\nEvery table is made by one command")
    rows = re.findall(r"^\| (.*?) \|", "\n".join(texts), re.MULTILINE)
    for script in SCRIPTS:
        assert {result["row"] for result in results(done, script)} <= set(rows)
    assert {"ParTUT", "AMALGUM", "NP/Z, structural"} <= set(rows)
    for picture in re.findall(r"!\[.*\]\((.*)\)", "".join(texts)):
        assert (pages[0].parent / picture).read_text().startswith("<svg")
    assert scripts("tables").run(arguments) == 0
    assert [page.read_text() for page in pages] == texts  # made again, nothing changes


def test_the_pages_in_the_repository_are_what_their_results_make(scripts, pages):
    assert scripts("tables").run([f"--results={ROOT}/results", "--page", *map(str, pages)]) == 0
    for page in pages:
        assert page.read_text("utf-8") == (ROOT / "docs" / page.name).read_text("utf-8")


def test_without_evaluations_of_the_shipped_model_the_page_says_how_to_make_them(scripts, tmp_path):
    block = scripts("tables").block("garden_paths", tmp_path, tmp_path)
    assert block == "No results yet: `bash scripts/shipped_results.sh` makes them.\n"


def test_a_packed_model_takes_the_place_of_another_once_it_is_whole(scripts, checkpoint, tmp_path):
    pack, folder = scripts("pack").pack, tmp_path / "som" / "checkpoint"
    folder.mkdir(parents=True)
    (folder / "old").touch()
    with pytest.raises(FileExistsError, match="expected a new folder or a checkpoint to replace"):
        pack(Path(checkpoint), folder)
    (folder / "config.json").touch()
    with pytest.raises(ValueError, match="expected a checkpoint"):
        pack(tmp_path / "nowhere", folder)
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "old"]
    pack(Path(checkpoint), folder)
    assert load_file(folder / "model.safetensors")["lm_head.bias"].dtype == torch.float16
    assert os.readlink(folder / "modeling_som.py") == "../../modeling_som/modeling_som.py"
    (packed, tokenizer), (model, _) = som.load(folder), som.load(checkpoint)
    ids = tokenizer("the old dog sees the cat .", return_tensors="pt")["input_ids"]
    assert packed.dtype == torch.float32 and not (folder / "old").exists()
    torch.testing.assert_close(packed(ids).logits, model(ids).logits, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("checkpoint", ["word"], indirect=True)
def test_packing_again_keeps_the_weights_and_the_card_and_brings_the_text_rules_of_this_version(
    scripts, checkpoint, tmp_path
):
    pack, folder = scripts("pack").pack, tmp_path / "checkpoint"
    pack(Path(checkpoint), folder)
    weights, rules = (folder / "model.safetensors").read_bytes(), (folder / "tokenizer.json").read_text()
    (folder / "README.md").symlink_to("card.md")
    (folder / "generation_config.json").unlink()  # what a checkpoint of the first version had not
    (folder / "tokenizer.json").write_text(json.dumps(json.loads(rules) | {"decoder": None}))
    tokenizer = som.load(folder)[1]
    assert tokenizer.decode(tokenizer("the dog.").input_ids) == "<s> the dog ."
    pack(folder, folder)
    assert (folder / "model.safetensors").read_bytes() == weights and (folder / "README.md").is_symlink()
    assert som.load(folder)[0].generation_config.suppress_tokens
    assert json.loads((folder / "tokenizer.json").read_text()) == json.loads(rules)


def test_seeds_are_averaged_and_untrained_perplexity_is_not_shown(scripts, tmp_path):
    tables = scripts("tables")
    for seed, (ppl, f1) in enumerate([(100.0, 0.8), (104.0, 0.9)]):
        for place, (row, weight) in enumerate({"SOM": 1.0, "parser": 0.0}.items()):
            measures = {"ppl": ppl, "uf1_nary": f1}
            about = {"row": row, "place": place, "seed": seed, "settings": {"lm_loss_weight": weight}}
            result = {**about, "evaluations": {"test": {"measures": measures}}}
            (tmp_path / f"{row}-{seed}.json").write_text(json.dumps(result))
    table = tables.table(tables.read_result_rows(tmp_path), tables.measures("ppl", "uf1_nary"))
    assert table.splitlines()[2:] == [
        "| SOM | 102.00 ± 2.83 | 85.00 ± 7.07 | 2 |",
        "| parser | – | 85.00 ± 7.07 | 2 |",
    ]


def test_seeds_of_models_that_were_trained_differently_are_not_averaged(scripts, tmp_path, capsys):
    page = tmp_path / "results.md"
    page.write_text("<!-- ptb -->\n<!-- end -->\n")
    (tmp_path / "ptb").mkdir()
    for seed, dropout in enumerate((0.1, 0.2)):
        training = {"seed": seed, "dropout": dropout}
        result = {"row": "SOM", "place": 0, "seed": seed, "training": training}
        (tmp_path / "ptb" / f"som-{seed}.json").write_text(json.dumps(result))
    assert scripts("tables").run([f"--results={tmp_path}", f"--page={page}"]) == 2
    assert "ptb: SOM: dropout of seeds 0 and 1 is 0.1 and 0.2: remove one" in capsys.readouterr().err


@pytest.mark.parametrize(("a_token", "a_word", "shown"), [(100.0, 100.0, None), (100.0, 200.0, 200.0)])
def test_perplexity_per_word_is_shown_where_words_are_in_pieces(scripts, a_token, a_word, shown):
    measures = {"ppl": a_token, "ppl_per_word": a_word}
    result = {"settings": {}, "evaluations": {"test": {"measures": measures}}}
    assert scripts("tables").per_word(result) == shown
