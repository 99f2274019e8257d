"""Tags of trees: the model against the dense reference, and dependencies read off them."""

import random
from itertools import product

import pytest
import reference
import torch
import torch.nn.functional as F
from conftest import batch_of, make_model, pad
from test_modeling import for_model, gradients

from configuration_som import SOMConfig
from modeling_som.tags_som import (
    HEAD,
    PARTIAL,
    ROOT,
    binary_children,
    complete_nodes,
    decided_labels,
    decode_dependencies,
    decode_labels,
)
from som.syntax.labels import dependency_tags
from som.syntax.oracle import first_siblings, gold_depths, tree_from_depths
from som.syntax.treebanks import HeadError, check_heads, lift, tree_from_heads

TAGS = [PARTIAL, HEAD, ROOT, "nsubj", "obj"]
SWITCHES = {
    "eSOM": {},
    "dSOM": {"syntactic_size": 3},
    "few slots": {"num_slots": 2},
    "many slots": {"num_slots": 12},
    "no prediction network": {"prediction_network": False},
    "oracle": {"next_attachment": "oracle", "tag_loss_weight": 0.5},
    "tags detached": {"tag_gradient": False},
    "dSOM, tags detached": {"syntactic_size": 3, "tag_gradient": False},
    "word pieces": {"word_pieces": True},
    "word pieces, few slots": {"word_pieces": True, "num_slots": 2},
}


def tagged_batch(model, sentences, side):
    """Random tags; what is inside a word has none, nor have BOS and EOS."""
    rng, rows = random.Random(3), []
    for ids, _ in sentences:
        inside = [reference.continues(model, token) for token in ids]
        tags = [[rng.randrange(len(TAGS)) for _ in ids] for _ in range(2)]
        ends = (0, len(ids) - 1)
        rows.append([[-100 if t in ends or inside[t] else tag for t, tag in enumerate(row)] for row in tags])
    batch = batch_of(sentences, side)
    return {
        **batch,
        "leaf_tag": pad([row[0] for row in rows], side, -100),
        "node_tag": pad([row[1] for row in rows], side, -100),
    }


def dense_tag_loss(model, batch, out):
    """Summed cross-entropy over the leaves, and over built nodes that span what a gold node spans."""
    total, count = 0.0, 0
    for b, mask in enumerate(batch["attention_mask"].bool()):
        ids, siblings, leaf, node = (
            batch[name][b, mask].tolist() for name in ("input_ids", "first_sibling", "leaf_tag", "node_tag")
        )
        depths = out.depths[b, mask].tolist()
        trace = reference.read(model, ids, lambda t, _, depths=depths: depths[t] - 1)
        inside = [bool(t and reference.continues(model, token)) for t, token in enumerate(ids)]
        gold = {span: node[i] for i, span in reference.gold_nodes(siblings, inside).items() if node[i] != -100}
        count += sum(tag != -100 for tag in leaf)
        logits = {"leaf": out.leaf_tag_logits[b, mask], "node": out.node_tag_logits[b, mask]}
        for (kind, t), scores in reference.tag_logits(model, trace, ids).items():
            torch.testing.assert_close(logits[kind][t], scores, atol=1e-10, rtol=0)
            label = leaf[t] if kind == "leaf" else gold.get(built_span(depths, inside, t), -100)
            if label != -100:
                total = total + F.cross_entropy(scores, torch.tensor(label))
    return total / count


def built_span(depths, inside, i):
    """What inner node i of the tree that was built spans, BOS left out."""
    words = [t for t in range(1, len(depths)) if not inside[t]]
    depth = max(depths[i], 2)
    end = next((m for m in words if m > i and depths[m] <= depths[i]), len(depths))
    return max(t for t in words if t < i and depths[t] < depth), end


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("mode", ["train", "eval", "given"])
@pytest.mark.parametrize("switch", SWITCHES)
def test_tags_and_their_loss_equal_the_dense_reference_gradients_included(switch, mode, side, sentences):
    model = make_model(tree_tags=TAGS, **SWITCHES[switch]).train(mode == "train")
    batch = tagged_batch(model, for_model(model, sentences), side)
    if mode == "given":
        gold = [gold_depths(siblings, model.config.num_slots) for _, siblings in for_model(model, sentences)]
        batch["depths"] = pad(gold, side, -100)
    out = model(**batch, output_tags=True)
    loss = dense_tag_loss(model, batch, out)
    torch.testing.assert_close(out.tag_loss, loss, atol=1e-10, rtol=0)
    torch.testing.assert_close(gradients(model, out.tag_loss), gradients(model, loss), atol=1e-9, rtol=0)
    weights = model.config
    parts = out.lm_loss * weights.lm_loss_weight + out.structure_loss * weights.structure_loss_weight
    torch.testing.assert_close(out.loss, parts + out.tag_loss * weights.tag_loss_weight)


def test_without_their_gradient_tags_train_nothing_but_their_classifier(sentences):
    model = make_model(tree_tags=TAGS, tag_gradient=False)
    batch = tagged_batch(model, sentences, "right")
    out = model(**batch)
    for name, gradient in gradients(model, out.tag_loss).items():
        assert gradient.any() == name.startswith("model.tagger."), name
    plain = model(**batch_of(sentences, "right")).loss
    torch.testing.assert_close(out.loss, plain + out.tag_loss)


def test_the_gradient_of_tags_reaches_only_the_syntactic_segments_of_a_dsom(sentences):
    model = make_model(tree_tags=TAGS, syntactic_size=3)
    words = gradients(model, model(**tagged_batch(model, sentences, "right")).tag_loss)["model.embed_tokens.weight"]
    assert words[:, -3:].any() and not words[:, :-3].any()


def test_a_configuration_from_before_the_switch_sends_the_gradient_everywhere():
    saved = SOMConfig(tree_tags=TAGS).to_dict()
    del saved["tag_gradient"]
    assert SOMConfig.from_dict(saved).tag_gradient


def test_a_model_without_tags_is_what_it_was(sentences):
    torch.manual_seed(0)
    plain, tagged = make_model(), make_model(tree_tags=TAGS)
    tagged.load_state_dict(plain.state_dict(), strict=False)
    assert not any("tag" in name for name in plain.state_dict())
    batch = batch_of(sentences, "right")
    torch.testing.assert_close(plain(**batch).logits, tagged(**batch).logits, atol=0, rtol=0)
    with pytest.raises(ValueError, match="this model has no tags"):
        plain(**batch, output_tags=True)


def test_tags_that_cannot_be_meant_are_refused(sentences):
    model = make_model(tree_tags=TAGS)
    batch = tagged_batch(model, sentences, "right")
    for change, message in [
        ({"node_tag": None}, "label a tree together"),
        ({"first_sibling": None}, "label a tree together"),
        ({"leaf_tag": batch["leaf_tag"] + 99}, r"leaf_tag must be in 0…4, or -100"),
        ({"node_tag": batch["node_tag"][:, :2]}, "node_tag must have the shape"),
        (
            {
                "first_sibling": None,
                "leaf_tag": None,
                "node_tag": None,
                "output_tags": True,
                "past_key_values": model(batch["input_ids"], use_cache=True).past_key_values,
            },
            "whole sentences",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            model(**{**batch, **change})
    read = model(batch["input_ids"], use_cache=True).past_key_values
    with pytest.raises(ValueError, match="tags are of whole sentences"):
        model(batch["input_ids"], past_key_values=read, output_tags=True)


# Reading dependencies


def projective_trees(words: int):
    """Every projective tree over so many words, as heads."""
    for heads in product(range(words + 1), repeat=words):
        try:
            check_heads(heads)
        except HeadError:
            continue
        if not lift(heads)[1]:
            yield heads


def depths_of(heads) -> list[int]:
    tree, _ = tree_from_heads([str(word) for word in range(len(heads))], heads)
    return [depth + 1 for depth in gold_depths(first_siblings(tree))]


def test_certain_tags_give_back_each_of_the_911_projective_trees_of_up_to_six_words():
    trees = [heads for words in range(1, 7) for heads in projective_trees(words)]
    assert len(trees) == 911
    for heads in trees:
        relations = [f"r{word}" if head else ROOT for word, head in enumerate(heads)]
        names = [PARTIAL, HEAD, ROOT, *(f"r{word}" for word in range(len(heads)))]
        tags = dependency_tags(heads, relations)
        rows = ([[0.0 if name == tag else -50.0 for name in names] for tag in kind] for kind in (tags.leaf, tags.node))
        found = decode_dependencies(depths_of(heads), *rows, names)
        assert (found.heads, found.relations) == (list(heads), relations)


@pytest.mark.parametrize("seed", range(40))
def test_the_decoder_finds_the_best_of_all_trees_with_the_same_brackets(seed):
    rng = random.Random(seed)
    words = rng.randint(2, 5)
    depths = [1]
    while len(depths) < words:
        depths.append(rng.randint(2, depths[-1] + 1))
    names = [PARTIAL, HEAD, ROOT, "a", "b"]
    leaf, node = ([[rng.gauss(0, 2) for _ in names] for _ in range(words)] for _ in range(2))

    def score(heads, relations):
        tags = dependency_tags(heads, relations)
        below = {child for pair in binary_children(depths).values() for child in pair}
        return sum((leaf if kind == "leaf" else node)[i][names.index(getattr(tags, kind)[i])] for kind, i in below)

    brackets = tree_from_depths(depths)
    best = max(
        (score(heads, relations), list(heads), list(relations))
        for heads in projective_trees(words)
        if tree_from_depths(depths_of(heads)) == brackets
        for relations in product(*(["a", "b"] if head else [ROOT] for head in heads))
    )
    found = decode_dependencies(depths, leaf, node, names)
    assert (found.heads, found.relations) == (best[1], best[2])
    assert score(found.heads, found.relations) == pytest.approx(best[0])


def random_sentence(rng, names):
    """Depths of some words and scores of the tags of all nodes."""
    depths = [1]
    while len(depths) < 8:
        depths.append(rng.randint(2, depths[-1] + 1))
    return depths, *([[rng.gauss(0, 2) for _ in names] for _ in depths] for _ in range(2))


@pytest.mark.parametrize(
    "names", [[PARTIAL, HEAD, ROOT, "a", "b"], [PARTIAL, "none", "NP", "S"]], ids=["heads", "phrases"]
)
def test_what_is_decided_after_a_word_is_what_the_whole_sentence_says(names):
    """Whatever the scores of nodes that were not complete at that word."""
    decided = 0
    for seed in range(60):
        rng = random.Random(seed)
        depths, leaf, node = random_sentence(rng, names)
        final = decode_labels(depths, leaf, node, names)
        children, before = binary_children(depths), {}
        for n in range(1, len(depths) + 1):
            fixed = {part for i in complete_nodes(depths[:n], [i for i in children if i < n]) for part in children[i]}
            known = [
                [
                    scores if (kind, i) in fixed else [rng.gauss(0, 2) for _ in names]
                    for i, scores in enumerate(table[:n])
                ]
                for kind, table in (("leaf", leaf), ("node", node))
            ]
            now = decided_labels(depths[:n], *known, names)
            found = {
                (column, i): value
                for column in ("leaf", "node", "heads", "relations")
                for i, value in enumerate(getattr(now, column) or [])
                if value is not None
            }
            assert before.items() <= found.items()
            assert all(getattr(final, column)[i] == value for (column, i), value in found.items())
            before, decided = found, decided + len(found)
    assert decided > 1000  # this is about something


def test_the_head_of_a_left_constituent_waits_for_what_it_is_part_of():
    """((the dog) barks: the dog can be the subject, or both can depend on the verb."""
    names = [PARTIAL, HEAD, ROOT, "det", "nsubj"]

    def certain(*tags):
        return [[0.0 if name == tag else -9.0 for name in names] for tag in tags]

    leaf, node = certain("det", HEAD, HEAD), certain(PARTIAL, PARTIAL, PARTIAL)
    now = decided_labels([1, 2, 2], leaf, node, names)
    assert (now.leaf, now.node, now.heads) == (["det", None, None], [None] * 3, [None] * 3)
    assert now.relations == ["det", None, None]
    node[1] = certain("nsubj")[0]
    assert decode_labels([1, 2, 2], leaf, node, names).heads == [2, 3, 0]
    node[1] = [scores if name == PARTIAL else -99.0 for name, scores in zip(names, certain(PARTIAL)[0], strict=True)]
    leaf[2] = [0.0 if name == HEAD else -99.0 for name in names]
    assert decode_labels([1, 2, 2], leaf, node, names).heads == [3, 3, 0]


def test_a_text_without_words_has_no_nodes():
    model = make_model(tree_tags=TAGS)
    out = model(torch.tensor([[0]]), output_tags=True)
    assert (out.leaf_tag_logits == -100).all() and (out.node_tag_logits == -100).all()


def test_training_without_tags_uses_the_tagger_all_the_same(sentences):
    model = make_model(tree_tags=TAGS).train()
    model(**batch_of(sentences, "right")).loss.backward()
    assert all(weight.grad is not None for weight in model.parameters())  # parallel training wants it
