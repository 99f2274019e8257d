"""What the command `som` answers before it has imported anything slow."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SLOW = {"torch", "transformers", "datasets", "numpy", "rich", "nltk"}
# to parse a sentence; accelerate is imported by transformers itself
UNUSED = {"datasets", "nltk", "matplotlib", "pandas", "rich", "svgling", "spacy"}


def modules_of(*arguments: str) -> tuple[str, set[str]]:
    """What a command prints, and the packages that it has imported when it is over."""
    code = f"""if True:
        import sys
        from som.cli import main
        try:
            main({list(arguments)})
        except SystemExit:
            pass
        print("MODULES", *sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    printed, _, names = done.stdout.partition("MODULES ")
    return printed + done.stderr, {name.partition(".")[0] for name in names.split()}


@pytest.mark.parametrize(
    "arguments, answer",
    [
        (["--version"], "som 0."),
        (["parze", "the dog"], "did you mean 'parse'? (see som --help)"),
        (["parse", "--formt", "json", "the dog"], "unrecognized arguments: --formt; did you mean '--format'?"),
        (["--model", "runs/en", "parse", "the dog"], "unrecognized arguments: --model; flags come after the command"),
        (["--verison"], "unrecognized arguments: --verison; did you mean '--version'?"),
        (["parse", "--format", "jsn", "the dog"], "did you mean 'json'? (see som parse --help)"),
        (["train", "data", "--otu", "run"], "did you mean '--out'? (see som train --help)"),
        (["parse", "--file", "nowhere"], "nowhere: expected a file, there is none"),
        (["parse", "--model", "nowhere", "the dog"], "nowhere: expected a checkpoint: no such folder"),
        (["surprisal", "--file", "nowhere"], "nowhere: expected a file"),
        (["surprisal", "--table", "nowhere.tsv"], "nowhere.tsv: expected a file"),
        (["compare", "a", "b", "--out", "a.doc"], "a.doc: expected a table that ends in"),
        (["generate", "--file", "nowhere"], "nowhere: expected a file"),
        (["evaluate", "--treebank", "nowhere"], "nowhere: expected a file or folder"),
        (["evaluate", "--syntaxgym", "nowhere"], "nowhere: expected a folder of suites"),
        (["evaluate", "--blimp", "nowhere"], "nowhere: expected a file"),
        (["evaluate", "nowhere", "--treebank", "."], ".: expected files *.conllu"),
        (["train", "nowhere", "--out", "run"], "nowhere: expected a folder made by `som prepare`"),
        (["prepare", "--wsj", "nowhere", "--out", "data"], "nowhere/02: expected a folder"),
        (["push", "nowhere", "me/som"], "nowhere: expected a checkpoint"),
    ],
    ids=lambda arguments: arguments[0] if isinstance(arguments, list) else "",
)
def test_a_mistake_is_answered_before_anything_slow_is_imported(arguments, answer):
    printed, modules = modules_of(*arguments)
    assert answer in printed and printed.count("\n") == 1
    assert not modules & SLOW


def test_parsing_a_sentence_imports_nothing_that_it_does_not_use(checkpoint):
    printed, modules = modules_of("parse", "the cat sleeps", "--format", "brackets", "--model", checkpoint)
    assert printed.startswith("(") and "torch" in modules
    assert not modules & UNUSED
