"""Runs: what they write, what they refuse, and that neither kills nor a second process change the outcome."""

import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest
import torch
from datasets import Dataset, load_from_disk
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainerState

from modeling_som import SOMForCausalLM
from modeling_som.counts_som import WORD_COUNTS, WordCounts
from som.cli import main
from som.data.collator import SOMCollator
from som.data.datasets import prepare
from som.data.vocabularies import make_tokenizer
from som.training import batches, callbacks, models, runs, trainer
from som.training import settings as training_settings
from som.training.averaging import AverageWeights
from som.training.batches import LengthGrouped, WordDropout
from som.training.settings import TrainSettings, make_settings
from som.training.trainer import train
from som.training.validation import sentence_counts

WORDS = ("the", "a", "cat", "dog", "bird", "sees", "hears", "likes", "old", "small", "in", "on", "garden", "house")
TINY = {"hidden_size": 8, "num_slots": 4, "batch_size": 4, "epochs": 2}
SIZES = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
EXACT = {"embedding_dropout": 0.0, "dropout": 0.0, "output_dropout": 0.0, "oracle": "static"}  # nothing is drawn


def conllu(sentences: int, rng: random.Random) -> str:
    """Sentences of 1 to 9 words, where each word but the first hangs on an earlier one."""
    lines = []
    for _ in range(sentences):
        for word in range(1, rng.randint(1, 9) + 1):
            head = rng.randrange(max(1, word - 3), word) if word > 1 else 0
            lines.append("\t".join([str(word), rng.choice(WORDS), *"____", str(head), *"___"]))
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder, rng = tmp_path_factory.mktemp("data"), random.Random(0)
    for split, sentences in {"train": 24, "validation": 10, "test": 4}.items():
        (folder / f"{split}.conllu").write_text(conllu(sentences, rng))
    prepare({split: [folder / f"{split}.conllu"] for split in ("train", "validation", "test")}, folder / "out")
    return folder / "out"


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def log(run: Path) -> list[dict]:
    """The log without what depends on the clock."""
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    timed = ("_runtime", "_second", "train_loss", "total_flos")
    return [{name: value for name, value in entry.items() if not name.endswith(timed)} for entry in entries]


def steps(run: Path) -> list[int]:
    return [runs.step_of(path) for path in runs.numbered_checkpoints(run)]


# What a run leaves


def test_a_run_is_its_best_model_with_code_and_tokenizer_and_says_how_it_was_made(data, tmp_path):
    run = tmp_path / "run"
    metrics = train(data, run, **TINY)
    record = json.loads((run / "training.json").read_text())
    assert record["validation"] == metrics
    assert {"command", "given", "settings", "data", "versions", "processes"} <= set(record)
    best = run / f"checkpoint-{metrics['step']}"
    torch.testing.assert_close(weights(run), weights(best), atol=0, rtol=0)
    assert not [path for path in run.iterdir() if path.suffix in (".bin", ".pt", ".pth")]
    carried = {"modeling_som.py", "configuration_som.py", "tokenization_som.py", "pipelines_som.py", "parses_som.py"}
    assert carried <= {path.name for path in run.iterdir()}
    assert set(json.loads((run / "config.json").read_text())["custom_pipelines"]) == {"parse", "surprisal"}
    model = AutoModelForCausalLM.from_pretrained(run, trust_remote_code=True)
    assert model.config.use_cache and model.config.vocab_size == len(AutoTokenizer.from_pretrained(run))


@pytest.mark.parametrize("averaging", [0.0, 0.9])
def test_validation_is_that_of_the_sentences_one_by_one(data, tmp_path, averaging):
    metrics = train(data, tmp_path / "run", **TINY, averaging=averaging)
    model = SOMForCausalLM.from_pretrained(tmp_path / "run").eval()
    nll = eos = tokens = right = right_next = 0
    rows = load_from_disk(data)["validation"]
    for row in rows:
        ids, siblings = torch.tensor([row["input_ids"]]), torch.tensor([row["first_sibling"]])
        with torch.no_grad():
            out = model(ids, first_sibling=siblings)
        losses = -out.logits[0, :-1].log_softmax(-1)[range(ids.shape[1] - 1), ids[0, 1:]].double()
        label = out.oracle_depths[0, 1:] - 1
        nll, eos, tokens = nll + losses.sum(), eos + losses[-1], tokens + len(losses)
        right += (out.attach_logits[0, 1:].argmax(-1) == label).sum()
        right_next += (out.next_attach_logits[0, :-1].argmax(-1) == label).sum()
    expected = {
        "ppl": (nll / tokens).exp(),
        "ppl_without_eos": ((nll - eos) / (tokens - len(rows))).exp(),
        "p_acc": right / tokens,
        "p_next_acc": right_next / tokens,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(
        {name: float(value) for name, value in expected.items()}, rel=1e-5
    )


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_is_not_counted(data, side):
    tokenizer = AutoTokenizer.from_pretrained(data)
    tokenizer.padding_side = side
    model = SOMForCausalLM(models.make_config(make_settings(**TINY), tokenizer)).eval()
    rows = list(load_from_disk(data)["validation"])

    def counts(rows):
        batch = SOMCollator(tokenizer)(rows)
        with torch.no_grad():
            out = model(**batch)
        fields = tuple(value for name, value in out.items() if name not in ("loss", "past_key_values"))
        return sentence_counts(fields, batch["labels"])

    alone = torch.cat([counts([row]) for row in rows])
    torch.testing.assert_close(counts(rows), alone, atol=1e-5, rtol=0)
    assert alone[:, 1].tolist() == [row["length"] - 1 for row in rows]


# The order of sentences


def test_the_order_is_a_function_of_seed_and_epoch_and_groups_similar_lengths(data):
    rows = load_from_disk(data)["train"]
    orders = {}
    for seed, epoch in ((0, 0), (0, 1), (1, 0)):
        grouped = LengthGrouped(rows, batch_size=5, seed=seed)
        grouped.set_epoch(epoch + 3)
        grouped.set_epoch(epoch)
        orders[seed, epoch] = grouped.order
        assert sorted(grouped.order) == list(range(len(rows)))
        assert grouped.__getitems__([2])[0] == grouped[2]
        lengths = [rows[index]["length"] for index in grouped.order]
        batches = [lengths[start : start + 5] for start in range(0, len(lengths), 5)]
        assert sorted(len(batch) for batch in batches) == [4, 5, 5, 5, 5] and len(batches[-1]) == 4
        ranges = sorted((min(batch), max(batch)) for batch in batches)
        assert all(before[1] <= after[0] for before, after in zip(ranges, ranges[1:], strict=False))
    assert len({tuple(order) for order in orders.values()}) == 3


# Words read as unknown


def test_word_dropout_reads_words_as_their_unk_class_by_how_rare_they_are():
    sentences = [["Ann", "sings", "1990"], ["Ann", "sees", "Bob"], ["Eve", "sees", "Eve", "sings", "sings"]] * 2
    tokenizer = make_tokenizer("word", [*sentences, ["walks", "Mr", "2000"]])
    rows = Dataset.from_list([{"input_ids": [tokenizer.word_id(word) for word in words]} for words in sentences])
    word_dropout, read = WordDropout(2.0, tokenizer, rows), defaultdict(Counter)
    for key in range(2000):
        for row in rows:
            dropped = word_dropout(row, (key,))
            assert dropped["labels"] == row["input_ids"]
            columns = (tokenizer.convert_ids_to_tokens(dropped[name]) for name in ("labels", "input_ids"))
            for word, seen in zip(*columns, strict=True):
                read[word][seen] += 1
    counts = Counter(word for words in sentences for word in words)
    classes = {word: tokenizer.convert_ids_to_tokens(tokenizer.unknown_id(word)) for word in counts}
    assert classes["Ann"].startswith("UNK-INITC") and classes["1990"] == "UNK-NUM"
    assert {word: set(seen) for word, seen in read.items()} == {word: {word, classes[word]} for word in counts}
    for word, count in counts.items():
        assert read[word][word] / read[word].total() == pytest.approx(count / (2 + count), abs=0.03)


def test_word_dropout_leaves_the_ends_of_sentences_and_unk_classes_alone():
    tokenizer = make_tokenizer("word", [["the", "cat", "sleeps"], ["the", "cat", "purrs"]])
    words = ["<s>", "the", "UNK-LC-s", "<unk>", "</s>"]
    rows = Dataset.from_list([{"input_ids": tokenizer.convert_tokens_to_ids(words)}])
    read = WordDropout(1e9, tokenizer, rows)(rows[0], (0,))["input_ids"]
    assert tokenizer.convert_ids_to_tokens(read) == ["<s>", "<unk>", "UNK-LC-s", "<unk>", "</s>"]


def test_what_word_dropout_draws_is_a_function_of_seed_and_epoch(data):
    rows, tokenizer = load_from_disk(data)["train"], AutoTokenizer.from_pretrained(data)

    def read(seed, epoch):
        grouped = LengthGrouped(rows, 5, seed, WordDropout(50.0, tokenizer, rows))
        grouped.set_epoch(epoch)
        place = grouped.order.index(0)
        assert grouped[place] == grouped.__getitems__([0, place])[1]
        return tuple(grouped[place]["input_ids"])

    assert read(0, 1) == read(0, 1)
    assert len({read(seed, epoch) for seed in range(3) for epoch in range(3)}) > 3


def test_word_dropout_needs_unk_classes(data, tmp_path):
    shutil.copytree(data, tmp_path / "bytes")
    make_tokenizer("bpe:300", [WORDS]).save_pretrained(tmp_path / "bytes")
    with pytest.raises(ValueError, match="word_dropout needs UNK classes"):
        train(tmp_path / "bytes", tmp_path / "run", **TINY, word_dropout=1.0)
    assert not (tmp_path / "run").exists()


# A model to begin with


def test_a_run_begins_with_another_model_in_its_sizes(data, tmp_path):
    train(data, tmp_path / "first", **{**TINY, "num_slots": 5})
    first, settings = str(tmp_path / "first"), {"epochs": 1, "batch_size": 4, "start": str(tmp_path / "first")}
    train(data, tmp_path / "still", **settings, learning_rate=1e-30)
    torch.testing.assert_close(weights(tmp_path / "still"), weights(tmp_path / "first"), atol=1e-12, rtol=0)
    train(data, tmp_path / "on", **settings, dropout=0.5)
    model = SOMForCausalLM.from_pretrained(tmp_path / "on")
    assert (model.config.hidden_size, model.config.num_slots, model.config.dropout) == (8, 5, 0.5)
    with pytest.raises(ValueError, match=f"{first}: expected a model with hidden_size 9, this one has 8"):
        train(data, tmp_path / "other", **settings, hidden_size=9)
    with pytest.raises(ValueError, match=f"{first}: expected a model outside of {first}, where the new one goes"):
        train(data, tmp_path / "first", overwrite=True, **settings)
    assert weights(tmp_path / "first")


def test_what_a_run_begins_with_is_not_needed_to_resume_it(data, tmp_path):
    train(data, tmp_path / "first", **TINY, prediction_network=False)
    given = {**TINY, "start": str(tmp_path / "first"), "learning_rate": 1e-30}
    train(data, tmp_path / "on", **{**given, "epochs": 1})
    (tmp_path / "first").rename(tmp_path / "elsewhere")
    train(data, tmp_path / "on", resume=True, epochs=2)
    torch.testing.assert_close(weights(tmp_path / "on"), weights(tmp_path / "elsewhere"), atol=1e-12, rtol=0)
    first, both = (WordCounts.read(tmp_path / run / WORD_COUNTS).counts for run in ("elsewhere", "on"))
    assert both == {word: 2 * count for word, count in first.items()}  # of the data of both trainings
    with pytest.raises(ValueError, match="expected a checkpoint"):
        train(data, tmp_path / "anew", **given)


def test_a_model_of_other_words_cannot_be_begun_with(data, tmp_path, checkpoint):
    with pytest.raises(ValueError, match=f"som prepare --tokenizer model:{checkpoint} has it"):
        train(data, tmp_path / "run", epochs=1, start=checkpoint)
    files = {split: [data.parent / f"{split}.conllu"] for split in ("train", "validation", "test")}
    prepare(files, tmp_path / "data", tokenizer=f"model:{checkpoint}")
    train(tmp_path / "data", tmp_path / "run", epochs=1, start=checkpoint)


# Teachers


def test_a_student_goes_on_with_its_teachers_when_it_is_resumed(data, tmp_path, monkeypatch):
    train(data, tmp_path / "teacher", **TINY)
    train(data, tmp_path / "alone", **TINY, seed=1)
    settings = {**TINY, "seed": 1, "teachers": [str(tmp_path / "teacher"), str(tmp_path / "alone")]}
    train(data, tmp_path / "whole", **settings)

    def interrupt(self, args, state, control, **kwargs):
        if state.epoch > 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(callbacks.ProgressBar, "on_step_end", interrupt)
        train(data, tmp_path / "cut", **settings)
    train(data, tmp_path / "cut", resume=True)
    torch.testing.assert_close(weights(tmp_path / "cut"), weights(tmp_path / "whole"), atol=0, rtol=0)
    assert not weights(tmp_path / "alone")["lm_head.bias"].equal(weights(tmp_path / "whole")["lm_head.bias"])


# Averaging


def test_the_model_of_a_run_is_the_mean_of_its_steps(data, tmp_path, monkeypatch):
    passed, means = [], []

    def remember(self, args, state, control, **kwargs):
        passed.append({name: weight.detach().clone() for name, weight in kwargs["model"].named_parameters()})

    for moment in ("on_train_begin", "on_step_end"):
        monkeypatch.setattr(callbacks.JsonLines, moment, remember)
    metrics = train(data, tmp_path, **TINY, averaging=0.6)
    for step, now in enumerate(passed):
        kept = min(0.6, (1 + step) / (10 + step)) if step else 0.0
        before = means[-1] if step else now
        means.append({name: kept * before[name] + (1 - kept) * now[name] for name in now})
    assert len(means) == 13 and metrics["step"] in (6, 12)
    found, step = weights(tmp_path), metrics["step"]
    torch.testing.assert_close({name: found[name] for name in means[step]}, means[step])
    assert found.keys() == weights(tmp_path / f"checkpoint-{step}").keys()
    for step in (6, 12):  # training goes on with the weights themselves
        raw = weights(tmp_path / f"checkpoint-{step}")
        torch.testing.assert_close({name: raw[name] for name in passed[step]}, passed[step], atol=0, rtol=0)
    assert not (tmp_path / runs.AVERAGED_WEIGHTS).exists()


# Kills


def half_written_then_killed(path):
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: len(content) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_step(step):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == step:
            os.kill(os.getpid(), signal.SIGKILL)

    callbacks.ProgressBar.on_step_end = on_step_end


def kill_in_optimizer_file(step):
    save = torch.save

    def half(thing, path, *args, **kwargs):
        save(thing, path, *args, **kwargs)
        if str(path).endswith(f"checkpoint-{step}/optimizer.pt"):
            half_written_then_killed(path)

    torch.save = half


def kill_in_weights_file(step):
    save = SOMForCausalLM.save_pretrained

    def half(self, folder, *args, **kwargs):
        save(self, folder, *args, **kwargs)
        if str(folder).endswith(f"checkpoint-{step}"):
            half_written_then_killed(Path(folder) / "model.safetensors")

    SOMForCausalLM.save_pretrained = half


def kill_in_state_file(step):
    save = TrainerState.save_to_json

    def half(self, path):
        save(self, path)
        if self.global_step == step:
            half_written_then_killed(path)

    TrainerState.save_to_json = half


def kill_in_removal(step):
    """Of an old checkpoint, when the one of this step has been written."""
    rmtree = shutil.rmtree

    def half(path, *args, **kwargs):
        if "checkpoint-" in str(path) and list(Path(path).parent.glob(f"checkpoint-{step}/trainer_state.json")):
            (Path(path) / "model.safetensors").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        rmtree(path, *args, **kwargs)

    shutil.rmtree = half


def kill_in_end(step):
    """When some files of the final model are in place."""
    replace = Path.replace

    def some(self, target):
        if self.name == "model.safetensors":
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(self, target)

    Path.replace = some


def child(data, run, settings, sabotage, step):
    torch.set_num_threads(1)
    if sabotage:
        sabotage(step)
    train(data, run, **{"resume": True, **settings})


def in_a_process(*args, target=child) -> int:
    """The exit code of a fresh process with training already imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["som.training.trainer"])
    process = context.Process(target=target, args=args)
    process.start()
    process.join()
    return process.exitcode


@pytest.fixture(scope="module")
def uninterrupted(data, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "uninterrupted"
    assert in_a_process(data, run, SAMPLED, None, 0) == 0
    return run


# 6 steps an epoch; dropout, words read as unknown and decisions are drawn
DRAWN = {"dropout": 0.3, "output_dropout": 0.3, "word_dropout": 5.0}
SAMPLED = {**TINY, **DRAWN, "epochs": 3, "save_steps": 4, "schedule": "plateau", "averaging": 0.8}


@pytest.mark.parametrize(
    "sabotage, step",
    [
        (kill_at_step, 1),  # before there is any checkpoint
        (kill_at_step, 11),  # in the middle of an epoch, after a checkpoint in the middle of an epoch
        (kill_at_step, 14),  # after a checkpoint at the end of an epoch
        (kill_in_weights_file, 8),
        (kill_in_optimizer_file, 12),
        (kill_in_state_file, 16),
        (kill_in_removal, 12),
        (kill_in_end, 18),
    ],
)
def test_a_run_killed_at_any_moment_resumes_to_the_same_weights(data, tmp_path, uninterrupted, sabotage, step):
    run = tmp_path / "run"
    assert in_a_process(data, run, SAMPLED, sabotage, step) == -signal.SIGKILL
    assert not (run / "config.json").exists()
    assert in_a_process(data, run, {}, None, 0) == 0
    torch.testing.assert_close(weights(run), weights(uninterrupted), atol=0, rtol=0)
    last = f"checkpoint-{steps(uninterrupted)[-1]}"
    torch.testing.assert_close(weights(run / last), weights(uninterrupted / last), atol=0, rtol=0)
    assert log(run) == log(uninterrupted)
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("given", [{"eval_delay": 2}, {"eval_on_start": True}])
def test_averaging_leaves_the_path_of_training_alone_whenever_it_validates(data, tmp_path, given):
    settings = {**TINY, "epochs": 3, "save_steps": 4, "trainer": given}
    train(data, tmp_path / "plain", **settings)
    averaged = {**settings, "averaging": 0.9}
    assert in_a_process(data, tmp_path / "run", averaged, kill_at_step, 11) == -signal.SIGKILL
    train(data, tmp_path / "run", resume=True)
    torch.testing.assert_close(weights(tmp_path / "run/checkpoint-18"), weights(tmp_path / "plain/checkpoint-18"))


def test_a_run_that_stopped_early_and_was_killed_then_trains_no_further(data, tmp_path):
    settings = {**TINY, "epochs": 9, "learning_rate": 3.0, "early_stopping": 1}
    assert in_a_process(data, tmp_path / "run", settings, kill_in_end, 0) == -signal.SIGKILL
    before = steps(tmp_path / "run")
    assert before[-1] < 9 * 6
    assert in_a_process(data, tmp_path / "run", {}, None, 0) == 0
    assert steps(tmp_path / "run") == before and (tmp_path / "run" / "config.json").exists()


def test_a_run_keeps_its_settings_when_defaults_change(data, tmp_path, monkeypatch):
    train(data, tmp_path, **{**TINY, "epochs": 1})
    before = json.loads((tmp_path / "training.json").read_text())["settings"]
    monkeypatch.setitem(training_settings.PRESETS, "small", {"learning_rate": 0.5, "dropout": 0.4})
    train(data, tmp_path, resume=True, epochs=2)
    assert json.loads((tmp_path / "training.json").read_text())["settings"] == {**before, "epochs": 2}
    with pytest.raises(ValueError, match="was begun with learning_rate 0.001, cannot be resumed with 0.5"):
        train(data, tmp_path, resume=True, learning_rate=0.5)


@pytest.mark.parametrize("name", ["word_dropout", "weight_decay", "averaging"])
def test_a_run_from_before_there_was_a_setting_can_be_resumed_without_it(data, tmp_path, name):
    train(data, tmp_path, **{**TINY, "epochs": 1})
    record = json.loads((tmp_path / "training.json").read_text())
    del record["settings"][name]
    (tmp_path / "training.json").write_text(json.dumps(record))
    train(data, tmp_path, resume=True, epochs=2)
    train(data, tmp_path, resume=True, **{name: 0.0})
    with pytest.raises(ValueError, match=f"was begun with {name} 0.0, cannot be resumed with 0.5"):
        train(data, tmp_path, resume=True, **{name: 0.5})


def test_a_finished_run_can_be_given_more_epochs(data, tmp_path):
    settings = {**TINY, "schedule": "plateau"}
    train(data, tmp_path / "long", **settings, seed=3)
    train(data, tmp_path / "short", **{**settings, "epochs": 1}, seed=3)
    train(data, tmp_path / "short", resume=True, epochs=2)
    last = f"checkpoint-{steps(tmp_path / 'long')[-1]}"
    torch.testing.assert_close(weights(tmp_path / "short" / last), weights(tmp_path / "long" / last), atol=0, rtol=0)


# Processes and parts of batches


def test_two_processes_train_as_one_does(data, tmp_path):
    """Exact up to rounding: nothing is drawn but the words read as unknown, and they whatever the process."""
    settings = {**TINY, **EXACT, "word_dropout": 5.0}
    one = train(data, tmp_path / "one", **settings)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m", "som"]
    command += ["train", str(data), "--out", str(tmp_path / "two"), *flags]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "two" / "training.json").read_text())
    assert record["processes"] == 2
    torch.testing.assert_close(weights(tmp_path / "two"), weights(tmp_path / "one"), atol=1e-4, rtol=0)
    names = ("ppl", "ppl_without_eos", "p_acc", "p_next_acc")
    expected = {name: one[name] for name in names}
    assert {name: record["validation"][name] for name in names} == pytest.approx(expected, rel=1e-4)
    losses = [[entry["loss"] for entry in log(tmp_path / run) if "loss" in entry] for run in ("one", "two")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_accumulated_gradients_train_as_whole_batches_do(data, tmp_path):
    train(data, tmp_path / "whole", **TINY, **EXACT)
    train(data, tmp_path / "parts", **TINY, **EXACT, gradient_accumulation=2)
    torch.testing.assert_close(weights(tmp_path / "parts"), weights(tmp_path / "whole"), atol=1e-4, rtol=0)


# Settings


@pytest.mark.parametrize(
    "preset, sizes, rates",
    [
        ("ptb", (400, 100, 15), (0.1, 0.3, 0.5)),
        ("bllip-xs", (400, 100, 15), (0.1, 0.3, 0.5)),
        ("bllip-sm", (500, 100, 15), (0.1, 0.2, 0.2)),
        ("bllip-md", (500, 100, 15), (0.0, 0.1, 0.1)),
    ],
)
def test_presets_are_the_papers(preset, sizes, rates):
    made = make_settings(preset, dsom=True)
    assert (made.hidden_size, made.syntactic_size, made.num_slots) == sizes
    assert (made.embedding_dropout, made.dropout, made.output_dropout) == rates
    assert make_settings(preset).syntactic_size == 0
    assert make_settings(preset, tree="constituency").num_slots == 30
    assert make_settings() == TrainSettings()


@pytest.mark.parametrize(
    "flags",
    [
        ["--oracle", "dynamic_paper"],
        ["--left-branching", "--schedule", "plateau"],
        ["--no-prediction-network"],
        ["--next-attachment", "marginal"],
        ["--next-attachment", "oracle", "--early-stopping", "1"],
        ["--lm-loss", "0"],
        ["--syntactic-size", "2"],
        ["--bf16"],
        ["--weight-decay", "0.1", "--trainer", "optim=adamw_torch"],
    ],
    ids=" ".join,
)
def test_every_ablation_trains(data, tmp_path, flags, capsys):
    sizes = ["--hidden-size", "8", "--num-slots", "4", "--batch-size", "8", "--epochs", "1"]
    assert main(["train", str(data), "--out", str(tmp_path / "run"), *sizes, *flags]) == 0
    expected = "validation p acc" if "--lm-loss" in flags else "validation perplexity"
    assert expected in capsys.readouterr().out
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert record["given"].keys() > {"hidden_size", "num_slots", "batch_size", "epochs"}
    assert ("p_next_acc" in record["validation"]) == (flags != ["--no-prediction-network"])


def test_a_parser_alone_is_chosen_by_its_accuracy(tmp_path):
    args = training_settings.training_arguments(make_settings(lm_loss_weight=0), tmp_path, processes=1)
    assert (args.metric_for_best_model, args.greater_is_better) == ("p_acc", True)


def test_weight_decay_shrinks_what_nothing_trains(data, tmp_path):
    """A parser alone never learns how the words are predicted, and nothing but their decay changes such weights."""
    left = {}
    for decay in (0.0, 0.5):
        run = tmp_path / str(decay)
        train(data, run, **TINY, lm_loss_weight=0, weight_decay=decay, learning_rate=0.1)
        left[decay] = weights(run)["model.predict_cell.gates.semantic.weight"]
    share = (left[0.5] / left[0.0]).flatten()
    assert 0 < share.mean() < 0.95 and share.std() < 1e-4


# What is refused


def error_of(capsys, *argv) -> str:
    capsys.readouterr()  # progress bars of what came before
    assert main(["train", *map(str, argv)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and message.startswith("som train: error: ")
    return message


@pytest.mark.parametrize(
    "flags, expected",
    [
        (["--preset", "large"], "preset must be one of small, ptb, bllip-xs, bllip-sm, bllip-md, got 'large'"),
        (["--tree", "dag"], "tree must be one of dependency, constituency"),
        (["--dropout", "1.5"], "dropout must be in [0, 1), got 1.5"),
        (["--word-dropout", "-1"], "word_dropout must be a number from 0 on, got -1.0"),
        (["--weight-decay", "-1"], "weight_decay must be a number from 0 on, got -1.0"),
        (["--averaging", "1"], "averaging must be from 0 up to, but not including, 1, got 1.0"),
        (["--oracle", "delphi"], "oracle must be one of dynamic"),
        (["--schedule", "linear"], "schedule must be one of cosine, plateau"),
        (["--learning-rate", "0"], "learning_rate must be above 0"),
        (["--no-prediction-network", "--next-attachment", "oracle"], "which is off"),
        (["--batch-size", "3", "--gradient-accumulation", "2"], "must be a multiple of"),
        (["--trainer", "label_smoothing_factor=0.1"], "label smoothing is not possible"),
        (["--trainer", "no_such_thing=1"], "no_such_thing"),
        (["--trainer", "seed=1"], "seed are set by settings of their own"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(data, tmp_path, capsys, flags, expected):
    assert expected in error_of(capsys, data, "--out", tmp_path / "run", *flags)
    assert not (tmp_path / "run").exists()


def test_label_smoothing_is_refused_in_python_too():
    with pytest.raises(ValueError, match="label smoothing is not possible"):
        make_settings(label_smoothing_factor=0.1)


def test_folders_that_are_no_data_or_no_run_are_refused(data, tmp_path, capsys):
    assert "expected a folder made by `som prepare`" in error_of(capsys, tmp_path, "--out", tmp_path / "run")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear")
    for flag in ("--overwrite", "--resume"):
        message = error_of(capsys, data, "--out", tmp_path / "letters", flag)
        assert "expected a new or empty folder, this one holds something else" in message
    assert (tmp_path / "letters" / "dear.txt").read_text() == "dear"
    assert "this is a file" in error_of(capsys, data, "--out", tmp_path / "letters" / "dear.txt")


def test_a_tokenizer_of_other_data_is_refused(data, tmp_path, capsys):
    shutil.copytree(data, tmp_path / "mixed")
    other = tmp_path / "other.conllu"
    other.write_text("1\thello\t_\t_\t_\t_\t0\t_\t_\t_\n\n" * 2)
    prepare({split: [other] for split in ("train", "validation", "test")}, tmp_path / "other")
    shutil.copy(tmp_path / "other" / "tokenizer.json", tmp_path / "mixed")
    assert "not the one the data were made with" in error_of(capsys, tmp_path / "mixed", "--out", tmp_path / "run")


def test_a_run_is_neither_overwritten_nor_resumed_as_another_one(data, tmp_path, capsys):
    run = tmp_path / "run"
    train(data, run, **TINY)
    before = weights(run)
    assert "--resume continues it, --overwrite replaces it" in error_of(capsys, data, "--out", run)
    assert "was begun with dropout 0.2" in error_of(capsys, data, "--out", run, "--resume", "--dropout", "0.4")
    shutil.copytree(data, tmp_path / "changed")
    rows = load_from_disk(data)
    shutil.rmtree(tmp_path / "changed" / "train")
    rows["train"].select(range(20)).save_to_disk(tmp_path / "changed" / "train")
    assert "other data" in error_of(capsys, tmp_path / "changed", "--out", run, "--resume")
    torch.testing.assert_close(weights(run), before, atol=0, rtol=0)
    train(data, run, overwrite=True, **TINY, seed=1)
    assert not torch.equal(
        weights(run)["model.cell.gates.semantic.weight"], before["model.cell.gates.semantic.weight"]
    )


# One training at a time


def race(data, run, barrier, results, flags):
    """Train at the same moment as others, and tell how it ended."""
    torch.set_num_threads(1)
    barrier.wait()
    errors = StringIO()
    with redirect_stderr(errors):
        code = main(["train", str(data), "--out", str(run), *SIZES, *flags])
    results.put((code, errors.getvalue()))


@pytest.mark.parametrize("flags", [[], ["--resume"], ["--overwrite"]], ids=str)
def test_of_two_trainings_in_one_folder_one_is_refused_and_the_other_is_not_harmed(data, tmp_path, flags):
    train(data, tmp_path / "alone", **TINY)
    if "--overwrite" in flags:
        train(data, tmp_path / "run", **{**TINY, "epochs": 1}, seed=1)
    context = multiprocessing.get_context("forkserver")
    barrier, results = context.Barrier(2), context.Queue()
    racers = [context.Process(target=race, args=(data, tmp_path / "run", barrier, results, flags)) for _ in range(2)]
    for racer in racers:
        racer.start()
    (won, _), (lost, message) = sorted(results.get() for _ in racers)
    for racer in racers:
        racer.join()
    if (won, lost) == (0, 0):  # one began when the other had ended, which only these two flags allow
        assert flags
    else:
        assert (won, lost) == (0, 2) and message.count("\n") == 1
        assert "another training" in message or "holds a run already" in message
    torch.testing.assert_close(weights(tmp_path / "run"), weights(tmp_path / "alone"), atol=1e-6, rtol=0)


def test_a_folder_is_locked_as_long_as_a_training_writes_to_it(data, tmp_path, capsys, monkeypatch):
    messages = []

    def second(self, args, state, control, **kwargs):
        for flag in ("--resume", "--overwrite"):
            messages.append(error_of(capsys, data, "--out", tmp_path / "run", flag, *SIZES))

    with monkeypatch.context() as patch:
        patch.setattr(callbacks.ProgressBar, "on_train_begin", second)
        patch.setattr(callbacks.ProgressBar, "on_step_end", lambda *args, **kwargs: None)
        patch.setattr(callbacks.ProgressBar, "on_log", lambda *args, **kwargs: None)
        patch.setattr(callbacks.ProgressBar, "on_prediction_step", lambda *args, **kwargs: None)
        train(data, tmp_path / "run", **TINY)
    assert len(messages) == 2
    assert all("run: another training is writing to this folder, expected none" in message for message in messages)
    assert not (tmp_path / "run" / ".lock").exists()
    train(data, tmp_path / "run", overwrite=True, **TINY)


def test_a_folder_that_changed_while_a_training_was_set_up_is_left_alone(data, tmp_path, monkeypatch):
    make_trainer = trainer.make_trainer

    def slow(*args, **kwargs):
        with monkeypatch.context() as patch:
            patch.setattr(trainer, "make_trainer", make_trainer)
            train(data, tmp_path / "run", **TINY)
        return make_trainer(*args, **kwargs)

    monkeypatch.setattr(trainer, "make_trainer", slow)
    with pytest.raises(FileExistsError, match="another training has just written to this folder"):
        train(data, tmp_path / "run", **TINY, seed=1)
    assert json.loads((tmp_path / "run" / "training.json").read_text())["settings"]["seed"] == 0


def test_training_needs_no_locks_where_there_are_none(data, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "fcntl", None)
    train(data, tmp_path / "run", **TINY)
    assert weights(tmp_path / "run")


# What belongs to the user


def test_only_what_a_run_wrote_is_removed(data, tmp_path):
    run = tmp_path / "run"
    train(data, run, **{**TINY, "epochs": 1})
    mine = [run / "checkpoint-mine" / "notes", run / "notes", run / "runs" / "mine" / "notes", run / "checkpoint-"]
    for file in mine:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    os.utime(run / "checkpoint-mine", (0, 0))  # older than any checkpoint
    event = run / "runs" / "today" / "events.out.tfevents.1"
    event.parent.mkdir()
    event.touch()
    train(data, run, resume=True, epochs=4)
    assert len(steps(run)) == 2 and event.exists()
    train(data, run, overwrite=True, **{**TINY, "epochs": 1, "hidden_size": 9})
    assert steps(run) == [6] and not event.parent.exists()
    assert all(file.read_text() == "mine" for file in mine)


def test_an_overwritten_run_leaves_no_model_behind_until_the_new_one_is_trained(data, tmp_path):
    train(data, tmp_path / "run", **TINY)
    assert in_a_process(data, tmp_path / "run", {**TINY, "overwrite": True, "resume": False}, kill_at_step, 1) < 0
    left = {".lock", "log.jsonl", "training.json", "word_counts.json.gz"}
    assert {path.name for path in (tmp_path / "run").iterdir()} == left


@pytest.mark.parametrize("flag", ["--resume", "--overwrite"])
def test_checkpoints_that_a_run_did_not_write_are_neither_used_nor_removed(data, tmp_path, capsys, flag):
    train(data, tmp_path / "run", **TINY)
    shutil.copytree(tmp_path / "run" / "checkpoint-12", tmp_path / "run" / "checkpoint-99")
    message = error_of(capsys, data, "--out", tmp_path / "run", flag)
    assert "checkpoint-99: expected only checkpoints that this run wrote; move this one elsewhere" in message
    assert (tmp_path / "run" / "checkpoint-99" / "model.safetensors").exists()


def test_a_run_from_before_files_were_listed_can_be_resumed_and_overwritten(data, tmp_path):
    train(data, tmp_path / "run", **{**TINY, "epochs": 1})
    for settings in ({"resume": True, "epochs": 2}, {"overwrite": True, **TINY, "epochs": 1}):
        record = json.loads((tmp_path / "run" / "training.json").read_text())
        record.pop("threads", None)
        del record["files"]
        (tmp_path / "run" / "training.json").write_text(json.dumps(record))
        train(data, tmp_path / "run", **settings)
    assert steps(tmp_path / "run") == [6]


@pytest.mark.parametrize("content", ["[]", "{}", "no JSON"])
def test_a_record_of_something_else_is_refused(data, tmp_path, capsys, content):
    (tmp_path / "training.json").write_text(content)
    for flag in ("--resume", "--overwrite"):
        message = error_of(capsys, data, "--out", tmp_path, flag)
        assert "training.json: expected the record of a run, this is something else" in message
    assert (tmp_path / "training.json").read_text() == content


# Checkpoints that cannot be resumed from

NEEDED = ["config.json", "model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"]
NEEDED += [runs.AVERAGED_WEIGHTS]  # as this run averages its weights


@pytest.mark.parametrize("name", NEEDED)
def test_a_checkpoint_without_one_of_its_files_is_not_resumed_from(data, tmp_path, uninterrupted, name):
    run = tmp_path / "run"
    assert in_a_process(data, run, SAMPLED, kill_at_step, 11) == -signal.SIGKILL
    last = run / f"checkpoint-{steps(run)[-1]}"
    (last / name).unlink()
    assert in_a_process(data, run, {}, None, 0) == 0
    torch.testing.assert_close(weights(run), weights(uninterrupted), atol=0, rtol=0)


def test_a_best_checkpoint_that_cannot_be_resumed_from_is_still_the_best_model(data, tmp_path):
    settings = {**TINY, "epochs": 9, "learning_rate": 3.0, "early_stopping": 1}
    best = tmp_path / f"checkpoint-{train(data, tmp_path, **settings)['step']}"
    assert best != runs.last_checkpoint(tmp_path)
    (best / "optimizer.pt").unlink()
    assert train(data, tmp_path, resume=True)["step"] == runs.step_of(best)
    (best / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="expected the best model of the run, which is no longer there"):
        train(data, tmp_path, resume=True)


@pytest.mark.parametrize(
    "files, trainer, processes, complete",
    [
        ([], {}, 1, True),
        ([], {"fp16": True}, 1, False),
        (["scaler.pt"], {"fp16": True}, 1, True),
        ([], {}, 2, False),
        (["rng_state_1.pth"], {}, 2, True),
    ],
)
def test_what_a_complete_checkpoint_needs_depends_on_the_run(
    uninterrupted, tmp_path, files, trainer, processes, complete
):
    checkpoint = shutil.copytree(uninterrupted / "checkpoint-18", tmp_path / "checkpoint-18")
    for name in files:
        torch.save({}, checkpoint / name)
    record = {"settings": {"trainer": trainer}, "processes": processes}
    assert runs.is_complete(checkpoint, record) == complete
    (checkpoint / "optimizer.pt").rename(checkpoint / "optimizer.bin")  # as FSDP names it
    assert not runs.is_complete(checkpoint, record)
    torch.save({}, checkpoint / "pytorch_model_fsdp.bin")
    assert runs.is_complete(checkpoint, record) == complete


def test_other_threads_are_warned_of(data, tmp_path, monkeypatch):
    train(data, tmp_path, **{**TINY, "epochs": 1})
    threads = torch.get_num_threads()
    assert json.loads((tmp_path / "training.json").read_text())["threads"] == threads
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads + 1)
    with pytest.warns(UserWarning, match=f"was begun with {threads} threads and goes on with {threads + 1}"):
        train(data, tmp_path, resume=True, epochs=2)


def test_what_a_resumed_run_does_differently_is_one_plain_line(data, tmp_path, capsys, monkeypatch):
    run = str(tmp_path / "run")
    assert main(["train", str(data), "--out", run, *SIZES, "--epochs", "1"]) == 0
    threads = torch.get_num_threads()
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads + 1)
    capsys.readouterr()
    assert main(["train", str(data), "--out", run, "--resume", "--epochs", "2"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"som train: warning: {run}: was begun with {threads} threads and goes on with {threads + 1}: "
        "weights may differ in their last digits",
        f"som train: warning: {run}: was begun for 1 epoch(s) and goes on to 2; "
        "the learning rate is now that of a run of this length",
    ]


def test_files_of_a_run_can_be_read_by_those_whom_the_umask_allows(data, tmp_path):
    before = os.umask(0o027)
    try:
        train(data, tmp_path / "run", **{**TINY, "epochs": 1})
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert modes == {0o640}


# Divergence


@pytest.mark.parametrize("batch_size, rate, kept", [(4, 100.0, None), (4, 1e30, None), (24, 1e30, 1)])
def test_a_training_that_diverges_says_so_and_keeps_earlier_checkpoints(
    data, tmp_path, capsys, batch_size, rate, kept
):
    flags = [*SIZES, "--batch-size", batch_size, "--learning-rate", rate, "--save-steps", 1]
    message = error_of(capsys, data, "--out", tmp_path / "run", *flags)
    assert re.search("run: training diverged: at step [0-9]+ the .*loss.* is (nan|inf)", message)
    assert f"a learning rate below {rate:g}" in message
    assert kept is None or steps(tmp_path / "run") == [kept]
    for checkpoint in (tmp_path / "run").glob("checkpoint-*"):
        assert all(weight.isfinite().all() for weight in weights(checkpoint).values())


def test_a_gradient_that_is_not_finite_does_not_get_into_a_checkpoint(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Trainer, "_clip_grad_norm", lambda self, model: torch.tensor(torch.inf))
    message = error_of(capsys, data, "--out", tmp_path / "run", *SIZES)
    assert "training diverged: at step 6 the norm of the gradient is inf" in message
    assert steps(tmp_path / "run") == []


# Breaks that the user hears of


@pytest.fixture
def heeded_interruptions():
    """What is started in the background, as the tests may be, ignores SIGINT unless told otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded_interruptions")
def test_a_second_ctrl_c_stops_at_once(data, tmp_path, capsys, monkeypatch):
    def interrupt_twice(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(callbacks.ProgressBar, "on_step_end", interrupt_twice)
    assert main(["train", str(data), "--out", str(tmp_path / "run"), *SIZES]) == 130
    command = f"som train {data} --out {tmp_path / 'run'} --resume"
    assert capsys.readouterr().err == f"som train: interrupted; go on with: {command}\n"
    assert steps(tmp_path / "run") == []


def signalled_child(data, run, number, event, step):
    """Trains, and gets a signal at the end of a step, or in the validation after one."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(self, args, state, control, **kwargs):
        if state.global_step == step and not sent:
            sent.append(number)
            os.kill(os.getpid(), number)

    sent: list[int] = []
    setattr(callbacks.ProgressBar, event, interrupt)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SAMPLED.items() if name != "save_steps"]
    with open(run.with_name("errors"), "w") as errors, redirect_stderr(errors):
        code = main(["train", str(data), "--out", str(run), *flags])
    sys.exit(code)


@pytest.mark.parametrize(
    "number, event, step, saved",
    [
        (signal.SIGINT, "on_step_end", 3, 4),  # between the ends of epochs
        (signal.SIGTERM, "on_step_end", 9, 10),
        (signal.SIGINT, "on_step_end", 11, 12),  # before the last step of an epoch
        (signal.SIGTERM, "on_step_end", 12, 12),  # at the end of an epoch
        (signal.SIGINT, "on_prediction_step", 6, 6),
        (signal.SIGINT, "on_step_end", 18, 18),  # at the end of all
    ],
)
def test_a_signal_saves_a_checkpoint_that_leads_to_the_same_weights(
    data, tmp_path, uninterrupted, number, event, step, saved
):
    run = tmp_path / "run"
    assert in_a_process(data, run, number, event, step, target=signalled_child) == 128 + number
    command = f"som train {data} --out {run} --resume"
    assert (tmp_path / "errors").read_text() == f"som train: interrupted; go on with: {command}\n"
    assert steps(run)[-1] == saved and not (run / "config.json").exists()
    assert in_a_process(data, run, {}, None, 0) == 0
    torch.testing.assert_close(weights(run), weights(uninterrupted), atol=0, rtol=0)


def test_signals_are_as_before_when_training_is_over(data, tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    train(data, tmp_path / "run", **TINY)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_training_works_outside_of_the_main_thread(data, tmp_path):
    with ThreadPoolExecutor() as pool:
        assert pool.submit(train, data, tmp_path / "run", **TINY).result()["ppl"] > 0


def test_a_signal_to_one_of_two_processes_stops_both_after_the_same_step(data, tmp_path):
    settings = {**TINY, **EXACT, "epochs": 60}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m", "som"]
    command += ["train", str(data), "--out", str(tmp_path / "run"), *flags]
    started = subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    while started.poll() is None and not steps(tmp_path / "run"):
        time.sleep(0.1)
    started.terminate()  # torchrun passes it on
    errors = started.communicate()[1]
    assert errors.count("som train: interrupted; go on with") == 2, errors
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    last = runs.last_checkpoint(tmp_path / "run")
    assert runs.is_complete(last, record) and steps(tmp_path / "run")[-1] == runs.step_of(last) < 60 * 6


def limited_child(data, run, callback, moment):
    """Trains where from then on no file may grow beyond what the second checkpoint needs, as on a full disk."""
    torch.set_num_threads(1)
    go_on = getattr(callback, moment)

    def limited(self, args, state, control, **kwargs):
        if state.epoch == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        go_on(self, args, state, control, **kwargs)

    setattr(callback, moment, limited)
    with open(run.with_name("errors"), "w") as errors, redirect_stderr(errors):
        code = main(["train", str(data), "--out", str(run), *SIZES, "--averaging", "0.5"])
    sys.exit(code)


@pytest.mark.parametrize("callback, moment", [(callbacks.Checkpoints, "on_epoch_end"), (AverageWeights, "on_save")])
def test_a_full_disk_is_one_line_and_leaves_the_checkpoint_before_it(data, tmp_path, callback, moment):
    code = in_a_process(data, tmp_path / "run", callback, moment, target=limited_child)
    message = (tmp_path / "errors").read_text()
    assert code == 2, message
    assert message.count("\n") == 1 and "could not be written" in message and "--resume" in message
    assert in_a_process(data, tmp_path / "run", {}, None, 0) == 0
    train(data, tmp_path / "whole", **TINY, averaging=0.5)
    torch.testing.assert_close(weights(tmp_path / "run"), weights(tmp_path / "whole"), atol=1e-6, rtol=0)


def test_the_stock_trainer_is_used_as_it_is(data, tmp_path):
    args = training_settings.training_arguments(make_settings(**TINY), tmp_path, processes=1)
    made = trainer.make_trainer(make_settings(**TINY), args, batches.load_data(data), tmp_path)
    assert type(made) is Trainer
