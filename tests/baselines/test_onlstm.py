"""The ON-LSTM, with and without supervision, and the distances that its trees are read from."""

import random
from itertools import combinations
from math import exp, tanh

import pytest
import torch
from conftest import CORPUS, batch_of
from huggingface_hub.errors import StrictDataclassError
from trees_enumerated import all_trees

from modeling_som.sentences_som import encode
from som.baselines.distances import distance_trees, distances_from_siblings, ranking_loss, tree_from_distances
from som.baselines.onlstm import ONLSTMConfig, ONLSTMForCausalLM, OrderedLayer, onlstm, onlstm_syd
from som.data.vocabularies import make_tokenizer
from som.syntax.oracle import first_siblings
from som.syntax.trees import Tree, binarise
from som.training.settings import make_settings

ALL = list(all_trees(max_leaves=6))


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer("word", CORPUS * 2)


def with_large_weights(module: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.4)
    return module.double().eval()


def cumulative_softmax(logits: list[float]) -> list[float]:
    shares = [exp(logit) / sum(map(exp, logits)) for logit in logits]
    return [sum(shares[: k + 1]) for k in range(len(shares))]


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def one_neuron_at_a_time(layer: OrderedLayer, x: list[list[float]]) -> tuple[list[list[float]], list[list[float]]]:
    """States and master forget gates of one sentence, as the paper's equations (3) to (14) are written."""
    H, M, C = layer.size, layer.units, layer.chunk_size
    W, b, U = layer.input.weight.tolist(), layer.input.bias.tolist(), layer.hidden.weight.tolist()
    h, c = [0.0] * H, [0.0] * H
    states, gates = [], []
    for word in x:
        logits = [
            sum(w * value for w, value in zip(W[row], word, strict=True))
            + sum(u * value for u, value in zip(U[row], h, strict=True))
            + b[row]
            for row in range(len(b))
        ]
        master_forget = cumulative_softmax(logits[:M])
        master_input = [1 - gate for gate in cumulative_softmax(logits[M : 2 * M])]
        candidate, f, i, o = (logits[2 * M + part * H : 2 * M + (part + 1) * H] for part in range(4))
        for k in range(H):
            overlap = master_forget[k // C] * master_input[k // C]
            forget = sigmoid(f[k]) * overlap + (master_forget[k // C] - overlap)
            write = sigmoid(i[k]) * overlap + (master_input[k // C] - overlap)
            c[k] = forget * c[k] + write * tanh(candidate[k])
            h[k] = sigmoid(o[k]) * tanh(c[k])
        states.append(list(h))
        gates.append(master_forget)
    return states, gates


def test_a_layer_is_the_equations_of_the_paper():
    layer = with_large_weights(OrderedLayer(5, 6, chunk_size=2))
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    states, gates = layer(x)
    for row in range(3):
        slow_states, slow_gates = one_neuron_at_a_time(layer, x[row].tolist())
        torch.testing.assert_close(states[row], torch.tensor(slow_states, dtype=torch.float64), atol=1e-12, rtol=0)
        torch.testing.assert_close(gates[row], torch.tensor(slow_gates, dtype=torch.float64), atol=1e-12, rtol=0)


def test_the_gradients_of_a_layer_are_those_of_its_values():
    layer = with_large_weights(OrderedLayer(3, 4, chunk_size=2))
    x = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))


def test_neurons_behind_the_split_point_keep_what_they_remember():
    layer = with_large_weights(OrderedLayer(2, 6, chunk_size=2))
    gates, cell = torch.randn(1, 2 * 3 + 4 * 6, dtype=torch.float64), torch.randn(1, 6, dtype=torch.float64)
    gates[:, :6] = torch.tensor(
        [-99.0, 99, -99, 99, -99, -99]
    )  # forget from the second unit on, write before the first
    _, after, forget = layer.step(gates, cell)
    assert forget.tolist() == [[pytest.approx(0), pytest.approx(1), pytest.approx(1)]]
    torch.testing.assert_close(after[:, 2:], cell[:, 2:])
    torch.testing.assert_close(after[:, :2], torch.zeros(1, 2, dtype=torch.float64))


@pytest.mark.parametrize("tree", ALL, ids=str)
def test_distances_and_binary_trees_are_inverse(tree: Tree):
    distances = distances_from_siblings(first_siblings(tree))
    assert tree_from_distances(distances, tree.words()) == binarise(tree)


@pytest.mark.parametrize("tree", ALL, ids=str)
def test_the_distance_of_a_token_is_the_height_of_what_it_shares_with_the_one_before(tree: Tree):
    def height(node: Tree | str) -> int:
        return 1 + max(map(height, node.children)) if isinstance(node, Tree) and len(node.children) > 1 else 0

    def heights(node: Tree | str) -> list[int]:  # between neighbours, of a binary tree
        if height(node) == 0:
            return []
        left, right = node.children
        return [*heights(left), height(node), *heights(right)]

    assert distances_from_siblings(first_siblings(tree))[1:] == heights(binarise(tree))


def test_the_ranking_loss_is_the_mean_hinge_of_pairs_for_each_word(sentences):
    siblings = batch_of(sentences, "right")["first_sibling"]
    distances = torch.randn(siblings.shape, dtype=torch.float64, requires_grad=True)
    total = 0.0
    for row, (_, first) in enumerate(sentences):
        gold, places = distances_from_siblings(first), range(2, len(first) - 1)
        hinges = []
        for i, j in combinations(places, 2):
            if gold[i] != gold[j]:
                above, below = (i, j) if gold[i] > gold[j] else (j, i)
                hinges.append(max(0.0, 1 - (distances[row, above] - distances[row, below]).item()))
        total += sum(hinges) / max(len(hinges), 1) * len(places)
    assert ranking_loss(distances, siblings).item() == pytest.approx(total)
    assert torch.autograd.gradcheck(lambda guess: ranking_loss(guess, siblings), (distances,))


def test_distances_in_the_order_of_the_tree_cost_nothing(sentences):
    siblings = batch_of(sentences, "right")["first_sibling"]
    gold = torch.zeros(siblings.shape)
    for row, (_, first) in enumerate(sentences):
        gold[row, : len(first)] = torch.tensor(distances_from_siblings(first))
    assert ranking_loss(gold, siblings) == 0
    assert ranking_loss(-gold, siblings) > 0


@pytest.mark.parametrize("build", [onlstm, onlstm_syd])
def test_the_distance_of_a_word_depends_on_the_words_up_to_it(build, tokenizer):
    model = with_large_weights(build(make_settings(hidden_size=8), tokenizer))
    ids = torch.tensor([[0, 5, 6, 7, 8, 1]])
    whole = model.distances(ids)
    torch.testing.assert_close(model.distances(ids[:, :4]), whole[:, :4])
    changed = model.distances(torch.tensor([[0, 5, 6, 8, 8, 1]]))
    torch.testing.assert_close(changed[:, :3], whole[:, :3])
    assert (changed[:, 3:] - whole[:, 3:]).abs().min() > 1e-6


@pytest.mark.parametrize("vocabulary", ["word", "bpe:300"])
@pytest.mark.parametrize("build", [onlstm, onlstm_syd])
def test_trees_of_many_sentences_are_those_of_each_alone(build, vocabulary):
    tokenizer = make_tokenizer(vocabulary, CORPUS * 2)
    model = with_large_weights(build(make_settings(hidden_size=8), tokenizer))
    sentences = [encode(tokenizer, words) for words in [*CORPUS, ["dog"], ["the", "cat"]]]
    together = list(distance_trees(model, sentences))
    assert together == [next(distance_trees(model, [sentence])) for sentence in sentences]
    assert [list(tree.words()) for tree in together] == [sentence.words for sentence in sentences]
    first = model.distances(torch.tensor([sentences[0].ids]))[0].tolist()
    of_words = [first[start] for start in sentences[0].starts]  # a word splits where its first piece does
    assert together[0] == tree_from_distances(of_words, sentences[0].words)


def test_the_distances_of_the_middle_layer_count_what_it_forgets(tokenizer):
    model = with_large_weights(onlstm(make_settings(hidden_size=8), tokenizer))
    ids = torch.tensor([[0, 5, 6, 1]])
    low, middle, _ = model.layers
    _, forget = middle(low(model.words(ids))[0])
    expected = [[sum(1 - gate for gate in unit) for unit in row] for row in forget.tolist()]
    assert model.distances(ids).tolist() == [pytest.approx(expected[0])]


def test_the_split_head_learns_trees_and_leaves_the_words_alone(tokenizer, sentences):
    settings = make_settings(hidden_size=8, structure_loss_weight=0.5, lm_loss_weight=2.0)
    model = with_large_weights(onlstm_syd(settings, tokenizer))
    sentences = [([token % len(tokenizer) for token in ids], siblings) for ids, siblings in sentences]
    batch = batch_of(sentences, "right")
    words = model(**{**batch, "first_sibling": None}).loss
    order = ranking_loss(model.distances(batch["input_ids"]), batch["first_sibling"])
    tokens = sum(len(ids) - 1 for ids, _ in sentences)
    both = model(**batch).loss
    assert both.item() == pytest.approx((2 * words + 0.5 * order / tokens).item())
    words.backward()
    assert model.split_head.weight.grad is None
    both.backward()
    assert model.split_head.weight.grad.abs().max() > 0


@pytest.mark.parametrize("build", [onlstm, onlstm_syd])
def test_losses_of_parts_of_a_batch_add_up_to_that_of_the_whole(build, tokenizer, sentences):
    model = with_large_weights(build(make_settings(hidden_size=8), tokenizer))
    sentences = [([token % len(tokenizer) for token in ids], siblings) for ids, siblings in sentences]
    items = sum(len(ids) - 1 for ids, _ in sentences)
    whole, *parts = (
        model(**batch_of(some, "right"), num_items_in_batch=items).loss.item()
        for some in (sentences, sentences[:1], sentences[1:])
    )
    assert whole == pytest.approx(sum(parts), abs=1e-6)
    assert whole == pytest.approx(model(**batch_of(sentences, "right")).loss.item(), abs=1e-6)


def test_supervision_teaches_the_trees_of_a_few_sentences(tokenizer):
    rng = random.Random(0)
    trees = [rng.choice(list(all_trees(5, min_leaves=5))) for _ in range(4)]
    vocabulary = range(5, len(tokenizer))
    rows = [
        ([0, *rng.sample(vocabulary, 5), 1], [-1, *(0 if s < 0 else s + 1 for s in first_siblings(tree)), 0])
        for tree in trees
    ]
    model = onlstm_syd(make_settings(hidden_size=16, dropout=0.0, embedding_dropout=0.0), tokenizer).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    batch = batch_of(rows, "right")
    for _ in range(60):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    distances = model.eval().distances(batch["input_ids"]).tolist()
    for row, tree in zip(distances, trees, strict=True):
        assert tree_from_distances(row[1:6], tree.words()) == binarise(tree)


@pytest.mark.parametrize("hidden_size", [7, 16, 60])
def test_chunks_divide_every_layer(hidden_size, tokenizer):
    model = onlstm(make_settings(hidden_size=hidden_size), tokenizer)
    assert all(layer.size % layer.chunk_size == 0 for layer in model.layers)
    assert [layer.size for layer in model.layers][-1] == hidden_size


def test_sizes_that_chunks_do_not_divide_are_refused():
    with pytest.raises(
        StrictDataclassError, match="chunk_size must divide hidden_size and wide_size, got 3 for 8 and 12"
    ):
        ONLSTMForCausalLM(ONLSTMConfig(vocab_size=9, hidden_size=8, wide_size=12, chunk_size=3))
