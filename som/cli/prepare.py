"""som prepare: a treebank to a data set and a vocabulary."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from som.cli.options import add_command, check_files, positive, progress_bars_only_in_terminals, say_next
from som.cli.output import check_outputs, print_json
from som.progress import progress
from som.syntax import SPLITS


def add_prepare(commands: Any) -> None:
    parser = add_command(
        commands,
        "prepare",
        prepare_command,
        "turn a treebank into a data set and a vocabulary to train on",
        "  som prepare builtin --out data/builtin\n"
        "  som prepare --train en-train.conllu --validation en-dev.conllu --test en-test.conllu --out data/en\n"
        "  som prepare --wsj treebank_3/parsed/mrg/wsj --num-slots 30 --out data/wsj\n"
        "  som prepare --bllip bllip_87_89_wsj --train xs.txt --validation dev.txt --test test.txt --out data/xs\n"
        "  som prepare --text --parser spacy --train a.txt --validation b.txt --test c.txt --out data/silver",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("treebank", nargs="?", choices=["builtin"], help="the treebank that comes with the package")
    kind.add_argument("--wsj", metavar="DIR", help="the Wall Street Journal's sections 02–21, 24 and 23, in DIR")
    kind.add_argument("--bllip", metavar="DIR", help="files of DIR that the files of --train … list, one per line")
    kind.add_argument(
        "--hub", metavar="NAME", help="a data set with words and heads: NAME[:CONFIGURATION] or a folder"
    )
    kind.add_argument("--text", action="store_true", help="the files of --train … are plain text, to be parsed")
    for split in SPLITS:
        parser.add_argument(
            f"--{split}", nargs="+", metavar="F", help="CoNLL-U or bracketed trees, plain or .gz; or folders of them"
        )
    parser.add_argument("--parser", default="spacy", help="with --text: spacy[:MODEL] (default) or stanza[:LANGUAGE]")
    parser.add_argument(
        "--tokenizer",
        default="word",
        help="word[:N] (default, words seen at least N = 2 times), bpe:N, gpt2[:FOLDER] or model:CHECKPOINT",
    )
    parser.add_argument(
        "--tags", choices=["universal", "full", "none"], default="universal", help="relations and categories to keep"
    )
    parser.add_argument("--num-slots", type=positive, default=15, metavar="N", help="count trees deeper than this")
    parser.add_argument("--skip-bad", action="store_true", help="leave out, and count, sentences that cannot be read")
    parser.add_argument("--num-proc", type=positive, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="with builtin (default: 0)")
    parser.add_argument("--json", metavar="FILE", help="also write the summary to FILE, or print only it for -")
    parser.add_argument("--overwrite", action="store_true", help="replace data prepared earlier in DIR")
    parser.add_argument("--out", required=True, metavar="DIR", help="where the data set goes")


def prepare_sources(args: argparse.Namespace) -> dict[str, Any]:
    """Where each split comes from: files, or CoNLL-U sentences made on the way."""
    from som.syntax import builtin_treebank, listed_files, parse_text, read_text, treebank_files, wsj_files

    given = {split: getattr(args, split) for split in SPLITS if getattr(args, split)}
    if whole := args.treebank or (args.wsj and "--wsj") or (args.hub and "--hub"):
        if given:
            raise ValueError(f"{whole} brings its own splits, expected no --{' --'.join(given)}")
        if args.wsj:
            return wsj_files(args.wsj)
        if args.hub:
            from som.data import hub_sentences

            return {split: hub_sentences(args.hub, split, args.skip_bad) for split in SPLITS}
        return {split: builtin_treebank(split, args.seed) for split in SPLITS}
    if missing := [split for split in SPLITS if split not in given]:
        raise ValueError(f"expected builtin, --wsj, --hub or files for every split, --{' --'.join(missing)} missing")
    if args.bllip:
        return {split: listed_files(args.bllip, lists) for split, lists in given.items()}
    if args.text:
        check_files(file for files in given.values() for file in files)
        return {split: parse_text(read_text(files), args.parser) for split, files in given.items()}
    return {split: treebank_files(files) for split, files in given.items()}


def prepare_command(args: argparse.Namespace) -> None:
    if args.json and Path(args.json).parent not in (Path(args.out), *Path(args.out).parents):  # these will be there
        check_outputs(None, args.json)
    sources = prepare_sources(args)
    from som.data import prepare, summary_table, typical_tree, vocabulary_advice

    progress_bars_only_in_terminals()
    with progress("som prepare", unit="", shown=not sys.stderr.isatty()):
        summary = prepare(
            sources,
            args.out,
            tokenizer=args.tokenizer,
            num_slots=args.num_slots,
            skip_bad=args.skip_bad,
            num_proc=args.num_proc,
            overwrite=args.overwrite,
            tags=args.tags,
            silver=args.parser if args.text else None,
        )
    if args.json:
        print_json(summary, args.json)
    if args.json != "-":
        from rich.console import Console

        Console().print(summary_table(summary))
        if typical := typical_tree(args.out):
            print(typical.tree.draw(typical.tags))
        if advice := vocabulary_advice(summary):
            print(f"hint: {advice}", file=sys.stderr)
        say_next(f"som train {shlex.quote(args.out)} --out RUN")
