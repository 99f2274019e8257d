"""Measures on treebanks, from counts that can be checked sentence by sentence."""

import json
import math
import random

import pytest
import torch
from conftest import make_model

from modeling_som.sentences_som import encode, encode_words
from modeling_som.tokenization_som import continuing_tokens
from som.cli import main
from som.data.datasets import token_siblings
from som.data.vocabularies import make_tokenizer
from som.evaluation.treebanks import LENGTHS, Counts, TreebankCounts, evaluate, length_class, sentence_siblings
from som.inference.loading import load
from som.syntax.metrics import Brackets
from som.syntax.oracle import first_siblings, gold_depths, tree_from_depths
from som.syntax.treebanks import Example, read_treebank, to_conllu
from som.syntax.trees import Tree, binarise

WORDS = ["the", "a", "cat", "dog", "sees", "hears", "old", "young", "man", "woman", "loudly", "today", "."]


def make_examples(count: int = 12, longest: int = 14) -> list[Example]:
    """Random sentences with random n-ary trees, and one of a single word."""
    rng = random.Random(3)
    examples = [Example(("today",), Tree(("today",)), "here:1")]
    for number in range(count):
        words = [rng.choice(WORDS) for _ in range(rng.randint(2, longest))]
        examples.append(Example(tuple(words), random_tree(words, rng), f"here:{number + 2}"))
    return examples


def random_tree(words: list[str], rng: random.Random) -> Tree:
    nodes: list = list(words)
    while len(nodes) > 3:
        start, size = rng.randrange(len(nodes) - 2), rng.choice([2, 3])
        nodes[start : start + size] = [Tree(tuple(nodes[start : start + size]))]
    return Tree(tuple(nodes))


@pytest.fixture(params=["word", "bpe:280"])
def tokenizer(request):
    return make_tokenizer(request.param, [WORDS, WORDS])


def model_for(tokenizer, **settings):
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    return make_model(vocab_size=len(tokenizer), **{"num_slots": 6, **ids, **settings})


def whole(tokenizer, example: Example) -> tuple[list[int], list[int], list[int]]:
    """Ids from BOS to EOS, pieces of each word, first siblings."""
    pieces = encode_words(tokenizer, example.words)
    counts = [len(word) for word in pieces]
    ids = [tokenizer.bos_token_id, *(piece for word in pieces for piece in word), tokenizer.eos_token_id]
    return ids, counts, token_siblings(first_siblings(example.tree), counts)


def test_perplexity_is_that_of_the_models_logits_sentence_by_sentence(tokenizer):
    model, examples = model_for(tokenizer), make_examples()
    nats = eos_nats = 0.0
    tokens = words = 0
    for example in examples:
        ids, _, _ = whole(tokenizer, example)
        log_probs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        costs = [-log_probs[t, ids[t + 1]].item() for t in range(len(ids) - 1)]
        nats, eos_nats = nats + sum(costs), eos_nats + costs[-1]
        tokens, words = tokens + len(costs), words + len(example.words)
    n = len(examples)
    measures = evaluate(model, tokenizer, examples).measures()
    assert measures["ppl"] == pytest.approx(math.exp(nats / tokens))
    assert measures["ppl_without_eos"] == pytest.approx(math.exp((nats - eos_nats) / (tokens - n)))
    assert measures["ppl_per_word"] == pytest.approx(math.exp(nats / (words + n)))
    assert measures["ppl_per_word_without_eos"] == pytest.approx(math.exp((nats - eos_nats) / words))


@pytest.mark.parametrize("gold", [False, True])
@pytest.mark.parametrize("oracle", ["dynamic", "dynamic_paper", "static", "left_branching"])
def test_the_parsers_are_held_against_the_dynamic_oracle_whatever_they_were_trained_with(tokenizer, oracle, gold):
    dynamic, model = model_for(tokenizer), model_for(tokenizer, oracle=oracle)
    examples, right, right_next, total = make_examples(), 0, 0, 0
    for example in examples:
        ids, _, siblings = whole(tokenizer, example)
        depths = torch.tensor([gold_depths(siblings, 6)]) if gold else None
        out = dynamic(torch.tensor([ids]), first_sibling=torch.tensor([siblings]), depths=depths)
        labels = out.oracle_depths[0, 1:] - 1
        right += int((out.attach_logits[0, 1:].argmax(-1) == labels).sum())
        right_next += int((out.next_attach_logits[0, :-1].argmax(-1) == labels).sum())
        total += len(labels)
    counts = evaluate(model, tokenizer, examples, gold=gold).counts.total
    assert 0 < right < total and 0 < right_next < total
    assert (counts.p.correct, counts.p.total) == (right, total)
    assert (counts.p_next.correct, counts.p_next.total) == (right_next, total)


@pytest.mark.parametrize("gold", [False, True])
def test_pieces_that_are_attached_to_their_word_by_rule_are_no_decisions(gold):
    tokenizer = make_tokenizer("bpe:280", [WORDS, WORDS])
    model, examples = model_for(tokenizer, word_pieces=True, num_slots=20), make_examples()
    model.model.continues.copy_(torch.tensor(continuing_tokens(tokenizer)))
    right, right_next, total = 0, 0, 0
    for example in examples:
        ids, _, siblings = whole(tokenizer, example)
        depths = torch.tensor([gold_depths(siblings, 20)]) if gold else None
        out = model(torch.tensor([ids]), first_sibling=torch.tensor([siblings]), depths=depths)
        labels = out.oracle_depths[0, 1:] - 1
        decided = labels >= 0
        right += int((out.attach_logits[0, 1:].argmax(-1) == labels)[decided].sum())
        right_next += int((out.next_attach_logits[0, :-1].argmax(-1) == labels)[decided].sum())
        total += int(decided.sum())
    counts = evaluate(model, tokenizer, examples, gold=gold).counts.total
    assert total == counts.words_with_eos.tokens < counts.with_eos.tokens
    assert (counts.p.correct, counts.p.total) == (right, total)
    assert (counts.p_next.correct, counts.p_next.total) == (right_next, total)


def test_brackets_are_those_of_the_trees_read_off_the_decisions():
    tokenizer, examples = make_tokenizer("word", [WORDS, WORDS]), make_examples()
    model = model_for(tokenizer)
    binarised = nary = Brackets()
    for example in examples:
        ids, _, _ = whole(tokenizer, example)
        depths = model(torch.tensor([ids])).depths[0].tolist()
        tree = tree_from_depths(depths[1:-1], example.words)
        binarised += Brackets.of(binarise(example.tree), tree)
        nary += Brackets.of(example.tree, tree)
    counts = evaluate(model, tokenizer, examples).counts.total
    assert (counts.binarised, counts.nary) == (binarised, nary)
    assert binarised != nary


def test_with_gold_trees_every_binarised_bracket_is_found(tokenizer):
    model, examples = model_for(tokenizer, num_slots=20), make_examples()
    report = evaluate(model, tokenizer, examples, gold=True)
    assert report.measures()["uf1_binarised"] == 1.0
    assert report.measures()["uf1_nary"] < 1.0
    assert report.counts.total.nary.recall == 1.0
    assert report.title.endswith("gold trees given")
    assert report.counts.total.with_eos.nats != evaluate(model, tokenizer, examples).counts.total.with_eos.nats


def test_pieces_are_merged_into_words_before_brackets_are_compared():
    tokenizer = make_tokenizer("bpe:280", [WORDS, WORDS])
    examples = make_examples()
    counts = evaluate(model_for(tokenizer), tokenizer, examples).counts.total
    assert counts.with_eos.tokens > counts.words_with_eos.tokens
    assert counts.binarised.predicted == counts.binarised.gold  # as many as a binary tree over words has


def test_words_of_gold_piece_depths_have_the_depths_of_the_word_tree(tokenizer):
    for example in make_examples():
        sentence = encode(tokenizer, example.words)
        depths = sentence.of_words(gold_depths(sentence_siblings(example, sentence)))
        assert tree_from_depths(depths, example.words) == binarise(example.tree)


def test_without_a_prediction_network_its_parser_is_not_measured():
    tokenizer = make_tokenizer("word", [WORDS, WORDS])
    report = evaluate(model_for(tokenizer, prediction_network=False), tokenizer, make_examples(3))
    assert report.measures()["p_next_acc"] is None
    assert report.counts.total.p.total > 0


@pytest.mark.parametrize("method", ["marginal", "particles", "beam"])
def test_other_methods_change_the_perplexity_and_are_named(method):
    tokenizer = make_tokenizer("word", [WORDS, WORDS])
    model, examples = model_for(tokenizer), make_examples(4)
    report, greedy = (evaluate(model, tokenizer, examples, name) for name in (method, "greedy"))
    assert report.counts.total.with_eos.tokens == greedy.counts.total.with_eos.tokens
    assert report.measures()["ppl"] != greedy.measures()["ppl"]
    assert method in report.title


def test_reports_of_parts_add_up_to_the_report_of_the_whole():
    tokenizer = make_tokenizer("word", [WORDS, WORDS])
    model, examples = model_for(tokenizer), make_examples(20, longest=45)
    parts = evaluate(model, tokenizer, examples[:7]) + evaluate(model, tokenizer, examples[7:])
    report = evaluate(model, tokenizer, examples)
    for length in LENGTHS:
        ours, theirs = parts.counts.by_length[length].to_json(), report.counts.by_length[length].to_json()
        assert ours["measures"] == pytest.approx(theirs["measures"])
    assert sum(report.counts.by_length.values(), Counts()) == report.counts.total
    assert [counts.sentences for counts in report.counts.by_length.values()] == [
        sum(length_class(len(example.words)) == length for example in examples) for length in LENGTHS
    ]
    with pytest.raises(ValueError, match="do not add"):
        report + evaluate(model, tokenizer, examples[:2], gold=True)


def test_a_report_survives_json():
    tokenizer = make_tokenizer("word", [WORDS, WORDS])
    report = evaluate(model_for(tokenizer), tokenizer, make_examples(5), name="dev")
    assert TreebankCounts.from_json(json.loads(json.dumps(report.to_json()))) == report.counts


@pytest.fixture
def checkpoint(tmp_path):
    tokenizer = make_tokenizer("word", [WORDS, WORDS])
    model_for(tokenizer, dtype=torch.float32).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def treebank(tmp_path):
    file = tmp_path / "dev.conllu"
    file.write_text(
        to_conllu(["the", "old", "cat", "sees", "a", "dog", "."], [3, 3, 4, 0, 6, 4, 4])
        + to_conllu(["today", "."], [0, 1])
    )
    return file


def test_the_command_prints_a_table_and_writes_what_evaluate_returns(checkpoint, treebank, tmp_path, capsys):
    file = tmp_path / "report.json"
    assert main(["evaluate", str(checkpoint), "--treebank", str(treebank), "--gold", "--json", str(file)]) == 0
    data, printed = json.loads(file.read_text()), capsys.readouterr().out
    assert "ppl, with EOS" in printed and "dev, greedy, gold trees given" in printed
    assert data["command"].startswith("som evaluate ") and "--gold" in data["command"]
    for section, gold in {"treebank": False, "treebank_gold": True}.items():
        report = evaluate(*load(checkpoint), read_treebank([treebank]), gold=gold, name="dev")
        assert TreebankCounts.from_json(data[section]) == report.counts
        assert (data[section]["title"], data[section]["gold"]) == (report.title, gold)


def test_the_command_prints_nothing_but_json_when_asked_to(checkpoint, treebank, capsys):
    assert main(["evaluate", str(checkpoint), "--treebank", str(treebank), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["treebank"]["counts"]["sentences"] == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "expected something to measure on"),
        (["--treebank", "no-such-file"], "no-such-file: expected a file or folder"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(checkpoint, flags, message, capsys):
    assert main(["evaluate", str(checkpoint), *flags]) == 2
    error = capsys.readouterr().err
    assert message in error
