"""The parsing-reading-predict network beside its equations, one word and one gate at a time."""

import pytest
import torch
import torch.nn.functional as F
from conftest import CORPUS, batch_of
from torch import Tensor

from modeling_som.sentences_som import encode
from som.baselines.distances import distance_trees
from som.baselines.prpn import PRPNConfig, PRPNForCausalLM, ReadingLayer, attend, prpn
from som.data.vocabularies import make_tokenizer
from som.training.settings import make_settings


@pytest.fixture
def model() -> PRPNForCausalLM:
    """Small, with large weights, and gates that are neither all open nor all closed."""
    sizes = {"vocab_size": 23, "hidden_size": 6, "wide_size": 5, "lookback": 2, "memory_size": 4, "temperature": 0.5}
    torch.manual_seed(0)
    made = PRPNForCausalLM(PRPNConfig(**sizes)).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.5)
    return made


def slow_distances(model: PRPNForCausalLM, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Of each word, and of the word after it, from embeddings (T, D)."""
    parser, of_words, of_next = model.parser, [], []
    for t in range(len(x)):
        window = [x[j] if j >= 0 else torch.zeros_like(x[0]) for j in range(t - parser.lookback, t + 1)]
        products = [parser.window.weight[:, :, place] @ word for place, word in enumerate(window)]
        features = (sum(products) + parser.window.bias).relu()
        of_words.append(parser.distance(features)[0])
        of_next.append(parser.next_distance(features)[0])
    return of_words, of_next


def gate(model: PRPNForCausalLM, later: Tensor, between: list[Tensor]) -> Tensor:
    product = torch.ones((), dtype=torch.float64)
    for distance in between:
        product = product * (F.hardtanh((later - distance) * model.config.temperature) + 1) / 2
    return product


def weighted(query: Tensor, keys: list[Tensor], values: list[Tensor], gates: list[Tensor]) -> Tensor:
    """Σ g exp(q·k / √d) v / Σ g exp(q·k / √d)"""
    weights = [one * (query @ key / len(key) ** 0.5).exp() for key, one in zip(keys, gates, strict=True)]
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)


def slow_layer(model: PRPNForCausalLM, layer: ReadingLayer, x: list[Tensor], distances: list[Tensor]) -> list[Tensor]:
    H, states, cells = layer.size, [], []
    for t, word in enumerate(x):
        logits = layer.input(word)
        state = cell = torch.zeros(H, dtype=torch.float64)
        places = range(max(0, t - model.config.memory_size), t)
        if t > 0:
            key = logits[4 * H :] + layer.key(states[-1])
            gates = [gate(model, distances[t], distances[i + 1 : t]) for i in places]
            keys = [states[i] for i in places]
            state = weighted(key, keys, keys, gates)
            cell = weighted(key, keys, [cells[i] for i in places], gates)
        update, forget, write, output = (logits[: 4 * H] + layer.hidden(state)).split(H)
        cells.append(forget.sigmoid() * cell + write.sigmoid() * update.tanh())
        states.append(output.sigmoid() * cells[-1].tanh())
    return states


def slow_logits(model: PRPNForCausalLM, ids: list[int]) -> Tensor:
    """(T, V), of one sentence."""
    x = model.norm(model.embed_tokens.weight[ids])
    distances, next_distances = slow_distances(model, x)
    states = slow_layer(model, model.low, list(x), distances)
    states = slow_layer(model, model.high, states, distances)
    outputs = []
    for t, state in enumerate(states):
        places = range(max(0, t - model.config.memory_size), t)
        seen = torch.zeros_like(state)
        if t > 0:
            gates = [gate(model, next_distances[t], distances[i + 1 : t + 1]) for i in places]
            if sum(gates) > 0:
                keys = [states[i] for i in places]
                seen = weighted(model.query(state), keys, keys, gates)
        outputs.append(model.combine(torch.cat([seen, state])).tanh())
    return model.lm_head(model.output_norm(torch.stack(outputs)))


def gradients(model: PRPNForCausalLM, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def test_logits_and_gradients_are_those_of_the_equations(model, sentences):
    batch = batch_of(sentences, "right")
    logits = model(input_ids=batch["input_ids"]).logits
    rows = [slow_logits(model, ids) for ids, _ in sentences]
    fast = [logits[place, : len(row)] for place, row in enumerate(rows)]
    for one, slow in zip(fast, rows, strict=True):
        torch.testing.assert_close(one, slow, atol=1e-10, rtol=0)
    weights = torch.randn_like(logits)
    losses = [sum((weights[place, : len(row)] * row).sum() for place, row in enumerate(rows)) for rows in (fast, rows)]
    torch.testing.assert_close(*(gradients(model, loss) for loss in losses), atol=1e-9, rtol=0)
    for module in (model.parser.distance, model.parser.next_distance):  # the words alone teach where to split
        assert module.weight.grad.abs().max() > 1e-6


def test_gates_open_up_to_the_last_word_of_a_larger_distance(model):
    model.parser.temperature = 10.0
    distances = torch.tensor([[0.0, 3, 1, 2]])
    assert model.parser.reading_gates(distances)[0].tolist() == [
        [0, 0, 0, 0],
        [1, 0, 0, 0],
        [0, 1, 0, 0],  # the first word is behind the split before the second
        [0, 1, 1, 0],
    ]
    guesses = torch.tensor([[9.0, 9, 0.5, 2.5]])
    assert model.parser.predicting_gates(guesses, distances)[0].tolist() == [
        [0, 0, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 0],  # the next word splits from the last one
        [0, 1, 1, 0],
    ]


def test_equal_distances_are_half_a_gate_each(model):
    gates = model.parser.reading_gates(torch.zeros(1, 4))[0]
    assert gates[3].tolist() == [0.25, 0.5, 1, 0]


def test_what_gates_close_is_not_seen_however_much_it_is_attended_to():
    query, keys = torch.tensor([[100.0]]), torch.tensor([[[1e3], [1.0], [2.0]]])
    values, gates = torch.tensor([[[7.0], [3.0], [5.0]]]), torch.tensor([[0.0, 1.0, 0.0]])
    assert attend(query, keys, values, gates).tolist() == [[3.0]]
    assert attend(query, keys, values, torch.zeros(1, 3)).tolist() == [[0.0]]


def test_the_distance_of_a_word_depends_on_the_last_words_alone(model):
    ids = torch.tensor([[0, 5, 6, 7, 8, 9, 1]])
    changed = model.distances(torch.tensor([[0, 5, 11, 7, 8, 9, 1]])) - model.distances(ids)
    assert (changed[0].abs() > 1e-9).tolist() == [False, False, True, True, True, False, False]


def test_trees_of_many_sentences_are_those_of_each_alone():
    tokenizer = make_tokenizer("word", CORPUS * 2)
    torch.manual_seed(0)
    model = prpn(make_settings(hidden_size=8), tokenizer)
    sentences = [encode(tokenizer, words) for words in [*CORPUS, ["dog"], ["the", "cat"]]]
    together = list(distance_trees(model, sentences))
    assert together == [next(distance_trees(model, [sentence])) for sentence in sentences]
    assert [list(tree.words()) for tree in together] == [sentence.words for sentence in sentences]
