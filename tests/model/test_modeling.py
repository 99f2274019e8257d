"""The model against its definition: the dense reference, the plain oracle, itself cut, padded and continued."""

import random

import pytest
import reference
import torch
import torch.nn.functional as F
from conftest import batch_of, make_model, pad, random_first_siblings
from trees_enumerated import all_depths, all_trees

from configuration_som import SOMConfig
from modeling_som import SOMForCausalLM, modeling_som, operators_som
from modeling_som.modeling_som import oracle_depths
from modeling_som.operators_som import NextWords, linear
from som.data.datasets import token_siblings
from som.syntax.oracle import ORACLES, first_siblings, gold_depths, oracle_labels

SWITCHES = {
    "eSOM": {},
    "dSOM": {"syntactic_size": 3},
    "no prediction network": {"prediction_network": False},
    "dSOM without prediction network": {"prediction_network": False, "syntactic_size": 3},
    "no LM loss": {"lm_loss_weight": 0.0},
    "weighted losses": {"lm_loss_weight": 0.5, "structure_loss_weight": 2.0},
    "next attachment from the oracle": {"next_attachment": "oracle"},
    "next attachment marginal": {"next_attachment": "marginal"},
    "dSOM, marginal": {"next_attachment": "marginal", "marginal": True, "syntactic_size": 3},
    "marginal in evaluation": {"marginal": True},
    "static oracle": {"oracle": "static"},
    "printed oracle": {"oracle": "dynamic_paper"},
    "left-branching oracle": {"oracle": "left_branching"},
    "one slot": {"num_slots": 1},
    "many slots": {"num_slots": 12},
    "word pieces": {"word_pieces": True},
    "word pieces, next attachment from the oracle": {"word_pieces": True, "next_attachment": "oracle"},
    "word pieces, marginal, dSOM": {"word_pieces": True, "next_attachment": "marginal", "syntactic_size": 3},
    "word pieces, few slots": {"word_pieces": True, "num_slots": 2, "marginal": True},
}


RESUMED = ["eSOM", "dSOM", "no prediction network", "marginal in evaluation", "one slot", "word pieces"]
RESUMED += ["word pieces, few slots"]


def for_model(model, sentences):
    """The sentences, with some words in pieces where the model knows pieces."""
    if not model.config.word_pieces:
        return sentences
    rng, pieces = random.Random(2), model.model.continues.nonzero().flatten().tolist()
    split = []
    for ids, siblings in sentences:
        whole = [3 if token in pieces else token for token in ids]
        words = [[word, *rng.choices(pieces, k=rng.choice([0, 0, 1, 2]))] for word in whole[1:-1]]
        of_words = [sibling - 1 for sibling in siblings[1:-1]]
        tokens = [ids[0], *(piece for word in words for piece in word), ids[-1]]
        split.append((tokens, token_siblings(of_words, [*map(len, words)])))
    return split


def guesses_of(model, out, depths, seen_guesses, given) -> list[int | None]:
    """What each prediction was conditioned on, None for the mixture."""
    marginal = model.config.next_attachment == "marginal" if model.training else model.config.marginal
    if marginal and not given:
        return [None] * len(depths)
    return seen_guesses


def dense(model, batch, out, guesses, given=False):
    """The reference's fields, summed losses per token, for the decisions that the model took."""
    rows, total = [], {"lm": 0.0, "structure": 0.0, "words": 0, "decisions": 0}
    start = 0
    for b, mask in enumerate(batch["attention_mask"].bool()):
        ids, siblings = batch["input_ids"][b, mask].tolist(), batch["first_sibling"][b, mask].tolist()
        depths = out.depths[b, mask].tolist()
        chosen = guesses[start : start + len(ids)]
        row = reference.forward(
            model, ids, siblings, lambda t, _, depths=depths: depths[t] - 1,
            guesses_of(model, out, depths, chosen, given),
        )  # fmt: skip
        rows.append(row)
        total = {key: total[key] + row[key] for key in total}
        start += len(ids)
    return rows, total


def gradients(model, loss):
    model.zero_grad()
    loss.backward(retain_graph=True)
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


@pytest.fixture
def guesses(monkeypatch):
    """Records the guesses of p' that a pass takes."""
    seen = []
    original = modeling_som.SOMModel.guess

    def spy(self, *args):
        seen[:] = original(self, *args).tolist()
        return torch.tensor(seen)

    monkeypatch.setattr(modeling_som.SOMModel, "guess", spy)
    return seen


def assert_equals_dense(model, batch, out, guesses, given=False):
    rows, total = dense(model, batch, out, guesses or [0] * 99, given)
    for b, (row, mask) in enumerate(zip(rows, batch["attention_mask"].bool(), strict=True)):
        for name in ("logits", "attach_logits", "next_attach_logits"):
            if row[name] is None:
                assert getattr(out, name) is None
            else:
                torch.testing.assert_close(getattr(out, name)[b, mask], row[name], atol=1e-10, rtol=0)
        assert out.oracle_depths[b, mask].tolist() == row["oracle_depths"]
    lm, structure = total["lm"] / total["words"], total["structure"] / total["decisions"]
    loss = model.config.lm_loss_weight * lm + model.config.structure_loss_weight * structure
    torch.testing.assert_close(out.lm_loss, lm, atol=1e-10, rtol=0)
    torch.testing.assert_close(out.structure_loss, structure, atol=1e-10, rtol=0)
    torch.testing.assert_close(out.loss, loss, atol=1e-10, rtol=0)
    torch.testing.assert_close(gradients(model, out.loss), gradients(model, loss), atol=1e-9, rtol=0)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("mode", ["train", "eval", "given"])
@pytest.mark.parametrize("switch", SWITCHES)
def test_the_model_equals_the_dense_reference_gradients_included(switch, mode, side, sentences, guesses):
    model = make_model(**SWITCHES[switch]).train(mode == "train")
    sentences = for_model(model, sentences)
    batch = batch_of(sentences, side)
    if mode == "given":
        gold = [gold_depths(siblings, model.config.num_slots) for _, siblings in sentences]
        batch["depths"] = pad(gold, side, -100)
    out = model(**batch)
    given = mode == "given" or (mode == "train" and model.config.oracle == "static")
    assert_equals_dense(model, batch, out, guesses, given)


def test_exploring_without_gradient_gives_what_learning_gives(sentences):
    for switch, settings in SWITCHES.items():
        model = make_model(**settings)
        batch = batch_of(for_model(model, sentences), "left")
        out = model(**batch)
        with torch.no_grad():
            explored = model(**batch)
        assert torch.equal(out.depths, explored.depths), switch
        for name in ("logits", "attach_logits", "loss"):
            torch.testing.assert_close(getattr(out, name), getattr(explored, name), atol=1e-10, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"next_attachment": "marginal"}, {"word_pieces": True}])
def test_forests_composed_at_once_are_those_of_single_cells_dropout_and_gradients_included(
    settings, sentences, monkeypatch
):
    model = make_model(dropout=0.3, **settings).train()
    batch = batch_of(for_model(model, sentences), "left")
    batch["depths"] = model.eval()(**batch).depths
    found = []
    for bare in (True, False):
        if not bare:
            monkeypatch.setattr(modeling_som.Cell, "is_bare", lambda _: False)
        torch.manual_seed(0)  # the same elements are dropped
        out = model.train()(**batch)
        found.append((out.logits, out.loss, gradients(model, out.loss)))
    torch.testing.assert_close(*found, atol=1e-10, rtol=0)


def test_what_exploring_computed_has_the_gradients_of_its_own_dropout(sentences):
    """Drawn alike, a step's loss changes as its gradient says when all weights are moved a little."""
    model, batch = make_model(dropout=0.3).train(), batch_of(sentences, "right")

    def run():
        torch.manual_seed(0)
        return model(**batch)

    out = run()
    found = gradients(model, out.loss)
    ways = {name: torch.randn_like(parameter) for name, parameter in model.named_parameters()}
    expected = sum((found[name] * way).sum() for name, way in ways.items())
    losses, size = [], 1e-6
    for sign in (1, -2):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.add_(ways[name], alpha=sign * size)
        moved = run()
        assert torch.equal(moved.depths, out.depths)
        losses.append(moved.loss)
    torch.testing.assert_close((losses[0] - losses[1]) / (2 * size), expected, atol=1e-6, rtol=1e-6)


def test_greedy_decisions_are_the_most_probable_and_sampled_ones_follow_p(tiny, sentences):
    ids = torch.tensor([sentences[0][0]])
    out = tiny(ids)
    assert torch.equal(out.attach_logits[:, 1:].argmax(-1) + 1, out.depths[:, 1:])
    tiny.train()
    torch.manual_seed(0)
    seconds = tiny(ids[:, :3].repeat(4000, 1)).depths[:, 2]
    torch.testing.assert_close(
        (seconds == 1).double().mean(), out.attach_logits[0, 2].softmax(0)[0].detach(), atol=0.03, rtol=0
    )


def cell_rows(model, monkeypatch) -> list[int]:
    """Collects the rows of every level that a cell composes with gradients."""
    rows: list[int] = []
    compose = modeling_som.SOMModel.compose

    def counted(self, cell, known, children, sizes, *composed):
        rows.extend(sizes if torch.is_grad_enabled() else [])
        return compose(self, cell, known, children, sizes, *composed)

    monkeypatch.setattr(modeling_som.SOMModel, "compose", counted)
    return rows


@pytest.mark.parametrize("oracle", ORACLES)
def test_the_pass_with_gradients_computes_only_live_slots_and_two_rows_a_token(oracle, sentences, monkeypatch):
    model, batch = make_model(oracle=oracle, num_slots=12).train(), batch_of(sentences, "right")
    rows = cell_rows(model, monkeypatch)
    depths = model(**batch).depths
    real = depths[depths != -100]
    assert 0 < sum(rows) <= real.sum() + 2 * len(real)


def test_the_number_of_slots_changes_neither_cost_nor_result(sentences, monkeypatch):
    small, large = make_model(num_slots=15), make_model(num_slots=60)
    large.load_state_dict(small.state_dict())
    batch, rows = batch_of(sentences, "left"), cell_rows(small, monkeypatch)
    one = small(**batch)
    rows_of_small, rows[:] = list(rows), []
    two = large(**batch)
    assert rows == rows_of_small
    torch.testing.assert_close(one.logits, two.logits)


@pytest.mark.parametrize("switch", RESUMED)
@pytest.mark.parametrize("cut", range(1, 9))
def test_stopping_and_resuming_changes_nothing(switch, cut, sentences):
    model = make_model(**SWITCHES[switch])
    batch = batch_of(for_model(model, sentences), "left")
    ids, mask = batch["input_ids"], batch["attention_mask"]
    whole = model(ids, attention_mask=mask)
    head = model(ids[:, :cut], attention_mask=mask[:, :cut], use_cache=True)
    tail = model(ids[:, cut:], attention_mask=mask, past_key_values=head.past_key_values)
    for name in ("logits", "depths", "attach_logits"):
        joined = torch.cat([getattr(head, name), getattr(tail, name)], dim=1)
        torch.testing.assert_close(joined, getattr(whole, name), atol=1e-10, rtol=0)
    assert tail.past_key_values.get_seq_length() == ids.shape[1]


@pytest.mark.parametrize("switch", RESUMED)
def test_reading_token_by_token_changes_nothing(switch, sentences):
    model = make_model(**SWITCHES[switch])
    row, _ = for_model(model, sentences)[0]
    ids = torch.tensor([row, row[::-1]])
    with torch.no_grad():
        whole, cache, steps = model(ids, use_cache=True), None, []
        for t in range(ids.shape[1]):
            steps.append(model(ids[:, t : t + 1], past_key_values=cache, use_cache=True))
            cache = steps[-1].past_key_values
    for name in ("logits", "depths", "attach_logits", "next_attach_logits"):
        if getattr(whole, name) is not None:
            joined = torch.cat([getattr(step, name) for step in steps], dim=1)
            torch.testing.assert_close(joined, getattr(whole, name), atol=1e-10, rtol=0)
    for stepped, read in zip(cache.state, whole.past_key_values.state, strict=True):
        assert stepped.shape == read.shape


def test_gradients_flow_through_a_resumed_state(tiny, sentences):
    ids = torch.tensor([sentences[0][0]])
    whole = gradients(tiny, tiny(ids).logits[:, 5:].square().sum())
    head = tiny(ids[:, :5], use_cache=True)
    tail = tiny(ids[:, 5:], past_key_values=head.past_key_values)
    torch.testing.assert_close(gradients(tiny, tail.logits.square().sum()), whole, atol=1e-9, rtol=0)


@pytest.mark.parametrize("switch", ["eSOM", "dSOM", "no prediction network", "marginal in evaluation"])
@pytest.mark.parametrize("side", ["left", "right", "holes"])
def test_a_padded_row_gives_what_it_gives_alone(switch, side, sentences):
    model = make_model(**SWITCHES[switch])
    batch = batch_of(sentences, "left" if side == "left" else "right")
    ids, mask = batch["input_ids"], batch["attention_mask"]
    if side == "holes":
        ids = torch.stack([ids, torch.full_like(ids, 5)], dim=2).flatten(1)
        mask = torch.stack([mask, torch.zeros_like(mask)], dim=2).flatten(1)
    out = model(ids, attention_mask=mask)
    for b, (row, _) in enumerate(sentences):
        alone = model(torch.tensor([row]))
        real = mask[b].bool()
        for name in ("logits", "depths", "attach_logits"):
            torch.testing.assert_close(getattr(out, name)[b, real], getattr(alone, name)[0], atol=1e-10, rtol=0)
        last = int(real.nonzero().max())
        for name in ("depths", "attach_logits"):
            assert (getattr(out, name)[b, ~real] == -100).all()
        assert (out.logits[b, last + 1 :] == -100).all()
        if side == "left":
            assert (out.logits[b, ~real] == -100).all()
        if side == "holes":  # the prediction stays as it was
            torch.testing.assert_close(out.logits[b, 1:last:2], out.logits[b, 0 : last - 1 : 2])


@pytest.mark.parametrize("switch", ["eSOM", "no prediction network", "marginal in evaluation"])
@pytest.mark.parametrize("gradients", [True, False])
def test_reading_nothing_but_padding_changes_nothing(switch, gradients, sentences):
    model, ids = make_model(**SWITCHES[switch]), torch.tensor([sentences[0][0]])
    nothing = torch.zeros(1, 3, dtype=torch.long)
    with torch.set_grad_enabled(gradients):
        head = model(torch.full_like(nothing, 5), attention_mask=nothing, use_cache=True)
        mask = torch.cat([nothing, torch.ones_like(ids)], dim=1)
        tail = model(ids, attention_mask=mask, past_key_values=head.past_key_values)
        torch.testing.assert_close(tail.logits, model(ids).logits, atol=1e-10, rtol=0)
    assert (head.logits == -100).all() and (head.depths == -100).all()


@pytest.mark.parametrize("oracle", ["dynamic", "dynamic_paper", "left_branching"])
def test_every_label_is_reachable_where_some_tokens_have_none(oracle, sentences):
    model, batch = make_model(oracle=oracle).train(), batch_of(sentences, "right")
    batch["first_sibling"][:, ::2] = -100
    out = model(**batch)
    unlabelled = batch["first_sibling"] == -100
    before = torch.nn.functional.pad(out.depths, (1, 0), value=-1)[:, :-1]
    assert (out.oracle_depths[unlabelled] == -100).all()
    assert (out.oracle_depths >= 1)[~unlabelled].all() and (out.oracle_depths <= before + 1)[~unlabelled].all()


def test_numbers_may_be_of_32_bits(tiny, sentences):
    batch = batch_of(sentences, "left")
    batch["depths"] = tiny(**batch).depths
    torch.testing.assert_close(tiny(**{name: value.int() for name, value in batch.items()}).loss, tiny(**batch).loss)


def test_changing_a_later_token_changes_no_earlier_output(tiny, sentences):
    ids = torch.tensor([sentences[0][0]])
    out = tiny(ids)
    for t in range(1, ids.shape[1]):
        changed = ids.clone()
        changed[0, t] = (changed[0, t] + 7) % 23
        other = tiny(changed)
        torch.testing.assert_close(out.logits[:, :t], other.logits[:, :t], atol=1e-12, rtol=0)
        assert torch.equal(out.depths[:, :t], other.depths[:, :t])
        assert not torch.equal(out.logits[:, t], other.logits[:, t])


@pytest.mark.parametrize("oracle", ["dynamic", "dynamic_paper", "left_branching"])
@pytest.mark.parametrize("num_slots", [2, 15])
def test_the_tensor_oracle_is_the_plain_one_in_every_state_of_every_small_tree(oracle, num_slots):
    for tree in all_trees(max_leaves=5):
        siblings = first_siblings(tree)
        states = torch.tensor(list(all_depths(len(siblings), num_slots)))
        labels = torch.tensor([siblings]).expand_as(states)
        if oracle == "left_branching":
            labels = torch.tensor([[-1, 0, *[1] * (len(siblings) - 3), 0][: len(siblings)]]).expand_as(states)
        found = oracle_depths(labels, states, num_slots, printed=oracle == "dynamic_paper")
        assert found.tolist() == [oracle_labels(oracle, siblings, d, num_slots) for d in states.tolist()]


def test_gold_depths_are_the_plain_ones_and_all_oracles_agree_on_them():
    rng = random.Random(0)
    for _ in range(50):
        siblings = random_first_siblings(rng.randint(3, 20), rng)
        gold = oracle_depths(torch.tensor([siblings]), None, 6)
        assert gold.tolist() == [gold_depths(siblings, 6)]
        for printed in (False, True):
            assert torch.equal(oracle_depths(torch.tensor([siblings]), gold, 6, printed), gold)


@pytest.mark.parametrize(
    ("vocab_size", "hidden_size", "millions"), [(23_815, 400, 17.7), (50_257, 500, 37.9)], ids=["PTB", "BLLIP-MD"]
)
def test_parameter_counts_are_the_papers(vocab_size, hidden_size, millions):
    def count(**settings):
        with torch.device("meta"):
            model = SOMForCausalLM(SOMConfig(vocab_size=vocab_size, hidden_size=hidden_size, **settings))
        return sum(p.numel() for p in model.parameters())

    assert round(count() / 1e6, 1) == millions
    assert round((count() - count(syntactic_size=100)) / 1e6, 2) == {400: 1.44, 500: 1.92}[hidden_size]


def test_the_structure_loss_sends_no_gradient_into_semantic_segments(sentences):
    model = make_model(syntactic_size=3).train()
    found = gradients(model, model(**batch_of(sentences, "right")).structure_loss)
    for name, gradient in found.items():
        if ".semantic." in name or name.startswith("lm_head.bias"):
            assert gradient.abs().max() == 0, name
        if ".syntactic." in name and "predict_cell" not in name:
            assert gradient.abs().max() > 0, name
    assert found["model.embed_tokens.weight"][:, :5].abs().max() == 0
    assert found["model.embed_tokens.weight"][:, 5:].abs().max() > 0


def test_syntactic_segments_do_not_read_semantic_ones(sentences):
    model = make_model(syntactic_size=3)
    ids = torch.tensor([sentences[0][0]])
    depths = torch.tensor([gold_depths(sentences[0][1], 4)])
    states = model(ids, depths=depths, use_cache=True).past_key_values.state
    with torch.no_grad():
        model.model.embed_tokens.weight[:, :5] += 1.0
    others = model(ids, depths=depths, use_cache=True).past_key_values.state
    assert torch.equal(states.candidates[..., 5:], others.candidates[..., 5:])
    assert not torch.equal(states.candidates[..., :5], others.candidates[..., :5])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("switch", ["eSOM", "dSOM", "no prediction network", "next attachment marginal"])
def test_every_pass_runs_under_autocast(switch, dtype, sentences):
    model, batch = make_model(dtype=torch.float32, **SWITCHES[switch]), batch_of(sentences, "left")
    exact = model(**batch).loss.detach()
    with torch.autocast("cpu", dtype=dtype):
        model.train()(**batch).loss.backward()
        with torch.no_grad():
            loss = model.eval()(**batch).loss
            head = model(batch["input_ids"][:, :-1], use_cache=True)
            model(batch["input_ids"][:, -1:], past_key_values=head.past_key_values)
    torch.testing.assert_close(loss, exact, atol=0.1, rtol=0.05)


def test_embedding_dropout_zeroes_whole_word_types(sentences):
    model = make_model(embedding_dropout=0.5).train()
    ids = torch.arange(23).repeat(2, 3)
    words = model.model.embed(ids).view(2, 3, 23, 8)
    dropped = words.eq(0).all(-1)
    assert 0 < dropped.sum() < dropped.numel()
    assert torch.equal(dropped, dropped[:1, :1].expand_as(dropped))
    kept = ~dropped[0, 0]
    torch.testing.assert_close(words[0, 0, kept], 2 * model.model.embed_tokens.weight[kept])


def test_every_linear_map_reads_through_dropout(sentences, monkeypatch):
    """With a rate of almost 1 every linear map sees (almost) only zeros, and its output is its bias."""
    model = make_model(dropout=0.999999, output_dropout=0.999999).train()
    inputs: dict[str, float] = {}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(
                lambda _m, args, _out, name=name: inputs.update({name: args[0].abs().max().item()})
            )
    model(**batch_of(sentences, "right"))
    assert len(inputs) == sum(isinstance(m, torch.nn.Linear) for m in model.modules())
    assert set(inputs.values()) == {0.0}


def test_deeper_trees_than_slots_are_clamped(sentences):
    deep = torch.tensor([[-1, 0, 1, 2, 3, 4, 5, 0]])
    model = make_model(oracle="static", num_slots=3).train()
    out = model(torch.arange(8)[None], labels=torch.arange(8)[None], first_sibling=deep)
    assert out.depths.tolist() == out.oracle_depths.tolist() == [[0, 1, 2, 3, 3, 3, 3, 1]]


def bad(message, ids=((0, 3, 4, 1),), **arguments):
    return pytest.param(torch.tensor(ids), arguments, message, id=message)


@pytest.mark.parametrize(
    ("ids", "arguments", "message"),
    [
        bad("input_ids must be in 0…22", ids=((0, 23, 4, 1),)),
        bad("input_ids must be in 0…22: not so in row 0, column 2", ids=((0, 3, -1, 1),)),
        bad("at least one token", ids=((),)),
        bad("first_sibling must point at an earlier", first_sibling=torch.tensor([[-1, 0, 2, 0]])),
        bad("row 0, column 3", first_sibling=torch.tensor([[-1, 0, 1, 7]])),
        bad("row 0, column 1", first_sibling=torch.tensor([[-1, -1, 1, 0]])),
        bad("row 0, column 0", first_sibling=torch.tensor([[0, 0, 1, 0]])),
        bad("first_sibling must have the tokens' shape", first_sibling=torch.tensor([[-1, 0, 1]])),
        bad("depths must start at 0", depths=torch.tensor([[1, 1, 1, 1]])),
        bad("depths must start at 0 and then be in 1…min(depth before + 1, 4)", depths=torch.tensor([[0, 1, 3, 1]])),
        bad("row 0, column 2", depths=torch.tensor([[0, 1, 0, 1]])),
        bad("depths must have the tokens' shape", depths=torch.tensor([0, 1, 1, 1])),
        bad("labels must have the tokens' shape (1, 4), got (1, 3)", labels=torch.tensor([[0, 1, 1]])),
        bad("labels must be in 0…22, or -100 for none", labels=torch.tensor([[0, 3, 4, 23]])),
        bad("for none: not so in row 0, column 1", labels=torch.tensor([[0, -1, 4, 1]])),
        bad("attention_mask must cover", attention_mask=torch.tensor([[1, 1]])),
        bad("position_ids must increase along a row", position_ids=torch.tensor([[0, 1, 0, 1]])),
        bad("not so in row 0, column 3", position_ids=torch.tensor([[0, 1, 2, 2]])),
        bad("not so in row 0, column 0", position_ids=torch.tensor([-1, 0, 1, 2])),
        bad("position_ids must have the tokens' shape (1, 4), got (1, 3)", position_ids=torch.tensor([[0, 1, 2]])),
        bad("exactly one of", inputs_embeds=torch.zeros(1, 4, 8)),
    ],
)
def test_bad_input_is_refused_in_one_sentence_before_any_work(tiny, monkeypatch, ids, arguments, message):
    monkeypatch.setattr(modeling_som.SOMModel, "embed", lambda *_: pytest.fail("work was done"))
    with pytest.raises(ValueError, match=".*") as error:
        tiny(ids, **arguments)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_given_depths_must_be_reachable_from_the_state(tiny):
    head = tiny(torch.tensor([[0, 3]]), use_cache=True)
    with pytest.raises(ValueError, match="depths must start at 0"):
        tiny(torch.tensor([[4]]), depths=torch.tensor([[3]]), past_key_values=head.past_key_values)


def test_positions_that_only_count_tokens_are_accepted(tiny, sentences):
    ids = torch.tensor([sentences[0][0]])
    with torch.no_grad():
        whole = tiny(ids, position_ids=torch.arange(9)[None] + 3).logits
        head = tiny(ids[:, :4], position_ids=torch.arange(4), use_cache=True)
        with pytest.raises(ValueError, match="position_ids must increase along a row.*row 0, column 0"):
            tiny(ids[:, 4:], position_ids=torch.arange(5)[None], past_key_values=head.past_key_values)
        tail = tiny(ids[:, 4:], position_ids=torch.arange(4, 9)[None], past_key_values=head.past_key_values)
        torch.testing.assert_close(torch.cat([head.logits, tail.logits], dim=1), whole)
        for side in ("left", "right"):
            batch = batch_of(sentences, side)
            counted = (batch["attention_mask"].cumsum(1) - 1).masked_fill(batch["attention_mask"] == 0, 1)
            for positions in (counted, torch.arange(9)[None], torch.arange(9, dtype=torch.int32).expand(4, 9)):
                torch.testing.assert_close(tiny(**batch, position_ids=positions).loss, tiny(**batch).loss)


@pytest.mark.parametrize("settings", [{}, {"marginal": True}, {"prediction_network": False}])
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", ["model.next_parser.score.weight", "model.parser.score.weight", "model.cell.norm"])
@torch.no_grad()
def test_weights_that_are_no_numbers_give_logits_of_the_right_shape(settings, wrong, name, sentences):
    model, batch = make_model(**settings), batch_of(sentences, "left")
    for key, parameter in model.named_parameters():
        if key.startswith(name):
            parameter.fill_(wrong)
    out = model(**batch)
    assert out.logits.shape == (4, 9, 23)
    if name == "model.cell.norm":
        assert out.logits[batch["attention_mask"].bool()][-1].isnan().all()
    head = model(batch["input_ids"][:, :4], use_cache=True)
    step = model(batch["input_ids"][:, 4:5], past_key_values=head.past_key_values)
    assert step.logits.shape == (4, 1, 23)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hiden_size": 3}, "^unknown setting hiden_size of a SOM: did you mean hidden_size.$"),
        ({"colour_scheme": ["nsubj"]}, "^unknown setting colour_scheme of a SOM: is it one of a newer version.$"),
        ({"num_hidden_layers": 3}, "num_hidden_layers must be 1"),
        ({"oracle": "none"}, "oracle must be one of"),
        ({"next_attachment": "best"}, "next_attachment must be one of"),
        ({"syntactic_size": 400}, "syntactic_size must be in"),
        ({"num_slots": 0}, "num_slots must be at least 1"),
        ({"dropout": 1.0}, "dropout must be in"),
        ({"prediction_network": False, "marginal": True}, "which is off"),
    ],
)
def test_a_configuration_that_means_nothing_is_refused(settings, message):
    with pytest.raises(Exception, match=message):
        SOMConfig(**settings)


def test_keys_of_the_library_and_of_its_tools_are_accepted(tmp_path):
    theirs = {"torch_dtype": "float32", "attn_implementation": "eager", "num_labels": 3, "output_attentions": False}
    added = {"auto_map": {}, "quantization_config": {}, "custom_pipelines": {}, "_attn_implementation": None}
    SOMConfig(**theirs, **added, name_or_path="som", temperature=0.5).save_pretrained(tmp_path)
    again, unused = SOMConfig.from_pretrained(tmp_path, dtype="float64", hiden_size=3, return_unused_kwargs=True)
    assert again.num_labels == 3 and str(again.dtype).endswith("float64") and unused == {"hiden_size": 3}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("chunk", [1, 40, 2**21])
def test_next_words_are_a_linear_map_and_its_cross_entropy(padded, chunk, monkeypatch):
    monkeypatch.setattr(operators_som, "CHUNK", chunk)
    torch.manual_seed(0)
    operands = [torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((7, 4), (11, 4), (11,))]
    targets = torch.tensor([3, 0, -100, 10, 3, -100, 5])
    position = torch.tensor([0, 1, 2, 4, 5, 8, 9]) if padded else None
    logits, total = NextWords.apply(*operands, targets, position, 10 if padded else 7)
    expected = F.linear(*operands)
    loss = F.cross_entropy(expected, targets, reduction="sum")
    real = slice(None) if position is None else position
    torch.testing.assert_close(logits[real], expected, atol=1e-12, rtol=0)
    assert not padded or (logits[[3, 6, 7]] == -100).all()
    weights = torch.randn_like(expected)
    for mine, theirs in (
        (total * 3, loss * 3),
        ((logits[real] * weights).sum(), (expected * weights).sum()),
        (total + (logits[real] * weights).sum(), loss + (expected * weights).sum()),
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-12, rtol=0)
        gradients = [torch.autograd.grad(one, operands, retain_graph=True) for one in (mine, theirs)]
        torch.testing.assert_close(*gradients, atol=1e-12, rtol=0)


def test_next_words_in_half_precision_are_as_exact_as_the_stock_loss_over_many_chunks(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(operators_som, "CHUNK", 512 * 64)
    operands = [torch.randn(*size).bfloat16() for size in ((64, 8), (20_000, 8), (20_000,))]
    targets = torch.randint(20_000, (64,))

    def gradients(dtype, loss):
        leaves = [operand.to(dtype).requires_grad_() for operand in operands]
        return [gradient.double() for gradient in torch.autograd.grad(loss(leaves), leaves)]

    def stock(leaves):
        return F.cross_entropy(F.linear(*leaves).to(torch.promote_types(leaves[0].dtype, torch.float32)), targets)

    exact, theirs = gradients(torch.float64, stock), gradients(torch.bfloat16, stock)
    mine = gradients(torch.bfloat16, lambda leaves: NextWords.apply(*leaves, targets, None, 64)[1] / 64)
    for one, other, truth in zip(mine, theirs, exact, strict=True):
        assert (one - truth).norm() < 1.2 * (other - truth).norm()


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [0, 1, 5, 17])
@pytest.mark.parametrize("outputs", [1, 6, 11])
@pytest.mark.parametrize("cached", [0, 2**22])
def test_few_rows_are_multiplied_like_many(threads, rows, outputs, cached, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(operators_som, "CACHED", cached)
    for bias in (False, True):
        layer, x = torch.nn.Linear(4, outputs, bias=bias).double(), torch.randn(rows, 4).double()
        with torch.no_grad():
            torch.testing.assert_close(linear(layer, x), F.linear(x, layer.weight, layer.bias))
            assert linear(layer, x).is_contiguous()
            with torch.autocast("cpu"):
                assert linear(layer.float(), x.float()).dtype == torch.bfloat16


def test_a_layer_that_is_more_than_its_weights_is_called(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    class Other(torch.nn.Linear):
        def forward(self, x):
            return x * 0

    hooked, replaced = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    hooked.register_forward_hook(lambda _layer, _inputs, output: output * 0)
    replaced.forward = lambda x: x * 0
    for layer in (Other(4, 4), hooked, replaced, torch.nn.Sequential(torch.nn.ReLU(), Other(4, 4))):
        with torch.no_grad():
            assert (linear(layer, torch.randn(1, 4)) == 0).all()


def test_who_watches_the_gradients_of_cells_sees_them():
    model, seen = make_model(), []
    for cell in (model.model.cell, model.model.predict_cell):
        cell.register_full_backward_hook(lambda cell, _inputs, _outputs: seen.append(cell))
    model.train()
    model(**batch_of([([1, 5, 6, 7, 2], [-1, 0, 1, 2, 0])], "right")).loss.backward()
    assert set(seen) == {model.model.cell, model.model.predict_cell}


def test_linear_maps_are_of_the_stock_type_that_other_tools_look_for():
    model = make_model(syntactic_size=3)
    assert {type(module) for module in model.modules() if isinstance(module, torch.nn.Linear)} == {torch.nn.Linear}
