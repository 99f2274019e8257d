"""What experiments on reading need of a word, each measure against a slow and obvious form."""

import math

import pytest
import torch
from test_inference import CORPUS, TEXT, VOCABULARIES, all_depths, log_joint, log_merit, make_pair

import som
from modeling_som.counts_som import WORD_COUNTS, WordCounts, find_word_counts
from modeling_som.scoring_som import METHODS
from modeling_som.sentences_som import encode
from modeling_som.surprisal_som import tree_changes
from modeling_som.tags_som import Labels
from som.data import prepare
from som.inference.surprisal import MEASURES, surprisals, surprisals_all, to_records, to_tsv
from som.syntax import to_conllu
from som.syntax.trees import Tree
from som.training import train

TINY = {"hidden_size": 8, "num_slots": 4, "batch_size": 4, "epochs": 2, "save_steps": 2}


@pytest.fixture(params=VOCABULARIES)
def pair(request):
    return make_pair(request.param)


def entropy_bits(probabilities: torch.Tensor) -> float:
    return torch.distributions.Categorical(probs=probabilities).entropy().item() / math.log(2)


@torch.no_grad()
def after_trees(model, ids: list[int], trees: list[list[int]]) -> torch.Tensor:
    """(V,): what a cloud of trees, weighted by their joint probability, expects after these ids; full softmaxes."""
    model.config.marginal = True
    rows = [model.model(torch.tensor([ids]), depths=torch.tensor([tree]), marginal=True) for tree in trees]
    predicted = []
    for out in rows:
        count = int(out.next_attach_logits[0, -1].isfinite().sum())
        words = model.lm_head(out.branch_states[-count:]).softmax(-1)  # (guesses, V)
        predicted.append(out.next_attach_logits[0, -1, :count].softmax(-1) @ words)
    return log_joint(model, ids, trees).softmax(0) @ torch.stack(predicted)


@pytest.mark.parametrize("method", ["greedy", "marginal"])
def test_next_entropy_is_that_of_the_whole_mixture(pair, method):
    model, tokenizer = pair
    sentence = encode(tokenizer, TEXT)
    rows = surprisals(model, tokenizer, TEXT, method, eos=True)
    with torch.no_grad():
        depths = model(torch.tensor([sentence.ids])).depths[0].tolist()
    for row, start in zip(rows, [*sentence.starts, len(sentence.ids) - 1], strict=True):
        expected = after_trees(model, sentence.ids[:start], [depths[:start]])
        assert row.next_entropy == pytest.approx(entropy_bits(expected))


def test_without_prediction_network_next_entropy_is_that_of_the_softmax():
    model, tokenizer = make_pair("word", prediction_network=False)
    with torch.no_grad():
        logits = model(torch.tensor([encode(tokenizer, TEXT).ids])).logits[0]
    for row, expected in zip(surprisals(model, tokenizer, TEXT), logits.softmax(-1), strict=False):
        assert row.next_entropy == pytest.approx(entropy_bits(expected))


def test_a_wide_beam_has_the_surprisal_and_entropy_of_all_trees():
    model, tokenizer = make_pair("word")
    ids = encode(tokenizer, "the old dog sees").ids
    rows = surprisals(model, tokenizer, "the old dog sees", "beam", k=1000)
    for t, row in enumerate(rows, start=1):
        before, after = (log_joint(model, ids[:n], all_depths(n, 4)).logsumexp(0).item() for n in (t, t + 1))
        assert row.surprisal == pytest.approx((before - after) / math.log(2))
        assert row.next_entropy == pytest.approx(entropy_bits(after_trees(model, ids[:t], all_depths(t, 4))))
    last = entropy_bits(after_trees(model, ids[:-1], all_depths(len(ids) - 1, 4)))
    assert rows[-1].entropy_reduction == pytest.approx(rows[-1].next_entropy - last)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_narrow_beam_sums_before_it_drops_trees(k):
    model, tokenizer = make_pair("word", seed=4)
    ids, kept = encode(tokenizer, TEXT, eos=False).ids, [[0]]
    for t, row in enumerate(surprisals(model, tokenizer, TEXT, "beam", k=k), start=1):
        grown = [[*tree, d] for tree in kept for d in range(1, min(tree[-1] + 1, 4) + 1)]
        before = log_joint(model, ids[:t], kept).logsumexp(0).item()
        assert row.surprisal == pytest.approx(
            (before - log_joint(model, ids[: t + 1], grown).logsumexp(0).item()) / math.log(2)
        )
        assert row.next_entropy == pytest.approx(entropy_bits(after_trees(model, ids[:t], kept)))
        merit = log_merit(model, ids[: t + 1], grown)
        kept = [grown[place] for place in merit.topk(min(k, len(grown))).indices]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_entropies_that_go_on_from_word_to_word(pair, method):
    model, tokenizer = pair
    rows = surprisals(model, tokenizer, TEXT, method, k=5, eos=True)
    without = surprisals(model, tokenizer, TEXT, method, k=5)
    for row, following in zip(rows, rows[1:], strict=False):
        assert row.entropy_reduction == pytest.approx(row.next_entropy - following.next_entropy)
    assert rows[-1].entropy_reduction is None
    assert [row.next_entropy for row in without] == pytest.approx([row.next_entropy for row in rows[:-1]])
    assert [row.surprisal for row in without] == pytest.approx([row.surprisal for row in rows[:-1]])


def test_particles_expect_what_their_trees_do():
    model, tokenizer = make_pair("word")
    ids = encode(tokenizer, "the old dog").ids
    rows = surprisals(model, tokenizer, "the old dog", "particles", k=20000)
    for t, row in enumerate(rows, start=1):
        exact = entropy_bits(after_trees(model, ids[:t], all_depths(t, 4)))
        assert row.next_entropy == pytest.approx(exact, abs=0.01)


def test_sentences_have_the_same_entropies_in_any_company(pair):
    model, tokenizer = pair
    texts = [TEXT, "the dog", "a cat and the dog , old Fido , run"]
    for method in ("marginal", "beam", "particles"):
        together = surprisals_all(model, tokenizer, texts, method, k=4)
        alone = [surprisals(model, tokenizer, text, method, k=4) for text in texts]
        for one, other in zip(together, alone, strict=True):
            assert [row.next_entropy for row in one] == pytest.approx([row.next_entropy for row in other])


def test_small_chunks_of_logits_change_nothing(pair, monkeypatch):
    model, tokenizer = pair
    whole = [row.next_entropy for row in surprisals(model, tokenizer, TEXT)]
    monkeypatch.setattr("modeling_som.operators_som.CHUNK", 1)
    assert [row.next_entropy for row in surprisals(model, tokenizer, TEXT)] == pytest.approx(whole)


# the tree


def test_closings_and_openings_are_those_of_the_tree_by_hand():
    depths = [1, 2, 2, 3, 2]  # (((the cat) (sat down)) .)
    changes = tree_changes(depths, None)
    assert [change.closed for change in changes] == [0, 0, 1, 0, 2]
    assert [change.opened for change in changes] == [1, 1, 1, 1, 1]
    assert [change.open for change in changes] == [0, 1, 1, 2, 1]
    # with tags, ((the cat) (sat down) .) is one constituent: the full stop goes on with it
    labels = Labels(["det", "head", "head", "advmod", "punct"], [None, "nsubj", "partial", "root", "root"])
    changes = tree_changes(depths, labels)
    assert [change.closed for change in changes] == [0, 0, 1, 0, 1]
    assert [change.opened for change in changes] == [1, 1, 1, 1, 0]


@pytest.mark.parametrize("depths", all_depths(6, 4), ids=str)
def test_every_constituent_that_is_opened_gets_closed(depths):
    *words, _ = depths[1:]
    changes = tree_changes([*words, 1], None)  # with EOS
    assert sum(change.opened for change in changes[:-1]) == sum(change.closed for change in changes)
    assert all(change.closed >= 0 for change in changes)


def test_closings_are_the_ends_of_constituents():
    tree = Tree.parse("((the ((old dog) (near it))) (sees cats))")
    depths = [1, 2, 3, 3, 4, 2, 3]
    ends = [end for start, end in tree.spans() if end - start > 1]
    closed = [change.closed for change in tree_changes([*depths, 1], None)]
    assert closed[1:-1] == [ends.count(word) for word in range(1, 7)]


# the training data


@pytest.fixture(scope="module", params=VOCABULARIES)
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "all.conllu").write_text("".join(to_conllu(words, range(len(words))) for words in CORPUS))
    files = {split: [folder / "all.conllu"] for split in ("train", "validation", "test")}
    prepare(files, folder / "data", tokenizer=request.param, tags="none")
    train(folder / "data", folder / "run", **TINY)
    return folder


def test_counts_go_from_the_data_to_every_checkpoint(trained):
    content = (trained / "data" / WORD_COUNTS).read_bytes()
    counts = WordCounts.read(trained / "data" / WORD_COUNTS)
    flat = [word for words in CORPUS for word in words]
    assert dict(counts.counts) == {word: flat.count(word) for word in flat}
    folders = [trained / "run", *(trained / "run").glob("checkpoint-*")]
    assert len(folders) > 1 and all((folder / WORD_COUNTS).read_bytes() == content for folder in folders)


def test_words_know_their_frequency_and_length(trained):
    rows = surprisals(*som.load(trained / "run"), "the old Dog sees", eos=True)
    flat = [word for words in CORPUS for word in words]
    assert [row.unknown for row in rows] == [False, False, True, False, None]
    assert [row.length for row in rows] == [3, 3, 3, 4, 0]
    expected = [math.log10((flat.count(word) + 1) / len(flat) * 1e6) for word in ("the", "old", "Dog", "sees")]
    assert [row.log_frequency for row in rows[:-1]] == pytest.approx(expected) and rows[-1].log_frequency is None


def test_without_counts_frequencies_are_empty(pair):
    model, tokenizer = pair
    assert find_word_counts(tokenizer) is None
    assert {(row.unknown, row.log_frequency) for row in surprisals(model, tokenizer, TEXT)} == {(None, None)}


def test_counts_that_are_damaged_are_refused(tmp_path):
    (tmp_path / WORD_COUNTS).write_bytes(b"no counts")
    with pytest.raises(ValueError, match="expected counts of words"):
        WordCounts.read(tmp_path / WORD_COUNTS)


# spillover


def test_spillover_repeats_the_words_before(pair):
    model, tokenizer = pair
    rows = surprisals(model, tokenizer, TEXT)
    records = to_records([rows], spillover=2)
    for i, record in enumerate(records):
        for back in (1, 2):
            for name in MEASURES:
                assert record[f"{name}_{back}"] == (getattr(rows[i - back], name) if i >= back else None)


def test_tables_are_not_quoted(pair):
    model, tokenizer = pair
    header, row, *_ = to_tsv([surprisals(model, tokenizer, ['"', "the"])], spillover=1).splitlines()
    cells = dict(zip(header.split("\t"), row.split("\t"), strict=True))
    assert cells["word"] == '"' and cells["closed_1"] == ""
