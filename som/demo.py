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
    surprisal_figure,
    surprisals_all,
)
from som.provenance import provenance
from som.syntax import Accuracy, Example, grammar, read_treebank
from som.training import LOG
from som.view import SOM, Section, glossary, html, learning_curves, origin, page, svg, trace, trees

DEMO_FLAGS = shlex.split(
    "--hidden-size 128 --dropout 0.1 --output-dropout 0.1 --batch-size 64 --learning-rate 0.002 --weight-decay 0 "
    "--epochs 6"
)
SHOWN_MEASURES = ("ppl", "p_acc", "p_next_acc", "uf1_binarised", "uf1_nary")
CONTRAST = "agreement_prepositional_phrase"  # the minimal pairs to show one of
INTRODUCTION = (
    f"{SOM} This one was trained from nothing on sentences of a small made-up language that looks like English."
)
TERMS = (
    "ppl",
    "p and p'",
    "p acc, p' acc",
    "UF1",
    "minimal pair",
    "surprisal",
    "structural, lexical",
    "labels",
    "purple",
)
NOTE = (
    "Perplexity as it is, the rest in per cent. Beside the model: bigrams with Kneser-Ney smoothing, trees that are "
    "all left-branching, and the best that binary trees can do."
)


def main() -> int:
    """Run the demo and return its exit code."""
    progress.SECONDS = 8  # somebody is waiting
    try:
        return demo(Path("demo"))
    except KeyboardInterrupt:
        print("demo: interrupted; the next one goes on from here", file=sys.stderr)
        return 130


def demo(folder: Path, settings: Sequence[str] = DEMO_FLAGS) -> int:
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
        results = compare_with_baselines(model, tokenizer, bigrams, examples)
    console.print("", results_table(results))
    (made,) = generate(model, tokenizer, top_p=0.9)
    print(f"\nA sentence that the model made up, and its tree:\n\n{made.parse.draw()}\n")
    pair = next(pair for pair in grammar.minimal_pairs() if pair.kind == CONTRAST)
    good, bad = surprisals_all(model, tokenizer, [pair.good, pair.bad])
    console.print(contrast_table(good, bad))
    pictures = {" ".join(row.word for row in rows): surprisal_figure(rows) for rows in (good, bad)}
    prepare, train = (shlex.join(["som", *command]) for command in commands(folder, settings))
    sections = [
        Section("What this is", INTRODUCTION),
        Section("How good it is", NOTE, list(results.items())),
        Section("How it learnt", pictures={"": svg(learning_curves(folder / "model" / LOG))}),
        Section("A sentence that it made up", pictures={made.text: made.parse.figure()}),
        trees(model, tokenizer, examples),
        Section("Surprisal, word by word", contrast(good, bad), pictures=pictures),
        glossary(*TERMS),
        origin({"data": prepare, "training": train}, provenance()),
    ]
    reading, report = folder / "reading.html", folder / "report.html"
    write_whole(
        reading, page([trace(model, tokenizer, text) for text in (pair.good, pair.bad)], "the model of the demo")
    )
    write_whole(report, html("A SOM of the built-in treebank", sections))
    console.print(f"\nWatch it read the last two sentences: {reading.resolve().as_uri()}", soft_wrap=True)
    console.print(f"\nThe same with trees and curves: {report.resolve().as_uri()}", soft_wrap=True)


# What is measured


def compare_with_baselines(
    model: Any, tokenizer: Any, bigrams: KneserNey, examples: Sequence[Example]
) -> dict[str, dict[str, str]]:
    """The figures of the model and of the baselines, by measure; a dash where there is none."""
    trees = tree_baselines()
    reports = {
        "SOM": evaluate(model, tokenizer, examples),
        "bigrams": evaluate_words(bigrams, tokenizer, examples, "bigrams", "builtin"),
        "left branching": evaluate_trees(trees["left-branching trees"], examples, "left branching", "builtin"),
        "gold, binary": evaluate_trees(trees["oracle binary trees"], examples, "gold, binary", "builtin"),
    }
    measures = {column: report.measures() for column, report in reports.items()}
    rows = {
        LABELS[name]: {column: cell(name, measures[column][name]) for column in reports} for name in SHOWN_MEASURES
    }
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


def contrast_table(good: Sequence[WordSurprisal], bad: Sequence[WordSurprisal]) -> Table:
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


if __name__ == "__main__":
    sys.exit(main())
