"""The benchmark compares like with like; how fast anything is, no test says."""

import json
import random

import pytest
import torch
from conftest import make_model, random_first_siblings

from modeling_som import SOMForCausalLM
from modeling_som.modeling_som import oracle_depths
from som import bench
from som.cli import main
from som.training import sentence_counts


@pytest.fixture
def pool():
    rng = random.Random(0)
    return [random_first_siblings(length, rng) for length in (5, 9, 9, 18, 18, 7)]


def test_the_dense_contender_is_the_same_model(pool):
    model = make_model(num_slots=5)
    labels = torch.tensor([row for row in pool if len(row) == 9])
    words = torch.randint(3, 23, labels.shape)
    batch = {"input_ids": words, "labels": words, "first_sibling": labels, "depths": oracle_depths(labels, None, 5)}
    out = model(**batch)
    logits, loss = bench.DenseSOM(model)(**batch)
    # at the last token the model's own guess is greedy, where the dense form is given one
    torch.testing.assert_close(logits[:, :-1], out.logits[:, :-1], atol=1e-10, rtol=0)
    torch.testing.assert_close(loss, out.loss, atol=1e-10, rtol=0)


def test_batches_have_the_length_asked_for_and_reachable_depths(pool):
    for length in (9, 40):
        batch = bench.batch_of(pool, 3, length)
        assert {tuple(value.shape) for value in batch.values()} == {(3, length)}
        assert make_model(num_slots=bench.SLOTS, vocab_size=bench.VOCABULARY)(**batch).loss.isfinite()


def test_the_step_with_tags_differs_from_the_one_without_by_their_loss_alone(pool):
    batch = bench.batch_of(pool, 3, 9)
    tagged = bench.som(hidden_size=8, tree_tags=[str(tag) for tag in range(bench.TAGS)]).eval()
    with_tags, without = tagged(**bench.with_tags(batch)), tagged(**batch)
    assert with_tags.tag_loss > 0 and without.tag_loss is None
    torch.testing.assert_close(with_tags.loss, without.loss + with_tags.tag_loss)


def test_the_contenders_have_the_parameters_of_a_som():
    size = bench.count_parameters(bench.som())
    for model in (bench.LSTM(), bench.gpt2_of_size(8, 320, 8, bench.VOCABULARY)):
        assert abs(bench.count_parameters(model) / size - 1) < 0.05
    assert round(bench.count_parameters(bench.gpt2_of_size()) / 1e6) == 124


def test_every_system_takes_a_training_step(pool, monkeypatch):
    monkeypatch.setattr(bench, "VOCABULARY", 60)
    monkeypatch.setattr(bench, "HIDDEN", 16)
    batch, taken, loss_of = bench.batch_of(pool, 3, 9), [], bench.loss_of

    def spy(model, given):
        if type(model) is SOMForCausalLM:
            model.model.register_forward_hook(lambda _model, _inputs, out: taken.append(out.depths))
        return loss_of(model, given)

    monkeypatch.setattr(bench, "loss_of", spy)
    contenders = bench.peer_contenders(batch)
    assert {"SOM", "lstm", "onlstm", "rnng", "om"} <= set(contenders)
    for step, tokens in contenders.values():
        step()
        assert tokens == 27
    assert len(taken) == 1 and torch.equal(taken[0], batch["depths"])  # trees of a treebank, though never trained


def test_a_validation_reads_sentences_of_all_lengths_on_their_own_trees(pool, monkeypatch):
    monkeypatch.setattr(bench, "MANY_WORDS", 60)
    contenders, found = bench.validation_contenders(pool, 40), []
    assert {name: tokens for name, (_, tokens) in contenders.items()}.keys() == {"SOM", "SOM, greedy", "LSTM"}

    def spy(outputs, labels):
        found.append(outputs)
        return sentence_counts(outputs, labels)

    monkeypatch.setattr(bench, "sentence_counts", spy)
    gold = [batch["depths"] for batch in bench.batches_of(pool, 40, 60)]
    assert len({len(row) for row in gold}) > 1
    contenders["SOM"][0]()
    for (_, _, _, depths, *_), expected in zip(found, gold, strict=True):
        assert torch.equal(depths.clamp(min=-1), expected.clamp(min=-1))
    mixture, found[:] = found[0][0], []
    contenders["SOM, greedy"][0]()
    assert not torch.allclose(found[0][0], mixture)
    contenders["LSTM"][0]()


def test_ratios_are_taken_within_rounds():
    fast, slow = bench.Timing(100, [1.0, 2.0]), bench.Timing(100, [2.0, 8.0])
    assert fast.ratio_to(slow) == {"median": 3.0, "min": 2.0, "max": 4.0}


@pytest.mark.parametrize("flags", [["--plot", "nowhere/b.svg"], ["--plot", "b.bmp"], ["--json", "nowhere/b.json"]])
def test_what_could_not_be_written_is_told_before_anything_is_measured(flags, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "bench", lambda *args: pytest.fail("measured"))
    assert main(["bench", *flags]) == 2
    assert f"{flags[1]}: expected" in capsys.readouterr().err


@pytest.mark.slow
def test_som_bench_writes_figures_and_a_plot(tmp_path):
    assert (
        main(["bench", "--quick", "--rounds", "1", "--json", f"{tmp_path}/b.json", "--plot", f"{tmp_path}/b.svg"]) == 0
    )
    report = json.loads((tmp_path / "b.json").read_text())
    assert report["compared"]["training"]["SOM"]["SOM is faster by"]["median"] == 1.0
    assert (tmp_path / "b.svg").stat().st_size > 1000


def test_the_model_attaches_where_the_treebank_does():
    pool = bench.builtin_pool()
    depths = bench.running_depths(pool, 2, 30)
    assert depths.shape == (2, 30) and depths.max() > 2
    model = bench.som(hidden_size=8).eval()
    words = torch.randint(3, 100, (2, 30))
    with torch.inference_mode():
        read = bench.following(model, depths, lambda: model(words))
        assert torch.equal(read().depths, depths)
        cache = bench.following(model, depths[:, :20], lambda: model(words[:, :20], use_cache=True))().past_key_values
        model.model.parser.follow(depths[:, 20:])
        ones = [model(words[:, t : t + 1], past_key_values=cache, use_cache=True).depths for t in range(20, 30)]
        assert torch.equal(torch.cat(ones, dim=1), depths[:, 20:])
        dense = bench.DenseSOM(model)
        logits, _ = bench.following(model, depths, lambda: dense(words, depths, words, words))()
        assert logits.shape == (2, 30, bench.VOCABULARY) and logits.isfinite().all()
    batch, found = bench.batch_of(pool, 3, 9), []
    hook = model.register_forward_hook(lambda _model, _inputs, output: found.append(output.depths))
    bench.exploring(model.train(), batch)()
    hook.remove()
    assert torch.equal(found[0], batch["depths"])
