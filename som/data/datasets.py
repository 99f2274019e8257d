"""Treebanks to data sets: a `DatasetDict` on disk with its tokenizer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from itertools import accumulate, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, DatasetDict, Features, List, NamedSplit, Value, load_from_disk
from datasets.arrow_writer import ArrowWriter
from datasets.utils import tqdm
from transformers import PreTrainedTokenizerFast

from modeling_som.counts_som import WORD_COUNTS, WordCounts
from modeling_som.sentences_som import NONE, encode_sentences
from som.data.processes import shared
from som.data.sources import Source, source_files
from som.data.summary import COUNTS, SUMMARY, summarise
from som.data.vocabularies import learn_tokenizer, telling_classes
from som.files import UNFINISHED
from som.syntax import (
    CONVERSION_VERSION,
    HEAD,
    PARTIAL,
    ROOT,
    SPLITS,
    Example,
    FilePart,
    Tags,
    TreebankError,
    file_parts,
    first_siblings,
    gold_depths,
    treebank_files,
)

try:
    import fcntl
except ImportError:  # Windows, where scratch folders stay after a kill
    fcntl = None  # type: ignore[assignment]

PREPARE_LOCK = ".som-prepare.lock"
INTEGERS = List(Value("int32"))
PARSED = Features(
    words=List(Value("string")),
    tree=Value("string"),
    first_sibling=INTEGERS,  # of words, without BOS and EOS
    leaf_tag=List(Value("string")),  # of words; empty where the treebank has none
    node_tag=List(Value("string")),
    lifted=Value("int32"),
    error=Value("string"),  # in the place of a sentence that cannot be read
)
ENCODED = Features(
    input_ids=INTEGERS,
    first_sibling=INTEGERS,  # of tokens, from BOS to EOS
    words=List(Value("string")),
    tree=Value("string"),
    length=Value("int32"),
)
TAGGED = Features(leaf_tag=INTEGERS, node_tag=INTEGERS)  # of tokens, -100 for none
ENCODED_ROWS = Features({**ENCODED, **TAGGED, **COUNTS})
TAG_KINDS = ("universal", "full", "none")


def prepare(
    splits: Mapping[str, Source],
    out: str | Path,
    tokenizer: str = "word",
    num_slots: int = 15,
    skip_bad: bool = False,
    num_proc: int = 1,
    overwrite: bool = False,
    silver: str | None = None,
    tags: str = "universal",
) -> dict[str, Any]:
    """Write the data set of a treebank and its tokenizer to a folder, whole or not at all; return the summary.

    Sentences that do not come from files are kept, as CoNLL-U, beside the data. `silver` names the parser whose trees
    these are, where they are not gold. `tags` keeps relations, without subtypes (`universal`) or with them (`full`),
    and the categories of constituents; `none` leaves them out.
    """
    if tags not in TAG_KINDS:
        raise ValueError(f"tags must be one of {', '.join(TAG_KINDS)}, got {tags!r}")
    for split in SPLITS:
        if split not in splits:
            raise TreebankError(f"expected the splits {', '.join(SPLITS)}, got none for {split}")
    with written_whole(Path(out), overwrite) as folder:
        scratch = folder.parent
        files = {split: source_files(splits[split], folder / f"{split}.conllu") for split in SPLITS}
        with shared(partial(parse_part, tags=tags), num_proc) as parse:
            parsed = {split: read_rows(files[split], split, parse, scratch, skip_bad) for split in SPLITS}
        words = count_words(parsed["train"])
        vocabulary = learn_tokenizer(tokenizer, words.counts, count_ends(parsed["train"]))
        tree_tags = [] if tags == "none" else known_tags(parsed["train"])
        settings = (str(skip_bad), tags, vocabulary.backend_tokenizer.to_str(), *tree_tags)
        with shared(partial(encode_rows, tokenizer=vocabulary, tree_tags=tree_tags), num_proc) as encode:
            encoded = {
                split: write_rows(
                    encode(parsed[split].data.to_batches()),
                    ENCODED_ROWS,
                    scratch / f"{split}.arrow",
                    split,
                    fingerprint(split, *settings, *map(str, files[split]), files=files[split]),
                )
                for split in SPLITS
            }
        summary: dict[str, Any] = {
            "tokenizer": tokenizer,
            "vocab_size": len(vocabulary),
            "silver": silver,
            "num_slots": num_slots,
            "tags": tags,
            "tree_tags": tree_tags,
            "conversion_version": CONVERSION_VERSION,
            "splits": {split: summarise(encoded[split], num_slots) for split in SPLITS},
        }
        for split, counts in summary["splits"].items():
            counts["skipped"] = len(parsed[split]) - len(encoded[split])
            counts["files"] = [str(file).removeprefix(f"{folder}/") for file in files[split]]
        columns = [*ENCODED, *(TAGGED if tree_tags else ())]
        DatasetDict({split: encoded[split].select_columns(columns) for split in SPLITS}).save_to_disk(folder)
        vocabulary.save_pretrained(folder)
        (folder / WORD_COUNTS).write_bytes(words.to_bytes())
        (folder / SUMMARY).write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return summary


def count_words(dataset: Dataset) -> WordCounts:
    """How often each word form occurs in rows with `words`, in the order in which they come."""
    return WordCounts(count_values(words.flatten() for words in dataset.data.column("words").chunks))


def count_ends(dataset: Dataset) -> dict[str, int]:
    """How often each word form is the last of such a row."""
    return count_values(last_words(words) for words in dataset.data.column("words").chunks)


def last_words(words: pa.ListArray) -> pa.Array:
    lengths = pc.list_value_length(words)
    ends = pc.cumulative_sum(lengths.filter(pc.greater(lengths, 0)))
    return words.flatten().take(pc.subtract(ends, 1))


def count_values(chunks: Iterable[pa.Array]) -> dict[str, int]:
    counts = pc.value_counts(pa.chunked_array(chunks, pa.string()))
    return dict(zip(*(counts.field(name).to_pylist() for name in ("values", "counts")), strict=True))


def add_word_counts(data: str | Path, checkpoint: str | Path) -> None:
    """Write the counts of prepared data beside a checkpoint that was trained on them by an earlier version."""
    counts = count_words(load_from_disk(str(data))["train"])
    (Path(checkpoint) / WORD_COUNTS).write_bytes(counts.to_bytes())


def treebank_dataset(
    paths: str | Path | Sequence[str | Path], tokenizer: PreTrainedTokenizerFast, tree_tags: Sequence[str] = ()
) -> Dataset:
    """The sentences of treebank files as rows for the `Trainer`, in memory, such as for fine-tuning a model.

    With `tree_tags`, those of the model's configuration, rows also have the tags of their trees.
    """
    kind = "full" if any(":" in tag for tag in tree_tags) else "universal"
    rows = [parse_part(part, kind) for file in treebank_files(paths) for part in file_parts(file)]
    for batch in rows:
        refuse_bad_rows(batch, skip_bad=False)
    table = pa.Table.from_batches(
        [encode_rows(batch, tokenizer, tree_tags) for batch in rows], ENCODED_ROWS.arrow_schema
    )
    return Dataset(table).select_columns(["input_ids", "first_sibling", *(TAGGED if tree_tags else ())])


@contextmanager
def written_whole(folder: Path, overwrite: bool) -> Iterator[Path]:
    """A new folder, inside a scratch folder, that takes its place only when everything in it has been written."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder}: expected a new or empty folder, this is a file")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / SUMMARY).is_file():
            raise FileExistsError(f"{folder}: expected a new or empty folder, this one holds something else")
        if not overwrite:
            raise FileExistsError(f"{folder}: holds prepared data already, which --overwrite would replace")
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(folder)
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch, in_use(Path(scratch)):
        new = Path(scratch) / "new"
        new.mkdir()
        yield new
        if folder.exists():
            folder.rename(Path(scratch) / "old")
        new.rename(folder)


@contextmanager
def in_use(scratch: Path) -> Iterator[None]:
    """A lock on a scratch folder, which ends with the process, however that dies."""
    UNFINISHED.add(scratch)
    with open(scratch / PREPARE_LOCK, "w") as file:
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield
        finally:
            UNFINISHED.discard(scratch)


def remove_abandoned(folder: Path) -> None:
    """Remove the scratch folders of this folder that were left behind by a kill: ours, and nobody holds their lock."""
    for lock in folder.parent.glob(f".{folder.name}-*/{PREPARE_LOCK}") if fcntl else ():
        with suppress(OSError), open(lock, "r+") as file:  # else it is in use, or another's
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent)


def known_tags(parsed: Dataset) -> list[str]:
    """The tags of the training split, in an order that depends on nothing else; sentences may lack them."""
    chunks = [chunk.flatten() for name in TAGGED for chunk in parsed.data.column(name).chunks]
    found = set(pc.unique(pa.chunked_array(chunks, pa.string())).drop_null().to_pylist())
    special = [PARTIAL, HEAD, ROOT] if HEAD in found else []
    return [*special, *sorted(found.difference(special))]


def read_rows(
    files: Sequence[Path],
    split: str,
    parse: Callable[[Iterable[FilePart]], Iterator[pa.RecordBatch]],
    scratch: Path,
    skip_bad: bool,
) -> Dataset:
    """The sentences of the files with their trees, one per row, in the order of the files."""
    parts = (part for file in files for part in file_parts(file))
    batches = (refuse_bad_rows(batch, skip_bad) for batch in parse(parts))
    dataset = write_rows(batches, PARSED, scratch / f"{split}-parsed.arrow", split)
    errors = dataset.data.column("error").drop_null()
    if len(errors) == len(dataset):
        raise TreebankError(errors[0].as_py())
    return dataset


def refuse_bad_rows(batch: pa.RecordBatch, skip_bad: bool) -> pa.RecordBatch:
    """The same rows, unless there is a bad one that must not be."""
    errors = batch.column("error").drop_null()
    if len(errors) and not skip_bad:
        raise TreebankError(errors[0].as_py())
    return batch


def write_rows(
    batches: Iterable[pa.RecordBatch], features: Features, path: Path, split: str, name: str | None = None
) -> Dataset:
    """A data set of these rows, in a file; `name` is its fingerprint."""
    with (
        ArrowWriter(path=str(path), features=features, fingerprint=name) as writer,
        tqdm(desc=path.stem, unit=" sentences") as bar,
    ):
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]))
            bar.update(len(batch))
        writer.finalize()
    return Dataset.from_file(str(path), split=NamedSplit(split))


def parse_part(part: FilePart, tags: str) -> pa.RecordBatch:
    """A row for every sentence; a bad one has its error."""
    rows = [bad_row(one) if isinstance(one, TreebankError) else good_row(one, tags) for one in part.examples()]
    return pa.RecordBatch.from_pylist(rows, PARSED.arrow_schema)


def bad_row(error: TreebankError) -> dict[str, Any]:
    return {"words": [], "first_sibling": [], "leaf_tag": [], "node_tag": [], "error": str(error)}


def good_row(example: Example, tags: str) -> dict[str, Any]:
    return {
        "words": example.words,
        "tree": str(example.tree),
        "first_sibling": first_siblings(example.tree),
        **tag_columns(example.tags, tags),
        "lifted": example.lifted,
    }


def tag_columns(tags: Tags | None, kind: str) -> dict[str, Sequence[str | None]]:
    if tags is None or kind == "none":
        return {"leaf_tag": [], "node_tag": []}
    tags = tags.universal() if kind == "universal" else tags
    return {"leaf_tag": tags.leaf, "node_tag": tags.node}


def fingerprint(*parts: str, files: Sequence[Path] = ()) -> str:
    """A name for what a conversion gives: other files, other content or another version, another name.

    Data sets and everything computed from them are cached under it; by itself, `datasets` looks at the code and the
    names of files alone.
    """
    digest = sha256("\0".join([str(CONVERSION_VERSION), *parts]).encode())
    for path in files:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()[:32]


def encode_rows(batch: pa.RecordBatch, tokenizer: PreTrainedTokenizerFast, tree_tags: Sequence[str]) -> pa.RecordBatch:
    """The rows as token ids with the first siblings of tokens, and what is counted of them; bad rows disappear."""
    batch = batch.filter(batch.column("error").is_null())
    given = batch.select(["words", "first_sibling", *TAGGED]).to_pydict()
    number = {tag: index for index, tag in enumerate(tree_tags)}
    known = getattr(tokenizer, "known", None)  # a word vocabulary, the only kind with unknown words
    telling = telling_classes(tokenizer)
    columns: dict[str, Any] = {name: [] for name in ENCODED_ROWS}
    for row, (words, pieces) in enumerate(
        zip(given["words"], encode_sentences(tokenizer, given["words"]), strict=True)
    ):
        ids = [tokenizer.bos_token_id, *(piece for word in pieces for piece in word), tokenizer.eos_token_id]
        siblings = token_siblings(given["first_sibling"][row], [len(word) for word in pieces])
        depths = gold_depths(siblings)[1:-1]
        values = {
            "input_ids": ids,
            "first_sibling": siblings,
            **{name: token_tags(given[name][row], pieces, number) for name in TAGGED},
            "length": len(ids),
            "depth": max(depths),
            "depth_sum": sum(depths),
            "unknown": sum(word not in known for word in words) if known is not None else 0,
            "told": sum(word[0] in telling for word in pieces),
        }
        for name, value in values.items():
            columns[name].append(value)
    columns |= {name: batch.column(name) for name in ("words", "tree", "lifted")}
    return pa.RecordBatch.from_pydict(columns, ENCODED_ROWS.arrow_schema)


def token_tags(tags: Sequence[str | None], pieces: Sequence[Sequence[int]], number: Mapping[str, int]) -> list[int]:
    """Tags of BOS, the pieces of all words and EOS: that of a word is its first piece's, unknown ones are left out.

    >>> token_tags(["det", None, "obj"], [[7], [8, 9], [5]], {"det": 0, "nsubj": 1})
    [-100, 0, -100, -100, -100, -100]
    """
    found = [NONE]
    for tag, word in zip(tags or repeat(None), pieces, strict=False):
        found.append(number.get(tag, NONE) if tag else NONE)
        found += [NONE] * (len(word) - 1)
    return [*found, NONE]


def token_siblings(word_siblings: Sequence[int], pieces: Sequence[int]) -> list[int]:
    """First siblings of BOS, the pieces of all words and EOS; a word's pieces are a flat constituent in its place.

    Here is (a (b c)), b in three pieces: (BOS (a ((b1 b2 b3) c)) EOS).

    >>> token_siblings([-1, 0, 1], pieces=[1, 3, 1])
    [-1, 0, 1, 2, 2, 2, 0]
    """
    starts = list(accumulate(pieces, initial=1))
    siblings = [-1]
    for word, (sibling, count) in enumerate(zip(word_siblings, pieces, strict=True)):
        siblings.append(starts[sibling] if sibling >= 0 else 0)
        siblings += [starts[word]] * (count - 1)
    return [*siblings, 0]
