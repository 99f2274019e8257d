"""Rebuild the AMALGUM splits, silver UD English, that the experiments train on.

git clone https://github.com/gucorpling/amalgum
python scripts/make_amalgum.py --git-dir amalgum/.git --gold ud/en_*.conllu.gz --out data/amalgum

Writes five files. train-xs has about a million words, in equal shares of the six genres whose texts are free. train-sm
is all free text and begins with train-xs. train-whow-nc is wikiHow, whose licence is non-commercial. dev and test
have the same number of words from each free genre, from documents without a relative (another part of the same work,
or a near-copy) anywhere else. Broken sentences, Wikipedia's footnote marks, whatever the gold treebanks contain, and
repeated sentences are removed. No random numbers and no time stamps: the same input gives the same bytes.

The files are then compared with those that our results were made with; any difference is an error (exit code 1), and
the files stay. Needs git and the standard library, nothing else.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import html
import io
import json
import math
import re
import subprocess
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple

COMMIT = "a2dbd33e757f75a61d68d22d1a29e840bdffa711"
BALANCED = "amalgum"  # the part with as much of every genre; the other has what was left over
# Treebanks of our data that are evaluated on: what they contain must not be trained on.
GOLD = "UD English EWT @15d613d8, GUM @afb41ee, LinES @3092743, ParTUT @bd9434b, Pronouns @e4fdbb1 and PUD @f16eba4"
FOLDERS = (BALANCED, "amalgum_extra")
FREE_GENRES = ("academic", "bio", "fiction", "interview", "news", "voyage")
NON_COMMERCIAL = ("whow",)
DOCUMENT_ORDER = "amalgum-som-1:"  # documents are ordered by the hash of this and their name
SHORT = 5  # sentences of up to so many words may well be alike by chance
MAX_WORDS = 120
GOLD_LIMIT = 3  # a document with so many sentences of a gold treebank is in that treebank
WIDESPREAD = 20  # what is in more documents than that is boilerplate and makes no relatives
NEAR_COPY = 0.1  # the part of the smaller document's words in shared sentences
OVERSHOOT = 1.1  # dev and test may exceed a genre's share by less than this factor
RUN_LENGTH = 10  # dev and test share no such number of words in a row with training


class Sums(NamedTuple):
    """SHA-256 of a file and of the text in it, which another zlib may compress to other bytes."""

    file: str
    text: str


OF_RECORD = {
    "train-xs": Sums(
        "aee2460c0900e2f2b8d34a5f33f7e354f2fd2e9195d9e172573e0934932e1fe8",
        "0053dc5d355f98120c351fe075e17817b1e1a3ea9c309848a66e4abdde34e70d",
    ),
    "train-sm": Sums(
        "a67e54c11da457dccb584c857d08c6a88f1af85733a208b11f166406eb547fff",
        "44df285e99f7b21c08d424df39737a6c4c68595793605413ce20b8100af51961",
    ),
    "train-whow-nc": Sums(
        "dfae62ebbac9e83f5347679ab3a4fad5a96c88c7990e319835d7a86793f9d288",
        "f32d8f49d39badbbb179dee8173c1fd6f091195ca50e453e50f9ec914c44d127",
    ),
    "dev": Sums(
        "0f8c267cddc5a06925903ea614cbcd1ca8692dd7f3c7f03bfd7e44a4db3ee661",
        "dbb67635660a4cb34f898a2e9943ceb99cd804508f00b65543283bee8eb46b0b",
    ),
    "test": Sums(
        "d8feba2853f976e0ca89c8fe9be3c76a27a42b252973123d97c79fe2f851d118",
        "c043d5d6e9be9e939ff05b86b5087d6ffe80eb7677da88e7e022ff866513fc31",
    ),
}


class Word(NamedTuple):
    form: str
    upos: str
    xpos: str
    head: int
    deprel: str
    misc: str


class MultiWord(NamedTuple):
    """The form that some words have together, such as gonna for the two words gon and na."""

    first: int
    last: int
    form: str


@dataclass(frozen=True, slots=True)
class AnnotatedSentence:
    name: str
    forms: tuple[str, ...]
    conllu: str
    key: str = field(init=False)  # sentences with the same key are the same but for capitals

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", " ".join(self.forms).casefold())

    @property
    def is_long(self) -> bool:
        """Whether it would not occur twice by chance."""
        return len(self.forms) > SHORT

    def runs(self) -> Iterator[tuple[str, ...]]:
        """All runs of words of the length that dev and test must not share with training."""
        words = [form.casefold() for form in self.forms]
        return (tuple(words[start : start + RUN_LENGTH]) for start in range(len(words) - RUN_LENGTH + 1))


@dataclass(frozen=True)
class Document:
    part: str
    genre: str
    name: str
    sources: tuple[str, ...]  # documents with a source in common are parts of one work
    sentences: tuple[AnnotatedSentence, ...]

    @property
    def words(self) -> int:
        return sum(len(sentence.forms) for sentence in self.sentences)

    @property
    def place(self) -> str:
        """What documents are ordered by: as good as random, but always the same."""
        return hashlib.sha256(f"{DOCUMENT_ORDER}{self.name}".encode()).hexdigest()


Documents = list[Document]
Dropped = dict[str, list[str]]  # names of sentences and documents, by the reason why they are left out


# The clone


@dataclass(frozen=True)
class Repository:
    git_dir: Path
    commit: str

    def files(self, folder: str, suffix: str) -> Iterator[tuple[str, bytes]]:
        """Path and content of every file PART/GENRE/folder/*suffix of the commit, sorted by path."""
        found = [(path, blob) for path, blob in self.tree() if f"/{folder}/" in path and path.endswith(suffix)]
        command = [*self.git, "cat-file", "--batch"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin and process.stdout
            for path, blob in sorted(found):
                process.stdin.write(f"{blob}\n".encode())
                process.stdin.flush()
                header = process.stdout.readline().split()  # object, kind, size
                if len(header) != 3:
                    raise ValueError(f"{self.git_dir}: expected the content of {path}, the clone lacks it")
                yield path, process.stdout.read(int(header[2]))
                process.stdout.read(1)  # a line feed

    def tree(self) -> Iterator[tuple[str, str]]:
        """Path and object of every file; names that are not ASCII come in quotes, so they match no suffix.

        That is how the files of record were made, so it must not depend on the user's settings of git.
        """
        command = [*self.git, "-c", "core.quotePath=true", "ls-tree", "-r", self.commit, *FOLDERS]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            expected = f"expected the .git folder of a clone that has the commit {self.commit}"
            raise ValueError(f"{self.git_dir}: {expected}, git says: {done.stderr}")
        for line in done.stdout.splitlines():
            about, _, path = line.partition("\t")
            yield path, about.split()[2]

    @property
    def git(self) -> list[str]:
        return ["git", f"--git-dir={self.git_dir}"]


def read_documents(repository: Repository, dropped: Dropped) -> Documents:
    """Every document that has a sentence worth keeping."""
    sources = {
        path.replace("/xml/", "/dep/").removesuffix(".xml"): sources_from_xml(path.split("/")[1], content)
        for path, content in repository.files("xml", ".xml")
    }
    documents = []
    for path, content in repository.files("dep", ".conllu"):
        stem = path.removesuffix(".conllu")
        part, genre, *_, name = stem.split("/")
        sentences = read_sentences(path, content, dropped)
        documents.append(Document(part, genre, name, sources.get(stem, ()), sentences))
    check_documents(repository, documents)
    dropped["documents without a good sentence"] += [one.name for one in documents if not one.sentences]
    return [document for document in documents if document.sentences]


def check_documents(repository: Repository, documents: Documents) -> None:
    """Names decide on the order and on the split, so no two documents may share one."""
    if not documents:
        raise ValueError(f"{repository.git_dir}: expected documents amalgum/GENRE/dep/*.conllu, found none")
    name, times = Counter(document.name for document in documents).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{repository.git_dir}: expected one document of the name {name}, found {times}")


def sources_from_xml(genre: str, content: bytes) -> tuple[str, ...]:
    """Address and title of the work that a document is taken from, as far as its header has them."""
    header = re.search(r"<text [^>]*>", content[:6000].decode("utf-8", "replace"))
    about = dict(re.findall(r'(\w+)="([^"]*)"', header[0])) if header else {}
    address = html.unescape(about.get("sourceURL", "")).strip()
    title = html.unescape(html.unescape(about.get("title", "")))
    title = re.sub(r"^part\d+_", "", title).casefold()  # interviews are cut in parts
    work = f"title {genre} {title} {about.get('author', '')}"
    return (*([f"address {address}"] if address else []), *([work] if title else []))


# Sentences


def blocks(content: bytes) -> list[str]:
    """The sentences of a CoNLL-U file, as they stand there."""
    text = content.decode("utf-8").replace("\r\n", "\n")
    return [block for block in text.split("\n\n") if block.strip()]


def rows_of(block: str) -> list[list[str]]:
    """The columns of every line that is no comment."""
    return [line.split("\t") for line in block.split("\n") if line and not line.startswith("#")]


def read_sentences(path: str, content: bytes, dropped: Dropped) -> tuple[AnnotatedSentence, ...]:
    """The good sentences of a document."""
    try:
        read = [read_sentence(block, dropped) for block in blocks(content)]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return tuple(sentence for sentence in read if sentence)


def read_sentence(block: str, dropped: Dropped) -> AnnotatedSentence | None:
    """A sentence without its footnote marks, or None if it is not to be used."""
    name = sentence_name(block)
    rows = rows_of(block)
    multi_words = [multi_word(row) for row in rows if "-" in row[0]]
    rows = [row for row in rows if "-" not in row[0] and "." not in row[0]]  # 5.1 is an empty node
    if reason := fault(rows):
        dropped[f"sentences with {reason}"].append(name)
        return None
    words, multi_words, marks = without_footnotes([word_from(row) for row in rows], multi_words)
    dropped["footnote marks, taken out of their sentence"] += [name] * marks
    forms = tuple(word.form for word in words)
    if len(forms) > MAX_WORDS:
        dropped[f"sentences of more than {MAX_WORDS} words"].append(name)
    elif not any(character.isalnum() for form in forms for character in form):
        dropped["sentences without a letter or digit"].append(name)
    else:
        return AnnotatedSentence(name, forms, write_sentence(name, words, multi_words))
    return None


def sentence_name(block: str) -> str:
    names = [line.partition("=")[2].strip() for line in block.split("\n") if line.startswith("# sent_id")]
    if not any(names):
        raise ValueError(f"expected a line '# sent_id = …' for each sentence, found none at {block[:40]!r}")
    return names[-1]


def multi_word(row: list[str]) -> MultiWord:
    first, _, last = row[0].partition("-")
    if not (first.isdecimal() and last.isdecimal() and len(row) > 1):
        raise ValueError(f"expected numbers such as 3-4 and a form, found {' '.join(row)!r}")
    return MultiWord(int(first), int(last), row[1])


def word_from(row: list[str]) -> Word:
    misc = "SpaceAfter=No" if "SpaceAfter=No" in row[9].split("|") else "_"
    return Word(row[1], row[3], row[4], int(row[6]), row[7], misc)


def fault(rows: list[list[str]]) -> str | None:
    """What keeps the rows from being one dependency tree."""
    if not rows:
        return "no words"
    for number, row in enumerate(rows, start=1):
        if reason := fault_of_row(row, number, len(rows)):
            return reason
    heads = [int(row[6]) for row in rows]
    if heads.count(0) != 1:
        return "several roots or none"
    return "a cycle" if has_cycle(heads) else None


def fault_of_row(row: list[str], number: int, length: int) -> str | None:
    """What is wrong with the row that should be the word of this number."""
    if len(row) != 10:
        return "other than 10 columns"
    if row[0] != str(number):
        return "wrong numbers of words"
    if not row[1] or row[1] != row[1].strip():
        return "an empty or padded form"
    if not row[6].isdecimal() or int(row[6]) > length or int(row[6]) == number:
        return "a head out of range"
    if (row[6] == "0") != (row[7] == "root"):
        return "a wrong root label"
    return None


def has_cycle(heads: list[int]) -> bool:
    """Whether some word does not lead up to the root."""
    rooted = {0}
    for number in range(1, len(heads) + 1):
        path: set[int] = set()
        while number not in rooted:
            if number in path:
                return True
            path.add(number)
            number = heads[number - 1]
        rooted |= path
    return False


def without_footnotes(words: list[Word], multi_words: list[MultiWord]) -> tuple[list[Word], list[MultiWord], int]:
    """Take out Wikipedia's footnote marks, the three words `[ 12 ]`, and return how many there were.

    What hangs on a word taken out goes to the nearest word above it that stays.
    """
    starts = [start for start in range(1, len(words) - 1) if is_footnote(words[start - 1 : start + 2])]
    if not starts:
        return words, multi_words, 0
    gone = {number for start in starts for number in range(start, start + 3)}
    stay = [number for number in range(1, len(words) + 1) if number not in gone]
    renumbered = {old: new for new, old in enumerate([0, *stay])}

    def lifted(head: int) -> int:
        while head in gone:
            head = words[head - 1].head
        return renumbered[head]

    left = [words[number - 1] for number in stay]
    left = [word._replace(head=lifted(word.head)) for word in left]
    both_stay = [one for one in multi_words if one.first in renumbered and one.last in renumbered]
    ranges = [MultiWord(renumbered[one.first], renumbered[one.last], one.form) for one in both_stay]
    return left, ranges, len(starts)


def is_footnote(words: list[Word]) -> bool:
    """Whether three words are a footnote mark; one with the root in it cannot be taken out."""
    opening, number, closing = (word.form for word in words)
    return opening == "[" and number.isdigit() and closing == "]" and all(word.head for word in words)


def write_sentence(name: str, words: list[Word], multi_words: list[MultiWord]) -> str:
    """The sentence as we write it: without lemmas, features, enhanced arcs and notes."""
    begins = {multi_word.first: multi_word for multi_word in multi_words}
    lines = [f"# sent_id = {name}"]
    for number, word in enumerate(words, start=1):
        if number in begins:
            lines.append(f"{number}-{begins[number].last}\t{begins[number].form}" + "\t_" * 8)
        columns = (number, word.form, "_", word.upos, word.xpos, "_", word.head, word.deprel, "_", word.misc)
        lines.append("\t".join(map(str, columns)))
    return "\n".join(lines) + "\n\n"


# What is in there twice, or elsewhere


def with_sentences(documents: Documents, wanted: Callable[[AnnotatedSentence], bool], dropped: list[str]) -> Documents:
    """The documents with the wanted sentences alone; those without any are left out."""
    kept = []
    for document in documents:
        wants = [wanted(sentence) for sentence in document.sentences]
        both = list(zip(document.sentences, wants, strict=True))
        dropped += [sentence.name for sentence, want in both if not want]
        kept.append(replace(document, sentences=tuple(sentence for sentence, want in both if want)))
    return [document for document in kept if document.sentences]


def without_copies(documents: Documents, dropped: Dropped) -> Documents:
    """One of each: of documents with the same text that of the balanced part, or the first in order."""
    originals: dict[tuple[str, ...], Document] = {}
    for document in sorted(documents, key=lambda document: (document.part, document.place)):
        original = originals.setdefault(tuple(sentence.key for sentence in document.sentences), document)
        if original is not document:
            dropped["documents that are a copy of another"].append(document.name)
    return list(originals.values())


def gold_keys(paths: Iterable[Path]) -> set[str]:
    """The keys of all longer sentences of the gold treebanks."""
    return {key for path in paths for key in read_gold(path)}


def read_gold(path: Path) -> set[str]:
    try:
        content = path.read_bytes()
        found = blocks(gzip.decompress(content) if path.suffix == ".gz" else content)
        sentences = [[row[1] for row in rows_of(block) if row[0].isdigit()] for block in found]
    except (ValueError, IndexError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: expected a treebank in CoNLL-U, plain or as .gz: {error}") from None
    if not any(sentences):
        raise ValueError(f"{path}: expected a treebank in CoNLL-U, found no words")
    return {" ".join(forms).casefold() for forms in sentences if len(forms) > SHORT}


def without_gold(documents: Documents, gold: set[str], dropped: Dropped) -> Documents:
    """Leave out documents that are in a gold treebank, and single sentences that are there by chance."""
    other = []
    for document in documents:
        if sum(sentence.key in gold for sentence in document.sentences) >= GOLD_LIMIT:
            dropped["documents of a gold treebank"].append(document.name)
        else:
            other.append(document)
    return with_sentences(other, lambda sentence: sentence.key not in gold, dropped["sentences of a gold treebank"])


def related(documents: Documents) -> set[str]:
    """Names of the documents that belong to one work with another, or are a near-copy of another."""
    works = defaultdict(list)
    for document in documents:
        for source in document.sources:
            works[source].append(document.name)
    return {name for names in [*works.values(), *near_copies(documents)] if len(names) > 1 for name in names}


def near_copies(documents: Documents) -> list[tuple[str, str]]:
    """Pairs of documents of which the smaller has a tenth of its words in sentences of the other."""
    holders = defaultdict(set)
    for document in documents:
        for sentence in document.sentences:
            if sentence.is_long:
                holders[sentence.key].add(document.name)
    shared: Counter[tuple[str, str]] = Counter()
    for key, names in holders.items():
        if len(names) <= WIDESPREAD:
            for one, other in combinations(sorted(names), 2):
                shared[one, other] += len(key.split(" "))
    words = {document.name: document.words for document in documents}
    return [pair for pair, count in shared.items() if count >= NEAR_COPY * min(words[name] for name in pair)]


# Splits


def split(documents: Documents, eval_words: int, xs_words: int) -> dict[str, Documents]:
    """Documents by split, where "more" is what train-sm has beyond train-xs.

    dev and test hold no document with a relative, so no work is on both sides of training and evaluation.
    """
    left = sorted(documents, key=lambda document: document.place)
    relatives = related(documents)
    splits = {}
    for name in ("test", "dev"):
        alone = [document for document in left if document.name not in relatives]
        splits[name] = balanced(alone, eval_words, OVERSHOOT)
        left = without(left, splits[name])
    splits["train-xs"] = balanced(left, xs_words, math.inf)
    left = without(left, splits["train-xs"])
    splits["train-whow-nc"] = [document for document in left if document.genre in NON_COMMERCIAL]
    splits["more"] = [document for document in left if document.genre in FREE_GENRES]
    for document in without(left, splits["train-whow-nc"] + splits["more"]):
        raise ValueError(f"{document.name}: expected a genre whose licence is known, found {document.genre}")
    return splits


def without(documents: Documents, chosen: Documents) -> Documents:
    names = {document.name for document in chosen}
    return [document for document in documents if document.name not in names]


def balanced(documents: Documents, words: int, overshoot: float) -> Documents:
    """About so many words, in equal shares of the free genres, of documents of the balanced part, in their order."""
    share = words // len(FREE_GENRES)
    chosen = set()
    for genre in FREE_GENRES:
        count = 0
        for document in documents:
            if document.genre != genre or document.part != BALANCED or count >= share:
                continue
            if count + document.words < share * overshoot:
                chosen.add(document.name)
                count += document.words
    return [document for document in documents if document.name in chosen]


def without_overlap(splits: dict[str, Documents], dropped: Dropped) -> dict[str, Documents]:
    """Leave out what was in an earlier split, or what dev and test have almost in common with training."""
    seen: set[str] = set()
    training = ("train-xs", "more", "train-whow-nc")
    kept = {}
    for name in (*training, "test", "dev"):
        reason = f"repeated sentences in {'train-sm' if name == 'more' else name}"
        kept[name] = with_sentences(splits[name], lambda sentence: is_new(sentence, seen), dropped[reason])
    evaluated = set(runs_of(kept["dev"] + kept["test"]))
    common = evaluated.intersection(chain.from_iterable(runs_of(kept[name]) for name in training))
    for name in ("dev", "test"):
        names = dropped[f"sentences in {name} that share {RUN_LENGTH} words in a row with training"]
        kept[name] = with_sentences(kept[name], lambda sentence: common.isdisjoint(sentence.runs()), names)
    return kept


def is_new(sentence: AnnotatedSentence, seen: set[str]) -> bool:
    """Whether a sentence was not seen before; from now on it was. Short ones may be repeated."""
    if sentence.key in seen:
        return not sentence.is_long
    if sentence.is_long:
        seen.add(sentence.key)
    return True


def runs_of(documents: Documents) -> Iterator[tuple[str, ...]]:
    return (run for document in documents for sentence in document.sentences for run in sentence.runs())


# Files


def conllu_of(documents: Documents) -> bytes:
    texts = (
        f"# newdoc id = {document.name}\n" + "".join(sentence.conllu for sentence in document.sentences)
        for document in documents
    )
    return "".join(texts).encode()


def compressed(text: bytes) -> bytes:
    """The text as .gz without name and time, so that its bytes depend on nothing else."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=9, mtime=0) as file:
        file.write(text)
    return buffer.getvalue()


def write(file: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    scratch = file.with_name(f".{file.name}.new")
    try:
        scratch.write_bytes(content)
        scratch.replace(file)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


def write_split(folder: Path, name: str, documents: Documents) -> dict[str, Any]:
    """Write one of the five files and say what is in it, and whether it is the one of our results."""
    text = conllu_of(documents)
    content = compressed(text)
    write(folder / f"{name}.conllu.gz", content)
    sums = Sums(hashlib.sha256(content).hexdigest(), hashlib.sha256(text).hexdigest())
    return {
        "documents": len(documents),
        "sentences": sum(len(document.sentences) for document in documents),
        "words": sum(document.words for document in documents),
        "sha256": sums.file,
        "of_record": sums.text == OF_RECORD[name].text,
        "verdict": verdict(sums, OF_RECORD[name]),
    }


def verdict(found: Sums, expected: Sums) -> str:
    if found == expected:
        return "the file our results were made with"
    if found.text == expected.text:
        return "the text our results were made with, compressed by another zlib"
    return f"not the file our results were made with: SHA-256 is {found.file}, expected {expected.file}"


def report_lines(report: dict[str, Any]) -> Iterator[str]:
    """The report for people; a reason that nothing was dropped for is not named."""
    yield f"read: {report['documents']:,} documents at {report['commit']}"
    for reason, names in report["dropped"].items():
        if names:
            yield f"dropped: {reason}: {len(names):,}"
    for name, about in report["files"].items():
        counts = ", ".join(f"{about[unit]:,} {unit}" for unit in ("documents", "sentences", "words"))
        yield f"{name}.conllu.gz: {counts}; {about['verdict']}"


# The command line


def make(args: argparse.Namespace) -> dict[str, Any]:
    """Make the five files; returns what was read, dropped and written."""
    dropped: Dropped = defaultdict(list)
    gold = gold_keys(args.gold)
    documents = read_documents(Repository(args.git_dir, args.commit), dropped)
    count = len(documents) + len(dropped["documents without a good sentence"])
    documents = without_gold(without_copies(documents, dropped), gold, dropped)
    splits = without_overlap(split(documents, args.eval_words, args.xs_words), dropped)
    splits["train-sm"] = splits["train-xs"] + splits["more"]
    args.out.mkdir(parents=True, exist_ok=True)
    files = {name: write_split(args.out, name, splits[name]) for name in OF_RECORD}
    return {"commit": args.commit, "documents": count, "dropped": dropped, "files": files}


def main(args: argparse.Namespace) -> int:
    """Make and report; 1 if a file is not the one of our results."""
    report = make(args)
    print("\n".join(report_lines(report)))
    if args.json:
        write(args.json, (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode())
    if all(about["of_record"] for about in report["files"].values()):
        return 0
    expected = f"expected commit {COMMIT}, the default sizes, and as --gold all splits of {GOLD}"
    print(f"make_amalgum: error: {args.out}: these are not the files of our results; {expected}", file=sys.stderr)
    return 1


def positive_number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def run(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--git-dir", type=Path, required=True, metavar="DIR", help="of the clone: amalgum/.git")
    note = f"treebanks to leave out, plain or .gz; for the files of our results all splits of {GOLD}"
    parser.add_argument("--gold", type=Path, nargs="+", required=True, metavar="FILE", help=note)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the five files go")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the report, with the names of all that was dropped")
    parser.add_argument("--commit", default=COMMIT, help="of the clone (%(default)s)")
    parser.add_argument(
        "--eval-words", type=positive_number, default=51000, metavar="N", help="dev, test (%(default)s)"
    )
    parser.add_argument(
        "--xs-words", type=positive_number, default=1000000, metavar="N", help="train-xs (%(default)s)"
    )
    try:
        return main(parser.parse_args(argv))
    except (ValueError, OSError) as error:
        print(f"make_amalgum: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(run())
