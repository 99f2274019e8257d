"""The model as users of transformers meet it: generate, save and load, Auto classes, precisions, Trainer."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from accelerate import cpu_offload
from conftest import batch_of, make_model, pad, random_first_siblings
from torch.nn.functional import log_softmax
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    Trainer,
    TrainingArguments,
)

from configuration_som import SOMConfig
from modeling_som import SOMCache, SOMForCausalLM, SOMModel, modeling_som
from modeling_som.state_som import SOMCacheLayer
from som.data.vocabularies import make_tokenizer
from som.syntax.oracle import gold_depths

VARIANTS = {
    "eSOM": {},
    "dSOM": {"syntactic_size": 3},
    "no prediction network": {"prediction_network": False},
    "marginal": {"marginal": True},
}
MODES = {
    "greedy": {},
    "sampling": {"do_sample": True},
    "beams": {"num_beams": 4},
    "beam sampling": {"num_beams": 3, "do_sample": True},
    "several samples": {"do_sample": True, "num_return_sequences": 3},
    "several beams": {"num_beams": 4, "num_return_sequences": 3},
}
every_variant = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)


@pytest.fixture
def prompts(sentences) -> list[list[int]]:
    return [ids[:-1] for ids, _ in sentences]


def padded(prompts, side: str = "left") -> dict[str, torch.Tensor]:
    """Padded with an ordinary word, so that a model that reads it shows."""
    return {"input_ids": pad(prompts, side, 5), "attention_mask": pad([[1] * len(row) for row in prompts], side, 0)}


def generate(model, inputs, tokens: int = 8, **settings):
    torch.manual_seed(0)
    fixed = {"min_new_tokens": tokens, "max_new_tokens": tokens, "return_dict_in_generate": True}
    return model.generate(**inputs, **fixed, **{"do_sample": False, "output_scores": True, **settings})


def assert_same_state(one: SOMCache, other: SOMCache):
    for part, other_part in zip(one.state, other.state, strict=True):
        torch.testing.assert_close(part, other_part, atol=1e-10, rtol=0)


# ---------------------------------------------------------------------------------------------- generate


@pytest.mark.parametrize(
    ("variant", "mode"),
    [*(("eSOM", mode) for mode in MODES), *((variant, "several beams") for variant in [*VARIANTS][1:])],
)
def test_generating_with_the_state_is_generating_without_it(variant, mode, prompts):
    model, inputs = make_model(**VARIANTS[variant]), padded(prompts)
    cached, read_again = (generate(model, inputs, use_cache=use_cache, **MODES[mode]) for use_cache in (True, False))
    assert torch.equal(cached.sequences, read_again.sequences)
    torch.testing.assert_close(cached.scores, read_again.scores, atol=1e-6, rtol=0)
    assert isinstance(cached.past_key_values, SOMCache) and read_again.past_key_values is None


def test_beams_change_places_and_take_their_states_along(tiny, prompts, monkeypatch):
    moved, reorder = [], SOMCacheLayer.reorder_cache

    def spy(self, rows):
        moved.append(not torch.equal(rows.cpu(), torch.arange(len(rows))))
        reorder(self, rows)

    monkeypatch.setattr(SOMCacheLayer, "reorder_cache", spy)
    right = generate(tiny, padded(prompts), **MODES["several beams"])
    assert sum(moved) >= 3
    monkeypatch.setattr(SOMCacheLayer, "reorder_cache", lambda *_: None)
    wrong = generate(tiny, padded(prompts), **MODES["several beams"])
    assert not torch.equal(right.sequences, wrong.sequences)


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_prompt_is_continued_as_it_is_alone(settings, side, prompts):
    model = make_model(**settings)
    together = generate(model, padded(prompts, side))
    for row, prompt in enumerate(prompts):
        alone = generate(model, {"input_ids": torch.tensor([prompt])})
        assert torch.equal(together.sequences[row, -8:], alone.sequences[0, -8:])
        for score, score_alone in zip(together.scores, alone.scores, strict=True):
            torch.testing.assert_close(score[row], score_alone[0], atol=1e-6, rtol=0)


@every_variant
def test_generation_goes_on_from_a_returned_state(settings, prompts):
    model, inputs = make_model(**settings), padded(prompts)
    whole = generate(model, inputs)
    head = generate(model, inputs, tokens=5)
    mask = torch.cat([inputs["attention_mask"], torch.ones(len(prompts), 5, dtype=torch.long)], dim=1)
    tail = generate(
        model,
        {"input_ids": head.sequences, "attention_mask": mask, "past_key_values": head.past_key_values},
        tokens=3,
    )
    assert torch.equal(whole.sequences, tail.sequences)
    assert_same_state(whole.past_key_values, tail.past_key_values)


@pytest.mark.parametrize("mode", ["greedy", "beams"])
def test_generating_from_embeddings_is_generating_from_their_words(tiny, mode, prompts):
    inputs = padded(prompts)
    words = tiny.get_input_embeddings()(inputs["input_ids"])
    from_ids = generate(tiny, inputs, **MODES[mode])
    from_words = generate(tiny, {"inputs_embeds": words, "attention_mask": inputs["attention_mask"]}, **MODES[mode])
    assert torch.equal(from_ids.sequences[:, words.shape[1] :], from_words.sequences)
    torch.testing.assert_close(from_ids.scores, from_words.scores, atol=1e-6, rtol=0)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_prompt_can_be_read_in_chunks(tiny, size, prompts):
    whole = generate(tiny, padded(prompts))
    chunked = generate(tiny, padded(prompts), prefill_chunk_size=size)
    assert torch.equal(whole.sequences, chunked.sequences)
    assert_same_state(whole.past_key_values, chunked.past_key_values)


@every_variant
def test_a_second_pass_finds_the_decisions_taken_while_generating(settings, prompts, monkeypatch):
    model, taken, forward = make_model(**settings), [], SOMModel.forward

    def spy(self, **inputs):
        out = forward(self, **inputs)
        taken.append(out.depths)
        return out

    with monkeypatch.context() as patch:
        patch.setattr(SOMModel, "forward", spy)
        sequences = generate(model, {"input_ids": torch.tensor([prompts[0]])}).sequences
    assert torch.equal(torch.cat(taken, dim=1), model(sequences[:, :-1]).depths)


def test_cost_and_memory_of_a_token_do_not_depend_on_how_much_was_read(prompts, monkeypatch):
    model, tokens, rows, sizes = make_model(), [], [], []
    forward, cell = SOMModel.forward, modeling_som.Cell.forward

    def spy(self, **inputs):
        tokens.append(inputs["input_ids"].shape[1])
        rows.append(0)
        out = forward(self, **inputs)
        sizes.append(sum(part.numel() for part in out.past_key_values.state))
        return out

    def counted(self, a, b):
        rows[-1] += len(a)
        return cell(self, a, b)

    monkeypatch.setattr(SOMModel, "forward", spy)
    monkeypatch.setattr(modeling_som.Cell, "forward", counted)
    generate(model, {"input_ids": torch.tensor([prompts[0]])}, tokens=120)
    N, D = model.config.num_slots, model.config.hidden_size
    assert tokens == [len(prompts[0]), *[1] * 119]
    assert max(rows[1:]) <= N + 2
    assert max(sizes) <= 3 * N * D + 1
    assert max(rows[60:]) <= max(rows[1:60]) and max(sizes[60:]) <= max(sizes[:60])


def test_the_marginal_is_a_distribution_that_generation_uses(prompts):
    model, inputs = make_model(marginal=True), padded(prompts)
    out = generate(model, inputs, output_logits=True)
    for step, logits in enumerate(out.logits):
        torch.testing.assert_close(logits.exp().sum(-1), torch.ones(len(prompts)))
        read = model(out.sequences[:1, : len(prompts[0]) + step])  # the first prompt is the longest, without padding
        torch.testing.assert_close(logits[0], read.logits[0, -1].float(), atol=1e-6, rtol=0)
    model.config.marginal = False
    one_guess = generate(model, inputs, output_logits=True).logits
    assert (out.logits[0] - log_softmax(one_guess[0], dim=-1)).abs().max() > 1e-3


@pytest.mark.parametrize("side", ["left", "right"])
def test_positions_given_to_generate_change_nothing(tiny, side, prompts):
    inputs = padded(prompts, side)
    positions = (inputs["attention_mask"].cumsum(1) - 1).clamp(min=0)
    assert torch.equal(generate(tiny, inputs, position_ids=positions).sequences, generate(tiny, inputs).sequences)


def test_what_a_recurrent_state_cannot_do_is_refused(tiny, prompts):
    inputs = {"input_ids": torch.tensor([prompts[0]])}
    with pytest.raises(ValueError, match="assisted"):
        tiny.generate(**inputs, assistant_model=tiny, max_new_tokens=3)
    with pytest.raises(NotImplementedError, match="cannot be taken back"):
        tiny(**inputs, use_cache=True).past_key_values.crop(1)
    with pytest.raises(ValueError, match="past_key_values must be a SOMCache, got a DynamicCache"):
        tiny(**inputs, past_key_values=DynamicCache())


def test_a_state_can_be_offloaded_fetched_repeated_selected_and_reset(tiny, prompts):
    cache = tiny(**padded(prompts), use_cache=True).past_key_values
    layer, state = cache.layers[0], cache.state
    layer.offload()
    layer.prefetch()
    assert all(torch.equal(*parts) for parts in zip(state, cache.state, strict=True))
    cache.batch_repeat_interleave(3)
    assert torch.equal(cache.state.memory, state.memory.repeat_interleave(3, dim=0))
    cache.batch_select_indices(3 * torch.arange(len(prompts)) + 2)
    assert all(torch.equal(*parts) for parts in zip(state, cache.state, strict=True))
    cache.reset()
    assert cache.state is None and cache.get_seq_length() == 0


# ---------------------------------------------------------------------------------------------- forward


@every_variant
def test_the_logits_kept_are_those_of_the_positions_asked_for(settings, sentences):
    model, batch = make_model(**settings), batch_of(sentences, "left")
    whole = model(**batch).logits
    for keep, columns in {1: [-1], 3: [-3, -2, -1], 0: range(9), torch.tensor([2, 7]): [2, 7]}.items():
        kept = model(**batch, logits_to_keep=keep)
        torch.testing.assert_close(kept.logits, whole[:, list(columns)], atol=1e-10, rtol=0)
        assert kept.loss.isfinite()


def test_embeddings_give_what_their_words_give(tiny, sentences):
    batch = batch_of(sentences, "right")
    words = tiny.get_input_embeddings()(batch["input_ids"])
    one, other = tiny(**batch), tiny(**{**batch, "input_ids": None}, inputs_embeds=words)
    torch.testing.assert_close(one.logits, other.logits, atol=0, rtol=0)
    torch.testing.assert_close(one.loss, other.loss, atol=0, rtol=0)


def test_hidden_states_are_the_words_and_the_states_that_predict(tiny, sentences):
    ids = torch.tensor([sentences[0][0]])
    out = tiny(ids, output_hidden_states=True)
    assert len(out.hidden_states) == tiny.config.num_hidden_layers + 1
    torch.testing.assert_close(out.hidden_states[0], tiny.get_input_embeddings()(ids))
    torch.testing.assert_close(tiny.lm_head(out.hidden_states[1]), out.logits)
    assert tiny(ids).hidden_states is None


def test_a_tuple_holds_what_the_output_holds(tiny, sentences):
    batch = batch_of(sentences, "left")
    for one, other in zip(tiny(**batch).to_tuple(), tiny(**batch, return_dict=False), strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one, other)


def test_both_losses_are_sums_over_the_items_that_are_told(tiny, sentences):
    batch = batch_of(sentences, "right")
    items = sum(len(ids) - 1 for ids, _ in sentences)
    mean, told = tiny(**batch), tiny(**batch, num_items_in_batch=torch.tensor(2 * items))
    for name in ("loss", "lm_loss", "structure_loss"):
        torch.testing.assert_close(getattr(mean, name), 2 * getattr(told, name))


def test_shifted_labels_replace_labels(tiny, sentences):
    ids = torch.tensor([sentences[0][0]])
    shifted = torch.cat([ids[:, 1:], torch.tensor([[-100]])], dim=1)
    torch.testing.assert_close(
        tiny(ids, labels=torch.zeros_like(ids), shift_labels=shifted).loss, tiny(ids, labels=ids).loss
    )


def test_every_parameter_gets_a_gradient_with_and_without_trees(tiny, sentences):
    batch = batch_of(sentences, "right")
    for given in (batch, {**batch, "first_sibling": None}):
        tiny.zero_grad()
        out = tiny.train()(**given)
        out.loss.backward()
        assert [name for name, parameter in tiny.named_parameters() if parameter.grad is None] == []
    assert out.structure_loss is None and torch.equal(out.loss, out.lm_loss)


@every_variant
@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_changes_neither_loss_nor_gradients(settings, reentrant, sentences):
    model, batch = make_model(**settings, dropout=0.3), batch_of(sentences, "right")
    batch["depths"] = model(**batch).depths  # where decisions are explored, checkpointing drops other elements
    model.train()

    def learn():
        model.zero_grad()
        torch.manual_seed(0)
        loss = model(**batch).loss
        loss.backward()
        return loss.item(), {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    plain = learn()
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    assert any(getattr(module, "gradient_checkpointing", False) for module in model.modules())
    torch.testing.assert_close(learn(), plain, atol=1e-10, rtol=0)


@every_variant
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_half_precision_stays_near_full_precision(settings, dtype, sentences):
    model, batch = make_model(**settings, dtype=torch.float32), batch_of(sentences, "left")
    batch["depths"] = pad([gold_depths(siblings, 4) for _, siblings in sentences], "left", -100)
    full = model(**batch).loss
    with torch.autocast("cpu", dtype):
        autocast = model(**batch).loss
    autocast.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    model.to(dtype)
    half = model(**batch)
    assert half.logits.dtype == dtype and half.loss.dtype == torch.float32
    for loss in (autocast, half.loss):
        torch.testing.assert_close(loss, full, atol=0, rtol=0.05)
    assert generate(model, {"input_ids": batch["input_ids"][:1]}).sequences.shape == (1, 17)


@pytest.mark.slow
def test_a_compiled_model_computes_the_same(sentences):
    model, batch = make_model(oracle="static"), batch_of(sentences[1:], "left")
    compiled = torch.compile(model, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(**batch).logits, model(**batch).logits)
    model.train()(**batch).loss.backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    compiled(**batch).loss.backward()
    torch.testing.assert_close({name: parameter.grad for name, parameter in model.named_parameters()}, expected)


@pytest.mark.parametrize("export", [torch.export.export, torch.jit.trace])
def test_exporting_is_refused(tiny, export):
    with pytest.raises(NotImplementedError, match="cannot be exported: the tree decides what is computed"):
        export(tiny, (torch.tensor([[0, 3, 4]]),))


def test_a_resized_vocabulary_keeps_the_old_words_and_stays_tied(tiny, sentences):
    ids = torch.tensor([sentences[0][0]])
    with torch.no_grad():
        before = tiny(ids).logits
    tiny.resize_token_embeddings(30)
    after = tiny(ids).logits
    torch.testing.assert_close(after[..., :23], before)
    assert after.shape[-1] == tiny.config.vocab_size == 30
    assert tiny.lm_head.weight is tiny.get_input_embeddings().weight
    assert tiny.lm_head.bias[23:].abs().max() == 0
    tiny(torch.tensor([[0, 29]]), labels=torch.tensor([[0, 29]])).loss.backward()


def test_the_output_layer_is_tied_unless_asked_otherwise():
    tied, untied = make_model(), make_model(tie_word_embeddings=False)
    assert tied.lm_head.weight is tied.model.embed_tokens.weight
    assert untied.lm_head.weight is not untied.model.embed_tokens.weight


# ---------------------------------------------------------------------------------------------- save and load

SENTENCES = ["the cat sees the dog", "the dog sees the cat", "a dog sees a cat"]
CLEAN = """
import importlib.abc, json, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in {"som", "modeling_som", "configuration_som", "tokenization_som"}:
            raise ModuleNotFoundError(f"{name} is not installed")

sys.meta_path.insert(0, Blocked())
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer, pipeline

folder, ids, again = sys.argv[1], torch.tensor([json.loads(sys.argv[2])]), sys.argv[3]
config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
base = AutoModel.from_pretrained(folder, trust_remote_code=True)
pipe = pipeline("text-generation", folder, trust_remote_code=True)
(generated,) = pipe("the cat", do_sample=False, min_new_tokens=5, max_new_tokens=5, return_tensors=True)
model.save_pretrained(again)
saved_again = AutoModelForCausalLM.from_pretrained(again, trust_remote_code=True)
out = model(ids)
print(json.dumps({
    "classes": [type(thing).__name__ for thing in (config, model, base, pipe.model, pipe.tokenizer)],
    "modules": sorted({type(thing).__module__.split(".")[0] for thing in (config, model, base, pipe.model)}),
    "logits": out.logits.tolist(), "depths": out.depths.tolist(), **generated,
    "same states": torch.equal(base(ids).last_hidden_state, model.model(ids).last_hidden_state),
    "same after saving again": torch.equal(saved_again(ids).logits, out.logits),
}))
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """A model and its tokenizer, saved."""
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = make_tokenizer("word", [sentence.split() for sentence in SENTENCES])
    specials = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    make_model(dtype=torch.float32, vocab_size=len(tokenizer), **specials).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_checkpoint_is_safetensors_and_carries_its_code(checkpoint):
    names = {path.name for path in checkpoint.iterdir()}
    assert {"model.safetensors", "config.json", "generation_config.json"} < names
    assert {"modeling_som.py", "configuration_som.py", "tokenization_som.py"} < names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl"))]
    assert json.loads((checkpoint / "config.json").read_text())["auto_map"] == {
        "AutoConfig": "configuration_som.SOMConfig",
        "AutoModel": "modeling_som.SOMModel",
        "AutoModelForCausalLM": "modeling_som.SOMForCausalLM",
    }


def test_a_process_without_the_project_loads_reads_and_generates_the_same(checkpoint, tmp_path):
    model = SOMForCausalLM.from_pretrained(checkpoint)
    ids = [model.config.bos_token_id, 5, 6, 7, 5]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", CLEAN, str(checkpoint), json.dumps(ids), str(tmp_path / "again")]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["classes"] == ["SOMConfig", "SOMForCausalLM", "SOMModel", "SOMForCausalLM", "SOMTokenizer"]
    assert found["modules"] == ["transformers_modules"]
    assert found["same states"] and found["same after saving again"]
    prompt = AutoTokenizer.from_pretrained(checkpoint)("the cat", return_tensors="pt")
    assert found["generated_token_ids"] == generate(model, prompt, tokens=5).sequences[0].tolist()
    out = model(torch.tensor([ids]))
    assert found["depths"] == out.depths.tolist()
    torch.testing.assert_close(torch.tensor(found["logits"]), out.logits)


def test_with_the_package_imported_no_remote_code_is_needed(checkpoint):
    assert type(AutoConfig.from_pretrained(checkpoint)) is SOMConfig
    assert type(AutoModel.from_pretrained(checkpoint)) is SOMModel
    model = AutoModelForCausalLM.from_pretrained(checkpoint)
    assert type(model) is SOMForCausalLM
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_a_base_model_saves_what_the_auto_classes_load(checkpoint, tmp_path):
    base = SOMModel.from_pretrained(checkpoint)
    base.save_pretrained(tmp_path)
    assert set(json.loads((tmp_path / "config.json").read_text())["auto_map"]) > {"AutoModel", "AutoModelForCausalLM"}
    ids = torch.tensor([[1, 5, 6, 7]])
    again = AutoModel.from_pretrained(tmp_path)
    torch.testing.assert_close(again(ids).last_hidden_state, base(ids).last_hidden_state)


@pytest.mark.parametrize("offloaded", ["cpu", "disk"])
def test_parts_of_a_model_can_be_offloaded(checkpoint, offloaded, tmp_path):
    whole = SOMForCausalLM.from_pretrained(checkpoint)
    places = {"model.cell": offloaded, "model.predict_cell": offloaded}
    rest = ["model.embed_tokens", "model.norm", "model.parser", "model.next_parser", "lm_head"]
    device_map = {**places, **dict.fromkeys(rest, "cpu")}
    split = SOMForCausalLM.from_pretrained(checkpoint, device_map=device_map, offload_folder=tmp_path)
    ids = torch.tensor([[1, 5, 6, 7]])
    torch.testing.assert_close(split(ids).logits, whole(ids).logits)


def test_whatever_hangs_on_the_output_layer_is_called_with_labels_too(checkpoint):
    ids = torch.tensor([[1, 5, 6, 7]])
    whole, offloaded, hooked, bare = (SOMForCausalLM.from_pretrained(checkpoint) for _ in range(4))
    loss = whole(ids, labels=ids).loss
    cpu_offload(offloaded, torch.device("cpu"))
    torch.testing.assert_close(offloaded(ids, labels=ids).loss, loss)
    hooked.lm_head.register_forward_hook(lambda _layer, _inputs, output: output * 0)
    assert (hooked(ids, labels=ids).logits == 0).all()
    bare.set_output_embeddings(torch.nn.Linear(*reversed(whole.lm_head.weight.shape), bias=False))
    assert bare(ids, labels=ids).loss.isfinite()


# ---------------------------------------------------------------------------------------------- training


def rows_of(sentences) -> list[dict[str, list[int]]]:
    return [{"input_ids": ids, "labels": ids, "first_sibling": siblings} for ids, siblings in sentences]


def collate(rows) -> dict[str, torch.Tensor]:
    return batch_of([(row["input_ids"], row["first_sibling"]) for row in rows], "right")


def random_sentences(count: int, rng: random.Random) -> list[tuple[list[int], list[int]]]:
    """Sentences whose first words differ."""
    lengths = [rng.randint(5, 9) for _ in range(count)]
    words = [[rng.randrange(3, 23) for _ in range(length - 3)] for length in lengths]
    trees = [random_first_siblings(length, rng) for length in lengths]
    return [([0, first + 3, *rest, 1], tree) for first, (rest, tree) in enumerate(zip(words, trees, strict=True))]


def train(model, folder, data, batch_size: int, **settings) -> Trainer:
    silent = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "logging_strategy": "no"}
    args = TrainingArguments(folder, per_device_train_batch_size=batch_size, **{**silent, **settings})
    trainer = Trainer(model, args, train_dataset=data, eval_dataset=data, data_collator=collate)
    trainer.train(resume_from_checkpoint=settings.get("resume_from_checkpoint"))
    return trainer


def test_the_stock_trainer_trains_evaluates_saves_and_resumes(tmp_path):
    data = rows_of(random_sentences(8, random.Random(3)))
    plan = {"max_steps": 4, "eval_strategy": "steps", "eval_steps": 2, "save_steps": 2, "learning_rate": 1e-2}
    trainer = train(make_model(dtype=torch.float32), tmp_path, data, 4, **plan)
    losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert len(losses) == 2 and losses[1] < losses[0]
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint-4")
    torch.testing.assert_close(dict(saved.named_parameters()), dict(trainer.model.named_parameters()))
    assert (tmp_path / "checkpoint-4" / "modeling_som.py").exists()
    resumed = train(make_model(dtype=torch.float32), tmp_path, data, 4, **plan, resume_from_checkpoint=str(
        tmp_path / "checkpoint-2"
    ))  # fmt: skip
    torch.testing.assert_close(dict(saved.named_parameters()), dict(resumed.model.named_parameters()))


def test_accumulating_four_batches_of_two_is_one_batch_of_eight(tmp_path):
    data = rows_of(random_sentences(8, random.Random(4)))
    plan = {"max_steps": 2, "learning_rate": 0.1, "optim": "sgd", "save_strategy": "no", "max_grad_norm": 0.0}
    exact = {"oracle": "static"}  # training follows the gold trees: nothing is drawn
    models = [make_model(**exact), make_model(**exact), make_model(**exact)]
    for model, (size, accumulate) in zip(models, [(8, 1), (2, 4), (1, 8)], strict=True):
        train(model, tmp_path, data, size, gradient_accumulation_steps=accumulate, **plan)
    one, *others = (dict(model.named_parameters()) for model in models)
    assert not torch.equal(one["lm_head.bias"], make_model(**exact).lm_head.bias)
    for other in others:
        torch.testing.assert_close(one, other, atol=1e-8, rtol=0)


def one_batch_trainer(folder, sentences, **settings) -> Trainer:
    args = TrainingArguments(folder, report_to=[], disable_tqdm=True, use_cpu=True, **settings.pop("args", {}))
    return Trainer(make_model(), args, data_collator=collate, eval_dataset=rows_of(sentences), **settings)


def test_metrics_get_the_logits_alone(tmp_path, sentences):
    seen = []

    def metrics(prediction) -> dict[str, float]:
        seen.append(prediction.predictions)
        return {}

    trainer = one_batch_trainer(tmp_path, sentences, compute_metrics=metrics)
    trainer.evaluate()
    torch.testing.assert_close(torch.tensor(seen[0]), trainer.model(**collate(rows_of(sentences))).logits.detach())


@pytest.mark.parametrize("side", ["left", "right"])
def test_label_smoothing_compares_predictions_with_the_next_words_and_says_what_it_leaves_out(
    tmp_path, sentences, side, monkeypatch
):
    warnings: list[str] = []
    monkeypatch.setattr(modeling_som.logger, "warning_once", warnings.append)
    trainer = one_batch_trainer(tmp_path, sentences, args={"label_smoothing_factor": 0.1})
    batch, items = batch_of(sentences, side), torch.tensor(sum(len(ids) - 1 for ids, _ in sentences))
    model = trainer.model.eval()
    log_probs = log_softmax(model(**batch).logits[:, :-1], dim=-1)
    targets = batch["labels"][:, 1:].masked_fill(batch["attention_mask"][:, :-1] == 0, -100)
    log_probs, targets = log_probs[targets != -100], targets[targets != -100]
    expected = -(0.9 * log_probs[range(len(targets)), targets] + 0.1 * log_probs.mean(dim=1)).sum() / items
    batch["labels"] = batch["labels"].where(batch["labels"] != 0, -100)  # nothing predicts BOS
    torch.testing.assert_close(trainer.compute_loss(model, dict(batch), num_items_in_batch=items), expected)
    assert warnings == []
    trainer.compute_loss(model.train(), dict(batch), num_items_in_batch=items).backward()
    assert warnings == ["label smoothing leaves out the structure loss, and so may your compute_loss_func"]


def test_ten_sentences_are_learnt_by_heart_trees_included():
    sentences = random_sentences(10, random.Random(5))
    batch = batch_of(sentences, "right")
    batch["labels"][:, 1] = -100  # which of the ten it is, nobody can know before the first word
    torch.manual_seed(0)
    settings = {"vocab_size": 23, "hidden_size": 64, "num_slots": 8}
    model = SOMForCausalLM(SOMConfig(**settings, dropout=0.0, embedding_dropout=0.0, output_dropout=0.0)).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    with torch.no_grad():
        out = model.eval()(**batch)
    assert out.lm_loss < 0.02 and out.structure_loss < 0.02
    gold = pad([gold_depths(siblings, 8) for _, siblings in sentences], "right", -100)
    assert torch.equal(out.depths, gold)  # every decision, so every bracket
