"""Scores against enumeration of all trees, readings of words and pieces, forced attachments, steered generation."""

import json
import math
from functools import partial
from xml.etree import ElementTree

import pytest
import torch
from conftest import make_model
from transformers import GPT2Config

import som
from modeling_som import SOMForCausalLM, operators_som, search_som
from modeling_som.scoring_som import METHODS, TREES, log_likelihood, read_sequences, score
from modeling_som.search_som import Cloud, agreed_tree, beam_search, particle_filter, resample
from modeling_som.sentences_som import encode
from som.data.vocabularies import make_tokenizer
from som.inference import loading
from som.inference.generation import generate
from som.inference.loading import load
from som.inference.parsing import Parse, parse, parse_all, render
from som.inference.surprisal import plot, surprisals, surprisals_all, to_dicts, to_frame, to_tsv
from som.syntax.oracle import first_siblings, gold_depths, tree_from_depths
from som.syntax.trees import Tree

CORPUS = [
    sentence.split()
    for sentence in (
        "the old dog sees the cat .",
        "the cat sees the old dog and a dog sees a cat .",
        "a cat and the dog , old Fido , run",
    )
]
TEXT = "the old dog sees a Whale."
VOCABULARIES = ("word", "bpe:300")


def make_pair(vocabulary: str, seed: int = 3, **settings):
    """A random model and its tokenizer."""
    tokenizer = make_tokenizer(vocabulary, CORPUS)
    specials = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    return make_model(seed, vocab_size=len(tokenizer), **specials, **settings), tokenizer


@pytest.fixture(params=VOCABULARIES)
def pair(request):
    return make_pair(request.param)


@pytest.fixture
def words():
    return make_pair("word")


@pytest.fixture
def sharp() -> SOMForCausalLM:
    """A model whose two parsers disagree, so that particles get unequal weights and are drawn anew."""
    model = make_model(seed=1)
    with torch.no_grad():
        model.model.parser.score.weight.mul_(12)
        model.model.next_parser.score.weight.mul_(12)
        model.lm_head.weight.mul_(3)
    return model


@pytest.mark.parametrize("tags", [[], ["partial", "head", "root", "nsubj"]], ids=["without tags", "with tags"])
@pytest.mark.parametrize("method", ["greedy", "marginal"])
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_parses_without_log_probabilities_are_the_same_and_predict_no_word(vocabulary, method, tags):
    model, tokenizer = make_pair(vocabulary, tree_tags=tags)
    texts = [*map(" ".join, CORPUS), TEXT, "cat"]
    whole = parse_all(model, tokenizer, texts, method)
    som_model = model.model
    for module in (som_model.next_parser, som_model.predict_cell, model.lm_head):
        module.register_forward_hook(lambda module, *_: pytest.fail(f"{type(module).__name__} was called"))
    trees = parse_all(model, tokenizer, texts, method, log_probs=False)
    assert [one.log_prob for one in trees] == [None] * len(texts)
    for one, other in zip(whole, trees, strict=True):
        assert (one.depths, one.heads, one.relations, one.brackets()) == (
            other.depths, other.heads, other.relations, other.brackets()
        )  # fmt: skip


def sequences() -> list[list[int]]:
    return [[0, 5, 6, 7, 1], [0, 1], [0, 9, 8, 7, 6, 5, 4, 3, 1], [0], [0, 4, 1]]


def all_depths(length: int, num_slots: int) -> list[list[int]]:
    """Every sequence of decisions."""
    depths = [[0]]
    for _ in range(length - 1):
        depths = [[*taken, d] for taken in depths for d in range(1, min(taken[-1] + 1, num_slots) + 1)]
    return depths


@torch.no_grad()
def log_joint(model, ids: list[int], depths: list[list[int]]) -> torch.Tensor:
    """(trees,): log p(w, e) = Σ log p'_t(e) + log softmax(h_t(e))[w], by the model's own forward."""
    out = model(torch.tensor([ids] * len(depths)), depths=torch.tensor(depths))
    attach = torch.tensor(depths)[:, 1:, None] - 1
    prior = out.next_attach_logits[:, :-1].log_softmax(-1).gather(2, attach)
    words = out.logits[:, :-1].log_softmax(-1).gather(2, torch.tensor([ids[1:]] * len(depths))[..., None])
    return (prior + words).sum((1, 2))


# scores


@pytest.mark.parametrize("marginal", [False, True])
@pytest.mark.parametrize("batch_tokens", [1, 12, 4096])
def test_scores_are_those_of_the_model_s_own_logits(marginal, batch_tokens):
    model = make_model(marginal=marginal)
    for ids, scored in zip(sequences(), score(model, sequences(), batch_tokens=batch_tokens), strict=True):
        out = model(torch.tensor([ids]))
        expected = out.logits[0, :-1].log_softmax(-1).gather(1, torch.tensor(ids[1:]).view(-1, 1))[:, 0]
        torch.testing.assert_close(torch.tensor(scored.log_probs, dtype=torch.float64), expected.detach())
        assert scored.depths == out.depths[0].tolist()
        assert scored.guesses == (out.next_attach_logits[0, :-1].argmax(-1) + 1).tolist()


def test_a_few_rows_of_logits_at_a_time_change_nothing(monkeypatch):
    whole = [scored.log_probs for scored in score(make_model(), sequences(), "marginal")]
    monkeypatch.setattr(operators_som, "CHUNK", 40)
    pieces = [scored.log_probs for scored in score(make_model(), sequences(), "marginal")]
    assert [pytest.approx(one) for one in whole] == pieces


def test_scores_with_given_trees_follow_them():
    model, ids = make_model(), [0, 5, 6, 7, 8, 1]
    for depths in all_depths(len(ids), 4):
        (scored,) = score(model, [ids], "greedy", depths=[depths])
        logits = model(torch.tensor([ids]), depths=torch.tensor([depths])).logits
        expected = logits[0, :-1].log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None]).sum().item()
        assert scored.depths == depths and scored.log_prob == pytest.approx(expected)


def test_the_mixture_along_a_given_tree_sums_over_attachments_of_the_next_word():
    model, ids = make_model(), [0, 5, 6, 7]
    for depths in all_depths(3, 4):
        last = [[*depths, d] for d in range(1, depths[-1] + 2)]
        prefix = log_joint(model, ids[:3], [depths])[0]
        (scored,) = score(model, [ids], "marginal", depths=[last[0]])
        expected = log_joint(model, ids, last).logsumexp(0) - prefix
        assert scored.log_probs[-1] == pytest.approx(expected.item())


def test_scoring_leaves_training_mode_and_random_numbers_as_they_were():
    model = make_model(dropout=0.5).train()
    before = torch.get_rng_state()
    first = [scored.log_probs for scored in score(model, sequences(), "particles")]
    assert model.training and torch.equal(before, torch.get_rng_state())
    torch.manual_seed(17)
    assert first == [scored.log_probs for scored in score(model, sequences(), "particles")]


def test_without_prediction_network_only_greedy_scores_exist():
    model = make_model(prediction_network=False)
    (scored,) = score(model, [[0, 5, 6, 1]])
    assert len(scored.log_probs) == 3 and scored.guesses is None
    for method in ("marginal", *TREES):
        with pytest.raises(ValueError, match="needs the prediction network"):
            next(score(model, [[0, 5, 1]], method))


@pytest.mark.parametrize(
    "request_, message",
    [
        ({"sequences": [[0, 1], []]}, "at least one token"),
        ({"sequences": [[0, 1]], "method": "guess"}, "greedy, marginal, particles, beam"),
        ({"sequences": [[0, 1]], "method": "particles", "depths": [[0, 1]]}, "finds trees of its own"),
    ],
)
def test_what_cannot_be_scored_is_refused(request_, message):
    with pytest.raises(ValueError, match=message):
        next(score(make_model(), **request_))


# the joint model


def test_the_joint_model_is_a_distribution_over_words_and_trees():
    model = make_model(vocab_size=7)
    pairs = [[0, a, b] for a in range(7) for b in range(7)]
    total = torch.stack([log_joint(model, ids, all_depths(3, 4)).logsumexp(0) for ids in pairs]).logsumexp(0)
    assert total.item() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("length", [2, 4, 6])
def test_particles_converge_to_the_sum_over_all_trees(length):
    model, ids = make_model(num_slots=3), [0, *range(5, 3 + length), 1]
    exact = log_joint(model, ids, all_depths(len(ids), 3)).logsumexp(0).item()
    (scored,) = score(model, [ids], "particles", k=20_000)
    assert scored.log_prob == pytest.approx(exact, abs=0.02)


def test_particles_are_unbiased_in_probability_also_when_drawn_anew(sharp):
    ids = [0, 5, 6, 7, 1]
    exact = log_joint(sharp, ids, all_depths(len(ids), 4)).logsumexp(0)
    seeds = range(150)
    estimates = torch.tensor([next(score(sharp, [ids], "particles", k=8, seed=seed)).log_prob for seed in seeds])
    ratios = (estimates.double() - exact).exp()
    assert ratios.std() > 0.05  # or there is nothing to test
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / len(seeds) ** 0.5


def test_particles_are_drawn_anew_in_that_test(sharp, monkeypatch):
    drawn_anew = []

    def watched(tree, weight, noise):
        after = resample(tree, weight, noise)
        drawn_anew.append(not torch.equal(after[0], tree))
        return after

    monkeypatch.setattr(search_som, "resample", watched)
    for seed in range(20):
        next(score(sharp, [[0, 5, 6, 7, 1]], "particles", k=8, seed=seed))
    assert sum(drawn_anew) > 3


def test_particles_are_drawn_anew_by_weight():
    weight = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]], dtype=torch.float64).log()
    tree = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]])
    counts = torch.zeros(4)
    for noise in torch.linspace(0, 0.999, 200, dtype=torch.float64):
        again, after = resample(tree, weight, noise)
        counts += again[0].bincount(minlength=4) / 200
        assert again[1].tolist() == [4, 5, 6, 7]
        assert after.exp()[0].unique().numel() == 1
    assert counts.tolist() == pytest.approx([2.8, 0.4, 0.4, 0.4], abs=0.03)


def expected_brackets(model, ids: list[int], trees: list[list[int]]) -> torch.Tensor:
    """(trees,): how many of a tree's constituents are to be expected in one that is drawn by its probability."""
    spans = [set(tree_from_depths(depths[1:]).spans()) for depths in trees]  # without BOS
    shared = torch.tensor([[len(one & other) for other in spans] for one in spans], dtype=torch.float64)
    return shared @ log_joint(model, ids, trees).softmax(0)


@pytest.mark.parametrize(("method", "k"), [("particles", 5000), ("beam", 1000)])
def test_the_parse_has_the_most_constituents_to_expect(sharp, method, k):
    for ids in ([0, 5, 6, 7, 1], [0, 9, 3, 4, 8, 1]):
        trees = all_depths(len(ids), 4)
        (scored,) = score(sharp, [ids], method, k=k)
        assert scored.depths == trees[expected_brackets(sharp, ids, trees).argmax()]


def test_a_tree_that_the_others_agree_with_is_before_the_most_probable_one():
    depths = torch.tensor([[0, 1, 2, 2, 2, 1], [0, 1, 2, 3, 4, 1], [0, 1, 2, 3, 3, 1]])  # ((ab)c)d, a(b(cd)), a((bc)d)
    joint = torch.tensor([0.4, 0.35, 0.25]).log()
    nothing, sentence = torch.zeros(1), torch.zeros(3, dtype=torch.long)
    cloud = Cloud(nothing, nothing, None, sentence, depths, joint, joint)
    assert agreed_tree(cloud, 0) == [0, 1, 2, 3, 4, 1]


@pytest.mark.parametrize("method", TREES)
def test_a_sentence_has_the_same_trees_in_any_company(method):
    model = make_model()
    together = list(score(model, sequences(), method, k=8))
    alone = [next(score(model, [ids], method, k=8)) for ids in sequences()]
    for one, other in zip(together, alone, strict=True):
        assert one.depths == other.depths and one.log_probs == pytest.approx(other.log_probs)


def test_only_particles_depend_on_the_seed():
    model = make_model()
    for method in TREES:
        first, second = (list(score(model, sequences(), method, k=8, seed=seed)) for seed in (0, 1))
        assert (first == second) == (method == "beam")


def log_merit(model, ids: list[int], depths: list[list[int]]) -> torch.Tensor:
    """(trees,): log p(w, e) + Σ log p_t(e), by the model's own forward."""
    with torch.no_grad():
        out = model(torch.tensor([ids] * len(depths)), depths=torch.tensor(depths))
    posterior = out.attach_logits[:, 1:].log_softmax(-1).gather(2, torch.tensor(depths)[:, 1:, None] - 1)
    return log_joint(model, ids, depths) + posterior.sum((1, 2))


def test_a_wide_beam_is_the_sum_over_all_trees(sharp):
    for ids in ([0, 5, 6, 7, 1], [0, 9, 3, 4, 8, 1]):
        trees = all_depths(len(ids), 4)
        (scored,) = score(sharp, [ids], "beam", k=len(trees))
        assert scored.log_prob == pytest.approx(log_joint(sharp, ids, trees).logsumexp(0).item())


@torch.no_grad()
def test_a_narrow_beam_keeps_the_best_trees_that_grow_from_those_it_kept(sharp):
    ids, kept = [0, 9, 3, 4, 8, 1], [[0]]
    for t, cloud in enumerate(beam_search(sharp, torch.tensor([ids]), torch.ones(1, len(ids)).long(), k=3), start=2):
        grown = [[*tree, d] for tree in kept for d in range(1, min(tree[-1] + 1, 4) + 1)]
        best = log_merit(sharp, ids[:t], grown).topk(min(3, len(grown)))
        kept = [grown[place] for place in best.indices]
        assert cloud.depths.tolist() == kept
        torch.testing.assert_close(cloud.merit, best.values)


def test_a_narrow_beam_is_a_lower_bound(sharp):
    ids = [0, 9, 3, 4, 8, 1]
    bounds = [next(score(sharp, [ids], "beam", k=k)).log_prob for k in (1, 2, 4, 1000)]
    assert bounds == sorted(bounds) and bounds[0] < bounds[-1]


@torch.no_grad()
@pytest.mark.parametrize("follow", [partial(particle_filter, k=50, seed=0), partial(beam_search, k=5)])
def test_each_tree_in_the_cloud_has_its_joint_probability(follow):
    model, ids = make_model(), [0, 5, 6, 7, 1]
    for t, cloud in enumerate(follow(model, torch.tensor([ids]), torch.ones(1, len(ids)).long()), start=2):
        assert len(set(map(tuple, cloud.depths.tolist()))) == len(cloud.depths)
        torch.testing.assert_close(cloud.joint, log_joint(model, ids[:t], cloud.depths.tolist()))


# text


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_text_and_its_words_are_read_alike(vocabulary):
    tokenizer = make_tokenizer(vocabulary, CORPUS)
    text, separate = encode(tokenizer, TEXT), encode(tokenizer, ["the", "old", "dog", "sees", "a", "Whale", "."])
    assert text.ids == separate.ids == [*tokenizer(TEXT).input_ids, tokenizer.eos_token_id]
    assert (text.words, text.starts) == (separate.words, separate.starts)
    assert [TEXT[start:end] for start, end in text.offsets] == text.words
    assert [" ".join(separate.words)[start:end] for start, end in separate.offsets] == text.words


def test_the_pieces_of_a_word_are_found_whatever_its_characters():
    tokenizer = make_tokenizer("bpe:300", CORPUS)
    text = "The mid-1990s cat's ☃  naïve\t日本 don't."
    sentence = encode(tokenizer, text)
    assert sentence.words == ["The", "mid-1990s", "cat", "'s", "☃", "naïve", "日本", "do", "n't", "."]
    for word, start, stop in zip(sentence.words, sentence.starts, [*sentence.starts[1:], -1], strict=True):
        assert tokenizer.decode(sentence.ids[start:stop]).strip() == word


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("text", ["", " \t\n", [], ["the", "", "dog"]])
def test_nothing_to_read_is_refused(vocabulary, text):
    with pytest.raises(ValueError, match="empty|nothing for the word ''"):
        encode(make_tokenizer(vocabulary, CORPUS), text)


@pytest.mark.parametrize("method", METHODS)
def test_log_likelihood_counts_the_end_only_if_wanted(pair, method):
    model, tokenizer = pair
    whole, open_ = (log_likelihood(model, tokenizer, TEXT, method, k=4, eos=eos) for eos in (True, False))
    ids = encode(tokenizer, TEXT).ids
    (scored,) = score(model, [ids], method, k=4)
    assert (whole, open_) == pytest.approx((scored.log_prob, scored.log_prob - scored.log_probs[-1]))


@pytest.mark.parametrize("method", METHODS)
def test_unknown_words_alone_get_a_proper_result(pair, method):
    model, tokenizer = pair
    text = "Xyzzy frobnicates 12,345 Quuxes"
    assert parse(model, tokenizer, text, method, k=4).words == text.split()
    assert all(math.isfinite(row.surprisal) for row in surprisals(model, tokenizer, text, method, k=4))


# trees


def test_a_parse_is_the_tree_of_the_model_s_decisions(pair):
    model, tokenizer = pair
    sentence = encode(tokenizer, TEXT)
    depths = model(torch.tensor([sentence.ids])).depths[0].tolist()
    expected = tree_from_depths([depths[start] for start in sentence.starts], sentence.words)
    assert parse(model, tokenizer, TEXT).to_nltk() == expected.to_nltk()
    assert parse(model, tokenizer, TEXT).words == sentence.words


def test_many_sentences_are_parsed_as_each_alone(pair):
    model, tokenizer = pair
    texts = [TEXT, "a dog", "Fido", "the cat and the dog sees the old cat ."]
    together = parse_all(model, tokenizer, texts)
    assert [one.tree for one in together] == [parse(model, tokenizer, text).tree for text in texts]


def test_trees_are_written_in_every_format_and_read_back():
    parse = Parse(["the", "old", "dog", "(", "barks"], [(0, 1)] * 5, [1, 2, 3, 2, 2])
    assert Tree.parse(render([parse], "brackets")) == parse.tree
    assert render([parse], "evalb") == "(X (X (X (X the) (X (X old) (X dog))) (X -LRB-)) (X barks))\n"
    rows = [line.split("\t") for line in render([parse, parse], "conll").splitlines() if line and line[0] != "#"]
    assert [row[:4] for row in rows[:5]] == [
        ["1", "the", "1", "0"],
        ["2", "old", "2", "1"],
        ["3", "dog", "3", "2"],
        ["4", "(", "2", "1"],
        ["5", "barks", "2", "1"],
    ]
    assert len(rows) == 10
    svg = ElementTree.fromstring(render([parse], "svg"))
    assert set(parse.words) <= {text.strip() for text in svg.itertext()} and "barks" in render([parse], "tree")
    assert json.loads(json.dumps(parse.to_dict()))["first_siblings"] == [0, 1, 2, 1, 1]


def test_first_siblings_of_a_parse_give_its_depths_back():
    parse = Parse(list("abcdef"), [(0, 1)] * 6, [1, 2, 3, 3, 2, 3])
    tree = Tree(("BOS", parse.tree, "EOS"))
    assert gold_depths(first_siblings(tree))[1:-1] == parse.depths


def test_evalb_files_are_what_pyevalb_reads():
    scorer = pytest.importorskip("PYEVALB.scorer", reason="PYEVALB is not installed")
    from PYEVALB.parser import create_from_bracket_string

    words, places = ["the", "cat", "sleeps", "."], [(0, 1)] * 4
    left, right = (Parse(words, places, depths) for depths in ([1, 2, 2, 2], [1, 2, 3, 4]))
    trees = [create_from_bracket_string(parse.evalb()) for parse in (left, right)]
    scores = [scorer.Scorer().score_trees(trees[0], tree) for tree in trees]
    assert [(one.matched_brackets, one.gold_brackets) for one in scores] == [(3, 3), (1, 3)]


def test_five_thousand_words_are_read_and_written_but_not_drawn():
    model, tokenizer = make_pair("word", num_slots=1)  # every tree branches to the left: as deep as can be
    text = " ".join(["the old dog sees a cat"] * 834)
    rows = surprisals(model, tokenizer, text)
    parsed = Parse([row.word for row in rows], [(row.start, row.end) for row in rows], [row.depth for row in rows])
    assert len(parsed.words) == 5004 and all(math.isfinite(row.surprisal) for row in rows)
    assert Tree.parse(parsed.brackets()) == parsed.tree
    assert parsed.conll().count("\n") == 5005 and parsed.evalb().count("(X the)") == 834
    assert parsed.to_nltk().label() == "*"
    for draw in (parsed.draw, parsed.svg):
        with pytest.raises(ValueError, match="5004 words are too many to draw"):
            draw()


# surprisal


@pytest.mark.parametrize("method", [method for method in METHODS if method != "beam"])  # which drops trees
def test_surprisals_of_the_words_add_up_to_the_log_likelihood(pair, method):
    model, tokenizer = pair
    rows = surprisals(model, tokenizer, TEXT, method, k=8, eos=True)
    total = -log_likelihood(model, tokenizer, TEXT, method, k=8) / math.log(2)
    assert sum(row.surprisal for row in rows) == pytest.approx(total)
    assert [row.word for row in rows] == [*encode(tokenizer, TEXT).words, tokenizer.eos_token]
    assert [TEXT[row.start : row.end] for row in rows] == [*encode(tokenizer, TEXT).words, ""]


@pytest.mark.parametrize("method", METHODS)
def test_the_parts_are_those_of_the_tree_taken(pair, method):
    model, tokenizer = pair
    rows = surprisals(model, tokenizer, TEXT, method, k=8, eos=True)
    ids = encode(tokenizer, TEXT).ids
    (scored,) = score(model, [ids], method, k=8)
    joint = log_joint(model, ids, [scored.depths]).item()
    assert sum(row.structural + row.lexical for row in rows) == pytest.approx(-joint / math.log(2))
    (lexical,) = score(model, [ids], "greedy", depths=[scored.depths])
    assert sum(row.lexical for row in rows) == pytest.approx(-lexical.log_prob / math.log(2))


def test_entropies_are_those_of_both_parsers(words):
    model, tokenizer = words
    out = model(torch.tensor([encode(tokenizer, TEXT).ids]))
    for t, row in enumerate(surprisals(model, tokenizer, TEXT), start=1):
        before, after = (
            torch.distributions.Categorical(logits=logits).entropy().item() / math.log(2)
            for logits in (
                out.next_attach_logits[0, t - 1][out.next_attach_logits[0, t - 1].isfinite()],
                out.attach_logits[0, t][out.attach_logits[0, t].isfinite()],
            )
        )
        assert (row.entropy_before, row.entropy_after) == pytest.approx((before, after))


def test_without_prediction_network_there_is_no_structural_part():
    model, tokenizer = make_pair("word", prediction_network=False)
    for row in surprisals(model, tokenizer, TEXT):
        assert row.structural is None and row.entropy_before is None and row.lexical == row.surprisal


def test_partial_parses_of_particles_are_the_posterior_over_trees(words):
    model, tokenizer = words
    ids = encode(tokenizer, "the old dog sees").ids
    rows = surprisals(model, tokenizer, "the old dog sees", "particles", k=3000, parses=100)
    for t, row in enumerate(rows, start=2):
        trees = all_depths(t, 4)
        posterior = log_joint(model, ids[:t], trees).softmax(0).tolist()
        expected = {tuple(depths[1:]): probability for depths, probability in zip(trees, posterior, strict=True)}
        assert {tuple(one.depths): one.probability for one in row.parses} == pytest.approx(expected, abs=0.02)
        assert [one.probability for one in row.parses] == sorted((p.probability for p in row.parses), reverse=True)


def test_partial_parses_of_a_wide_beam_have_their_posterior(words):
    model, tokenizer = words
    ids = encode(tokenizer, "the old dog").ids[:4]
    last = surprisals(model, tokenizer, "the old dog", "beam", k=100, parses=100)[-1]
    trees = [[0, *one.depths] for one in last.parses]
    assert sorted(trees) == sorted(all_depths(4, 4))
    assert [one.probability for one in last.parses] == pytest.approx(log_joint(model, ids, trees).softmax(0).tolist())
    assert log_merit(model, ids, trees).diff().max() <= 0


def test_partial_parses_of_greedy_reading_are_the_attachments_of_the_word(pair):
    model, tokenizer = pair
    rows = surprisals(model, tokenizer, TEXT, parses=9)
    for i, row in enumerate(rows):
        assert sum(one.probability for one in row.parses) == pytest.approx(1)
        assert row.parses[0].depths == [before.depth for before in rows[: i + 1]]
        assert row.parses[0].brackets == str(tree_from_depths(row.parses[0].depths, [r.word for r in rows[: i + 1]]))


def test_a_forced_attachment_is_taken_and_paid_for(pair):
    model, tokenizer = pair
    sentence, free = encode(tokenizer, TEXT, eos=False), surprisals(model, tokenizer, TEXT)
    start = sentence.starts[3]
    deepest = min(read_sequences(model, [sentence.ids])[0].depths[start - 1] + 1, 4)
    for depth in range(1, deepest + 1):
        forced = surprisals(model, tokenizer, TEXT, attach={4: depth})
        assert [row.surprisal for row in forced[:3]] == pytest.approx([row.surprisal for row in free[:3]])
        assert forced[3].depth == depth
        assert sentence.starts[4] == start + 1  # one piece in both vocabularies
        assert forced[3].surprisal == pytest.approx(forced[3].structural + forced[3].lexical)
        later = [row.surprisal for row in forced[4:]] == pytest.approx([row.surprisal for row in free[4:]])
        assert later == (depth == free[3].depth)


def test_the_attachment_taken_anyway_changes_only_the_price_of_that_word(words):
    model, tokenizer = words
    free = surprisals(model, tokenizer, TEXT, "marginal")
    forced = surprisals(model, tokenizer, TEXT, "marginal", attach={4: free[3].depth})
    for a, b in zip(free, forced, strict=True):
        if a.number != 4:
            assert (a.surprisal, a.depth) == (pytest.approx(b.surprisal), b.depth)
    assert forced[3].surprisal > free[3].surprisal


def test_a_word_can_be_attached_to_what_another_begins(words):
    model, tokenizer = words
    rows = surprisals(model, tokenizer, TEXT, attach={2: 2, 3: 3, 4: "word 2", 5: "word 1"})
    assert [row.depth for row in rows[:5]] == [1, 2, 3, 3, 2]
    assert surprisals(model, tokenizer, TEXT, attach={4: "word 0"})[3].depth == 1


@pytest.mark.parametrize(
    "attach, message",
    [
        ({8: 1}, "word 8 cannot be attached: words are 1 to 7"),
        ({0: 1}, "word 0 cannot be attached"),
        ({1: 2}, r"word 1 \('the'\) cannot be put at depth 2: here depths are 1 to 1"),
        ({2: 2, 3: 4}, r"word 3 \('dog'\) cannot be put at depth 4: here depths are 1 to 3"),
        ({2: 2, 3: 0}, "cannot be put at depth 0"),
        ({2: 2, 3: 1, 4: "word 2"}, "cannot join what word 2 begins"),
        ({2: 2, 3: 3, 4: 4, 5: "word 4"}, "too deep"),
        ({3: "word 3"}, "an earlier 'word N'"),
        ({3: "dog"}, "an earlier 'word N'"),
    ],
)
def test_an_attachment_out_of_reach_is_refused(words, attach, message):
    with pytest.raises(ValueError, match=message):
        surprisals(*words, TEXT, attach=attach)


def test_attachments_cannot_be_forced_on_particles(words):
    with pytest.raises(ValueError, match="finds trees of its own"):
        surprisals(*words, TEXT, "particles", attach={2: 1})


def test_surprisals_become_tables_json_and_pictures(words, tmp_path):
    sentences = surprisals_all(*words, [TEXT, "a dog"], parses=2)
    frame, lines = to_frame(sentences), [line.split("\t") for line in to_tsv(sentences).splitlines()]
    assert list(frame.columns) == lines[0] and len(frame) == len(lines) - 1 == 9
    assert frame.surprisal.tolist() == [row.surprisal for rows in sentences for row in rows]
    assert [float(line[6]) for line in lines[1:]] == pytest.approx(frame.surprisal.tolist(), abs=1e-4)
    assert json.loads(json.dumps(to_dicts(sentences)))[1]["words"][0]["parses"][0]["brackets"] == "(a)"
    plot(sentences).savefig(tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text().count("<svg") == 1


# generation


def test_free_texts_are_those_of_generate_and_their_trees_those_read(pair):
    model, tokenizer = pair
    (greedy,) = generate(model, tokenizer, "the old", do_sample=False, unknown=True, max_new_tokens=9)
    prompt = torch.tensor([encode(tokenizer, "the old", eos=False).ids])
    special = [i for i in tokenizer.all_special_ids if i not in (tokenizer.eos_token_id, tokenizer.unk_token_id)]
    ids = model.generate(prompt, do_sample=False, max_new_tokens=9, suppress_tokens=special)[0].tolist()
    (scored,) = score(model, [ids])
    assert greedy.log_prob == pytest.approx(sum(scored.log_probs[prompt.shape[1] - 1 :]))
    assert greedy.parse.words[:1] == ["the"] and greedy.tree.words() == tuple(greedy.parse.words)
    assert greedy.text == tokenizer.decode(ids, skip_special_tokens=True).strip()


def test_texts_depend_on_the_seed_alone(pair):
    model, tokenizer = pair
    for steer in ({}, {"max_depth": 2}):
        state = torch.get_rng_state()
        first = generate(model, tokenizer, n=3, seed=5, max_new_tokens=8, **steer)
        assert torch.equal(state, torch.get_rng_state())
        torch.manual_seed(99)
        assert first == generate(model, tokenizer, n=3, seed=5, max_new_tokens=8, **steer)
        assert first != generate(model, tokenizer, n=3, seed=6, max_new_tokens=8, **steer)
        assert len({one.text for one in first}) > 1


def test_unknown_words_are_only_made_when_wanted(words):
    model, tokenizer = words
    texts = [one.text for one in generate(model, tokenizer, n=40, unknown=True)]
    assert any("UNK" in text for text in texts)
    assert not any("UNK" in one.text for one in generate(model, tokenizer, n=40))


def test_no_word_is_deeper_than_the_greatest_depth(words):
    model, tokenizer = words
    for max_depth in (1, 2, 3):
        for one in generate(model, tokenizer, "the old", n=10, max_depth=max_depth, max_new_tokens=12):
            assert max(one.parse.depths[2:], default=1) <= max_depth
    assert max(max(one.parse.depths) for one in generate(model, tokenizer, n=10, max_new_tokens=12)) > 3


@pytest.mark.parametrize("template", ["((the _) (sees (a Whale)))", "(_)", "(((_ dog) _) _)", "(_ (_ (_ _)))"])
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_template_is_filled_and_its_tree_kept(vocabulary, template):
    model, tokenizer = make_pair(vocabulary, num_slots=6)
    wanted = Tree.parse(template)
    for one in generate(model, tokenizer, template=template, n=5):
        assert [a for a, b in zip(one.parse.words, wanted.words(), strict=True) if a != b and b != "_"] == []
        blank = dict(enumerate(wanted.words()))
        shape = tree_from_depths(one.parse.depths, [blank[i] for i in range(len(one.parse.words))])
        assert shape == wanted and "_" not in one.parse.words


def test_a_steered_text_has_the_joint_probability_of_its_words_and_tree(words):
    model, tokenizer = words
    for one in generate(model, tokenizer, n=5, template="((_ _) (_ _))"):
        ids = encode(tokenizer, one.parse.words).ids
        assert one.log_prob == pytest.approx(log_joint(model, ids, [[0, *one.parse.depths, 1]]).item())


def test_steered_words_are_drawn_from_the_joint_model(words):
    model, tokenizer = words
    drawn = generate(model, tokenizer, n=4000, template="(_)", unknown=True)
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    first = model(torch.tensor([[bos]])).logits[0, 0].log_softmax(-1).exp()
    first[[bos, eos, tokenizer.pad_token_id]] = 0
    for token in first.topk(3).indices.tolist():
        share = sum(one.parse.words == tokenizer.convert_ids_to_tokens([token]) for one in drawn) / len(drawn)
        assert share == pytest.approx((first[token] / first.sum()).item(), abs=0.03)


def test_attachments_can_be_allowed_by_a_function_of_those_before(words):
    model, tokenizer = words
    right = generate(model, tokenizer, n=3, allow=lambda depths: [min(depths[-1] + 1, 4)], max_new_tokens=5)
    assert {tuple(one.parse.depths[:5]) for one in right} <= {(1, 2, 3, 4, 4)[:n] for n in range(1, 6)}
    with pytest.raises(ValueError, match=r"none of depths 1 to 1 is allowed"):
        generate(model, tokenizer, allow=lambda depths: [3])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"template": "((the _)"}, "not closed"),
        ({"template": "(_ (_ (_ (_ (_ _)))))"}, "6 deep, the model has only 4 slots"),
        ({"template": "(_)", "prompt": "the"}, "cannot be combined with a prompt"),
        ({"template": "(_)", "max_depth": 2}, "cannot be combined with a prompt, max_depth"),
        ({"max_depth": 0}, "at least 1"),
        ({"n": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_generated_is_refused(words, options, message):
    with pytest.raises(ValueError, match=message):
        generate(*words, **options)


def test_steering_needs_the_prediction_network():
    with pytest.raises(ValueError, match="prediction network"):
        generate(*make_pair("word", prediction_network=False), max_depth=2)


# checkpoints


def save(folder, vocabulary="word", **settings):
    model, tokenizer = make_pair(vocabulary, dtype=torch.float32, **settings)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_saved_checkpoint_scores_as_before(tmp_path, vocabulary):
    before = save(tmp_path, vocabulary)
    after = som.load(tmp_path)
    assert som.log_likelihood(*after, TEXT) == pytest.approx(som.log_likelihood(*before, TEXT))
    assert som.parse(*after, TEXT).tree == som.parse(*before, TEXT).tree
    assert not after[0].training


def test_a_checkpoint_of_another_model_is_refused_in_one_line(tmp_path):
    GPT2Config().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="expected a SOM checkpoint, found a model of type 'gpt2'") as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_vocabulary_that_does_not_match_is_refused(tmp_path):
    save(tmp_path)
    make_tokenizer("bpe:300", CORPUS).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="the tokenizer does not match the model"):
        load(tmp_path)


def test_a_missing_checkpoint_is_named(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="nowhere: expected a checkpoint: no such folder"):
        load(tmp_path / "nowhere")
    monkeypatch.setattr(loading, "SHIPPED", tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no checkpoint comes with this installation"):
        load()


def test_what_the_package_does_not_export_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'parze'"):
        som.parze  # noqa: B018


def test_weights_that_are_no_numbers_are_refused(checkpoint, tmp_path):
    model, tokenizer = som.load(checkpoint)
    with torch.no_grad():
        model.model.cell.gates.semantic.bias[0] = float("nan")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="expected finite weights, these are not: model.cell.gates.semantic.bias"):
        som.load(tmp_path)


@pytest.mark.parametrize("method", ["greedy", "marginal", "particles", "beam"])
def test_words_that_overflow_are_one_clear_error(pair, method):
    model, tokenizer = pair
    with torch.no_grad():
        model.lm_head.bias.fill_(math.inf)
    for use in (parse, surprisals):
        with pytest.raises(ValueError, match="words are not numbers .NaN.: its weights are not finite, or overflow"):
            use(model, tokenizer, "the old dog sees a cat", method)


@pytest.mark.parametrize("method", ["particles", "beam"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_many_trees_of_weights_that_are_no_numbers_are_one_clear_error(pair, method, wrong):
    model, tokenizer = pair
    with torch.no_grad():
        model.model.parser.score.weight.fill_(wrong)
    for use in (parse, surprisals):
        with pytest.raises(ValueError, match="not numbers .NaN.: its weights are not finite"):
            use(model, tokenizer, "the old dog sees a cat", method)
