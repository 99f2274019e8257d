"""Tables in, tables out: som surprisal --table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from som.cli.lines import LineReader, whole
from som.cli.options import check_files
from som.cli.output import check_outputs, destination
from som.cli.unknown import Unknown
from som.progress import progress
from som.syntax import visible
from som.tables import Table, WriteRows, read_table, table_kind, table_writer

if TYPE_CHECKING:
    from som.inference import ItemAnswer, Plan

# flags and what they are when they are not given
FOR_TABLES: dict[str, Any] = {"text_column": None, "regions": None, "sentence_columns": [], "layout": "plain"}
FOR_TEXTS: dict[str, Any] = {"texts": [], "file": None, "json": None, "format": None, "plot": None, "attach": []}


def add_table(parser: argparse.ArgumentParser) -> None:
    """Flags of tables."""
    group = parser.add_argument_group("tables", "every column is handed through; one row per word or region")
    group.add_argument(
        "--table",
        metavar="F",
        help="read a table: .tsv (without quotes), .csv, .jsonl, .parquet or lines of .txt, the text ones also .gz; "
        "- is TSV from standard input. The suffix of --out says what is written (default: TSV)",
    )
    group.add_argument("--text-column", metavar="C", help="the column with the sentences or regions")
    group.add_argument(
        "--regions",
        nargs="?",
        const="spaces",
        choices=["spaces", "bars"],
        help="a row per region: what stands between spaces (default), or between bars, |",
    )
    group.add_argument(
        "--sentence-columns",
        nargs="+",
        default=[],
        metavar="C",
        help="every row is a region, and rows that follow each other and agree in these columns are a sentence",
    )
    group.add_argument(
        "--layout",
        choices=["plain", "lm-zoo", "sap"],
        default="plain",
        help="lm-zoo: write sentence_id, token_id, token and surprisal alone; sap: items of the SAP benchmark, "
        "by region, with word_pos from 0 (default: plain)",
    )


def check_table(args: argparse.Namespace) -> None:
    """Refuse what cannot be read or written, before what is slow to import."""
    for name, default in (FOR_TEXTS if args.table else FOR_TABLES).items():
        if getattr(args, name) != default:
            flag = "texts on the command line" if name == "texts" else f"--{name.replace('_', '-')}"
            raise ValueError(f"{flag} cannot be used {'with' if args.table else 'without'} --table")
    if not args.table:
        if args.out and Path(args.out).suffix in (".csv", ".jsonl", ".parquet"):
            raise ValueError(f"{args.out}: texts give TSV or JSON; --table gives such files, also from lines of .txt")
        return
    check_files([] if args.table == "-" else [args.table])
    check_outputs(None, args.out, inputs=[args.table])
    table_kind(args.out)


def table_command(args: argparse.Namespace) -> int:
    """Read a table and write one."""
    from modeling_som.scoring_som import Method
    from som.inference import answer_items, load, plan_table

    names = ("regions", "sentence_columns", "spillover", "parses", "eos", "words")
    given = read_table(args.table)
    try:
        plan, table = plan_table(given, args.text_column, args.layout, **{name: getattr(args, name) for name in names})
    except ValueError as error:
        raise ValueError(f"{args.table}: {error}") from None
    model, tokenizer = load(args.model, device=args.device)
    method = Method.of(model, args.method, args.k, args.seed)
    if plan.renamed and args.layout != "lm-zoo":
        pairs = ", ".join(f"{old} is {new}" for old, new in plan.renamed.items())
        print(f"som surprisal: columns of yours with a name of ours: {pairs}", file=sys.stderr)
    answers = answer_items(model, tokenizer, plan.items(table.rows), plan, method, args.batch_size)
    unknown = Unknown.of(tokenizer, args.name)
    code = write_answers(args, plan, table, answers, unknown)
    unknown.report()
    return code


def write_answers(
    args: argparse.Namespace, plan: Plan, table: Table, answers: Iterator[ItemAnswer], unknown: Unknown
) -> int:
    """Write the rows as they come, and report the sentences that have none; the exit code."""
    from modeling_som.sentences_som import split_sentences

    reading, several, alone = LineReader(args, whole), 0, 0
    to_terminal = sys.stdout.isatty() and not args.out  # where the rows themselves are the progress
    types = {plan.renamed.get(name, name): type for name, type in table.types.items()}
    new = new_table(args.out, plan.columns, plan.computed, types)
    with new as write, progress("som surprisal", shown=not to_terminal) as bar:
        for one in answers:
            reading.sentences += 1
            if isinstance(one.rows, ValueError):
                reading.report(one.item.place, one.rows)
                continue
            write(one.rows)
            unknown.count(one.words)
            several += len(split_sentences(one.item.running_text)) > 1
            alone += len(one.item.running_text.split()) == 1
            bar.update()
        if not reading.sentences:
            raise ValueError(f"{args.table}: expected at least one row, got none")
        code = reading.sum_up()
    if several:
        print(f"som surprisal: {several} text(s) seem to have several sentences: each is read as one", file=sys.stderr)
    if 1 < reading.sentences == alone:
        hint = (
            "every text is one word, read as a sentence of its own: --sentence-columns says which rows belong together"
        )
        print(f"som surprisal: {hint}", file=sys.stderr)
    return code


@contextmanager
def new_table(
    out: str | None, columns: Sequence[str], computed: Mapping[str, type], types: Mapping[str, Any]
) -> Iterator[WriteRows]:
    """What writes rows, to a file or, without control characters, to standard output; see `table_writer`."""
    with destination(out) as write:
        shown = write if out not in (None, "-") else lambda content: write(visible(content.decode()).encode())
        with table_writer(shown, table_kind(out), columns, computed, types) as write_rows:
            yield write_rows
