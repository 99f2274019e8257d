"""Who may import whom."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = [  # a module imports modules of the lines above its own
    "configuration_som tokenization_som files interruption provenance trees grammar syntaxgym",
    "modeling_som oracle metrics treebanks vocabularies report runs",
    "blimp data inference",
    "parsing surprisal evaluation distillation bench",
    "generation targeted hub training",
    "baselines",
    "cli",
    "demo __main__",
]
SHIPPED = {  # with every checkpoint, so these stand alone; what they may import is all that a user must have
    "configuration_som": {"huggingface_hub", "transformers"},
    "modeling_som": {"configuration_som", "torch", "transformers"},
    "tokenization_som": {"transformers"},
}
# readable without knowing torch
PLAIN = ["files", "provenance", "trees", "treebanks", "oracle", "metrics", "grammar", "syntaxgym", "blimp"]
FILES = [*ROOT.glob("*_som.py"), *(file for file in (ROOT / "som").glob("*.py") if file.stem != "__init__")]


class Import(NamedTuple):
    module: str  # ours without "som."
    at_once: bool  # when the file is imported, not when a function is called


def imports(file: Path) -> Iterator[Import]:
    """Everything that a file imports, but for the sake of types."""
    tree = ast.parse(file.read_text("utf-8"))
    later = {
        id(node) for function in ast.walk(tree) if isinstance(function, ast.FunctionDef) for node in ast.walk(function)
    }
    for_types = {id(node) for block in ast.walk(tree) if is_type_checking(block) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in for_types:
            for name in modules(node):
                yield Import(name.removeprefix("som."), id(node) not in later)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING"


def modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module not in ("som", None):
        return [node.module]
    return [alias.name for alias in node.names]


def layer(module: str) -> int:
    (found,) = (place for place, modules in enumerate(LAYERS) if module in modules.split())
    return found


def test_the_imports_of_a_file_are_all_seen(tmp_path):
    file = tmp_path / "x.py"
    file.write_text(
        "import torch.nn\nfrom som import cli, trees\nfrom som.data import prepare\nfrom .near import x\n"
        "if TYPE_CHECKING:\n    import pandas\n"
        "def f():\n    from nltk.tree import Tree\n"
    )
    names = ["torch.nn", "cli", "trees", "data", "near"]
    assert sorted(imports(file)) == sorted([*(Import(name, True) for name in names), Import("nltk.tree", False)])


def test_every_module_has_one_layer():
    assert sorted(" ".join(LAYERS).split()) == sorted(file.stem for file in FILES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_modules_import_only_what_is_below_them(file):
    ours = {other.stem for other in FILES}
    imported = {one.module for one in imports(file)} & ours
    assert {module for module in imported if layer(module) >= layer(file.stem)} == set()


@pytest.mark.parametrize("module", SHIPPED)
def test_what_is_shipped_with_a_checkpoint_stands_alone(module):
    packages = {one.module.partition(".")[0] for one in imports(ROOT / f"{module}.py")} - sys.stdlib_module_names
    assert packages <= SHIPPED[module]


@pytest.mark.parametrize("module", [*PLAIN, "cli"])
def test_trees_treebanks_and_measures_need_the_standard_library_alone_and_the_command_line_until_it_runs(module):
    packages = {one.module.partition(".")[0] for one in imports(ROOT / "som" / f"{module}.py") if one.at_once}
    assert packages - sys.stdlib_module_names <= set(PLAIN)


def test_the_package_itself_imports_only_what_it_registers():
    ours = {one.module for one in imports(ROOT / "som" / "__init__.py")} & {file.stem for file in FILES}
    assert ours == set(SHIPPED)
