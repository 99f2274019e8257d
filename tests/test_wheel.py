"""The package as users install it: a wheel, in an environment of its own, without this folder."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path
from sysconfig import get_path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "configuration_som.py", "modeling_som", "model_cards", "som")
REMOTE = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)
assert "som" not in sys.modules and type(model).__module__.startswith("transformers_modules")
print(model(**tokenizer("The dog barks.", return_tensors="pt")).depths.tolist())
"""
BRACKETS = "(root (nsubj (det The) (head dog)) (head barks) (punct .))"
WHERE = "import som; print(som.__version__, som.__file__); print(som.parse(*som.load(), 'The dog barks.').brackets())"


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A copy to build from, so that neither earlier builds get into it nor this one into the folder."""
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            no_caches = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=no_caches)
        else:
            shutil.copy(ROOT / name, source)
    return source


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", out, source)
    (file,) = out.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def run(wheel, tmp_path_factory) -> Callable[..., str]:
    """Runs a program of a new environment in an empty folder; what it prints.

    The environment has the wheel and sees the packages that the tests run with, but not their editable installation
    of this project: a path in a .pth file is searched, its own .pth files are not read."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    pip("--python", python, "install", "--no-deps", "--no-index", wheel)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(get_path("purelib") + "\n")
    (folder / "empty").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache")}

    def run(program: str, *arguments: str) -> str:
        command = [python.with_name(program), *arguments]
        done = subprocess.run(command, cwd=folder / "empty", env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_wheel_holds_every_file_of_the_packages_and_no_links(wheel):
    with ZipFile(wheel) as archive:
        held = {info.filename: info for info in archive.infolist()}
        links = [name for name, info in held.items() if info.external_attr >> 16 & 0o170000 == 0o120000]
        assert not links
        for room in ("som", "modeling_som"):
            tracked = [file for file in (ROOT / room).rglob("*") if file.is_file() and "__pycache__" not in file.parts]
            for file in tracked:
                assert archive.read(str(file.relative_to(ROOT))) == file.read_bytes()
    assert {"configuration_som.py", "som/py.typed", "modeling_som/py.typed"} <= set(held)


def test_an_installed_wheel_parses_on_the_command_line(run):
    assert "usage: som" in run("som", "--help")
    assert run("python", "-m", "som", "parse", "The dog barks.", "--format", "brackets") == f"{BRACKETS}\n"


def test_an_installed_wheel_is_what_python_imports(run):
    where, brackets = run("python", "-c", WHERE).splitlines()
    version, file = where.split(" ", 1)
    assert version == VERSION
    assert "site-packages" in file and not Path(file).is_relative_to(ROOT)
    assert brackets == BRACKETS


def test_a_folder_named_som_does_not_hide_an_editable_installation(source, tmp_path):
    build = "import sys; from setuptools.build_meta import build_editable; build_editable(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=source, check=True, capture_output=True)
    (editable,) = tmp_path.glob("*.whl")
    with ZipFile(editable) as archive:
        archive.extractall(tmp_path / "site-packages")
    (tmp_path / "som").mkdir()  # a run, say
    use = "import site; site.addsitedir('site-packages'); import som; print(som.__file__)"
    command = [sys.executable, "-S", "-c", use]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert Path(done.stdout.strip()) == source / "som" / "__init__.py"


def test_the_installed_checkpoint_loads_as_remote_code_without_the_package(run):
    folder = run("python", "-c", "from som.inference.loading import SHIPPED; print(SHIPPED)").strip()
    assert run("python", "-c", REMOTE, folder) == "[[0, 1, 2, 2, 3, 2]]\n"  # barks is in two pieces


def test_the_version_is_the_same_everywhere():
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)[0] == VERSION
