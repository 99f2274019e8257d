import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from datasets import load_from_disk
from transformers import AutoTokenizer

from som import cli
from som.syntax.treebanks import to_conllu
from som.training.settings import trackers

SENTENCE = (["the", "old", "dog", "barks", "very", "loudly", "."], [3, 3, 4, 0, 6, 4, 4])


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A treebank of one sentence a split, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.conllu").write_text(to_conllu(*SENTENCE) * (2 if split == "train" else 1))
    return ["--train", "train.conllu", "--validation", "validation.conllu", "--test", "test.conllu", "--out", "out"]


def run(capsys, *arguments):
    """The exit code, standard output and standard error of one command."""
    try:
        code = cli.main(arguments)
    except SystemExit as stop:
        code = stop.code
    return code, *capsys.readouterr()


def test_a_treebank_is_prepared_and_shown(corpus, capsys):
    code, out, _ = run(capsys, "prepare", *corpus)
    assert code == 0
    assert "sentences" in out and "lifted arcs" in out and "dependency trees" in out
    assert "loudly" in out.splitlines()[-2]  # the drawn tree
    assert out.splitlines()[-1] == "next: som train out --out RUN"
    assert list(load_from_disk("out")) == ["train", "validation", "test"]
    tokenizer = AutoTokenizer.from_pretrained("out")
    assert tokenizer("the old dog")["input_ids"] == load_from_disk("out")["test"][0]["input_ids"][:4]


def test_the_result_of_each_command_is_what_the_next_one_takes(corpus, capsys, monkeypatch):
    monkeypatch.setattr("som.progress.SECONDS", 0.001)
    assert run(capsys, "prepare", *corpus)[0] == 0
    sizes = ["--hidden-size", "8", "--epochs", "1", "--batch-size", "1"]
    code, out, err = run(capsys, "train", "out", "--out", "a run", *sizes, "--report-to", "none")
    assert code == 0
    assert out.splitlines()[-1].startswith("next: som evaluate 'a run' --treebank")
    assert " of 2 steps [0:0" in err  # standard error is no terminal: a line every so often
    code, out, _ = run(capsys, "evaluate", "a run", "--treebank", "test.conllu", "--json", "results.json")
    assert code == 0
    assert out.splitlines()[-1] == "next: som push 'a run' OWNER/NAME --results results.json"


def test_training_reports_only_to_what_is_installed(corpus, capsys, monkeypatch):
    assert run(capsys, "prepare", *corpus)[0] == 0
    monkeypatch.setattr("som.training.settings.find_spec", lambda name: None)
    code, _, err = run(capsys, "train", "out", "--out", "run", "--report-to", "wandb")
    assert (code, err) == (2, "som train: error: report_to wandb: wandb is not installed: pip install wandb\n")
    code, _, err = run(capsys, "train", "out", "--out", "run", "--report-to", "paper")
    assert code == 2 and "report_to must be one of tensorboard, wandb, trackio or none, got 'paper'" in err
    assert not os.path.exists("run")
    assert trackers([]) == trackers(["none"]) == []
    monkeypatch.setattr("som.training.settings.find_spec", lambda name: name)
    assert trackers([]) == ["tensorboard"] and trackers(["wandb", "trackio"]) == ["wandb", "trackio"]


def test_the_summary_is_printed_or_written_as_json(corpus, capsys):
    code, out, _ = run(capsys, "prepare", *corpus, "--json", "-", "--tokenizer", "bpe:300")
    assert code == 0
    assert json.loads(out)["splits"]["train"]["sentences"] == 2
    code, out, _ = run(capsys, "prepare", *corpus, "--json", "summary.json", "--overwrite")
    assert code == 0 and "sentences" in out
    assert json.loads(Path("summary.json").read_text()) == json.loads(Path("out/som.json").read_text())
    assert run(capsys, "prepare", *corpus, "--json", "new/out.json", "--out", "new/out")[0] == 0
    assert Path("new/out.json").is_file()


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["prepare", "--out", "out"], "files for every split, --train --validation --test missing"),
        (["prepare", "--train", "train.conllu", "--out", "out"], "--validation --test missing"),
        (["prepare", "--wsj", "nowhere", "--out", "out"], "nowhere/02: expected a folder"),
        (["prepare", "--wsj", ".", "--train", "train.conllu", "--out", "out"], "expected no --train"),
        (["prepare", "builtin", "--wsj", ".", "--out", "out"], "not allowed with argument"),
        (["prepare", "everything", "--out", "out"], "invalid choice"),
        (["prepare", "--num-proc", "0", "--out", "out"], "expected a whole number from 1, got '0'"),
        (["prepare"], "--out"),
        ([], "COMMAND"),
        (["brew"], "invalid choice"),
    ],
)
def test_wrong_commands_get_one_line_and_exit_code_2(corpus, capsys, arguments, complaint):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert complaint in err and err.startswith("som") and err.count("\n") == 1
    assert not os.path.exists("out")


@pytest.mark.parametrize(
    "change, complaint",
    [
        (["--train", "absent.conllu"], "absent.conllu: expected a file or folder"),
        (["--tokenizer", "letters"], "letters"),
        (["--tokenizer", "gpt2:nowhere"], "nowhere"),
        (["--text", "--parser", "malt"], "expected the parser spacy"),
        (["--out", "train.conllu"], "train.conllu: expected a new or empty folder, this is a file"),
        (["--out", "."], "holds something else"),
    ],
)
def test_wrong_values_get_one_line_and_exit_code_2(corpus, capsys, change, complaint):
    code, out, err = run(capsys, "prepare", *corpus, *change)
    assert (code, out) == (2, "")
    assert complaint in err and err.startswith("som prepare: error: ") and err.count("\n") == 1
    assert sorted(os.listdir()) == ["test.conllu", "train.conllu", "validation.conllu"]


def test_a_bad_file_gets_its_line_number_and_nothing_is_written(corpus, capsys):
    with open("test.conllu", "a") as file:
        file.write("1\tbad\n")
    code, out, err = run(capsys, "prepare", *corpus)
    assert (code, out, err) == (
        2,
        "",
        "som prepare: error: test.conllu:9: expected 10 columns separated by tabs, got 2\n",
    )
    assert sorted(os.listdir()) == ["test.conllu", "train.conllu", "validation.conllu"]
    code, out, err = run(capsys, "prepare", *corpus, "--skip-bad", "--json", "-")
    assert code == 0
    assert json.loads(out)["splits"]["test"]["skipped"] == 1


def test_the_wall_street_journal_takes_one_flag(tmp_path, capsys):
    for section in range(25):
        (tmp_path / "wsj" / f"{section:02d}").mkdir(parents=True)
        tree = f"( (S (NP-SBJ (DT the) (NN section)) (VP (VBZ is) (NP (-NONE- *T*)) (CD {section}))))\n"
        (tmp_path / "wsj" / f"{section:02d}" / f"wsj_{section:02d}00.mrg").write_text(tree)
    code, out, _ = run(capsys, "prepare", "--wsj", f"{tmp_path}/wsj", "--out", f"{tmp_path}/out", "--num-slots", "2")
    assert code == 0 and "constituency trees" in out
    data = load_from_disk(tmp_path / "out")
    assert [words[-1] for words in data["train"]["words"]] == [str(section) for section in range(2, 22)]
    assert (data["validation"]["words"][0][-1], data["test"]["words"][0][-1]) == ("24", "23")
    assert data["test"]["tree"][0] == "((the section) (is 23))"


def test_bllip_takes_lists_of_files(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("bllip/1987")
    flags = []
    for split in ("train", "validation", "test"):
        with open(f"bllip/1987/{split}.000", "w") as file:
            file.write(f"(S1 (S (NP (NN {split})) (VP (VBZ works))))\n")
        with open(f"{split}.txt", "w") as file:
            file.write(f"1987/{split}.000\n")
        flags += [f"--{split}", f"{split}.txt"]
    code, _, err = run(capsys, "prepare", "--bllip", "bllip", *flags, "--out", "out")
    assert (code, err) == (0, "")
    assert load_from_disk("out")["validation"]["words"][:] == [["validation", "works"]]


def test_text_is_parsed_and_called_silver(corpus, capsys, monkeypatch):
    def parse_text(lines, parser):
        return (to_conllu(line.split(), [0] * 1 + [1] * (len(line.split()) - 1)) for line in lines)

    monkeypatch.setattr("som.syntax.parse_text", parse_text)
    for split in ("train", "validation", "test"):
        with open(f"{split}.txt", "w") as file:
            file.write(f"{split} it\n\nand go on\n")
    corpus = [argument.replace("conllu", "txt") for argument in corpus]
    code, out, _ = run(capsys, "prepare", "--text", "--parser", "stanza:de", *corpus)
    assert code == 0 and "silver dependency trees by stanza:de" in out
    assert load_from_disk("out")["test"]["words"][:] == [["test", "it"], ["and", "go", "on"]]


def test_the_embedded_treebank_is_prepared_with_one_word(tmp_path, capsys):
    pytest.importorskip("som.syntax.grammar")
    code, out, _ = run(capsys, "prepare", "builtin", "--out", f"{tmp_path}/out")
    assert code == 0 and "dependency trees" in out
    data = load_from_disk(tmp_path / "out")
    assert all(len(split) > 0 for split in data.values())
    assert (tmp_path / "out" / "test.conllu").is_file()


def heed_interruptions():
    """What is started in the background, as the tests may be, ignores SIGINT unless told otherwise."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interruption_leaves_nothing_behind_and_exits_with_130(corpus, tmp_path):
    script = "import sys; from som.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, "prepare", "--text", "--parser", "spacy", *corpus]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    # in the place of a parser: what takes for ever once it has said that it is there
    (tmp_path / "spacy.py").write_text("import time\nopen('started', 'w').close()\ntime.sleep(60)\n")
    process = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interruptions
    )
    while not os.path.exists("started") and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "som prepare: interrupted\n")
    assert not [name for name in os.listdir() if "out" in name]


def test_help_ends_in_examples(capsys):
    code, out, _ = run(capsys, "prepare", "--help")
    assert code == 0 and "examples:\n  som prepare builtin --out" in out
    code, out, _ = run(capsys, "--help")
    assert code == 0 and "prepare" in out


def test_mistakes_of_ours_are_not_called_the_users(corpus, monkeypatch):
    def broken(*args, **kwargs):
        raise KeyError("bug")

    monkeypatch.setattr("som.data.prepare", broken)
    with pytest.raises(KeyError):
        cli.main(["prepare", *corpus])


def test_an_interruption_is_recognised_behind_the_error_a_library_makes_of_it(corpus, capsys, monkeypatch):
    def interrupted(*args, **kwargs):
        try:
            raise KeyboardInterrupt
        finally:
            raise TimeoutError("workers are gone")

    monkeypatch.setattr("som.data.prepare", interrupted)
    assert run(capsys, "prepare", *corpus) == (130, "", "som prepare: interrupted\n")
