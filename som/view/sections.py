"""What reports are made of: an introduction, figures, curves, trees against those of a treebank, terms, the origin."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from datasets import load_from_disk
from rich.table import Table

from modeling_som.scoring_som import Method
from modeling_som.sentences_som import encode_words, running_text
from modeling_som.tags_som import Labels
from modeling_som.tokenization_som import load_tokenizer
from som.data import row_tags, tag_names
from som.evaluation import LABELS, Report, cell
from som.inference import (
    MEASURES,
    Parse,
    Surprisals,
    WordSurprisal,
    parse_all,
    shared_columns,
    surprisal_figure,
    surprisals_all,
    tree_figure,
)
from som.provenance import provenance
from som.syntax import Example, Tree, binarise, universal
from som.training import LOG, RUN
from som.view.app import SHIPPED_TITLE
from som.view.report import Rows, Section, frame, html, learning_curves, section_html, svg
from som.view.trace import described

SOM = (
    "A SOM (Syntactic Ordered Memory) is a language model that parses while it reads: before each word it guesses "
    "where in the tree the word will go and which word it will be, and once it has seen the word it decides."
)
GLOSSARY = {
    "ppl": "Perplexity: among how many equally likely words the model hesitates at each place. Lower is better. EOS "
    "is the end of the sentence, which is predicted like a word.",
    "p and p'": "The two parsers: p decides where a word attaches once it is seen, p' guesses it before.",
    "p acc, p' acc": "How often each is right, given the tree that the model itself has built so far.",
    "UF1": "Agreement of the brackets with the treebank's, binarised or as they are (n-ary). 100 is perfect.",
    "UAS, LAS, labelled F1": "Words with the right head; with the right head and relation; brackets with the right "
    "category. For models that know labels.",
    "minimal pair": "A sentence and an ungrammatical one that differs in a word. Right if the first is more probable.",
    "SyntaxGym": "Suites of sentences in which words should be more or less surprising than in others, with means "
    "over the suites of a circuit. An item is right if all that its suite predicts holds.",
    "surprisal": "-log2 of a word's probability, in bits: the longer the bar, the less it was expected. A bit is as "
    "long in every picture.",
    "structural, lexical": "The two parts of a word's cost in its tree: its place (orange), and the word itself there "
    "(blue).",
    "trees": "Every line joins words and constituents to a larger one. A tree without labels is binary, as the model "
    "builds it; labels tell which steps belong to one constituent.",
    "labels": "What a constituent is to the one above it, and below a word what the word is; a head names its "
    "constituent.",
    "purple": "In a tree, what the other tree, the treebank's or the model's, has not: constituents in dashes, labels "
    "in bold letters.",
}
MEASURING = ("ppl", "p and p'", "p acc, p' acc", "UF1", "UAS, LAS, labelled F1")
READING = ("surprisal", "structural, lexical", "labels", "purple")
SENTENCES_SHOWN = 4  # sentences of a treebank
ABOUT_TREES = (
    "The model's trees of the first sentences of 8 to 14 words, and below each word its bits: structural, lexical, "
    "and a line at the surprisal, for which every place counts. What the treebank has not is purple, constituents "
    "in dashes and labels in bold; its own tree follows where they differ."
)


# ---------------------------------------------------------------------------------------------- whole reports


def run_report(run: Path, data: Path, model: Any = None, tokenizer: Any = None) -> str:
    """The report of a training run: figures and curves, and with a SOM its trees of the validation split."""
    record = json.loads((run / RUN).read_text("utf-8"))
    log = [json.loads(line) for line in (run / LOG).read_text("utf-8").splitlines()]
    about = f"This is the training of the model in {run}, on the sentences in {data}."
    name = record.get("system", "som")
    what = SOM if name == "som" else f"It is of the system {name}, with which SOMs are compared."
    sections = [
        Section("What this is", f"{about} {what}"),
        Section(
            "How it learnt",
            "On the validation split, after each epoch; shares in per cent.",
            epochs(log),
            pictures={"": svg(learning_curves(run / LOG))},
        ),
        *([trees(model, tokenizer, validation(data))] if model is not None else []),
        glossary(*MEASURING, *(READING if model is not None else ())),
        settings(record["settings"]),
        origin({"command": record["command"], "data": str(data)}, record),
    ]
    return html(f"The training of {run.name}", sections)


def evaluation_report(
    name: str, command: str, results: Mapping[str, Report], others: Iterable[Table] = (), shown: Section | None = None
) -> str:
    """The report of what a model was measured on; `others` are tables of comparison, `shown` its trees."""
    tables, others = [result.__rich__() for result in results.values()], list(others)
    targeted = {"syntaxgym": "SyntaxGym", "blimp": "minimal pair"}
    terms = [*MEASURING] if "treebank" in results else []
    terms += [term for section, term in targeted.items() if section in results]
    what = ", ".join(dict.fromkeys(result.name for result in results.values()))
    sections = [
        Section("What this is", f"How good {name} is, measured on {what}. {SOM}"),
        *map(figures, [*tables, *others], [*map(heading, results.values()), *(str(table.title) for table in others)]),
        *([shown] if shown else []),
        glossary(*terms, *(READING if shown else ())),
        origin({"command": command}, provenance()),
    ]
    return html(f"{name[0].upper()}{name[1:]}, measured", sections)


# ---------------------------------------------------------------------------------------------- their parts


def heading(result: Report) -> str:
    """What a model was measured on, and how it read."""
    return f"On {result.name}, by the method {result.method}{', gold trees given' * result.gold}"


def figures(table: Table, title: str) -> Section:
    """A table of a terminal, for a page, without lines that say nothing."""
    names, *columns = table.columns
    cells = zip(*(map(str, column.cells) for column in columns), strict=True)
    headers = [str(column.header) for column in columns]
    rows = [(str(name), dict(zip(headers, row, strict=True))) for name, row in zip(names.cells, cells, strict=True)]
    told = [row for row in rows if set(row[1].values()) != {"–"}]
    by_length = " Columns such as 1–10 are of sentences of so many words." if "all" in headers else ""
    return Section(title, f"Perplexity as it is, shares in per cent.{by_length}", told)


def epochs(log: Sequence[Mapping[str, Any]]) -> Rows:
    """What was measured after each epoch."""
    measured = [entry for entry in log if "eval_ppl" in entry]
    names = [name for name in LABELS if any(f"eval_{name}" in entry for entry in measured)]
    return [
        (f"epoch {entry['epoch']:g}", {LABELS[name]: cell(name, entry.get(f"eval_{name}")) for name in names})
        for entry in measured
    ]


def glossary(*terms: str) -> Section:
    return Section("What the words mean", terms={term: GLOSSARY[term] for term in terms})


def settings(found: Mapping[str, Any]) -> Section:
    """Every setting of a run; a list by its length, if it is long."""
    told = {
        name: f"{len(value)} of them" if isinstance(value, list) and len(value) > 5 else str(value)
        for name, value in found.items()
        if value not in ("", None, [], {})
    }
    return Section("Settings", fold=f"All {len(told)} of them", terms=told)


def origin(commands: Mapping[str, str], made_with: Mapping[str, Any]) -> Section:
    """The commands and versions that something was made with."""
    packages = ", ".join(f"{name} {version}" for name, version in made_with["versions"].items())
    commit = {"commit": str(made_with["commit"] or "not in a clone")} if "commit" in made_with else {}
    return Section("How this came about", terms={**commands, **commit, "versions": packages})


def validation(data: Path) -> list[Example]:
    """The sentences of a prepared data set's validation split, with their trees and tags."""
    tokenizer, names = load_tokenizer(data), tag_names(data)
    return [prepared_example(row, tokenizer, names) for row in load_from_disk(str(data))["validation"]]


def prepared_example(row: Mapping[str, Any], tokenizer: Any, names: Sequence[str]) -> Example:
    starts = list(accumulate(map(len, encode_words(tokenizer, row["words"])), initial=1))[:-1]
    return Example(tuple(row["words"]), Tree.parse(row["tree"]), "", tags=row_tags(row, starts, names))


# ---------------------------------------------------------------------------------------------- sentences


def parse_section(parse: Parse, binary: bool = False) -> str:
    """A parse as a part of a page."""
    note = f"Log-likelihood {parse.log_prob:.2f} nats." if parse.log_prob is not None else ""
    return section_html(Section(running_text(parse.words), note, pictures={"": parse.figure(binary)}))


def reading_frame(
    title: str, shown: str, terms: Sequence[str], model: str | None, method: Method, command: str
) -> tuple[str, str]:
    """Beginning and end of a page of sentences: what is shown, what the words mean, and what it was made with."""
    read_by = {"model": model or SHIPPED_TITLE, "method": described(method)}
    first = Section("What this is", f"{shown} {SOM}", terms=read_by)
    return frame(title, first, glossary(*terms), origin({"command": command}, provenance()))


def surprisal_section(rows: Sequence[WordSurprisal], labels: Labels | None = None) -> str:
    """The surprisals of a sentence as a part of a page; their numbers are there to be unfolded."""
    total = sum(row.surprisal for row in rows)
    table = [(row.word, {name: decimals(getattr(row, name)) for name in MEASURES}) for row in rows]
    picture = {"": surprisal_figure(rows, labels)}
    words = running_text([row.word for row in rows])
    return section_html(Section(words, f"{total:.1f} bits in all.", table, "The numbers", picture))


def decimals(value: float | int | bool | None) -> str:
    """A number with two decimals, if it has any; a dash where there is none.

    >>> [decimals(value) for value in (1 / 3, 2, True, None)]
    ['0.33', '2', 'yes', '–']
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


# ---------------------------------------------------------------------------------------------- trees


def trees(model: Any, tokenizer: Any, examples: Sequence[Example], method: Any = None) -> Section:
    """A SOM's trees and surprisals of a few sentences, with what the treebank has otherwise."""
    chosen = [example for example in examples if 8 <= len(example.words) <= 14] or list(examples)
    chosen = [example for example in chosen if len(example.words) <= 40][:SENTENCES_SHOWN]
    words = [list(example.words) for example in chosen]
    parses = parse_all(model, tokenizer, words, method, words=True)
    rows = surprisals_all(model, tokenizer, words, method, words=True)
    pictures: dict[str, str] = {}
    for one in zip(chosen, parses, rows, strict=True):
        pictures |= against_gold(*one)
    return Section("Sentences it has never seen", ABOUT_TREES, pictures=pictures)


def against_gold(example: Example, parse: Parse, rows: Surprisals) -> dict[str, str]:
    """A parse as a picture, by a caption that says how much of it is right; then the treebank's, if it is another."""
    gold, labelled = Parse.of_tree(example.tree, example.tags), bool(parse.labels and example.tags)
    tree, other = (parse.constituents, example.tree) if labelled else (parse.tree, binarise(example.tree))
    spans, wanted = set(tree.spans()), set(other.spans())
    ours, theirs = (parse.span_labels, gold.span_labels) if labelled else ({}, {})
    right = {span for span, label in ours.items() if universal(label) == universal(theirs.get(span, ""))}
    told = f"{len(spans & wanted)} of {len(spans)} constituents" + f", {len(right)} of {len(ours)} labels" * labelled
    text, off = running_text(list(example.words)), ours.keys() - right - (spans - wanted)
    columns = shared_columns(parse.words, ours, theirs)
    picture = tree_figure(tree, labels=ours, wrong=spans - wanted, wrong_labels=off, rows=rows, columns=columns)
    if spans == wanted and not off:
        return {f"{text} As in the treebank.": picture}
    treebank = tree_figure(other, labels=theirs, wrong=wanted - spans, columns=columns)
    return {f"{text} As in the treebank: {told}.": picture, f"{text} The treebank's tree:": treebank}
