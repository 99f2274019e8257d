"""som garden-paths on two items and a tiny model."""

import json

import pytest

TABLE = (
    "construction\titem\tcondition\tsentence\n"
    "X\t1\tambiguous\tthe old dog |sees| a cat .\n"
    "X\t1\tdisambiguated\tthe old cat and the dog |sees| a cat .\n"
)


@pytest.fixture
def items(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.tsv").write_text(TABLE)
    return "items.tsv"


def test_effects_are_printed_drawn_and_written(run, items, tmp_path):
    flags = ["--k", "4", "1", "--weights", "1:1", "--ms-per-bit", "5", "--json", "e.json", "--plot", "e.svg"]
    code, out, err = run("garden-paths", items, *flags)
    assert (code, err) == (0, "")
    report = json.loads((tmp_path / "e.json").read_text())
    assert [one["k"] for one in report["means"]] == [1, 4]
    surprisal = report["means"][0]["effects"]["surprisal"]
    assert f"{surprisal['value']:.2f}" in out and surprisal["ms"] == pytest.approx(5 * surprisal["value"])
    one = report["effects"][0]
    assert one["1:1"] == pytest.approx(one["structural"] + one["lexical"])
    assert one["ambiguous"] == "the old dog sees a cat ."
    assert "<svg" in (tmp_path / "e.svg").read_text()


@pytest.mark.parametrize("flag", ["--weights=1", "--k=0", "--ms-per-bit=-1"])
def test_flags_that_mean_nothing_are_refused(run, items, flag, capsys):
    with pytest.raises(SystemExit) as stop:
        run("garden-paths", items, flag)
    assert stop.value.code == 2 and capsys.readouterr().err.count("\n") == 1


def test_items_that_are_not_there_are_one_line(run):
    code, _, err = run("garden-paths", "nowhere.tsv")
    assert code == 2 and err == "som garden-paths: error: nowhere.tsv: expected a file, there is none\n"
