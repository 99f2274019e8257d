"""Ordered Memory: its growing slots against all slots in loops, its hard limit against a SOM."""

import pytest
import torch
from conftest import batch_of, make_model

from modeling_som.sentences_som import Sentence
from som.baselines.ordered_memory import OrderedMemoryConfig, OrderedMemoryForCausalLM, ordered_memory_trees
from som.syntax.oracle import tree_from_depths


def make_om(std: float = 0.6, **settings) -> OrderedMemoryForCausalLM:
    sizes = {"vocab_size": 23, "hidden_size": 8, "num_slots": 4}
    dropout = {"dropout": 0.0, "embedding_dropout": 0.0, "output_dropout": 0.0}
    torch.manual_seed(0)
    model = OrderedMemoryForCausalLM(OrderedMemoryConfig(**{**sizes, **dropout, **settings})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=std)
    return model


def slow_log_probs(model: OrderedMemoryForCausalLM, ids: list[int]) -> torch.Tensor:
    """The definition for one sentence: all slots, one after the other, for every word."""
    N, parser = model.config.num_slots, model.parser
    words = model.norm(model.embed_tokens(torch.tensor(ids)))
    M, C, previous = [torch.zeros_like(words[0])] * N, [words[0]] * (N + 1), None
    log_probs = []
    for t, x in enumerate(words):
        if t:
            # the word before is at depth 0 if it was the first; otherwise one below where it was attached
            live = [1.0, *(0.0 if previous is None else sum(previous[e:]) for e in range(N - 1))]
            scores = [parser(parser.queries(x), parser.keys(C[e])) for e in range(N)]
            beta = [score.exp() * chance for score, chance in zip(scores, live, strict=True)]
            p = [one / sum(beta) for one in beta]
            M = [sum(p[: e + 1]) * C[e] + sum(p[e + 1 :]) * M[e] for e in range(N)]
            C = [None] * N + [x]
            for e in reversed(range(N)):
                C[e] = sum(p[e:]) * model.cell(M[e][None], C[e + 1][None])[0] + sum(p[:e]) * x
            previous = p
        if t + 1 < len(ids):
            hidden = model.predict_cell(C[0][None] if t else x[None], x[None])[0]
            log_probs.append(model.lm_head(model.output_norm(hidden)).log_softmax(0)[ids[t + 1]])
    return torch.stack(log_probs)


def test_growing_slots_equal_all_slots_with_gradients(sentences):
    model, batch = make_om(), batch_of(sentences, "right")
    slow = -torch.cat([slow_log_probs(model, ids) for ids, _ in sentences]).mean()
    logits = model(**batch).logits[:, :-1]  # the library's loss is in single precision
    fast = torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch["labels"][:, 1:])
    torch.testing.assert_close(fast, slow, atol=1e-10, rtol=0)
    gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss in (fast, slow)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=0)


def test_with_certain_decisions_the_roots_are_those_of_a_som(sentences):
    model, som = make_om(), make_model(prediction_network=False)
    with torch.no_grad():
        model.parser.score.weight.mul_(1e7)
        som.model.load_state_dict(
            {name: value for name, value in model.state_dict().items() if not name.startswith("norm.")}, strict=False
        )
        som.model.norm.semantic.load_state_dict(model.norm.state_dict())
        ids = torch.tensor([sentences[0][0]])
        out = som.model(ids)
        x = model.norm(model.embed_tokens(ids)).flatten(0, 1)
        _, attachments = model.read(ids)
    assert [0, *(log_p.argmax().item() + 1 for log_p in attachments)] == out.depths[0].tolist()
    assert len(set(out.depths[0].tolist())) > 2
    roots = out.last_hidden_state.flatten(0, 1)
    torch.testing.assert_close(model.predict_cell(roots, x), model.read(ids)[0][0])


def test_padding_and_trees_change_nothing(sentences):
    model, batch = make_om(), batch_of(sentences, "right")
    together = model(**batch).logits
    for row, (ids, _) in enumerate(sentences):
        torch.testing.assert_close(together[row, : len(ids)], model(input_ids=torch.tensor([ids])).logits[0])


def test_trees_are_read_off_the_most_probable_depths(sentences):
    model = make_om(std=2.0)
    words = [[f"w{place}" for place in range(len(ids) - 2)] for ids, _ in sentences]
    read = [
        Sentence(ids=ids, words=some, starts=list(range(1, len(ids) - 1)), offsets=[(0, 0)] * len(some))
        for (ids, _), some in zip(sentences, words, strict=True)
    ]
    for sentence, tree in zip(read, ordered_memory_trees(model, read), strict=True):
        _, attachments = model.read(torch.tensor([sentence.ids]))
        depths = [log_p.argmax().item() + 1 for log_p in attachments[:-1]]  # without EOS
        assert tree == tree_from_depths(depths, sentence.words)


def test_a_few_sentences_are_learnt_by_heart_and_saved(sentences, tmp_path):
    model, batch = make_om(std=0.3).float().train(), batch_of(sentences, "right")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.4  # the first words, four of twenty, cannot be known
    model.eval().save_pretrained(tmp_path)
    again = OrderedMemoryForCausalLM.from_pretrained(tmp_path)
    torch.testing.assert_close(again(**batch).logits, model(**batch).logits)


def test_attachments_are_distributions_over_reachable_depths(sentences):
    model = make_om()
    _, attachments = model.read(torch.tensor([sentences[0][0]]))
    for t, log_p in enumerate(attachments, start=1):
        assert log_p.shape[1] == min(t, model.config.num_slots)
        assert log_p.exp().sum().item() == pytest.approx(1)
