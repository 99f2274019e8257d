"""transformers' own tests of models and of generation, run on SOM.

They are not part of the installed library, so these run where a checkout of the version in constraints.txt is at hand
(without our addopts, which refuse marks that are not ours):

    TRANSFORMERS_SOURCE=path/to/transformers pytest -o addopts= tests/test_transformers_mixins.py
"""

import os
import sys
import unittest
from unittest.mock import patch

import pytest
import torch
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from configuration_som import SOMConfig
from modeling_som import SOMForCausalLM, SOMModel

SOURCE = os.environ.get("TRANSFORMERS_SOURCE")
if SOURCE is None:
    pytest.skip("TRANSFORMERS_SOURCE is not set to a checkout of transformers", allow_module_level=True)
sys.path.insert(0, SOURCE)
MODEL_MAPPING_NAMES["som"] = "SOMModel"  # the mixins know by this name that it has no labels

from tests.generation.test_utils import GenerationTesterMixin  # noqa: E402
from tests.test_configuration_common import ConfigTester  # noqa: E402
from tests.test_modeling_common import ModelTesterMixin, ids_tensor  # noqa: E402


class SOMModelTester:
    """Sizes and inputs, under the names the mixins look for."""

    base_model_class, causal_lm_class, config_class = SOMModel, SOMForCausalLM, SOMConfig
    batch_size, seq_length, vocab_size, hidden_size, num_hidden_layers, is_training = 13, 7, 99, 32, 1, True
    settings: dict = {}

    def get_config(self) -> SOMConfig:
        sizes = {"vocab_size": self.vocab_size, "hidden_size": self.hidden_size, "num_slots": 5}
        return SOMConfig(**sizes, bos_token_id=0, eos_token_id=1, pad_token_id=98, **self.settings)

    def prepare_config_and_inputs_for_common(self):
        ids = ids_tensor([self.batch_size, self.seq_length], self.vocab_size)
        return self.get_config(), {"input_ids": ids, "attention_mask": torch.ones_like(ids).triu(-6).flip(0)}


class SOMModelTest(ModelTesterMixin, GenerationTesterMixin, unittest.TestCase):
    all_model_classes = (SOMModel, SOMForCausalLM)
    has_attentions = False
    test_torch_exportable = False  # decisions steer the computation
    test_can_init_all_missing_weights_before_2023 = True

    def setUp(self):
        self.model_tester = SOMModelTester()
        names = ["hidden_size", "num_hidden_layers"]
        self.config_tester = ConfigTester(self, config_class=SOMConfig, common_properties=names, hidden_size=32)

    def test_config(self):
        self.config_tester.run_common_tests()

    def test_batching_equivalence(self):
        """-inf, a fault to the library, is by contract the score of an attachment that is not allowed."""
        with patch("torch.isinf", torch.isposinf):
            super().test_batching_equivalence()

    def _check_past_key_values_for_generate(self, batch_size, past_key_values, seq_length, config):
        self.assertEqual(past_key_values.get_seq_length(), seq_length)
        self.assertEqual(len(past_key_values.state.depth), batch_size)

    def _check_caches_are_equal(self, one, other):
        torch.testing.assert_close(tuple(one.state), tuple(other.state))


class DisentangledTest(SOMModelTest):
    def setUp(self):
        super().setUp()
        self.model_tester.settings = {"syntactic_size": 12, "marginal": True}


class NoPredictionNetworkTest(SOMModelTest):
    def setUp(self):
        super().setUp()
        self.model_tester.settings = {"prediction_network": False}
