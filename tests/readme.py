"""The snippets of README.md and of the pages in docs/: finds them and runs them, each page in a folder of its own with
small files of the names that it uses. Notebooks are run as they are.

As a program it writes what they print into the pages and notebooks: `python tests/readme.py [CHECKPOINT]`, where the
checkpoint, if given, takes the place of the one that comes with the package.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from io import StringIO
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

from modeling_som.sentences_som import running_text
from som import cli
from som.data.datasets import SPLITS, prepare
from som.inference import loading
from som.syntax import grammar, read_treebank
from som.training.trainer import train

NAMES = ("train", "dev", "test")  # of the splits, in the names of files
ROOT = Path(__file__).parent.parent
MADE = ("results.md", "speed.md")  # pages about runs that take hours; their tables are made by scripts
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").glob("*.md") if page.name not in MADE)]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BRIEF = ["--epochs", "1", "--hidden-size", "120"]  # added to every training: the command is tried, not its result
DRY = {  # with these flags nothing is installed, and the tests do not run themselves
    "make": ["--dry-run"],
    "pip": ["--dry-run", "--no-deps", "--no-index", "--no-build-isolation"],
}

ITEMS = """item,condition,sentence
1,reduced,The horse raced past the barn fell.
1,full,The horse that was raced past the barn fell.
"""


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


class Snippet(NamedTuple):
    """A fenced block; of kind `text`, it is what the block before it prints."""

    line: int
    kind: str
    text: str


def snippets(page: str) -> list[Snippet]:
    """All fenced blocks, in order."""
    found = [Snippet(page.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in FENCE.finditer(page)]
    assert 2 * len(found) == len(re.findall(r"^ *```", page, re.MULTILINE)), "a fence that is no snippet"
    return found


def run_all(found: list[Snippet], folder: Path, shipped: Path, page: str = "README.md") -> Iterator[str]:
    """What each snippet of a page prints, in a folder made by `make_world`; Python snippets continue one another."""
    namespace: dict = {"__name__": "__readme__"}
    with chdir(folder), patch.object(loading, "SHIPPED", shipped):
        printed = ""
        for snippet in found:
            if snippet.kind != "text":  # else the output of the one before
                printed = run(snippet, namespace, f"{page}:{snippet.line}")
            yield printed


def run(snippet: Snippet, namespace: dict, where: str) -> str:
    """What one snippet prints."""
    with redirect_stdout(StringIO()) as out:
        if snippet.kind == "python":
            exec(compile(snippet.text, where, "exec"), namespace)
        else:
            assert snippet.kind == "console", f"{where}: how is {snippet.kind!r} run?"
            for line in snippet.text.splitlines():
                assert line.startswith("$ "), f"{where}: expected a command, got {line!r}"
                run_command(shlex.split(line[2:], comments=True), f"{where}: {line}")
    return out.getvalue()


def run_command(words: list[str], where: str) -> None:
    """Runs a command, `som` in this process; one that serves until it is stopped only shows its help."""
    if "train" in words:
        words = [*words, *BRIEF]
    if words[:2] == ["som", "app"]:
        words = [*words, "--help"]
    if words[0] == "som":
        try:
            code = cli.main(words[1:])
        except SystemExit as stop:  # of --help
            code = stop.code
        assert code == 0, f"{where} ends with {code}"
        return
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    where_to_run = ROOT if words[0] in DRY else None
    command, environment = [*words, *DRY.get(words[0], [])], {**os.environ, "PATH": path}
    done = subprocess.run(command, cwd=where_to_run, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="")


# The folder


def make_world(folder: Path) -> None:
    """Small files of the names that the pages use, and a model of `make demo` that has seen little."""
    folder.mkdir(parents=True, exist_ok=True)
    with chdir(folder):
        for split, name, size in zip(SPLITS, NAMES, (96, 8, 8), strict=True):
            sentences = "".join(islice(grammar.builtin_treebank(split), size))
            for treebank in ("en", "my", "ptb"):
                Path(f"{treebank}-{name}.conllu").write_text(sentences)
        Path("sentences.txt").write_text("The dog barks.\nThe boys near the door are happy.\n")
        Path("items.csv").write_text(ITEMS)
        make_brackets()
        make_targets()
        make_reading_times()
        prepare({split: [f"en-{name}.conllu"] for split, name in zip(SPLITS, NAMES, strict=True)}, "demo/data")
        train("demo/data", "demo/model", hidden_size=32, batch_size=8, epochs=8, dropout=0.0, output_dropout=0.0)


def make_brackets() -> None:
    """The Wall Street Journal's sections, and BLLIP's files with lists of them."""
    tree = "( (S (NP (DT the) (NN {})) (VP (VBZ is) (ADJP (RB very) (JJ old))) (. .)) )\n"
    for section in range(25):
        Path(f"wsj/{section:02}").mkdir(parents=True)
        Path(f"wsj/{section:02}/wsj_{section:02}01.mrg").write_text(tree.format("section") * 3)
    Path("bllip").mkdir()
    for name in ("xs", "dev", "test"):
        Path(f"bllip/{name}.000").write_text(tree.format("paper") * 3)
        Path(f"{name}.txt").write_text(f"{name}.000\n")


def make_targets() -> None:
    """A suite of SyntaxGym with one item, and two pairs of BLiMP."""
    conditions = [
        {
            "condition_name": name,
            "regions": [
                {"region_number": number, "content": content}
                for number, content in enumerate(["The boys near", "the door", verb, "happy."], 1)
            ],
        }
        for name, verb in (("match", "are"), ("mismatch", "is"))
    ]
    suite = {
        "meta": {"name": "number_prep", "metric": "sum"},
        "predictions": [{"type": "formula", "formula": "(3;%match%) < (3;%mismatch%)"}],
        "items": [{"item_number": 1, "conditions": conditions}],
    }
    Path("suites").mkdir()
    Path("suites/number_prep.json").write_text(json.dumps(suite))
    about = {"UID": "agreement", "linguistics_term": "agreement", "field": "morphology"}
    pair = {**about, "sentence_good": "The boys are happy.", "sentence_bad": "The boys is happy."}
    Path("blimp.jsonl").write_text(2 * (json.dumps(pair) + "\n"))


def make_reading_times() -> None:
    """Words of three stories as they were shown, with times."""
    random, rows = Random(0), ["story\tsentence\tword\trt"]
    for number, example in enumerate(islice(read_treebank(["en-train.conllu"]), 30)):
        shown = running_text(example.words).split()
        rows += [f"{number // 10}\t{number % 10}\t{word}\t{random.randint(250, 450)}" for word in shown]
    Path("words.tsv").write_text("\n".join(rows) + "\n")


def with_outputs(page: str, printed: list[str]) -> str:
    """A page with what its snippets print."""
    outputs = iter(printed)

    def fill(match: re.Match) -> str:
        output = next(outputs)
        return f"```text\n{output}```" if match[1] == "text" else match[0]

    return FENCE.sub(fill, page)


# Notebooks


def run_notebook(file: Path, shipped: Path) -> Any:
    """A notebook with what its cells print and show now, in a process of its own."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(file, as_version=4)
    setup = f"from pathlib import Path; from som.inference import loading; loading.SHIPPED = Path({str(shipped)!r})"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(setup))
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with patch.dict(os.environ, {"PYTHONPATH": path}):
        NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    del notebook.cells[0]
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it was run
        if cell.cell_type == "code":
            cell.execution_count -= 1
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count -= 1
    return notebook


def main() -> None:
    shipped = Path(sys.argv[1]).absolute() if sys.argv[1:] else loading.SHIPPED
    with TemporaryDirectory() as folder:
        make_world(world := Path(folder) / "world")
        for page in PAGES:
            text = page.read_text("utf-8")
            own = shutil.copytree(world, Path(folder) / page.relative_to(ROOT).with_suffix(".world"))
            page.write_text(with_outputs(text, list(run_all(snippets(text), own, shipped, page_name(page)))), "utf-8")
    renew_notebooks(shipped)


def renew_notebooks(shipped: Path) -> None:
    """Write what notebooks show into them."""
    import nbformat

    for notebook in NOTEBOOKS:
        nbformat.write(run_notebook(notebook, shipped), notebook)


if __name__ == "__main__":
    main()
