"""What a SOM is compared with."""

import pytest
import torch
from conftest import batch_of

from configuration_som import SOMConfig
from modeling_som.scoring_som import Scored
from som.baselines.ngrams import KneserNey
from som.baselines.scoring import evaluate_trees, evaluate_words, tree_baselines
from som.baselines.shift_reduce import ShiftReduce, ShiftReduceParser, shift_reduce
from som.data.vocabularies import make_tokenizer
from som.inference.loading import load
from som.syntax.treebanks import Example
from som.syntax.trees import Tree
from som.training.settings import make_settings

SENTENCES = [[0, 1, 2, 3], [0, 1, 3]]
WORDS = [f"w{number}" for number in range(2000)]


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer("word", [WORDS, WORDS])


@pytest.mark.parametrize(
    ("word", "context", "probability"),
    [
        (3, (), (1.5 + 1.5 / 5) / 4),  # follows two words, of four pairs; half of each count goes to every word
        (4, (), (1.5 / 5) / 4),
        (3, (1,), (0.4 + 1.2 * 0.45) / 2),  # once of twice; 3 of the 4 bigrams occur once, one occurs twice
        (4, (1,), 1.2 * 0.075 / 2),
        (3, (4,), 0.45),  # a context never seen says nothing
        (3, (0, 1), 0.47),  # and only the last word is looked at
    ],
)
def test_kneser_ney_bigrams_are_as_worked_out_by_hand(word, context, probability):
    assert KneserNey(SENTENCES, vocab_size=5, order=2).probability(word, context) == pytest.approx(probability)


@pytest.mark.parametrize("order", range(1, 6))
def test_kneser_ney_probabilities_of_all_words_sum_to_one(order):
    model = KneserNey([*SENTENCES, [0, 2, 2, 1, 3], [0, 3]], vocab_size=6, order=order)
    for context in [(), (0,), (1,), (5,), (0, 1), (2, 2), (0, 2, 2, 1), (5, 5, 5, 5, 5, 5)]:
        assert sum(model.probability(word, context) for word in range(6)) == pytest.approx(1)


def test_longer_contexts_sharpen_what_they_have_seen():
    text = [[0, 1, 2, 3], [0, 4, 2, 5]] * 3 + [[0, 2, 3], [0, 2, 5]]
    bigrams, trigrams = (KneserNey(text, vocab_size=7, order=order) for order in (2, 3))
    assert trigrams.probability(3, (1, 2)) > bigrams.probability(3, (1, 2))


def test_shift_reduce_probabilities_are_those_of_one_reduction_after_the_other():
    parser, scores = ShiftReduceParser(SOMConfig(vocab_size=5, hidden_size=4)), torch.randn(6, 5).double() * 3
    for deepest, row in enumerate(scores[:5]):
        row[deepest + 1 :] = -torch.inf
        expected, reached = [0.0] * 5, 1.0
        for e in range(deepest, -1, -1):
            keep = (row[e] - row[e - 1]).sigmoid().item() if e else 1.0
            expected[e], reached = reached * keep, reached * (1 - keep)
        torch.testing.assert_close(parser.logits(row).exp().tolist(), expected)
        torch.testing.assert_close(parser.logits(row[: deepest + 1]).exp().sum().item(), 1.0)


def test_shift_reduce_decisions_are_alike_in_learning_and_exploring(sentences, tokenizer, tmp_path):
    torch.manual_seed(0)
    model = shift_reduce(make_settings(hidden_size=16, dropout=0.0), tokenizer).double()
    torch.nn.init.normal_(model.model.parser.score.weight, std=5)
    batch = batch_of(sentences, "right")
    learnt = model.eval()(**batch)
    with torch.no_grad():
        explored = model(**batch)
    torch.testing.assert_close(learnt.attach_logits, explored.attach_logits)
    decided = (learnt.depths > 0)[..., None] & (learnt.attach_logits > -torch.inf)
    p = learnt.attach_logits.exp().where(decided, 0)
    torch.testing.assert_close(p.sum(-1)[learnt.depths > 0], torch.ones_like(p[..., 0])[learnt.depths > 0])
    assert learnt.structure_loss.item() > 0
    learnt.loss.backward()
    assert model.model.parser.key.weight.grad.abs().max() > 0
    model.save_pretrained(tmp_path)
    again = ShiftReduce.from_pretrained(tmp_path)
    torch.testing.assert_close(again(**batch).attach_logits, learnt.attach_logits)
    with pytest.raises(ValueError, match="expected a SOMForCausalLM, found a ShiftReduce"):
        load(tmp_path)
    read = model(batch["input_ids"][:, :3], use_cache=True).past_key_values
    x = model.model.words(batch["input_ids"][:, 3])
    p = model.model.attachment_logits(x, read.state).log_softmax(dim=1)  # the verb of those that follow many trees
    torch.testing.assert_close(p[0], learnt.attach_logits[0, 3].detach())


def test_words_are_counted_without_trees_and_trees_without_words(tokenizer):
    example = Example(["w1", "w2", "w3"], Tree.parse("(w1 (w2 w3))"), "")
    one_nat_a_word = [Scored([-1.0] * 4, depths=[])]
    words = evaluate_words(lambda sequences: one_nat_a_word, tokenizer, [example], "constant", "")
    assert words.measures()["ppl"] == pytest.approx(2.718281828)
    assert words.measures()["uf1_nary"] is None
    trees = {name: evaluate_trees(parse, [example], name, "").counts.total for name, parse in tree_baselines().items()}
    assert trees["right-branching trees"].nary.f1 == trees["oracle binary trees"].nary.f1 == 1
    assert trees["left-branching trees"].nary.f1 == 0.5
    assert trees["left-branching trees"].measures()["ppl"] is None
