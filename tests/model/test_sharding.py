"""FSDP and device maps: processes with other sentences call the model's parts a different number of times.

Run as a program this file is one of two processes that train together; without an accelerator, Accelerate itself falls
back to copies of the model, so what it would do is called here.
"""

import os
import random
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate import FullyShardedDataParallelPlugin, infer_auto_device_map
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from conftest import batch_of, make_model, random_first_siblings
from torch import distributed, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from transformers.integrations.accelerate import get_balanced_memory

from modeling_som import SOMForCausalLM, SOMModel, operators_som

SETTINGS: dict[str, dict] = {
    "sampled": {},
    "marginal": {"next_attachment": "marginal"},  # calls the output layer several times
    "untied": {"tie_word_embeddings": False},
}
LENGTHS = [(9, 8, 4), (3,)]  # of the sentences of each process
MODULES = ("model.embed_tokens", "model.norm", "model.cell", "model.parser", "model.next_parser", "model.predict_cell")


def batches() -> list[dict[str, torch.Tensor]]:
    rng = random.Random(1)
    return [
        batch_of([([0, *range(3, length + 1), 1], random_first_siblings(length, rng)) for length in lengths], "right")
        for lengths in LENGTHS
    ]


def train(model: nn.Module, mine: list[dict[str, torch.Tensor]], processes: int) -> None:
    """Three steps; processes average their gradients, so each multiplies its share of the loss by their number."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    items = sum(length - 1 for lengths in LENGTHS for length in lengths)
    for step in range(3):
        for batch in mine:
            torch.manual_seed(step)
            (model(**batch, num_items_in_batch=items).loss * processes).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        model.eval()(**mine[0])


def shard(model: nn.Module, version: int) -> nn.Module:
    """What Accelerate makes of a model if asked to wrap it by its layers."""
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=version, auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False
    )
    if version == 1:
        plugin.set_auto_wrap_policy(model)
        cpu = torch.device("cpu")
        return FullyShardedDataParallel(
            model, auto_wrap_policy=plugin.auto_wrap_policy, device_id=cpu, use_orig_params=True
        )
    accelerator = SimpleNamespace(
        state=SimpleNamespace(fsdp_plugin=plugin),
        mixed_precision="no",
        torch_device_mesh=init_device_mesh("cpu", (2,), mesh_dim_names=("shard",)),
        parallelism_config=SimpleNamespace(fsdp_dim_names=["shard"]),
    )
    return fsdp2_prepare_model(accelerator, model)


def one_of_two(folder: Path) -> None:
    distributed.init_process_group("gloo", timeout=timedelta(seconds=60))
    operators_som.CHUNK = 23  # one token at a time
    rank = distributed.get_rank()
    for version in (1, 2):
        for name, settings in SETTINGS.items():
            model = shard(make_model(**settings).train(), version)
            train(model, [batches()[rank]], processes=2)
            weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
            if rank == 0:
                torch.save(weights, folder / f"{name}-{version}.pt")
    distributed.destroy_process_group()
    os._exit(0)  # the interpreter's own end now and then aborts in a thread of torch, after all work is done


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The weights that two processes have trained."""
    folder = tmp_path_factory.mktemp("sharded")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", __file__]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([*command, str(folder)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", SETTINGS)
def test_sharded_over_two_processes_with_other_sentences_a_model_learns_the_same(trained, name, version):
    model = make_model(**SETTINGS[name]).train()
    before = model.lm_head.bias.clone()
    train(model, batches(), processes=1)
    assert (model.lm_head.bias - before).abs().max() > 1e-3
    weights = torch.load(trained / f"{name}-{version}.pt")
    expected = {key: value for key, value in model.state_dict().items() if key in weights}
    assert {key for key, _ in model.named_parameters()} <= set(weights)
    torch.testing.assert_close(weights, expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", [SOMForCausalLM, SOMModel])
def test_two_roomy_devices_are_not_shared_by_one_model(kind):
    model = kind(make_model(vocab_size=100, hidden_size=64).config)
    rooms = get_balanced_memory(model, {0: 10**9, 1: 10**9}, model._no_split_modules)
    device_map = infer_auto_device_map(model, rooms, no_split_module_classes=model._no_split_modules)
    assert set(device_map.values()) == {0}


def test_a_device_map_that_splits_a_step_is_refused(tmp_path):
    model = make_model()
    model.save_pretrained(tmp_path)
    size = sum(parameter.nbytes for parameter in model.parameters())
    small = infer_auto_device_map(model, {0: size // 2, 1: size})
    assert set(small.values()) == {0, 1}
    for device_map in (small, {**dict.fromkeys((*MODULES, "lm_head"), 0), "model.cell": 1, "lm_head": "cpu"}):
        with pytest.raises(ValueError, match="^device_map must keep the model on one device, got 0 and 1$"):
            SOMForCausalLM.from_pretrained(tmp_path, device_map=device_map)
    assert SOMForCausalLM.from_pretrained(tmp_path, device_map="auto").device == torch.device("cpu")


if __name__ == "__main__":
    one_of_two(Path(sys.argv[1]))
