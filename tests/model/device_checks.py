"""The model on a simulated accelerator; `test_device.py` runs this in a process of its own."""

import copy
from functools import partial

import pytest
import torch
from conftest import batch_of, make_model
from simdev import SimTensor, Simulation, register, to_device

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import METHODS, score
from som import bench

VARIANTS: dict[str, dict] = {
    "sampled": {},
    "dSOM": {"syntactic_size": 3},
    "marginal": {"next_attachment": "marginal", "marginal": True},
    "oracle": {"next_attachment": "oracle"},
    "static": {"oracle": "static"},
    "printed": {"oracle": "dynamic_paper"},
    "no prediction network": {"prediction_network": False},
}
every_variant = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)


@pytest.fixture(scope="session", autouse=True)
def device():
    register()


def both(**settings) -> tuple[SOMForCausalLM, SOMForCausalLM]:
    """The same model on the CPU and on the device."""
    model = make_model(**settings)
    return model, to_device(copy.deepcopy(model))


def moved(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: SimTensor(tensor.clone()) for name, tensor in batch.items()}


def assert_same(here: torch.Tensor | None, there: torch.Tensor | None) -> None:
    if here is None:
        assert there is None
    else:
        assert there.device.type == "sim"
        torch.testing.assert_close(there.held.detach(), here.detach(), atol=1e-10, rtol=0)


def test_mixing_host_and_device_is_an_error():
    with Simulation(), pytest.raises(RuntimeError, match="expected all tensors to be on the same device"):
        torch.ones(2, device="sim") + torch.ones(2)
    with Simulation(), pytest.raises(RuntimeError, match="a tensor of the host is indexed by one of the device"):
        torch.ones(2)[torch.ones(2, device="sim", dtype=torch.long)]


def test_launches_and_waits_are_counted():
    with Simulation() as simulation:
        ones = torch.ones(2, 3, device="sim")
        launched = simulation.launches.total()
        (ones.T[:2] * 2).sum().item()
    assert simulation.launches.total() - launched == 2 and simulation.waits.total() == 1


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_reading_gives_the_same(settings, side, sentences):
    here, there = both(**settings)
    batch = batch_of(sentences, side)
    with torch.no_grad(), Simulation():
        expected, found = here(**batch), there(**moved(batch))
    for name in ("loss", "logits", "depths", "oracle_depths", "attach_logits", "next_attach_logits"):
        assert_same(getattr(expected, name), getattr(found, name))


@every_variant
def test_learning_gives_the_same_gradients(settings, sentences):
    here, there = both(**settings)
    batch = batch_of(sentences, "right")
    batch["depths"] = here(**batch).depths.detach()  # what is drawn differs from device to device
    here.train()(**batch).loss.backward()
    with Simulation():
        there.train()(**moved(batch)).loss.backward()
    for one, other in zip(here.parameters(), there.parameters(), strict=True):
        assert_same(one.grad, other.grad)


@every_variant
def test_a_step_of_training_with_dropout_and_decisions_drawn_runs(settings, sentences):
    _, there = both(**settings, dropout=0.2, embedding_dropout=0.1, output_dropout=0.3)
    before = there.lm_head.bias.held.clone()
    with Simulation():
        optimizer = torch.optim.AdamW(there.train().parameters(), foreach=False)
        there(**moved(batch_of(sentences, "left"))).loss.backward()
        torch.nn.utils.clip_grad_norm_(there.parameters(), 1.0, foreach=False)
        optimizer.step()
    assert not torch.equal(there.lm_head.bias.held, before)


@every_variant
@torch.no_grad()
def test_the_state_is_carried_on_repeated_and_selected(settings, sentences):
    here, there = both(**settings)
    ids = torch.tensor([sentences[0][0], sentences[0][0][::-1]])
    with Simulation():
        caches = []
        for model, tokens in ((here, ids), (there, SimTensor(ids))):
            cache = model(tokens[:, :4], use_cache=True).past_key_values
            model(tokens[:, 4:5], past_key_values=cache, use_cache=True)
            cache.batch_repeat_interleave(2)
            cache.reorder_cache(torch.arange(4, device=tokens.device).flip(0))
            cache.batch_select_indices(torch.arange(2, device=tokens.device))
            cache.layers[0].offload()
            cache.layers[0].prefetch()
            caches.append((cache, model(tokens[:, 5:8], past_key_values=cache).logits))
    for one, other in zip(caches[0][0].state, caches[1][0].state, strict=True):
        assert_same(one, other)
    assert_same(caches[0][1], caches[1][1])


@pytest.mark.parametrize("settings", [{}, {"syntactic_size": 3, "marginal": True}, {"prediction_network": False}])
@pytest.mark.parametrize("beams", [1, 3])
def test_generation_gives_the_same(settings, beams, sentences):
    here, there = both(**settings)
    batch = {name: tensor[:, :6] for name, tensor in batch_of(sentences, "left").items()}
    batch = {name: batch[name] for name in ("input_ids", "attention_mask")}
    plan = {"do_sample": False, "num_beams": beams, "min_new_tokens": 5, "max_new_tokens": 5}
    with Simulation():
        assert_same(here.generate(**batch, **plan), there.generate(**moved(batch), **plan))


@pytest.mark.parametrize("method", METHODS)
def test_scores_are_the_same(method, sentences):
    here, there = both()
    sequences = [ids for ids, _ in sentences]
    with Simulation():
        expected, found = (list(score(model, sequences, method, k=3)) for model in (here, there))
    for one, other in zip(expected, found, strict=True):
        assert other.log_probs == pytest.approx(one.log_probs, abs=1e-10) and other.depths == one.depths


def test_many_sentences_are_learnt_in_as_many_launches_as_one(sentences):
    _, there = both()
    batch = batch_of(sentences[:1], "right")
    batch["depths"] = make_model()(**batch).depths.detach()
    launches = []
    for copies in (1, 8):
        there.zero_grad()
        with Simulation() as simulation:
            there(**moved({name: tensor.repeat(copies, 1) for name, tensor in batch.items()})).loss.backward()
            launches.append((simulation.launches.total(), simulation.waits.total()))
    assert launches[0] == launches[1]


@pytest.fixture(scope="module")
def sentences_of_a_treebank() -> dict[str, torch.Tensor]:
    """64 sentences of 18 tokens on trees of the built-in treebank."""
    return bench.batch_of(bench.builtin_pool(), 64, 18)


def counted(simulation: Simulation) -> tuple[int, int, int]:
    """Launches, waits, and copies to the device that the host waits for."""
    return simulation.launches.total(), simulation.waits.total(), simulation.copies["awaited"]


@pytest.mark.parametrize("tags", [False, True], ids=["without tags", "with tags"])
@pytest.mark.parametrize(("exploring", "limits"), [(True, (1_900, 22, 0)), (False, (800, 4, 0))])
def test_a_training_step_takes_few_launches_waits_and_copies(exploring, limits, tags, sentences_of_a_treebank):
    settings = {"tree_tags": [str(tag) for tag in range(bench.TAGS)]} if tags else {}
    model = to_device(bench.som(hidden_size=16, dropout=0.3, **settings).train())
    batch = moved(bench.with_tags(sentences_of_a_treebank) if tags else sentences_of_a_treebank)
    with Simulation() as simulation:
        loss = bench.exploring(model, batch) if exploring else partial(bench.loss_of, model, batch)
        loss().backward()
        found = counted(simulation)
    assert all(count <= limit for count, limit in zip(found, limits, strict=True)), found


@torch.no_grad()
def test_a_generated_token_takes_few_launches_and_two_waits(sentences_of_a_treebank):
    ids, depths = (moved(sentences_of_a_treebank)[name] for name in ("input_ids", "depths"))
    model = to_device(bench.som(hidden_size=16).eval())
    with Simulation() as simulation:
        model.model.parser.follow(depths[:1])
        cache = model(ids[:1, :9], use_cache=True).past_key_values
        for t in range(9, 17):
            simulation.launches.clear(), simulation.waits.clear(), simulation.copies.clear()
            model(ids[:1, t : t + 1], past_key_values=cache, use_cache=True)
            launches, waits, copies = counted(simulation)
            assert launches <= 150 and waits <= 2 and copies == 0, (launches, waits, copies)
