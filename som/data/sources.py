"""Where the sentences of a split come from: files, or data sets on the Hub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from datasets import Dataset, load_dataset, load_from_disk

from som.syntax import HEAD_NUMBER, TreebankError, check_heads, clean_word, to_conllu, treebank_files

Source = Sequence[str | Path] | Iterator[str]  # files and folders, or CoNLL-U sentences from elsewhere


def source_files(source: Source, path: Path) -> list[Path]:
    """The files of a source; sentences from elsewhere are first written to `path`."""
    if isinstance(source, Sequence):
        return treebank_files(source)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(sentence.rstrip("\n") + "\n\n" for sentence in source)
    return [path]


def hub_sentences(name: str, split: str, skip_bad: bool = False) -> Iterator[str]:
    """CoNLL-U sentences of a data set on the Hub, NAME[:CONFIGURATION], or in a folder, with words and heads.

    Relations are kept where there is a column of them."""
    dataset = _hub_split(name, split)
    words_column = _column(dataset, name, ("tokens", "words", "form"))
    heads_column = _column(dataset, name, ("head", "heads"))
    relations_column = next((column for column in ("deprel", "relations") if column in dataset.column_names), None)
    for number, row in enumerate(dataset):
        try:
            relations = row[relations_column] if relations_column else ["_"] * len(row[words_column])
            yield _hub_sentence(row[words_column], row[heads_column], relations)
        except ValueError as error:
            if not skip_bad:
                raise TreebankError(f"{name}: {split}, row {number}: {error}") from None
            yield f"# row {number}: {error}"  # no sentence, which is counted where it is read


def _hub_sentence(words: Sequence[str], heads: Sequence[int | str | None], relations: Sequence[str | None]) -> str:
    """CoNLL-U of a row; multi-word tokens have no head, and heads do not count them."""
    for name, column in (("heads", heads), ("relations", relations)):
        if len(words) != len(column):
            raise ValueError(f"expected as many {name} as words, got {len(column)} for {len(words)}")
    kept = [place for place, head in enumerate(heads) if str(head) not in ("None", "_")]
    forms, numbers = [clean_word(words[place]) for place in kept], [str(heads[place]) for place in kept]
    for word, head in zip(forms, numbers, strict=True):
        if not word or not HEAD_NUMBER.fullmatch(head):
            raise ValueError(f"expected words with the numbers of their heads, got {word!r} with {head!r}")
    check_heads(list(map(int, numbers)))
    given = [clean_word(str(relations[place] or "")) or "_" for place in kept]
    return to_conllu(forms, list(map(int, numbers)), given)


def _hub_split(name: str, split: str) -> Dataset:
    path, _, configuration = name.partition(":")
    if (Path(path) / "dataset_dict.json").is_file():
        splits = load_from_disk(path)
    else:
        splits = load_dataset(path, configuration or None)
    for alias in (split, "dev" if split == "validation" else split):
        if alias in splits:
            return splits[alias]
    raise TreebankError(f"{name}: expected a split {split}, got {', '.join(splits)}")


def _column(dataset: Dataset, name: str, candidates: Sequence[str]) -> str:
    for column in candidates:
        if column in dataset.column_names:
            return column
    raise TreebankError(f"{name}: expected a column {' or '.join(candidates)}, got {', '.join(dataset.column_names)}")
