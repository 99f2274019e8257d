"""The pipelines that checkpoints carry: where only transformers is installed they give what `som` itself gives."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from conftest import CORPUS, make_model
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline
from transformers.pipelines.pt_utils import KeyDataset
from trees_enumerated import all_depths

import som
from modeling_som.parses_som import bracketed, sibling_numbers
from modeling_som.pipelines_som import ParsePipeline, SurprisalPipeline
from som.data.vocabularies import make_tokenizer
from som.inference.loading import SHIPPED
from som.syntax.oracle import first_siblings, tree_from_depths
from som.training.models import vocabulary

TAGS = ["partial", "head", "root", "det", "nsubj", "obj", "conj"]
TEXTS = ["the old dog sees a cat .", "the cat sees", "a dog and the unheard-of cat", "dog"]
OPTIONS = {"parse": [{}, {"method": "beam", "k": 3}], "surprisal": [{}, {"method": "beam", "k": 3, "eos": True}]}
CLEAN = """
import importlib.abc, json, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in {"som", "modeling_som", "configuration_som", "nltk", "svgling", "datasets"}:
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Blocked())
from transformers import pipeline

folders, texts, options, again = map(json.loads, sys.argv[1:])
found = {}
for folder in folders:
    for task in options:
        pipe = pipeline(task, model=folder, trust_remote_code=True)
        assert type(pipe).__module__.startswith("transformers_modules")
        found[f"{folder} {task}"] = [
            [pipe(texts, **given), pipe(texts, batch_size=3, **given), [pipe(text, **given) for text in texts]]
            for given in options[task]
        ]
        str(pipe.model.config)  # can still be written
pipe.save_pretrained(again)
found["again"] = pipeline("surprisal", model=again, trust_remote_code=True)(texts)
print(json.dumps(found))
"""


def save(folder: Path, words: str, tags: list[str]) -> str:
    tokenizer = make_tokenizer(words, CORPUS)
    make_model(dtype=torch.float32, tree_tags=tags, **vocabulary(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> list[str]:
    """Words and pieces, with tags and without."""
    kinds = [(words, tags) for words in ("word", "bpe:300") for tags in ([], TAGS)]
    return [save(tmp_path_factory.mktemp("checkpoint"), *kind) for kind in kinds]


def expected(folder: str, task: str, options: dict) -> list:
    """What the package says, as JSON has it."""
    model, tokenizer = som.load(folder)
    if task == "parse":
        results: list = [parse.to_dict() for parse in som.parse_all(model, tokenizer, TEXTS, **options)]
    else:
        sentences = som.surprisals_all(model, tokenizer, TEXTS, **options)
        results = [[without_parses(asdict(row)) for row in rows] for rows in sentences]
    return json.loads(json.dumps(results))


def without_parses(record: dict) -> dict:
    return {name: value for name, value in record.items() if name != "parses"}


def assert_close(found, wanted) -> None:
    """Equal, numbers up to what batches of other sizes change in the last digits."""
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        assert_close(list(found.values()), list(wanted.values()))
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_close(one, other)
    else:
        assert found == (pytest.approx(wanted, abs=1e-4) if isinstance(wanted, float) else wanted)


def test_without_the_package_pipelines_give_the_package_s_numbers(checkpoints, tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"}
    arguments = [json.dumps(one) for one in (checkpoints, TEXTS, OPTIONS, str(tmp_path / "again"))]
    command = [sys.executable, "-c", CLEAN, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    for folder in checkpoints:
        for task, settings in OPTIONS.items():
            for options, ways in zip(settings, found[f"{folder} {task}"], strict=True):
                for way in ways:
                    assert_close(way, expected(folder, task, options))
    assert_close(found["again"], expected(checkpoints[-1], "surprisal", {}))


@pytest.fixture(scope="module")
def pair(checkpoints):
    return AutoModelForCausalLM.from_pretrained(checkpoints[-1]), AutoTokenizer.from_pretrained(checkpoints[-1])


def test_with_the_package_imported_a_loaded_model_has_the_pipelines(pair):
    parse, surprisal = (pipeline(task, model=pair[0], tokenizer=pair[1]) for task in ("parse", "surprisal"))
    assert type(parse) is ParsePipeline and type(surprisal) is SurprisalPipeline
    assert parse(TEXTS[0])["brackets"] == som.parse(*pair, TEXTS[0]).brackets()
    assert surprisal(("the", "cat"))[1]["surprisal"] == som.surprisals(*pair, ["the", "cat"])[1].surprisal


@pytest.mark.parametrize("size", [1, 3])
def test_data_sets_and_generators_are_read_one_result_at_a_time(pair, size):
    pipe = ParsePipeline(*pair, task="parse", batch_size=size)
    data = KeyDataset(Dataset.from_dict({"text": TEXTS}), "text")
    wanted = [one["brackets"] for one in pipe(TEXTS)]
    assert [one["brackets"] for one in pipe(data)] == wanted
    drawn = []

    def endless():
        while True:
            drawn.append(TEXTS[len(drawn) % len(TEXTS)])
            yield drawn[-1]

    stream = iter(pipe(endless()))
    assert [next(stream)["brackets"] for _ in TEXTS] == wanted and len(drawn) <= 2 * len(TEXTS)


def test_options_can_be_given_once_or_with_every_call(pair):
    once = SurprisalPipeline(*pair, task="surprisal", method="beam", k=2, eos=True)
    every = SurprisalPipeline(*pair, task="surprisal")
    assert once(TEXTS[0]) == every(TEXTS[0], method="beam", k=2, eos=True)
    assert len(once(TEXTS[0])) == len(every(TEXTS[0])) + 1
    assert [row["word"] for row in every(("New York", "sees"), words=True)] == ["New York", "sees"]


def test_what_cannot_be_meant_is_refused_in_one_line(pair):
    with pytest.raises(ValueError, match="unknown option temperature: the pipeline has words, method, k, seed"):
        ParsePipeline(*pair, task="parse", temperature=1)
    with pytest.raises(ValueError, match="method must be one of"):
        ParsePipeline(*pair, task="parse")("dog", method="best")
    with pytest.raises(ValueError, match="the text is empty"):
        ParsePipeline(*pair, task="parse")(" ")


@pytest.mark.parametrize("kind", [ParsePipeline, SurprisalPipeline])
def test_nothing_to_read_gives_nothing_and_what_is_no_text_is_refused(pair, kind):
    pipe = kind(*pair, task="any")
    assert pipe([]) == pipe([], batch_size=2) == []
    assert list(pipe(KeyDataset(Dataset.from_dict({"text": []}), "text"))) == []
    assert list(pipe(text for text in [])) == []
    for wrong in (None, 3, {"text": "dog"}):
        for given in (wrong, ["dog", wrong]):
            with pytest.raises(ValueError, match="expected a text or a tuple of words, got "):
                pipe(given)
    for empty in ((), "", [""], [()]):
        with pytest.raises(ValueError, match="the text is empty, expected at least one word"):
            pipe(empty)


def test_the_shipped_checkpoint_names_the_pipelines_and_lies_beside_every_file_they_need():
    carried = {file.name for file in (Path(som.__file__).parents[1] / "modeling_som").glob("*_som.py")}
    assert {file.name for file in SHIPPED.glob("*.py")} == carried - {"tokenization_som.py"}  # of word vocabularies
    named = json.loads((SHIPPED / "config.json").read_text())["custom_pipelines"]
    assert named == {
        "parse": {"impl": "pipelines_som.ParsePipeline", "pt": ["AutoModelForCausalLM"]},
        "surprisal": {"impl": "pipelines_som.SurprisalPipeline", "pt": ["AutoModelForCausalLM"]},
    }


@pytest.mark.parametrize("length", range(1, 7))
def test_brackets_and_siblings_are_those_of_the_tree(length):
    words = list("ab(def"[:length])
    for depths in all_depths(length + 1, 4):
        tree = tree_from_depths(depths[1:], words)
        assert bracketed(words, depths[1:]) == str(tree)
        assert sibling_numbers(depths[1:]) == [sibling + 1 for sibling in first_siblings(tree)]
