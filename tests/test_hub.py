"""Sharing: what is uploaded loads elsewhere, and cards say what evaluation files say."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from urllib.request import urlopen

import pytest
import torch
from conftest import make_model
from huggingface_hub import HfApi, ModelCard, RepoCard
from safetensors.torch import load_file, save_file

import som
from som.cli import main
from som.data.vocabularies import make_tokenizer
from som.hub import find_disagreements, push, read_results, stage_model, write_card
from som.inference import load
from som.inference.loading import SHIPPED
from som.syntax.treebanks import to_conllu

ROOT = Path(__file__).parents[1]
CARD = ROOT / "model_cards" / "som-en.md"
WORDS = ["The", "the", "cat", "dog", "sat", "on", "mat", "sees", "."]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def checkpoint(tmp_path):
    """A model with its tokenizer, and what training leaves beside them."""
    tokenizer = make_tokenizer("word", [WORDS, WORDS])
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    model = make_model(vocab_size=len(tokenizer), dtype=torch.float32, **ids)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "checkpoint-5").mkdir()
    (tmp_path / "model" / "checkpoint-5" / "optimizer.pt").write_text("not for others")
    (tmp_path / "model" / "training.jsonl").write_text("not for others")
    return tmp_path / "model"


@pytest.fixture
def results(checkpoint, tmp_path):
    """An evaluation file, as the command writes it."""
    (tmp_path / "dev.conllu").write_text(to_conllu(["the", "cat", "sees", "the", "dog", "."], [2, 3, 0, 5, 3, 3]))
    flags = ["--treebank", tmp_path / "dev.conllu", "--gold", "--json", tmp_path / "results.json"]
    assert main(["evaluate", *map(str, [checkpoint, *flags])]) == 0
    return tmp_path / "results.json"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The Hub, replaced by the cache that a download from it would leave."""
    cache = tmp_path / "hub" / "hub"

    def folder(repo_id, repo_type):
        return cache / f"{repo_type or 'model'}s--{repo_id.replace('/', '--')}"

    def create_repo(self, repo_id, repo_type=None, space_sdk=None, **kwargs):
        assert (repo_type == "space") == (space_sdk == "gradio")
        (folder(repo_id, repo_type) / "refs").mkdir(parents=True)

    def create_commit(self, repo_id, operations, repo_type=None, **kwargs):
        repository = folder(repo_id, repo_type)
        (repository / "refs" / "main").write_text(COMMIT)
        for operation in operations:
            file = repository / "snapshots" / COMMIT / operation.path_in_repo
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(operation.path_or_fileobj, file)

    monkeypatch.setattr(HfApi, "create_repo", create_repo)
    monkeypatch.setattr(HfApi, "create_commit", create_commit)
    return tmp_path / "hub"


def run_elsewhere(code: str, hub: Path) -> subprocess.CompletedProcess:
    """Run code in a process that has nothing but the downloaded files, away from this project."""
    environment = {**os.environ, "HF_HOME": str(hub), "HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(hub / "modules")}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, env=environment, cwd=hub, capture_output=True, text=True, timeout=300)


def test_what_is_pushed_runs_elsewhere_by_the_snippet_of_its_card(checkpoint, results, hub):
    assert main(["push", str(checkpoint), "me/som", "--results", str(results), "--yes"]) == 0
    (snapshot,) = (hub / "hub" / "models--me--som" / "snapshots").iterdir()
    snippet, _ = re.findall(r"```python\n(.*?)```", (snapshot / "README.md").read_text(), re.DOTALL)
    run = run_elsewhere(snippet + "print(type(model).__module__)", hub)
    assert run.returncode == 0, run.stderr
    first, generated, module = run.stdout.splitlines()
    assert re.fullmatch(r"perplexity [\d.]+, depths in the tree \[0(, \d)+\]", first)
    assert generated.startswith("The cat sat on the mat.")
    assert module.startswith("transformers_modules.")


def test_what_is_pushed_parses_elsewhere_by_the_pipelines_of_its_card(checkpoint, results, hub):
    push(checkpoint, "me/som", [results], dry_run=False)
    (snapshot,) = (hub / "hub" / "models--me--som" / "snapshots").iterdir()
    _, snippet = re.findall(r"```python\n(.*?)```", (snapshot / "README.md").read_text(), re.DOTALL)
    run = run_elsewhere(snippet + "print(type(parse).__module__)", hub)
    assert run.returncode == 0, run.stderr
    brackets, surprisals, module = run.stdout.splitlines()
    pair, text = som.load(checkpoint), "The cat sat on the mat."
    assert brackets == som.parse(*pair, text).brackets()
    wanted = [row.surprisal for row in som.surprisals(*pair, text, method="beam")]
    assert json.loads(surprisals) == pytest.approx(wanted, abs=1e-4)
    assert module.startswith("transformers_modules.")


def test_the_pushed_model_has_the_weights_of_the_checkpoint(checkpoint, hub):
    from som.inference.loading import load

    push(checkpoint, "me/som", dry_run=False)
    (snapshot,) = (hub / "hub" / "models--me--som" / "snapshots").iterdir()
    (ours, _), (theirs, tokenizer) = load(checkpoint), load(snapshot)
    ids = tokenizer("the cat sees the dog", return_tensors="pt")["input_ids"]
    torch.testing.assert_close(theirs(ids).logits, ours(ids).logits, rtol=0, atol=0)


@pytest.fixture
def space(checkpoint, hub) -> Path:
    """The files of a Space that was pushed."""
    pytest.importorskip("gradio", reason="needs Gradio: pip install 'som-lm[app]'")
    flags = ["--space", "--license", "mit", "--yes"]
    assert main(["push", str(checkpoint), "me/watch", *flags]) == 0
    (snapshot,) = (hub / "hub" / "spaces--me--watch" / "snapshots").iterdir()
    return snapshot


def test_a_space_is_described_and_holds_all_that_it_runs(space):
    card, needs = RepoCard.load(space / "README.md"), (space / "requirements.txt").read_text()
    data = card.data.to_dict()
    assert data["sdk"] == "gradio" and data["sdk_version"] == version("gradio") and data["license"] == "mit"
    assert (space / data["app_file"]).is_file() and "me/watch" in card.text
    assert f"torch=={torch.__version__.partition('+')[0]}\n" in needs and "gradio" not in needs
    names = {file.relative_to(space).as_posix() for file in space.rglob("*")}
    assert {"models/model/model.safetensors", "som/view/page.js", "configuration_som.py"} <= names
    assert not any("optimizer" in name or "som/checkpoint" in name or "__pycache__" in name for name in names)
    code = "\n".join(file.read_text() for file in [space / "app.py", space / "som/view/app.py"])
    assert "trust_remote_code" not in code


def test_a_pushed_space_runs_by_itself(space, hub):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HOME": str(hub), "HF_HUB_OFFLINE": "1", "GRADIO_SERVER_PORT": str(port)}
    log = hub / "log"
    with log.open("w") as out:
        command = [sys.executable, "-W", "ignore", "app.py"]
        running = subprocess.Popen(command, cwd=space, env=environment, stdout=out, stderr=out)
        try:
            config = wait_for(f"http://127.0.0.1:{port}/config", running, log)
        finally:
            running.terminate()
            running.wait(timeout=60)
    assert ["model", "model"] in [
        choice for part in config["components"] for choice in part["props"].get("choices", [])
    ]


def wait_for(address: str, running: subprocess.Popen, log: Path) -> dict:
    """What is answered at an address, once something is."""
    for _ in range(600):
        assert running.poll() is None, log.read_text()
        with suppress(OSError), urlopen(address) as answer:
            return json.load(answer)
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def test_a_space_has_no_results(checkpoint, results, capsys):
    assert main(["push", str(checkpoint), "me/watch", "--space", "--results", str(results)]) == 2
    assert "--results is for the card of a model" in capsys.readouterr().err


def test_a_dry_run_uploads_nothing_and_says_what_it_would(checkpoint, hub, capsys):
    assert main(["push", str(checkpoint), "me/som"]) == 0
    assert not hub.exists()
    printed = capsys.readouterr().out
    for name in ("README.md", "config.json", "model.safetensors", "modeling_som.py", "configuration_som.py"):
        assert name in printed
    assert "tokenizer.json" in printed and "dry run" in printed
    assert "optimizer" not in printed and "training.jsonl" not in printed


def test_a_card_of_the_checkpoint_is_kept_unless_there_are_results(checkpoint, results, hub):
    (checkpoint / "README.md").write_text("mine\n")
    push(checkpoint, "me/som", dry_run=False)
    push(checkpoint, "me/other", [results], dry_run=False)
    cards = {path.parent.parent.parent.name: path.read_text() for path in hub.rglob("README.md")}
    assert cards["models--me--som"] == "mine\n"
    write_card(checkpoint, [], "me/som")
    with pytest.raises(ValueError, match="is a card of me/som, expected one of me/third"):
        push(checkpoint, "me/third")
    assert "## Results" in cards["models--me--other"]


def test_the_card_of_the_model_in_the_package_is_not_that_of_a_model_on_the_hub(checkpoint):
    packaged, pushed = (str(write_card(checkpoint, [], repo_id)) for repo_id in (None, "me/som"))
    assert "som.load()" in packaged and "from_pretrained" not in packaged and "--model" not in packaged
    assert 'name = "me/som"' in pushed and "som.load()" not in pushed
    assert 'som parse --model me/som "The' in pushed and 'som parse "The' in packaged
    write_card(checkpoint, [], None)
    with pytest.raises(ValueError, match="is a card of the model in the package, expected one of me/som"):
        push(checkpoint, "me/som")


def test_a_card_holds_the_numbers_of_evaluation_files_and_their_commands(checkpoint, results):
    write_card(checkpoint, [results], "me/som", license="apache-2.0", datasets=["universal_dependencies"])
    card, data = ModelCard.load(checkpoint / "README.md"), json.loads(results.read_text())
    metadata = card.data.to_dict()
    assert metadata["license"] == "apache-2.0" and metadata["language"] == "en"
    assert metadata["datasets"] == ["universal_dependencies"] and metadata["library_name"] == "transformers"
    values = {(r.dataset_name, r.metric_type): r.metric_value for r in card.data.eval_results}
    assert values["dev, greedy", "ppl"] == round(data["treebank"]["measures"]["ppl"], 4)
    assert values["dev, greedy, gold trees given", "uf1_nary"] == round(
        data["treebank_gold"]["measures"]["uf1_nary"], 4
    )
    assert data["command"] in card.text
    assert "| trained on | universal_dependencies |" in card.text and "| licence | apache-2.0 |" in card.text
    assert f"| p acc | {100 * data['treebank']['measures']['p_acc']:.2f} |" in card.text
    assert find_disagreements(checkpoint / "README.md") == []


@pytest.mark.parametrize("section", ["treebank", "treebank_gold"])
def test_a_number_that_changed_since_the_card_was_written_is_found(checkpoint, results, section):
    write_card(checkpoint, [results], "me/som")
    data = json.loads(results.read_text())
    data[section]["measures"]["p_acc"] += 0.1
    results.write_text(json.dumps(data))
    assert any("p_acc" in line for line in find_disagreements(checkpoint / "README.md"))
    data[section]["measures"]["p_acc"] -= 0.1
    results.write_text(json.dumps({**data, "command": "som evaluate another"}))
    assert find_disagreements(checkpoint / "README.md") == ["not in the card: som evaluate another"]


def test_without_results_a_card_says_so(checkpoint):
    card = write_card(checkpoint, [], "me/som")
    assert "Not evaluated yet." in card.text and card.data.eval_results is None


def test_the_card_of_the_shipped_checkpoint_lies_beside_it_and_agrees_with_the_evaluation_files_it_names():
    assert len(ModelCard.load(CARD).data.get("results_files")) == 9
    assert find_disagreements(CARD, ROOT) == []
    assert (SHIPPED / "README.md").read_text("utf-8") == CARD.read_text("utf-8")


def test_the_shipped_checkpoint_runs_by_the_snippet_of_its_card():
    (snippet,) = re.findall(r"```python\n(.*?)```", CARD.read_text("utf-8"), re.DOTALL)
    command = [sys.executable, "-W", "ignore", "-c", snippet]
    run = subprocess.run(command, env={**os.environ, "HF_HUB_OFFLINE": "1"}, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "depths in the tree [0, 1" in run.stdout


def test_the_shipped_checkpoint_has_at_most_forty_megabytes():
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) <= 40_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["CHECKPOINT", "som"], "expected a repository as ORG/NAME"),
        (["CHECKPOINT", "me/so m"], "Repo id must"),
        (["no/such/folder", "me/som"], "no/such/folder"),
        (["CHECKPOINT", "me/som", "--results", "CHECKPOINT/config.json"], "expected a file written by som evaluate"),
        (["CHECKPOINT", "me/som", "--results", "CHECKPOINT/nothing.json"], "nothing.json"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(checkpoint, arguments, message, capsys):
    assert main(["push", *(argument.replace("CHECKPOINT", str(checkpoint)) for argument in arguments)]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_refusal_of_the_hub_is_one_line(checkpoint, hub, monkeypatch, capsys):
    def refuse(*args, **kwargs):
        raise RuntimeError("not today")

    monkeypatch.setattr(HfApi, "create_commit", refuse)
    assert main(["push", str(checkpoint), "me/som", "--yes"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("the Hub did not take the model: not today")


def test_what_was_not_counted_is_a_dash_in_the_card_and_absent_from_its_metadata(tmp_path):
    file = tmp_path / "r.json"
    section = {"title": "dev, particles", "measures": {"ppl": 2.0, "p_acc": None}}
    file.write_text(json.dumps({"command": "som evaluate x", "treebank": section}))
    (results,) = read_results(file)
    assert results.rows == {"ppl, with EOS": "2.00", "p acc": "–"}
    assert [result.metric_type for result in results.eval_results()] == ["ppl"]


def test_weights_keep_the_number_types_that_they_have_where_they_are_stored(checkpoint, tmp_path):
    file = checkpoint / "model.safetensors"
    half = {name: weight.half() for name, weight in load_file(file).items()}
    save_file(half, file, metadata={"format": "pt"})
    stage_model(checkpoint, tmp_path / "staged")
    staged = load_file(tmp_path / "staged" / "model.safetensors")
    assert staged.keys() == half.keys() and all(staged[name].equal(half[name]) for name in half)
    assert load(tmp_path / "staged")[0].dtype == load(checkpoint)[0].dtype == torch.float32
