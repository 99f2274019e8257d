"""The unsupervised RNNG: its chart against all binary trees, its bound and gradients against expectations."""

import math
from collections import Counter

import pytest
import torch
from conftest import batch_of
from trees_enumerated import all_trees

from modeling_som.sentences_som import Sentence
from som.baselines.rnng import RNNGForCausalLM, score_rnng
from som.baselines.systems import train_system
from som.baselines.urnng import (
    SUPERVISED,
    URNNGConfig,
    URNNGForCausalLM,
    as_labels,
    inside,
    sample,
    siblings_of,
    spans_from,
    tree_scores,
    urnng_trees,
    viterbi_trees,
)
from som.data.datasets import prepare
from som.syntax.oracle import first_siblings
from som.syntax.treebanks import to_conllu
from som.syntax.trees import Tree

LENGTHS = [5, 1, 4, 2]  # words of some sentences


def make_urnng(std: float = 0.6, **settings) -> URNNGForCausalLM:
    sizes = {"vocab_size": 23, "hidden_size": 6, "wide_size": 7, "inference_size": 5}
    specials = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    dropout = {"dropout": 0.0, "embedding_dropout": 0.0, "output_dropout": 0.0}
    torch.manual_seed(0)
    model = URNNGForCausalLM(URNNGConfig(**{**sizes, **specials, **dropout, **settings})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=std)
    return model


def random_scores() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(len(LENGTHS), 6, 6, dtype=torch.float64, requires_grad=True)


def binary_trees(length: int) -> list[list[tuple[int, int]]]:
    """The spans of every binary tree over so many words, as (first word, number of words)."""
    trees = all_trees(length, binary=True, min_leaves=length)
    return [[(start, end - start) for start, end in tree.spans() if end - start > 1] for tree in trees]


def enumerated(scores: torch.Tensor, length: int) -> torch.Tensor:
    """The scores of all trees of one sentence."""
    sums = [[scores[start, start + width] for start, width in spans] for spans in binary_trees(length)]
    return torch.stack([sum(some, scores.new_zeros(())) for some in sums])


def test_the_chart_sums_over_all_trees_with_gradients():
    scores = random_scores()
    chart = inside(scores, LENGTHS)
    for row, length in enumerate(LENGTHS):
        every = enumerated(scores[row], length)
        log_q = every.log_softmax(0)
        expected = every.logsumexp(0), -(log_q.exp() * log_q).sum()
        for value, wanted in zip((chart.log_z[row], chart.entropy[row]), expected, strict=True):
            torch.testing.assert_close(value, wanted)
            if length > 1:
                gradients = [torch.autograd.grad(one, scores, retain_graph=True)[0] for one in (value, wanted)]
                torch.testing.assert_close(*gradients)


def test_the_best_tree_is_the_best_of_all_trees():
    scores = random_scores()
    for row, (length, siblings) in enumerate(zip(LENGTHS, viterbi_trees(scores, LENGTHS), strict=True)):
        spans = binary_trees(length)[enumerated(scores[row], length).argmax()]
        assert siblings == siblings_of(length, with_splits(spans))


def with_splits(spans: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Spans with the number of words in their left part, which is the widest one that begins where they do."""
    inner = {*spans}
    return {
        (start, width): max((one for first, one in inner if first == start and one < width), default=1)
        for start, width in spans
    }


@pytest.mark.parametrize("tree", all_trees(5, binary=True, min_leaves=2), ids=str)
def test_spans_and_first_siblings_are_the_same_tree(tree):
    spans = [(start, end - start) for start, end in tree.spans()]
    siblings = first_siblings(Tree(("BOS", tree, "EOS")))
    assert siblings_of(len(tree.words()), with_splits(spans)) == siblings
    assert spans_from(siblings) == with_splits(spans)


def test_trees_are_drawn_as_often_as_they_are_probable():
    torch.manual_seed(0)
    scores, count = random_scores().detach(), 4000
    chart = inside(scores, LENGTHS)
    drawn = sample(chart, LENGTHS, count)
    log_q = tree_scores(scores, drawn) - chart.log_z[:, None]
    for row, length in enumerate(LENGTHS):
        seen = Counter(frozenset(spans) for spans in drawn[row])
        chances = enumerated(scores[row], length).softmax(0).tolist()
        for spans, chance in zip(binary_trees(length), chances, strict=True):
            error = 4 * math.sqrt(chance * (1 - chance) / count) + 1e-9
            assert seen[frozenset(spans)] / count == pytest.approx(chance, abs=error)
        known = {frozenset(spans): chance for spans, chance in zip(binary_trees(length), chances, strict=True)}
        assert log_q[row].exp().tolist() == pytest.approx([known[frozenset(spans)] for spans in drawn[row]])


def test_the_bound_and_its_gradient_are_right_on_average():
    model, ids = make_urnng(0.4, samples=2000).train(), torch.tensor([[0, 7, 8, 9, 1]])
    mask, lengths = torch.ones_like(ids).bool(), [3]
    scores = model.inference(model.words(ids), lengths)
    log_q = enumerated(scores[0], 3).log_softmax(0)
    trees = [siblings_of(3, with_splits(spans)) for spans in binary_trees(3)]
    rows = [part.repeat_interleave(len(trees), dim=0) for part in (ids, mask, ids)]
    log_p = model.sentence_log_probs(*rows, as_labels(trees, rows[0]))
    exact = (log_q.exp() * (log_p - log_q)).sum()
    estimate = model.lower_bound(ids, mask, ids, scores, lengths).sum()
    assert estimate.item() == pytest.approx(exact.item(), abs=0.05)
    weights = [*model.inference.parameters(), model.actions.weight]
    for one, other in zip(*(gradient(value, weights) for value in (estimate, exact)), strict=True):
        torch.testing.assert_close(one, other, atol=0.03, rtol=0.1)
    (scored,) = score_rnng(model, ids.tolist(), 1000, 1000)
    assert exact.item() <= scored.log_prob


def gradient(value, weights):
    return torch.autograd.grad(value, weights, retain_graph=True)


@pytest.mark.parametrize("training", [True, False])
def test_padding_changes_nothing(sentences, training):
    model, batch = make_urnng().train(training), batch_of(sentences, "right")
    lengths = [len(ids) - 2 for ids, _ in sentences]
    together = model.inference(model.words(batch["input_ids"]), lengths)
    for row, (ids, _) in enumerate(sentences):
        alone = model.inference(model.words(torch.tensor([ids])), lengths[row : row + 1])[0]
        torch.testing.assert_close(together[row, : len(alone), : len(alone)], alone)
    if not training:
        parts = [model(**batch_of([one], "right"), num_items_in_batch=20).loss for one in sentences]
        torch.testing.assert_close(sum(parts), model(**batch).loss)


def test_trees_that_are_given_are_not_looked_at(sentences):
    model, batch = make_urnng(), batch_of(sentences, "right")
    losses = []
    for siblings in (batch["first_sibling"], torch.zeros_like(batch["first_sibling"]), None):
        torch.manual_seed(0)
        losses.append(model.train()(**{**batch, "first_sibling": siblings}).loss.item())
    assert losses[0] == losses[1] == losses[2]


def test_supervised_batches_learn_the_given_trees_and_later_ones_do_not(sentences):
    model, batch = make_urnng(supervised_batches=2).train(), batch_of(sentences, "right")
    nats = 0.0
    for ids, siblings in sentences:
        row, length = torch.tensor([ids]), len(ids) - 2
        every = enumerated(model.inference(model.words(row), [length])[0], length).log_softmax(0)
        given = [{*spans} for spans in binary_trees(length)].index({*spans_from(siblings)})
        log_p = model.sentence_log_probs(row, torch.ones_like(row).bool(), row, torch.tensor([siblings]))
        nats -= (log_p.sum() + every[given]).item() / sum(len(one) - 1 for one, _ in sentences)
    losses = [model(**batch).loss.item() for _ in range(4)]
    assert losses[:2] == pytest.approx([nats, nats]) and nats not in (pytest.approx(one) for one in losses[2:])


def test_a_few_sentences_are_learnt_by_heart_and_saved(sentences, tmp_path):
    model, batch = make_urnng(0.3).float().train(), batch_of(sentences, "right")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(120):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    out = model.eval()(**batch)
    assert out.loss.item() < 0.8
    model.save_pretrained(tmp_path)
    again = URNNGForCausalLM.from_pretrained(tmp_path)
    torch.testing.assert_close(again(**batch).logits, out.logits)


def test_parses_are_the_best_trees_of_the_inference_network(sentences):
    model = make_urnng()
    words = [[f"w{place}" for place in range(len(ids) - 2)] for ids, _ in sentences]
    read = [
        Sentence(ids=ids, words=some, starts=list(range(1, len(ids) - 1)), offsets=[(0, 0)] * len(some))
        for (ids, _), some in zip(sentences, words, strict=True)
    ]
    for sentence, tree in zip(read, urnng_trees(model, read), strict=True):
        length = len(sentence.words)
        (siblings,) = viterbi_trees(model.inference(model.words(torch.tensor([sentence.ids])), [length]), [length])
        assert tree.words() == tuple(sentence.words)
        assert first_siblings(Tree(("BOS", tree if length > 1 else sentence.words[0], "EOS"))) == siblings


def test_training_can_begin_with_an_rnng_and_with_nothing_else(tmp_path):
    file = tmp_path / "tiny.conllu"
    sentences = [(["the", "dog", "barks"], [2, 3, 0]), (["the", "cat", "sees", "a", "dog"], [2, 3, 0, 5, 3])]
    file.write_text("".join(to_conllu(words, heads) for words, heads in sentences * 2))
    prepare(dict.fromkeys(("train", "validation", "test"), [file]), tmp_path / "data")
    settings = {"epochs": 1, "batch_size": 2}
    train_system("rnng", tmp_path / "data", tmp_path / "rnng", hidden_size=12, **settings)
    start = str(tmp_path / "rnng")
    train_system("urnng", tmp_path / "data", tmp_path / "urnng", start=start, learning_rate=1e-30, **settings)
    before = RNNGForCausalLM.from_pretrained(tmp_path / "rnng").state_dict()
    model = URNNGForCausalLM.from_pretrained(tmp_path / "urnng")
    assert model.trained_batches == 2 and model.config.supervised_batches == SUPERVISED
    after = model.state_dict()
    for name, weight in before.items():
        torch.testing.assert_close(after[name], weight)
    with pytest.raises(ValueError, match="expected a RNNG checkpoint, found a model of type 'urnng'"):
        train_system("urnng", tmp_path / "data", tmp_path / "again", start=str(tmp_path / "urnng"), **settings)
    with pytest.raises(ValueError, match="start is a setting of SOMs, which the system rnng does not have"):
        train_system("rnng", tmp_path / "data", tmp_path / "again", start=start, **settings)
