"""A shift-reduce parser that predicts words."""

import pytest
import torch
from conftest import CORPUS, batch_of

from som.baselines.shift_reduce import shift_reduce
from som.baselines.shift_reduce_lm import shift_reduce_lm
from som.baselines.systems import SYSTEMS
from som.data.vocabularies import make_tokenizer
from som.training.settings import make_settings


def make_parser(**settings):
    torch.manual_seed(0)
    tokenizer = make_tokenizer("word", [[f"w{number}" for number in range(23)]] * 2)
    dropout = {"dropout": 0.0, "embedding_dropout": 0.0, "output_dropout": 0.0}
    return shift_reduce_lm(make_settings(hidden_size=16, **dropout, **settings), tokenizer)


def test_words_and_reductions_are_learnt_by_heart(sentences):
    model, batch = make_parser().train(), batch_of(sentences, "right")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    out = model.eval()(**batch)
    assert out.lm_loss.item() < 0.5 and out.structure_loss.item() < 0.1
    assert torch.equal(out.depths, out.oracle_depths)


def test_it_predicts_words_with_the_dynamic_oracle_where_the_plain_parser_does_not(sentences):
    plain, both = SYSTEMS["shift-reduce"], SYSTEMS["shift-reduce-lm"]
    config = make_parser(**both.defaults).config
    assert config.lm_loss_weight == 1 and config.prediction_network and config.oracle == "dynamic"
    assert plain.defaults["lm_loss_weight"] == 0
    assert both.is_som and both.model_class is not plain.model_class


def test_padding_changes_nothing(sentences):
    model, batch = make_parser().eval(), batch_of(sentences, "right")
    together = model(**batch).logits
    for row, sentence in enumerate(sentences):
        alone = model(**batch_of([sentence], "right")).logits[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("build", [shift_reduce, shift_reduce_lm])
def test_pieces_that_continue_words_are_known_to_shift_reduce_parsers(build):
    model = build(make_settings(hidden_size=16), make_tokenizer("bpe:300", CORPUS))
    assert model.config.word_pieces and model.model.continues.any()
