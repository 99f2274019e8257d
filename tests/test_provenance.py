"""Results say what they are of."""

import re

from som import provenance


def test_the_commit_is_that_of_a_clone_from_which_only_new_results_may_differ(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "PROJECT", tmp_path)
    assert provenance.commit() is None
    for file in ("configuration_som.py", "results/som-0.json"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("before")
    author = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    for arguments in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "all"]):
        assert provenance.git(*arguments).returncode == 0
    (tmp_path / "results/som-0.json").unlink()
    clean = provenance.commit()
    assert clean and re.fullmatch("[0-9a-f]{40}", clean)
    (tmp_path / "configuration_som.py").write_text("after")
    assert provenance.commit() == f"{clean}-dirty"


def test_an_installed_package_has_no_commit_even_in_the_repository_of_another_project(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "PROJECT", tmp_path)
    theirs = ("-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "theirs")
    for arguments in (("init", "-q"), theirs):
        assert provenance.git(*arguments).returncode == 0
    (tmp_path / "configuration_som.py").write_text("installed, not theirs")
    assert provenance.commit() is None


def test_without_git_there_is_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert provenance.commit() is None
    assert provenance.versions()["som-lm"]
