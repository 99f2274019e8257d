"""`make demo`: from nothing to a trained and measured model, and what it makes of sentences it has never seen.

The first steps are commands, printed as they are run. Everything goes into one folder; what is already there is used.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import load_from_disk
from rich.console import Console
from rich.table import Table

from som import cli, progress
from som.baselines import KneserNey, evaluate_trees, evaluate_words, tree_baselines
from som.data import SUMMARY
from som.evaluation import (
    LABELS,
    BlimpCounts,
    Pair,
    cell,
    evaluate,
    evaluate_blimp,
    judge_pairs,
    percent,
    table_of_numbers,
)
from som.files import write_whole
from som.inference import (
    WordSurprisal,
    generate,
    load,
    longest_bar,
    parse_all,
    surprisal_figure,
    surprisals_all,
    tree_figure,
)
from som.provenance import provenance
from som.syntax import Accuracy, Example, binarise, grammar, read_treebank
from som.training import LOG
from som.view import Section, html, learning_curves, page, svg, trace

SETTINGS = shlex.split(
    "--hidden-size 128 --dropout 0.1 --output-dropout 0.1 --batch-size 64 --learning-rate 0.002 --weight-decay 0 "
    "--epochs 6"
)
MEASURES = ("ppl", "p_acc", "p_next_acc", "uf1_binarised", "uf1_nary")
CONTRAST = "agreement_prepositional_phrase"  # the minimal pairs to show one of
INTRODUCTION = (
    "A SOM (Syntactic Ordered Memory) is a language model that parses while it reads: before each word it guesses "
    "where in the tree the word will go and which word it will be, and once it has seen the word it decides. This one "
    "was trained from nothing on sentences of a small made-up language that looks like English."
)
GLOSSARY = {
    "ppl": "Perplexity: among how many equally likely words the model hesitates at each place. Lower is better.",
    "p and p'": "The two parsers: p decides where a word attaches once it is seen, p' guesses it before.",
    "p acc, p' acc": "How often each is right, given the tree that the model itself has built so far.",
    "UF1": "Agreement of the brackets with the treebank's, binarised or as they are (n-ary). 100 is perfect.",
    "minimal pair": "A sentence and an ungrammatical one that differs in a word. Right if the first is more probable.",
    "surprisal": "-log2 of a word's probability, in bits: the longer the bar, the less it was expected.",
    "structural, lexical": "The two parts of a word's cost in its tree: its place, and the word itself at this place.",
    "dashes": "In a tree, a constituent that is not in the treebank's.",
}
NOTE = (
    "Perplexity as it is, the rest in per cent. Beside the model: bigrams with Kneser-Ney smoothing, trees that are "
    "all left-branching, and the best that binary trees can do."
)
TREES_NOTE = (
    "The model's trees of the test split. Where a constituent (in dashes) is wrong, the treebank's tree follows."
)


def main() -> int:
    """Run the demo and return its exit code."""
    progress.SECONDS = 8  # somebody is waiting
    try:
        return demo(Path("demo"))
    except KeyboardInterrupt:
        print("demo: interrupted; the next one goes on from here", file=sys.stderr)
        return 130


def demo(folder: Path, settings: Sequence[str] = SETTINGS) -> int:
    """Prepare, train, measure, show; the exit code is that of the command that went wrong, if one did."""
    prepare, train = commands(folder, settings)
    for command in [train] if (folder / "data" / SUMMARY).is_file() else [prepare, train]:
        print(f"\n$ {shlex.join(['som', *command])}", flush=True)
        if code := cli.main(command):
            return code
    show(folder, settings, Console())
    return 0


def commands(folder: Path, settings: Sequence[str]) -> tuple[list[str], list[str]]:
    """What makes the data and what trains the model."""
    data = str(folder / "data")
    train = ["train", data, "--out", str(folder / "model"), *settings, "--resume"]
    return ["prepare", "builtin", "--out", data], train


def show(folder: Path, settings: Sequence[str], console: Console) -> None:
    """Measure the model, print what it can do, and write the report."""
    model, tokenizer = load(folder / "model")
    examples = list(read_treebank([folder / "data" / "test.conllu"]))
    bigrams = KneserNey(load_from_disk(str(folder / "data"))["train"]["input_ids"], len(tokenizer), order=2)
    with progress.progress("measuring", unit="", shown=not sys.stderr.isatty()):
        results = compare(model, tokenizer, bigrams, examples)
    console.print("", results_table(results))
    (made,) = generate(model, tokenizer, top_p=0.9)
    print(f"\nA sentence that the model made up, as it parses it:\n\n{made.parse.draw()}\n")
    pair = next(pair for pair in grammar.minimal_pairs() if pair.kind == CONTRAST)
    good, bad = surprisals_all(model, tokenizer, [pair.good, pair.bad])
    console.print(surprisal_table(good, bad))
    sections = [
        Section("What this is", INTRODUCTION),
        Section("How good it is", NOTE, results),
        Section("How it learnt", pictures={"": svg(learning_curves(folder / "model" / LOG))}),
        Section("A sentence that it made up", pictures={made.text: tree_figure(made.parse.tree)}),
        Section("Sentences it has never seen", TREES_NOTE, pictures=tree_pictures(model, tokenizer, examples)),
        Section("Surprisal, word by word", contrast(good, bad), pictures=surprisal_pictures(good, bad)),
        Section("What the words mean", terms=GLOSSARY),
        Section("How this came about", terms=origin(folder, settings)),
    ]
    reading, report = folder / "reading.html", folder / "report.html"
    write_whole(
        reading, page([trace(model, tokenizer, text) for text in (pair.good, pair.bad)], "the model of the demo")
    )
    write_whole(report, html("A SOM of the built-in treebank", sections))
    console.print(f"\nWatch it read the last two sentences: {reading.resolve().as_uri()}", soft_wrap=True)
    console.print(f"\nThe same with trees and curves: {report.resolve().as_uri()}", soft_wrap=True)


def origin(folder: Path, settings: Sequence[str]) -> dict[str, str]:
    """The commands and versions that made the model."""
    made = provenance()
    versions = made["versions"]
    assert isinstance(versions, dict)
    prepare, train = (shlex.join(["som", *command]) for command in commands(folder, settings))
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    return {
        "data": prepare,
        "training": train,
        "commit": str(made["commit"] or "not in a clone"),
        "versions": packages,
    }


# What is measured


def compare(model: Any, tokenizer: Any, bigrams: KneserNey, examples: Sequence[Example]) -> dict[str, dict[str, str]]:
    """The figures of the model and of the baselines, by measure; a dash where there is none."""
    trees = tree_baselines()
    reports = {
        "SOM": evaluate(model, tokenizer, examples),
        "bigrams": evaluate_words(bigrams, tokenizer, examples, "bigrams", "builtin"),
        "left branching": evaluate_trees(trees["left-branching trees"], examples, "left branching", "builtin"),
        "gold, binary": evaluate_trees(trees["oracle binary trees"], examples, "gold, binary", "builtin"),
    }
    measures = {column: report.measures() for column, report in reports.items()}
    rows = {LABELS[name]: {column: cell(name, measures[column][name]) for column in reports} for name in MEASURES}
    return rows | judge(model, tokenizer, bigrams, columns=list(reports))


def judge(model: Any, tokenizer: Any, bigrams: KneserNey, columns: Sequence[str]) -> dict[str, dict[str, str]]:
    """The accuracy on minimal pairs, overall and by kind."""
    pairs = [Pair(pair.kind, pair.kind, "syntax", pair.good, pair.bad) for pair in grammar.minimal_pairs()]
    judged = dict.fromkeys(columns, BlimpCounts())  # trees alone tell none
    judged["SOM"] = evaluate_blimp(model, tokenizer, pairs).counts
    judged["bigrams"] = judge_pairs(bigrams, tokenizer, pairs, "bigrams").counts
    rows = {"minimal pairs": {column: percent(counts.mean) for column, counts in judged.items()}}
    for kind in grammar.PAIR_KINDS:
        shares = {column: counts.paradigms.get(kind, Accuracy()).value for column, counts in judged.items()}
        rows[f"  {kind.replace('_', ' ')}"] = {column: percent(share) for column, share in shares.items()}
    return rows


# What is shown


def results_table(rows: dict[str, dict[str, str]]) -> Table:
    table = table_of_numbers("The built-in treebank, test split", *next(iter(rows.values())))
    table.caption = NOTE
    for name, cells in rows.items():
        table.add_row(name, *cells.values())
    return table


def surprisal_table(good: Sequence[WordSurprisal], bad: Sequence[WordSurprisal]) -> Table:
    """Bits by word of a sentence and of one that differs from it in a word, where they differ."""
    table = Table("word", title="Surprisal, word by word", caption=contrast(good, bad))
    table.add_column("bits", justify="right")
    table.add_column("")
    for one, other in zip(good, bad, strict=True):
        table.add_row(one.word, f"{one.surprisal:.1f}", "█" * round(2 * one.surprisal))
        if one.word != other.word:
            table.add_row(f"*{other.word}", f"{other.surprisal:.1f}", "█" * round(2 * other.surprisal), style="red")
    return table


def contrast(good: Sequence[WordSurprisal], bad: Sequence[WordSurprisal]) -> str:
    """What the two sentences show, in words."""
    right, wrong = next((one, other) for one, other in zip(good, bad, strict=True) if one.word != other.word)
    bits = f"“{right.word}” {right.surprisal:.1f} bits, the ungrammatical “{wrong.word}” {wrong.surprisal:.1f}"
    return f"In “{' '.join(row.word for row in good)}”, {bits}."


def surprisal_pictures(*sentences: Sequence[WordSurprisal]) -> dict[str, str]:
    """Sentences with their surprisals, on one axis."""
    axis = max(map(longest_bar, sentences))
    return {" ".join(row.word for row in rows): surprisal_figure(rows, axis) for rows in sentences}


def tree_pictures(model: Any, tokenizer: Any, examples: Sequence[Example]) -> dict[str, str]:
    """The model's trees of some sentences, wrong constituents marked and the treebank's tree below them."""
    shown = [example for example in examples if 8 <= len(example.words) <= 14][:4]
    pictures = {}
    for example, parse in zip(shown, parse_all(model, tokenizer, [one.words for one in shown]), strict=True):
        text, gold = " ".join(example.words), binarise(example.tree)
        wrong = set(parse.tree.spans()) - set(gold.spans())
        verdict = f"Wrong constituents: {len(wrong)}." if wrong else "As in the treebank."
        pictures[f"{text} {verdict}"] = tree_figure(parse.tree, wrong=wrong)
        if wrong:
            pictures[f"{text} The treebank's tree:"] = tree_figure(gold)
    return pictures


if __name__ == "__main__":
    sys.exit(main())
