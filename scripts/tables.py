"""The pages of results: docs/results.md and docs/reading.md get their tables and pictures from what the other scripts
have written.

python scripts/tables.py

The text is written by hand; what stands between `<!-- NAME -->` and `<!-- end -->` is made here.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from som.evaluation import LABELS, LENGTHS, cell
from som.files import write_whole
from som.view import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RunResult = dict[str, Any]  # one file
ResultRows = dict[str, list[RunResult]]  # by row of a table, one result per seed
# of the data and the vocabulary, not of the model
OF_THE_DATA = ("items with an unknown critical word", "pairs of equal likelihood", "pairs with an unknown word")
WHOLE = ("words/s", "vocabulary")  # columns of whole numbers
BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def read_result_rows(folder: Path) -> ResultRows:
    """The results of a table, in its order."""
    results = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.json")]
    rows: ResultRows = {}
    for result in sorted(results, key=lambda result: (result["place"], result["row"], result["seed"])):
        rows.setdefault(result["row"], []).append(result)
    for row, alike in rows.items():
        check_alike(f"{folder}: {row}", alike)
    return rows


def check_alike(row: str, results: Sequence[RunResult]) -> None:
    """Validates that results to be averaged are of models that were trained alike."""
    alike = {"seed": None, "bf16": None}  # seeds differ, and machines in whether bfloat16 is fast
    first, *others = [{**result.get("training", {}), **alike} for result in results]
    for result, other in zip(results[1:], others, strict=True):
        if differing := [name for name in first.keys() & other if first[name] != other[name]]:  # some are newer
            name = min(differing)
            seeds = f"{results[0]['seed']} and {result['seed']}"
            raise ValueError(f"{row}: {name} of seeds {seeds} is {first[name]} and {other[name]}: remove one")


# Tables


def table(rows: Mapping[str, Sequence[RunResult]], columns: Mapping[str, Callable[[RunResult], float | None]]) -> str:
    """A table in Markdown; figures of several seeds as mean ± standard deviation."""
    cells = {
        name: [*(figure(list(map(column, results)), title) for title, column in columns.items()), str(len(results))]
        for name, results in rows.items()
    }
    return grid([*columns, "seeds"], cells)


def grid(titles: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """A table in Markdown, of cells that are text already."""
    lines = [f"| | {' | '.join(titles)} |", "| --- |" + " ---: |" * len(titles)]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    return "\n".join(lines) + "\n"


def figure(values: Sequence[float | None], title: str) -> str:
    """A cell: the mean over seeds, and how far they scatter.

    >>> figure([0.8, 0.82], "UF1, n-ary"), figure([3_941_204], "parameters"), figure([None], "p' acc")
    ('81.00 ± 1.41', '3.94M', '–')
    >>> figure([1204.2, 1205.0], "words/s"), figure([2.154], "ΔLL, surprisal"), figure([0.00713], "p, surprisal")
    ('1,205', '2.15', '0.0071')
    """
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    if title == "parameters":
        return f"{known[0] / 1e6:.2f}M"
    if title in WHOLE:
        return f"{fmean(known):,.0f}"
    if title.startswith("p, "):
        return f"{fmean(known):.4f}"
    kind = "ppl" if "ppl" in title or title.startswith("ΔLL") else "share"  # the latter in per cent
    return " ± ".join(cell(kind, value) for value in ([fmean(known), stdev(known)] if len(known) > 1 else known))


def measure(name: str, section: str = "test") -> Callable[[RunResult], float | None]:
    """A measure of an evaluation; perplexity is nothing where words were not learnt."""

    def column(result: RunResult) -> float | None:
        untrained = name.startswith("ppl") and result["settings"].get("lm_loss_weight") == 0
        evaluation = result["evaluations"].get(section)
        return None if untrained or evaluation is None else evaluation["measures"].get(name)

    return column


def parameters(result: RunResult) -> float | None:
    return result.get("parameters")


def vocabulary_size(result: RunResult) -> float | None:
    return result.get("vocabulary")


def words_per_second(result: RunResult) -> float | None:
    return result.get("speed", {}).get("words_per_second")


def per_word(result: RunResult, section: str = "test") -> float | None:
    """Perplexity per word, where words are in pieces or unknown ones are spelled; else it is the same as a token's."""
    word, token = measure("ppl_per_word", section)(result), measure("ppl", section)(result)
    return None if word == token else word


def measures(*names: str) -> dict[str, Callable[[RunResult], float | None]]:
    return {LABELS[name]: measure(name) for name in names}


def domains(rows: ResultRows) -> str:
    """A column for perplexity and one for UF1, for each treebank."""
    treebanks = dict.fromkeys(name for results in rows.values() for one in results for name in one["evaluations"])
    columns = {}
    for treebank in treebanks:
        columns[f"{treebank}, ppl"] = measure("ppl", treebank)
        columns[f"{treebank}, UF1"] = measure("uf1_binarised", treebank)
    return table(rows, columns)


def syntax(rows: ResultRows, left_out: Sequence[str] = OF_THE_DATA) -> str:
    """Scores of SyntaxGym, in all and by circuit, then those of BLiMP, of the seeds that have read it."""
    parts = []
    for section in ("syntaxgym", "blimp"):
        read = {name: [one for one in results if section in one["evaluations"]] for name, results in rows.items()}
        read = {name: results for name, results in read.items() if results}
        every = [one["evaluations"][section]["measures"] for results in read.values() for one in results]
        if names := dict.fromkeys(name for measures in every for name in measures if name not in left_out):
            parts.append(table(read, {name: measure(name, section) for name in names}))
    return "\n".join(parts)


def systems(rows: ResultRows) -> str:
    """The paper's tables: predicting words, syntactic generalization, parsing; each of the systems that can do it."""
    words = table(rows_with(measure("ppl"), rows), SYSTEM_WORDS)
    parsing = table(rows_with(measure("uf1_nary"), rows), measures("uf1_nary", "uf1_binarised"))
    return f"{words}\n{syntax(rows)}\n{parsing}"


def rows_with(column: Callable[[RunResult], float | None], rows: ResultRows) -> ResultRows:
    """The rows that have a figure in a column."""
    return {name: results for name, results in rows.items() if any(column(one) is not None for one in results)}


def of_split(split: str) -> dict[str, Callable[[RunResult], float | None]]:
    """Columns of a split of AMALGUM and EWT."""
    names = ("ppl_per_word", "uf1_binarised", "uas", "las")
    treebanks = [f"{treebank} {split}" for treebank in ("AMALGUM", "EWT")]
    return {f"{treebank}, {LABELS[name]}": measure(name, treebank) for treebank in treebanks for name in names}


def reading(rows: ResultRows) -> str:
    """ΔLL of each measure with the scores of the trees, then p of each measure."""
    every = [one["evaluations"]["reading"] for results in rows.values() for one in results]
    names = dict.fromkeys(name for one in every for name in one["measures"])
    deltas = {f"ΔLL, {name}": measure(name, "reading") for name in names}
    trees = {
        "Penn, UF1, binarised": measure("uf1_binarised", "Penn"),
        "Penn, UF1, n-ary": measure("uf1_nary", "Penn"),
        "UD, UF1, binarised": measure("uf1_binarised", "UD"),
        "UD, UAS": measure("uas", "UD"),
    }
    chances = {f"p, {name}": partial(chance, name) for name in names}
    return f"{table(rows, {'parameters': parameters, **deltas, **trees})}\n{table(rows, chances)}"


def chance(measure: str, result: RunResult) -> float | None:
    """The p of a measure of reading times."""
    return result["evaluations"]["reading"]["p"].get(measure)


ABLATION_COLUMNS = {"parameters": parameters, **measures("ppl", "p_acc", "uf1_binarised", "uf1_nary", "p_next_acc")}
PARSING = {"parameters": parameters, **measures("uf1_nary", "uf1_binarised", "ppl")}
SUITES = {"SG, 31 published suites": measure("SG, 31 published suites", "syntaxgym")}
SHIPPED_COLUMNS = {
    "parameters": parameters,
    **measures("ppl", "ppl_without_eos", "p_acc", "uf1_binarised", "uf1_nary"),
}
WORDS = {"parameters": parameters, **measures("ppl", "ppl_without_eos")}
TAG_TABLE_COLUMNS = {
    f"{split}, {LABELS[name]}": measure(name, split)
    for split in ("validation", "test")
    for name in ("ppl", "uf1_binarised", "uas", "las")
}
XS: dict[str, Callable[[RunResult], float | None]] = {
    "parameters": parameters,
    "vocabulary": vocabulary_size,
    "words/s": words_per_second,
    **measures("ppl", "p_acc", "uf1_binarised", "uf1_nary"),
    "ppl per word": per_word,
    "EWT, ppl": measure("ppl", "EWT test"),
    "EWT, ppl per word": partial(per_word, section="EWT test"),
    "EWT, UF1": measure("uf1_binarised", "EWT test"),
}
SYSTEM_WORDS = {"parameters": parameters, **measures("ppl", "ppl_without_eos")}
TABLES: dict[str, Callable[[ResultRows], str]] = {
    "open_ablation": lambda rows: table(rows, {**ABLATION_COLUMNS, "ppl per word": per_word}),
    "open_language_models": lambda rows: table(rows, WORDS),
    "open_domains": domains,
    "open_parsing": lambda rows: table(rows, PARSING),
    "open_syntax": syntax,
    "open_shipped": lambda rows: table(rows, SHIPPED_COLUMNS),
    "open_xs": lambda rows: f"{table(rows, XS)}\n{syntax(rows, left_out=())}",
    "open_systems": systems,
    "open_tags": lambda rows: table(rows, TAG_TABLE_COLUMNS),
    "open_en": lambda rows: "\n".join(table(rows, of_split(split)) for split in ("validation", "test")),
    "open_reading": reading,
    "ptb": lambda rows: table(rows, ABLATION_COLUMNS),
    "bllip": lambda rows: table(rows, {**ABLATION_COLUMNS, "ppl per word": per_word, **SUITES}),
}


# Tables of the model that ships, whose evaluations are files of `som evaluate` and `som garden-paths`

TREEBANKS = {"ewt": "EWT", "gum": "GUM", "pud": "PUD", "partut": "ParTUT", "lines": "LinES", "amalgum": "AMALGUM"}


def shipped_treebanks(evaluations: Sequence[RunResult]) -> str:
    """A row for each test split."""
    titles = {name: LABELS[name] for name in ("uas", "las", "uf1_binarised", "ppl_per_word")}
    found = [one["treebank"]["measures"] for one in evaluations]
    cells = [[figure([measures[name]], title) for name, title in titles.items()] for measures in found]
    return grid(list(titles.values()), dict(zip(TREEBANKS.values(), cells, strict=True)))


def garden_paths(evaluations: Sequence[RunResult]) -> str:
    """Mean effects in bits with standard errors: a row for each construction and cost, a column for each beam."""
    (report,) = evaluations
    widths = sorted({mean["k"] for mean in report["means"]})
    rows: dict[str, list[str]] = {}
    for cost in ("surprisal", "structural", "lexical"):
        for mean in sorted(report["means"], key=lambda mean: mean["k"]):
            effect = mean["effects"][cost]
            cell = f"{effect['value']:.2f} ± {effect['error']:.2f}"
            rows.setdefault(f"{mean['construction']}, {cost}", []).append(cell)
    return grid([f"k = {width}" for width in widths], rows)


SHIPPED_REPORTS: dict[str, tuple[Callable[[Sequence[RunResult]], str], tuple[str, ...]]] = {
    "shipped_treebanks": (shipped_treebanks, tuple(TREEBANKS)),
    "garden_paths": (garden_paths, ("garden-paths",)),
}


# Pictures


def curves(rows: ResultRows) -> Figure:
    """Validation by epoch, one line per trained model, the mean of its seeds; only what can be compared.

    All are of the same vocabulary, and left-branching labels, which are almost always right, are left out."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    panels = {"eval_ppl": "validation perplexity¹", "eval_p_acc": "validation, p acc²"}
    figure, axes = panels_of(len(panels))
    words = {name: one for name, one in rows.items() if one[0]["settings"].get("tokenizer", "word") == "word"}
    for name, results in words.items():
        settings = results[0]["settings"]
        shown = {
            "eval_ppl": settings.get("lm_loss_weight") != 0,
            "eval_p_acc": settings.get("oracle") != "left_branching",
        }
        for one, key in zip(axes, panels, strict=True):
            one.plot(*(mean_curve(results, key) if shown[key] else ([], [])), "o-", markersize=3, label=name)
    axes[0].set_yscale("log")
    axes[0].yaxis.set(major_locator=MaxNLocator(8), major_formatter="{x:.0f}", minor_locator=NullLocator())
    for one, title in zip(axes, panels.values(), strict=True):
        one.set(title=title, xlabel="epoch")
    legend(axes[-1])
    return figure


def legend(axes: Any) -> None:
    """The names of the lines, beside them."""
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))


def mean_curve(results: Sequence[RunResult], key: str) -> tuple[list[float], list[float]]:
    points: dict[float, list[float]] = {}
    for result in results:
        for entry in result.get("validations", []):
            if key in entry:
                points.setdefault(entry["epoch"], []).append(entry[key])
    return list(points), [fmean(values) for values in points.values()]


def plot_by_length(rows: ResultRows) -> Figure:
    """UF1 by length of sentence."""
    figure, (axes,) = panels_of(1)
    for name, results in rows.items():
        reports = [result["evaluations"]["test"]["by_length"] for result in results]
        scores = {length: [report[length]["measures"]["uf1_binarised"] for report in reports] for length in LENGTHS}
        known = {length: values for length, values in scores.items() if values and None not in values}
        axes.plot(list(known), [100 * fmean(values) for values in known.values()], "o-", markersize=3, label=name)
    axes.set(title="UF1 (binarised) by length", xlabel="words")
    legend(axes)
    return figure


def by_circuit(rows: ResultRows) -> Figure:
    """SyntaxGym's circuits, one bar per model."""
    figure, (axes,) = panels_of(1)
    circuits = list(next(iter(rows.values()))[0]["evaluations"]["syntaxgym"]["all"]["circuits"])
    for place, (name, results) in enumerate(rows.items()):
        heights = [
            100 * fmean(result["evaluations"]["syntaxgym"]["all"]["circuits"][circuit] for result in results)
            for circuit in circuits
        ]
        width = 0.8 / len(rows)
        axes.bar([x + place * width for x in range(len(circuits))], heights, width, label=name)
    axes.set_xticks([x + 0.4 for x in range(len(circuits))], circuits, fontsize=7)
    axes.set_title("SyntaxGym by circuit, per cent of items")
    legend(axes)
    return figure


def panels_of(number: int) -> tuple[Figure, Sequence[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    grid = figure.subplots(1, number, squeeze=False)[0]
    for axes in grid:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, grid


def greedy_rows(rows: ResultRows) -> ResultRows:
    """One row per trained model: those read in other ways, or with the trees given, have the same curves and trees."""
    plain = {"method": "greedy", "gold": False}
    return {
        name.removesuffix(", greedy"): results
        for name, results in rows.items()
        if all(results[0]["settings"].get(key, value) == value for key, value in plain.items())
    }


PICTURES: dict[str, dict[str, Callable[[ResultRows], Figure]]] = {
    "open_ablation": {
        "learning_curves": lambda rows: curves(greedy_rows(rows)),
        "uf1_by_length": lambda rows: plot_by_length(greedy_rows(rows)),
    },
    "open_syntax": {"sg_by_circuit": by_circuit},
    "open_xs": {"xs_sg_by_circuit": by_circuit},
}


# The page


def block(name: str, results: Path, pictures: Path) -> str:
    """A table, where it comes from, and its pictures; or how to get them."""
    if name in SHIPPED_REPORTS:
        return shipped_block(name, results / "shipped")
    rows = read_result_rows(results / name)
    if not rows:
        return f"No results yet: `python scripts/{name}.py` makes them.\n"
    every = [one for results_of in rows.values() for one in results_of]
    script = f"Made by `python scripts/{name}.py` at {commits(every)}"
    source = f"{script}; each file of `results/{name}/` has its own command.\n"
    parts = [TABLES[name](rows), source]
    for title, draw in PICTURES.get(name, {}).items():
        write_whole(pictures / f"{title}.svg", svg(draw(rows), transparent=False))
        parts.append(f"![{title.replace('_', ' ')}]({pictures.name}/{title}.svg)\n")
    return "\n".join(parts)


def shipped_block(name: str, folder: Path) -> str:
    """A table of the model that ships, or how to get it."""
    make, names = SHIPPED_REPORTS[name]
    files = [folder / f"{one}.json" for one in names]
    if not all(file.exists() for file in files):
        return "No results yet: `bash scripts/shipped_results.sh` makes them.\n"
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    script = "`bash scripts/shipped_results.sh`, each file by its own command"
    command = f"`{found[0]['command']}`" if len(found) == 1 else script
    return f"{make(found)}\nMade by {command}, at {commits(found)}.\n"


def commits(results: Sequence[RunResult]) -> str:
    """The commits of some results, each once."""
    return ", ".join(dict.fromkeys(short(str(one["commit"])) for one in results))


def short(commit: str) -> str:
    """A commit as people write it.

    >>> short("0123456789abcdef-dirty")
    '0123456789-dirty'
    """
    return commit[:10] + "-dirty" * commit.endswith("-dirty")


def render_page(page: Path, results: Path) -> None:
    """Put tables and pictures into the page."""
    pictures = page.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    text = page.read_text(encoding="utf-8")
    for _, name, _ in BLOCK.findall(text):
        if name not in (known := [*TABLES, *SHIPPED_REPORTS]):
            raise ValueError(f"{page}: there is no table {name!r}; there are {', '.join(known)}")
    write_whole(page, BLOCK.sub(lambda m: f"{m[1]}{block(m[2], results, pictures)}{m[3]}", text))


def run(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="(results)")
    pages = [Path("docs/results.md"), Path("docs/reading.md")]
    note = f"({' '.join(map(str, pages))})"
    parser.add_argument("--page", type=Path, nargs="+", default=pages, metavar="F", help=note)
    args = parser.parse_args(argv)
    try:
        for page in args.page:
            render_page(page, args.results)
    except (ValueError, OSError) as error:
        print(f"tables: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run())
