"""What goes wrong is one line and an exit code, whichever command it happens to, and nothing is half-written.

What only one command can be asked wrongly is tested with that command.
"""

import builtins
import errno
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import make_model
from datasets import DatasetDict
from safetensors.torch import load_file, save_file
from transformers import GPT2Config

import som
from som.__main__ import main as program
from som.cli import main
from som.data.datasets import prepare
from som.data.vocabularies import make_tokenizer
from som.syntax.treebanks import to_conllu

WORDS, HEADS = ["the", "old", "dog", "barks", "very", "loudly", "."], [3, 3, 4, 0, 6, 4, 4]
COMMANDS = {  # that load a model, and write files
    "parse": ["parse", "the dog barks .", "--model", "MODEL", "--out", "out.txt", "--json", "out.json"],
    "generate": ["generate", "the", "--model", "MODEL", "--out", "out.txt", "--json", "out.json"],
    "surprisal": ["surprisal", "the dog", "--model", "MODEL", "--out", "out.txt", "--plot", "out.svg"],
    "evaluate": ["evaluate", "MODEL", "--treebank", "test.conllu", "--json", "out.json"],
    "push": ["push", "MODEL", "me/som"],
}
SPLITS = [word for split in ("train", "validation", "test") for word in (f"--{split}", "test.conllu")]
PREPARE = ["prepare", *SPLITS, "--out", "data"]


@pytest.fixture
def world(tmp_path, monkeypatch) -> Path:
    """The current folder, with a treebank, a model, and things that are no models of ours."""
    monkeypatch.chdir(tmp_path)
    Path("test.conllu").write_text(to_conllu(WORDS, HEADS) * 2)
    tokenizer = make_tokenizer("word", [WORDS, WORDS])
    specials = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    for name, size in (("model", len(tokenizer)), ("small-vocabulary", len(tokenizer) - 1)):
        make_model(dtype=torch.float32, vocab_size=size, **specials).save_pretrained(name)
        tokenizer.save_pretrained(name)
    GPT2Config().save_pretrained("gpt2")
    Path("empty").mkdir()
    return tmp_path


@pytest.fixture
def complaint(world, capsys):
    """Runs a command that must fail with exit code 2; returns its one line after checking that no file is new."""

    def complaint(arguments: list[str], model: str = "model", code: int = 2) -> str:
        before = sorted(world.rglob("*"))
        assert main([model if word == "MODEL" else word for word in arguments]) == code
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and err.startswith(f"som {arguments[0]}: ")
        assert sorted(world.rglob("*")) == before
        return err

    return complaint


@pytest.mark.parametrize(
    "arguments",
    [
        ["parse", "the dog", "--out", "nowhere/out"],
        ["generate", "the", "--out", "nowhere/out"],
        ["surprisal", "the", "--out", "nowhere/out"],
        ["evaluate", "--treebank", "test.conllu", "--json", "nowhere/out"],
        ["bench", "--json", "nowhere/out"],
        ["prepare", *SPLITS, "--out", "data", "--json", "nowhere/out"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_cannot_be_written_is_told_before_any_work(complaint, arguments, monkeypatch):
    for work in ("inference.load", "data.prepare", "bench.bench"):
        monkeypatch.setattr(f"som.{work}", None)
    assert "nowhere/out: expected a file in a folder that exists" in complaint(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["parse", "--file", "input.tsv", "--out", "input.tsv"],
        ["generate", "--file", "input.tsv", "--json", "./input.tsv"],
        ["surprisal", "--file", "input.tsv", "--out", "link.tsv"],
        ["surprisal", "--table", "input.tsv", "--text-column", "word", "--out", "input.tsv"],
        ["reading", "input.tsv", "--increments", "input.tsv"],
        ["garden-paths", "input.tsv", "--json", "input.tsv"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_file_that_is_read_is_never_overwritten(world, complaint, arguments):
    Path("input.tsv").write_text("word\nthe\n")
    Path("link.tsv").symlink_to("input.tsv")
    assert f"{Path(arguments[-1])}: is read, expected another file for the output" in complaint(arguments)
    assert Path("input.tsv").read_text() == "word\nthe\n"


@pytest.mark.parametrize("command", ["parse", "surprisal", "compare", "evaluate"])
def test_a_number_of_trees_is_refused_where_only_one_is_followed(complaint, command):
    for method in ([], ["--method", "marginal"]):
        arguments = {"evaluate": ["model", "--treebank", "test.conllu"]}.get(command, ["the dog", "the cat"])
        expected = f"--k is for --method beam or particles, got {method[-1] if method else 'no --method'}"
        assert expected in complaint([command, *arguments, "--k", "8", *method])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "model, message",
    [
        ("nowhere/at/all", "nowhere/at/all: expected a checkpoint"),
        ("empty", "empty: expected a"),
        ("gpt2", "gpt2: expected a SOM checkpoint, found a model of type 'gpt2'"),
        ("small-vocabulary", "small-vocabulary: the tokenizer does not match the model"),
    ],
)
def test_what_is_no_model_of_ours_is_refused_by_every_command(complaint, command, model, message):
    assert message in complaint(COMMANDS[command], model)


def change_weights(change):
    def damage(model: Path) -> None:
        weights = load_file(model / "model.safetensors")
        change(weights)
        save_file(weights, model / "model.safetensors", {"format": "pt"})

    return damage


def set_in_config(name: str, value: object):
    def damage(model: Path) -> None:
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, name: value}))

    return damage


def cut_short(model: Path) -> None:
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def pickle_weights(model: Path) -> None:
    """Unpickling these would make a file."""
    (model / "pytorch_model.bin").write_bytes(b"cos\nmkdir\n(S'unpickled'\ntR.")
    (model / "model.safetensors").unlink()


BIAS = "model.cell.gates.semantic.bias"
DAMAGES = {
    "missing": (change_weights(lambda weights: weights.pop(BIAS)), f"missing: {BIAS}"),
    "unexpected": (change_weights(lambda weights: weights.update(more=torch.zeros(1))), "unexpected: more"),
    "mismatched": (change_weights(lambda weights: weights.update({BIAS: torch.zeros(3)})), f"{BIAS} has shape [3]"),
    "cut short": (cut_short, "model.safetensors is damaged"),
    "pickled": (pickle_weights, "no file named model.safetensors"),
    "{}": (lambda model: (model / "config.json").write_text("{}"), "found no model's config.json"),
    "[]": (lambda model: (model / "config.json").write_text("[]"), "config.json: expected a JSON object, found []"),
    "no JSON": (lambda model: (model / "config.json").write_text("{"), "config.json: expected JSON"),
    "vocabulary": (
        lambda model: (model / "tokenizer.json").write_text("[]"),
        "tokenizer.json: expected a JSON object",
    ),
    "no vocabulary": (lambda model: (model / "tokenizer.json").write_text(""), "tokenizer.json: expected JSON"),
    "{} vocabulary": (lambda model: (model / "tokenizer.json").write_text("{}"), "found no 'model' in it"),
    "no tokenizer": (lambda model: (model / "tokenizer.json").unlink(), "found no tokenizer.json"),
    "number for a class": (
        lambda model: (model / "tokenizer_config.json").write_text('{"tokenizer_class": 3}'),
        "a file of its tokenizer is damaged",
    ),
    "number for a vocabulary": (
        lambda model: (model / "tokenizer.json").write_text('{"model": [], "added_tokens": 3}'),
        "a file of its tokenizer is damaged",
    ),
    "wrong type": (set_in_config("hidden_size", "x"), "config.json: Field 'hidden_size' expected int, got str"),
    "architectures": (set_in_config("architectures", 3), "expected a SOMForCausalLM, found a 3"),
    "no special tokens": (lambda model: (model / "tokenizer_config.json").write_text("{}"), "tokens for beginning"),
}


@pytest.mark.parametrize("command", [*COMMANDS, "train --start", "train --teachers"])
@pytest.mark.parametrize("damage, message", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_refused_by_every_command(complaint, prepared, command, damage, message):
    name, *flag = command.split()
    damage(Path("model"))
    line = complaint(COMMANDS.get(name) or ["train", str(prepared), "--out", "run", *flag, "MODEL"])
    assert message in line and not re.search(r"(Attribute|Type|Key|Runtime)Error|object has no", line)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Data to train on."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "test.conllu").write_text(to_conllu(WORDS, HEADS) * 2)
    prepare({split: [folder / "test.conllu"] for split in ("train", "validation", "test")}, folder / "out")
    return folder / "out"


@pytest.mark.parametrize("command", ["prepare", "train", "bench", *COMMANDS])
def test_a_flag_that_does_not_exist_is_one_line_of_every_command(command, capsys):
    arguments = {"prepare": PREPARE, "train": ["train", "data", "--out", "run"], "bench": ["bench"], **COMMANDS}
    with pytest.raises(SystemExit) as stopped:
        main([*arguments[command], "--colour"])
    err = capsys.readouterr().err
    assert stopped.value.code == 2
    assert "unrecognized arguments: --colour" in err and "--help" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, file",
    [
        (["evaluate", "MODEL", "--treebank", "no.conllu"], "no.conllu"),
        (["evaluate", "MODEL", "--syntaxgym", "no-suites"], "no-suites"),
        (["evaluate", "MODEL", "--blimp", "no.jsonl"], "no.jsonl"),
        (["parse", "--file", "no.txt", "--model", "MODEL"], "no.txt"),
        ([*PREPARE, "--train", "no.conllu"], "no.conllu"),
        (["train", "no-data", "--out", "run"], "no-data"),
        (["push", "MODEL", "me/som", "--results", "no.json"], "no.json"),
    ],
)
def test_a_file_that_is_missing_is_named(complaint, arguments, file):
    assert file in complaint(arguments)


@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_is_one_line_and_130(complaint, command, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    for module in ("som.inference.load", "som.hub.load"):
        monkeypatch.setattr(module, interrupted)
    assert complaint(COMMANDS[command], code=130) == f"som {command}: interrupted\n"


LOSSY = """
import os, signal, time

class Lost:  # an exception that is raised in a destructor goes no further
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)

Lost()
print("went on")
raise SystemExit(0)
"""


@pytest.mark.parametrize("command", [["train", "data", "--out", "run"], ["parse", "the dog", "--out", "trees"]])
def test_ctrl_c_while_libraries_are_imported_is_not_lost(command, tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("torch", "transformers"):  # whichever comes first
        (tmp_path / f"{name}.py").write_text(LOSSY)
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # the tests' parent may not
    program = f"{heeds}; import sys; from som.cli import main; sys.exit(main({command}))"
    path = os.pathsep.join([str(tmp_path), str(Path(som.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"som {command[0]}: interrupted\n")
    assert not {"run", "trees"} & {file.name for file in tmp_path.iterdir()}


def test_ctrl_c_while_the_command_itself_is_loaded_is_one_line(monkeypatch, capsys):
    def interrupted(name, *arguments):
        if name == "som.cli":
            raise KeyboardInterrupt
        return found(name, *arguments)

    found = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", interrupted)
    assert program() == 130
    assert capsys.readouterr().err == "som: interrupted\n"


@pytest.mark.parametrize("command", ["parse", "generate", "surprisal", "evaluate"])
def test_a_full_disk_leaves_neither_a_file_nor_a_part_of_one(world, capsys, command, monkeypatch):
    class Full(io.FileIO):
        def write(self, content):
            super().write(content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

    before = sorted(world.rglob("*"))
    monkeypatch.setattr("som.files.open", Full, raising=False)
    assert main(["model" if word == "MODEL" else word for word in COMMANDS[command]]) == 2
    err = capsys.readouterr().err
    assert "cannot be written: No space left on device" in err and err.count("\n") == 1
    assert sorted(world.rglob("*")) == before


def test_a_full_disk_leaves_no_data(complaint, monkeypatch):
    whole = DatasetDict.save_to_disk

    def full(self, folder, **options):
        whole(self, folder, **options)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(DatasetDict, "save_to_disk", full)
    assert "No space left on device" in complaint(PREPARE)


def test_standard_output_that_cannot_be_written_is_one_line(world, capsys, monkeypatch):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    assert main(["parse", "the dog", "--model", "model"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, code", [(["parse", "the dog"], 0), (["--help"], 0), (["parse", "--file", "no"], 2)]
)
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "| true"])
def test_closed_streams_are_no_error_of_the_program(world, arguments, code, closed):
    program = [sys.executable, "-m", "som", *arguments, *(["--model", "model"] if "parse" in arguments else [])]
    command = f"( {shlex.join(program)}; echo $? > code ) {closed}"
    environment = {**os.environ, "PYTHONPATH": str(Path(som.__file__).parents[1])}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert int(Path("code").read_text()) == code


def test_commands_of_this_file_are_right_but_for_what_is_wrong_with_them(world, capsys):
    for arguments in COMMANDS.values():
        assert main(["model" if word == "MODEL" else word for word in arguments]) == 0
    assert som.load("model")[0].config.model_type == "som"
    assert {"out.txt", "out.json", "out.svg"} <= {file.name for file in world.iterdir()}
