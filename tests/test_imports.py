"""Who may import whom: the doors between the rooms."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
DOORS = [  # a room imports the rooms of the lines above its own
    "modeling_som files locating progress provenance tables",
    "syntax registration interruption",
    "data",
    "inference",
    "evaluation training",
    "baselines",
    "view hub bench",
    "cli",
    "demo __main__",
]
SHIPPED = {"torch", "transformers", "tokenizers", "huggingface_hub", "tqdm"}  # with torch and transformers come all
QUICK = [
    "__init__",
    "files",
    "interruption",
    "locating",
    "progress",
    "provenance",
    "registration",
    "tables",
]  # what `som --help` imports
FILES = [file for file in (ROOT / "som").rglob("*.py") if "checkpoint" not in file.parts]
SHIPPED_FILES = sorted((ROOT / "modeling_som").glob("*_som.py"))


class Import(NamedTuple):
    module: str
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
                yield Import(name, id(node) not in later)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING"


def modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.module == "som":
        return [f"som.{alias.name}" for alias in node.names]
    return ["." * node.level + (node.module or "")]


def room(module: str) -> str | None:
    """The room that a module of ours is in.

    >>> room("som.syntax.trees"), room("som.files"), room("modeling_som.state_som"), room("torch")
    ('syntax', 'files', 'modeling_som', None)
    """
    first, _, rest = module.partition(".")
    if first in ("modeling_som", "configuration_som"):
        return "modeling_som"
    return rest.partition(".")[0] or "__init__" if first == "som" else None


def room_of(file: Path) -> str:
    return file.relative_to(ROOT / "som").parts[0].removesuffix(".py")


def floor(name: str) -> int:
    (found,) = (place for place, rooms in enumerate(DOORS) if name in rooms.split())
    return found


def test_the_imports_of_a_file_are_all_seen(tmp_path):
    file = tmp_path / "x.py"
    file.write_text(
        "import torch.nn\nfrom som import cli, files\nfrom som.data import prepare\nfrom .near import x\n"
        "if TYPE_CHECKING:\n    import pandas\n"
        "def f():\n    from nltk.tree import Tree\n"
    )
    names = ["torch.nn", "som.cli", "som.files", "som.data", ".near"]
    assert sorted(imports(file)) == sorted([*(Import(name, True) for name in names), Import("nltk.tree", False)])


def test_every_room_has_one_place():
    assert sorted(" ".join(DOORS).split()) == sorted({"modeling_som", *map(room_of, FILES)} - {"__init__"})


@pytest.mark.parametrize(
    "file", [file for file in FILES if room_of(file) != "__init__"], ids=lambda file: str(file.relative_to(ROOT))
)
def test_rooms_import_only_rooms_below_them_and_only_through_their_doors(file):
    own = room_of(file)
    for one in imports(file):
        other = room(one.module)
        if other not in (None, own, "__init__"):
            assert floor(other) < floor(own), one.module
            assert other == "modeling_som" or one.module.count(".") == 1, f"{one.module} is inside of a room"


@pytest.mark.parametrize("file", SHIPPED_FILES, ids=lambda file: file.stem)
def test_what_is_shipped_with_a_checkpoint_stands_alone(file):
    packages = {one.module.partition(".")[0] for one in imports(file)} - {"", *sys.stdlib_module_names}
    assert packages <= SHIPPED


@pytest.mark.parametrize("file", [file for file in FILES if room_of(file) in ("syntax", *QUICK)], ids=lambda f: f.stem)
def test_trees_treebanks_and_measures_need_the_standard_library_alone(file):
    packages = {one.module.partition(".")[0] for one in imports(file) if one.at_once}
    assert packages - sys.stdlib_module_names <= {"som"}


@pytest.mark.parametrize("call", ["import som.syntax", "from som.cli import main; main(['parse', '--help'])"])
def test_help_and_syntax_import_neither_torch_nor_transformers(call):
    code = f"import sys\ntry:\n    {call}\nexcept SystemExit:\n    pass\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"torch", "transformers", "datasets", "numpy", "rich", "nltk"}


PREPARE = """
from pathlib import Path
import sys
from som.cli import main

Path("a.conllu").write_text("1\\tdogs\\t_\\t_\\t_\\t_\\t2\\tnsubj\\t_\\t_\\n2\\tbark\\t_\\t_\\t_\\t_\\t0\\troot\\t_\\t_\\n\\n")
files = [word for split in ("train", "validation", "test") for word in (f"--{split}", "a.conllu")]
code = main(["prepare", *files, "--tokenizer", sys.argv[1], "--num-proc", "2", "--out", "data"])
print(code, sorted({"torch", "transformers.models.auto.configuration_auto"} & set(sys.modules)))
"""


@pytest.mark.parametrize("kind", ["word", "bpe:300"])
def test_preparing_imports_no_torch(tmp_path, kind):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PREPARE, kind]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.stdout.splitlines()[-1:] == ["0 []"], done.stderr


@pytest.mark.parametrize(
    "imports",
    [
        "import som; from transformers import AutoModelForCausalLM",
        "from transformers import AutoModelForCausalLM; import som",
        "import som, som.data; from transformers.models.auto.modeling_auto import AutoModelForCausalLM",
        "import som; from transformers import GenerationMixin, PreTrainedModel, Trainer, AutoModelForCausalLM",
        "import som; from modeling_som import SOMForCausalLM; from transformers import AutoModelForCausalLM",
        "import som; from modeling_som.tags_som import Tagger; from transformers import AutoModelForCausalLM",
        "import som; from configuration_som import SOMConfig; from transformers import AutoModelForCausalLM",
    ],
)
def test_the_auto_classes_know_som_whatever_is_imported_first(imports):
    code = (
        f"{imports}\nprint(type(AutoModelForCausalLM.from_pretrained({str(ROOT / 'som/checkpoint')!r})).__module__)\n"
        "from transformers.pipelines import PIPELINE_REGISTRY\nprint(PIPELINE_REGISTRY.check_task('parse')[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["modeling_som.modeling_som", "parse"], done.stderr


def public_names(file: Path) -> set[str]:
    """Functions, classes, constants and type aliases that a file defines at its top."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
            found |= {name.id for name in names if isinstance(name.ctx, ast.Store)}  # not the A of A.b = c
    return {name for name in found if not name.startswith("_")}


# Tags and oracles are named in configurations, which are shipped without som, and in som.syntax, which needs no torch.
TWICE = {"PARTIAL", "HEAD", "ROOT", "NO_CHAIN", "ORACLES"}


def test_a_name_means_one_thing():
    places: dict[str, list[str]] = {}
    for file in (file for file in [*FILES, *SHIPPED_FILES] if "space" not in file.parts):
        for name in public_names(file) - TWICE - {"main"}:
            places.setdefault(name, []).append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


@pytest.mark.parametrize("script", sorted((ROOT / "scripts").glob("*.py")), ids=lambda file: file.stem)
def test_scripts_give_no_name_of_the_package_another_meaning(script):
    taken = set().union(*(public_names(file) for file in [*FILES, *SHIPPED_FILES] if "space" not in file.parts))
    assert public_names(script) & taken <= {"main", "run"}  # what a script and the command line begin with


def test_what_is_named_twice_is_the_same():
    from modeling_som import configuration_som, tags_som
    from som.syntax import labels, oracle

    assert [getattr(tags_som, name) for name in sorted(TWICE - {"ORACLES"})] == [
        getattr(labels, name) for name in sorted(TWICE - {"ORACLES"})
    ]
    assert set(configuration_som.ORACLES) == set(oracle.ORACLES)
