"""The RNNG: its batched equations against a stack in plain lists, its beam against all derivations."""

import math

import pytest
import torch
from conftest import batch_of

from som.baselines.rnng import GEN, NT, REDUCE, RNNGConfig, RNNGForCausalLM, rnng, score_rnng
from som.data.vocabularies import make_tokenizer
from som.syntax.oracle import first_siblings, gold_depths, tree_from_depths
from som.training.models import make_model
from som.training.settings import make_settings

EVERYTHING = 10_000  # a beam that holds every derivation of a short sentence


def make_rnng(seed: int = 0, **settings) -> RNNGForCausalLM:
    sizes = {
        "vocab_size": 23,
        "hidden_size": 6,
        "wide_size": 7,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
    }
    dropout = {"dropout": 0.0, "embedding_dropout": 0.0, "output_dropout": 0.0}
    torch.manual_seed(seed)
    model = RNNGForCausalLM(RNNGConfig(**{**sizes, **dropout, **settings})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.6)
    return model


class ListStack:
    """The definition: a stack of items and states, one action at a time."""

    def __init__(self, model: RNNGForCausalLM):
        self.model, self.stack, self.log_prob = model, [], 0.0
        self.push(self.bracket, is_open=True)

    @property
    def bracket(self):
        return self.model.bracket.weight[0]

    @property
    def state(self):
        return self.stack[-1][1] if self.stack else None

    def push(self, item, is_open=False):
        model, below = self.model, self.state
        wide = model.wide(item[None], None if below is None else below[:2])
        narrow = model.narrow(wide[0], None if below is None else below[2:])
        self.stack.append((item, (*wide, *narrow), is_open))

    def open_places(self):
        return [place for place, (_, _, is_open) in enumerate(self.stack) if is_open]

    def allowed(self):
        """What may come next; the root cannot be closed, and a constituent has two children at least."""
        places = self.open_places()
        children = len(self.stack) - 1 - places[-1]
        return [GEN] if children == 0 else [NT, GEN, *([REDUCE] if children > 1 and len(places) > 1 else [])]

    def act(self, action, word=None):
        """The logarithm of the probability of an action, and of the word that it generates; carries it out."""
        hidden, allowed = self.model.output_norm(self.state[2]), self.allowed()
        log_prob = self.model.actions(hidden)[0][allowed].log_softmax(0)[allowed.index(action)]
        if action == NT:
            self.push(self.bracket, is_open=True)
        elif action == REDUCE:
            place = self.open_places()[-1]
            children = [item for item, _, _ in self.stack[place + 1 :]]
            del self.stack[place:]
            self.push(self.compose(children))
        else:
            log_prob = log_prob + self.model.lm_head(hidden)[0].log_softmax(0)[word]
            self.push(self.item(word))
        return log_prob

    def item(self, word):
        return self.model.norm(self.model.embed_tokens.weight[word])

    def compose(self, children):
        composition, ends = self.model.composition, []
        for lstm, order in ((composition.forwards, children), (composition.backwards, children[::-1])):
            ends.append(lstm(torch.stack([self.bracket, *order]))[0][-1])
        return torch.tanh(composition.project(torch.cat(ends)))


def derivation(ids, siblings):
    """The actions after BOS, read off the flat tree."""
    starts = [0]
    for t in range(1, len(ids)):
        while starts[-1] != siblings[t]:
            starts.pop()
            yield REDUCE, None
        if t in siblings:
            starts.append(t)
            yield NT, None
        yield GEN, ids[t]


def log_joint(model, ids, siblings):
    stack = ListStack(model)
    stack.push(stack.item(ids[0]))
    return sum(stack.act(*step) for step in derivation(ids, siblings))


def all_derivations(model, ids):
    """log p and depths of every derivation up to the last token, by brute force."""

    def go_on(actions, t):
        if t == len(ids):
            yield actions
            return
        stack = ListStack(model)
        stack.push(stack.item(ids[0]))
        for step in actions:
            stack.act(*step)
        for action in stack.allowed():
            yield from go_on([*actions, (action, ids[t] if action == GEN else None)], t + (action == GEN))

    for actions in go_on([], 1):
        stack, depths, pending = ListStack(model), [0], None
        stack.push(stack.item(ids[0]))
        log_prob = 0.0
        for action, word in actions:
            depth = len(stack.open_places())
            if action == NT:
                pending = depth
            log_prob += stack.act(action, word).item()
            if action == GEN:
                depths.append(pending or depth)
                pending = None
        yield log_prob, depths


def test_batched_equations_are_those_of_a_stack_of_lists_with_gradients(sentences):
    model, batch = make_rnng(), batch_of(sentences, "right")
    count = sum(len(ids) - 1 for ids, _ in sentences)
    slow = -sum(log_joint(model, *sentence) for sentence in sentences) / count
    fast = model.train()(**batch).loss
    torch.testing.assert_close(fast, slow, atol=1e-10, rtol=0)
    gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss in (fast, slow)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=0)


@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_are_a_distribution_whose_cross_entropy_is_the_loss(sentences, side):
    model, batch = make_rnng(), batch_of(sentences, side)
    out = model(**batch)
    after_bos = batch["attention_mask"].bool() & (batch["attention_mask"].cumsum(1) > 1)
    logits = out.logits[after_bos.roll(-1, dims=1)]
    torch.testing.assert_close(logits.logsumexp(1), torch.zeros(len(logits)).double())
    targets = batch["labels"][after_bos]
    torch.testing.assert_close(torch.nn.functional.cross_entropy(logits, targets), out.loss)


def test_the_loss_is_divided_by_the_items_of_the_whole_batch(sentences):
    model, batch = make_rnng(), batch_of(sentences, "right")
    items = sum(len(ids) - 1 for ids, _ in sentences)
    parts = [model(**batch_of([one], "right"), num_items_in_batch=items).loss for one in sentences]
    torch.testing.assert_close(sum(parts), model(**batch).loss)


def test_padding_changes_nothing(sentences):
    model, batch = make_rnng(), batch_of(sentences, "right")
    together = model(**batch).logits
    for row, sentence in enumerate(sentences):
        alone = model(**batch_of([sentence], "right")).logits[0, :-1]
        torch.testing.assert_close(together[row, : len(alone)], alone)
    scored = list(score_rnng(model, [ids for ids, _ in sentences], word_beam=4, action_beam=6))
    for (ids, _), one in zip(sentences, scored, strict=True):
        (alone,) = score_rnng(model, [ids], word_beam=4, action_beam=6)
        assert one.log_probs == pytest.approx(alone.log_probs) and one.depths == alone.depths


@pytest.mark.parametrize("ids", [[0], [0, 1], [0, 5, 1], [0, 5, 6, 7], [0, 5, 6, 7, 1]], ids=len)
def test_a_beam_that_keeps_everything_sums_over_all_derivations(ids):
    model = make_rnng()
    (scored,) = score_rnng(model, [ids], EVERYTHING, EVERYTHING)
    derivations = list(all_derivations(model, ids))
    total = torch.tensor([log_prob for log_prob, _ in derivations]).logsumexp(0).item()
    assert scored.log_prob == pytest.approx(total, abs=1e-6)
    assert scored.depths == max(derivations)[1]
    for length in range(1, len(ids)):
        (prefix,) = score_rnng(model, [ids[:length]], EVERYTHING, EVERYTHING)
        assert scored.log_probs[: length - 1] == pytest.approx(prefix.log_probs)


def test_next_words_share_all_probability():
    model, ids = make_rnng(), [0, 5, 6]
    sequences = [[*ids, word] for word in range(23)]
    chances = [math.exp(one.log_probs[-1]) for one in score_rnng(model, sequences, EVERYTHING, EVERYTHING)]
    assert sum(chances) == pytest.approx(1)


def test_smaller_beams_are_lower_bounds(sentences):
    model, sequences = make_rnng(), [ids for ids, _ in sentences]
    sums = [[one.log_prob for one in score_rnng(model, sequences, beam, 2 * beam)] for beam in (1, 3, EVERYTHING)]
    assert all(small <= large + 1e-9 <= whole + 2e-9 for small, large, whole in zip(*sums, strict=True))


def test_a_few_sentences_are_learnt_by_heart_with_their_trees(sentences, tmp_path):
    model = make_rnng().float().train()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    batch = batch_of(sentences, "right")
    for _ in range(150):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.4
    scored = list(score_rnng(model, [ids for ids, _ in sentences]))
    for (_, siblings), one in zip(sentences, scored, strict=True):
        assert one.depths == gold_depths(siblings)
        assert first_siblings(tree_from_depths(one.depths)) == siblings
    model.eval().save_pretrained(tmp_path)
    again = RNNGForCausalLM.from_pretrained(tmp_path)
    torch.testing.assert_close(again(**batch).logits, model(**batch).logits)


def test_trees_are_asked_for_and_must_be_trees(sentences):
    model, batch = make_rnng(), batch_of(sentences, "right")
    with pytest.raises(ValueError, match="needs the tree of every sentence"):
        model(input_ids=batch["input_ids"], labels=batch["labels"])
    crossing = torch.tensor([[-1, 0, 1, 0, 2, 0]])
    with pytest.raises(ValueError, match="must describe a tree, token 4 has 2"):
        model(input_ids=torch.tensor([[0, 5, 6, 7, 8, 1]]), first_sibling=crossing)


def test_a_new_rnng_is_about_as_large_as_a_som():
    words = [f"w{number}" for number in range(2000)]
    tokenizer = make_tokenizer("word", [words, words])
    settings = make_settings()
    som = make_model(settings, tokenizer)
    assert rnng(settings, tokenizer).num_parameters() == pytest.approx(som.num_parameters(), rel=0.05)
