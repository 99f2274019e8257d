"""Where checkpoints are looked for, without a network."""

import pytest
from huggingface_hub import HfApi, constants

from som.locating import find_checkpoint


class NoNetwork(Exception):
    pass


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the Hub, which itself cannot be reached."""
    asked = []

    def model_info(self, name, timeout):
        asked.append(name)
        raise NoNetwork

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(HfApi, "model_info", model_info)
    return tmp_path, asked


def put(cache, name: str, files: list[str]):
    """A model in the cache, in the Hub's way."""
    folder = cache / f"models--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc").mkdir(parents=True)
    for file in files:
        (folder / "snapshots" / "abc" / file).write_text("{}")
    return folder / "snapshots" / "abc"


def test_a_model_in_the_cache_is_taken_from_there_and_the_hub_is_not_asked(cache):
    folder = put(cache[0], "someone/som", ["config.json", "model.safetensors"])
    assert find_checkpoint("someone/som") == folder
    assert cache[1] == []


def test_half_a_model_in_the_cache_is_none(cache):
    put(cache[0], "someone/som", ["config.json"])
    with pytest.raises(ValueError, match="not in the local cache of the Hub, and the Hub cannot be reached"):
        find_checkpoint("someone/som")


def test_the_hub_is_asked_once_for_a_model_that_is_nowhere_here(cache):
    with pytest.raises(ValueError, match=r"the Hub cannot be reached \(NoNetwork\)"):
        find_checkpoint("someone/som")
    assert cache[1] == ["someone/som"]


def test_the_hub_is_not_asked_where_the_user_says_so(cache, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE is set"):
        find_checkpoint("someone/som")
    assert cache[1] == []


def test_a_name_that_the_hub_knows_is_kept(cache, monkeypatch):
    monkeypatch.setattr(HfApi, "model_info", lambda self, name, timeout: None)
    assert find_checkpoint("someone/som") == "someone/som"


@pytest.mark.parametrize("name", ["nowhere", "./nowhere", "a/b/c", "..x/--y"])
def test_what_can_be_no_name_on_the_hub_is_refused(cache, name):
    with pytest.raises(ValueError, match="expected a checkpoint"):
        find_checkpoint(name)
