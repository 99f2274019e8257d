"""Treebank files to examples: CoNLL-U and bracketed trees, plain or gzipped, read one sentence at a time."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from importlib import import_module
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any, cast

from som.syntax.labels import NO_CHAIN, PARTIAL, ROOT, Tags, dependency_tags
from som.syntax.trees import Tree, unescape

CONVERSION_VERSION = 1  # part of every cache key: raise it when the same file is to give other trees
TREEBANK_SUFFIXES = (".conllu", ".conll", ".mrg", ".parse", ".ptb")  # what counts as a treebank file in a folder
SPLITS = ("train", "validation", "test")
WSJ_SECTIONS = {"train": range(2, 22), "validation": (24,), "test": (23,)}
NOT_WORDS = re.compile(r"\d+[-.]\d+")  # numbers of multi-word tokens (3-4) and of empty nodes (5.1)
HEAD_NUMBER = re.compile("[0-9]{1,9}")
PART = 1 << 19  # bytes
UNREADABLE = (OSError, EOFError, zlib.error)  # what a damaged file raises
SQUARE_AND_CURLY = {"-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}  # besides the brackets that trees escape


class TreebankError(ValueError):
    """A treebank that cannot be read: the message says where, what was expected and what is there."""


@dataclass(frozen=True)
class Example:
    """A sentence with its tree, where it stands, and how many arcs were lifted to get the tree (None: no arcs)."""

    words: tuple[str, ...]
    tree: Tree
    source: str  # file:line
    lifted: int | None = None
    tags: Tags | None = field(default=None, compare=False)  # None where the treebank has no relations or categories
    heads: tuple[int, ...] | None = field(default=None, compare=False)  # as in the file, before arcs were lifted
    relations: tuple[str, ...] | None = field(default=None, compare=False)


def read_treebank(paths: str | Path | Iterable[str | Path]) -> Iterator[Example]:
    """Every sentence of the files and folders, in their order."""
    for path in treebank_files(paths):
        for example in read_file(path):
            if isinstance(example, TreebankError):
                raise example
            yield example


def read_file(path: Path) -> Iterator[Example | TreebankError]:
    """Every sentence of one file; where one cannot be read there is an error in its place, and reading goes on."""
    for part in file_parts(path):
        yield from part.examples()


# Files


def treebank_files(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    """The files named, and the treebank files in the folders named, sorted by name."""
    files: list[Path] = []
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        if path.is_dir():
            inside = [
                file for file in files_in(path) if file.name.lower().removesuffix(".gz").endswith(TREEBANK_SUFFIXES)
            ]
            if not inside:
                raise TreebankError(
                    f"{path}: expected files *{', *'.join(TREEBANK_SUFFIXES)} (or .gz) in this folder, found none"
                )
            files += inside
        elif path.is_file():
            files.append(path)
        else:
            raise TreebankError(f"{path}: expected a file or folder, there is none")
    return files


def files_in(folder: Path) -> list[Path]:
    """Every file under the folder, sorted by name."""
    return sorted(file for file in folder.rglob("*") if file.is_file())


def wsj_files(folder: str | Path) -> dict[str, list[Path]]:
    """The usual splits of the Wall Street Journal part of the Penn Treebank, from its folder of sections."""
    sections = {split: [Path(folder) / f"{n:02d}" for n in numbers] for split, numbers in WSJ_SECTIONS.items()}
    for section in chain.from_iterable(sections.values()):
        if not section.is_dir():
            raise TreebankError(f"{section}: expected a folder for each section, as in treebank_3/parsed/mrg/wsj")
    return {split: treebank_files(folders) for split, folders in sections.items()}


def listed_files(folder: str | Path, lists: Iterable[str | Path]) -> list[Path]:
    """The files that the lists name, one file or sub-folder of the folder per line."""
    files: list[Path] = []
    for list_file in map(Path, lists):
        for number, line in _lines(list_file):
            if not line.strip() or line.startswith("#"):
                continue
            path = Path(folder) / line.strip()
            if not path.exists():
                raise TreebankError(
                    f"{list_file}:{number}: expected a file or folder in {folder}, got {line.strip()!r}"
                )
            files += files_in(path) if path.is_dir() else [path]
    if not files:
        raise TreebankError(f"{folder}: expected lists that name files in it, got none")
    return files


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines and their numbers."""
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):  # noqa: B007  # the number is also for the error below
                yield number, _decode(line, number).rstrip("\r\n")
    except UNREADABLE as error:
        raise _unreadable(path, number + 1, error) from None


def _decode(text: bytes, line: int) -> str:
    """Text that begins in this line; bytes that are no UTF-8 become surrogates, which no good file has."""
    return text.decode("utf-8-sig" if line == 1 else "utf-8", "surrogateescape")


def _unreadable(path: Path, line: int, error: Exception) -> TreebankError:
    return TreebankError(f"{path}:{line}: expected a readable file, got: {error}")


def _open(path: Path) -> BufferedReader:
    return cast(BufferedReader, gzip.open(path)) if path.suffix == ".gz" else open(path, "rb")


def is_text(line: str) -> bool:
    """Whether the bytes of the line were UTF-8."""
    return line.isascii() or not any("\ud800" <= character <= "\udfff" for character in line)


@dataclass(frozen=True)
class Block:
    """The lines of one sentence, not yet understood."""

    path: Path
    line: int
    lines: list[str]
    is_conllu: bool

    def example(self) -> Example:
        for offset, line in enumerate(self.lines):
            if not is_text(line):
                raise self.error(offset, "expected text in UTF-8, got other bytes")
        return _example_from_conllu(self) if self.is_conllu else _example_from_brackets(self)

    def error(self, offset: int, message: str) -> TreebankError:
        return TreebankError(f"{self.path}:{self.line + offset}: {message}")


@dataclass(frozen=True)
class FilePart:
    """Lines of a file, sentences that are not yet told apart; where the file is damaged the last one is not whole."""

    path: Path
    line: int
    text: bytes
    is_conllu: bool
    damage: TreebankError | None = None

    def examples(self) -> Iterator[Example | TreebankError]:
        """Every sentence, or the error in its place."""
        for block in self.blocks():
            try:
                yield block.example()
            except TreebankError as error:
                yield error
        if self.damage:
            yield self.damage

    def blocks(self) -> Iterator[Block]:
        """Cut at empty lines; or, for brackets, where all are closed or one opens in column 1."""
        block: list[str] = []
        start = open_brackets = 0
        lines = _decode(self.text, self.line).removesuffix("\n").split("\n")
        for number, line in enumerate(lines, self.line):
            if block and (not line.strip() if self.is_conllu else line.startswith("(") or open_brackets <= 0):
                yield Block(self.path, start, block, self.is_conllu)
                block, open_brackets = [], 0
            if line.strip() or block:
                start = start if block else number
                block.append(line.rstrip("\r"))
                open_brackets += 0 if self.is_conllu else line.count("(") - line.count(")")
        if block and not self.damage:
            yield Block(self.path, start, block, self.is_conllu)


def file_parts(path: Path) -> Iterator[FilePart]:
    """Cut a file between sentences, for several processes to read; what is wrong with the file is in the last part."""
    line, is_conllu, chunks, damage, wanted = 1, True, list[bytes](), None, PART
    try:
        is_conllu = _is_conllu(path)
        with _open(path) as file:
            for chunk in iter(partial(file.read1, PART), b""):
                chunks.append(chunk)
                if sum(map(len, chunks)) >= wanted:
                    text = b"".join(chunks)
                    if end := _last_cut(text, is_conllu):
                        yield FilePart(path, line, text[:end], is_conllu)
                        line += text.count(b"\n", 0, end)
                    # after twice as much, where nothing ends: no byte is looked at often
                    chunks, wanted = [text[end:]], PART if end else 2 * len(text)
    except TreebankError as error:
        damage = error
    except UNREADABLE as error:
        damage = _unreadable(path, line + b"".join(chunks).count(b"\n"), error)
    yield FilePart(path, line, b"".join(chunks), is_conllu, damage)


def _last_cut(text: bytes, is_conllu: bool) -> int:
    """Where to cut: behind the last empty line; before the last bracket in column 1, or without one where brackets
    are closed; 0 for nowhere.

    >>> _last_cut(b"(A a)\\n (B b)\\n(C c)\\n", is_conllu=False)
    13
    """
    if is_conllu:
        return max(len(text) - len(text.rpartition(end)[2]) for end in (b"\n\n", b"\n\r\n"))
    return text.rfind(b"\n(") + 1 or _last_closed(text)


def _last_closed(text: bytes) -> int:
    """The end of the last line behind which no bracket is open, as `FilePart.blocks` counts them.

    >>> _last_closed(b" (A\\n  a)\\n (B b)\\n (C\\n")
    16
    """
    place = end = open_brackets = 0
    for line in text.split(b"\n")[:-1]:
        place += len(line) + 1
        open_brackets += line.count(b"(") - line.count(b")")
        if open_brackets <= 0:
            end, open_brackets = place, 0
    return end


def _is_conllu(path: Path) -> bool:
    """Whether the first line that is not empty does not begin with a bracket."""
    for _, line in _lines(path):
        if line.strip():
            return not line.lstrip().startswith("(")
    raise TreebankError(f"{path}:1: expected CoNLL-U sentences or bracketed trees, got an empty file")


# CoNLL-U: dependency trees


def _example_from_conllu(block: Block) -> Example:
    words: list[str] = []
    heads: list[int] = []
    relations: list[str] = []
    offsets: list[int] = []
    for offset, line in enumerate(block.lines):
        columns = line.split("\t")
        if line.startswith("#") or (len(columns) == 10 and NOT_WORDS.fullmatch(columns[0])):
            continue
        if len(columns) != 10:
            raise block.error(offset, f"expected 10 columns separated by tabs, got {len(columns)}")
        number, word, head = columns[0], columns[1], columns[6]
        if number != str(len(words) + 1):
            raise block.error(offset, f"expected {len(words) + 1} in column 1, the word's number, got {number!r}")
        if not word.strip():
            raise block.error(offset, "expected a word in column 2, got nothing")
        if not HEAD_NUMBER.fullmatch(head):
            raise block.error(offset, f"expected a number in column 7, the head, got {head!r}")
        words.append(clean_word(word))
        heads.append(int(head))
        relations.append(columns[7])
        offsets.append(offset)
    if not words:
        raise block.error(0, "expected a sentence, got only comments")
    try:
        check_heads(heads)
    except HeadError as error:
        raise block.error(offsets[error.word], str(error)) from None
    projective, lifted = lift(heads)
    tree = merge_dependents(words, projective)
    source, given = f"{block.path}:{block.line}", tuple(relations)
    if any(relation in ("", "_") for relation in given):
        return Example(tuple(words), tree, source, lifted, heads=tuple(heads))
    tags = dependency_tags(projective, given)
    return Example(tuple(words), tree, source, lifted, tags, tuple(heads), given)


def to_conllu(
    words: Sequence[str], heads: Sequence[int], relations: Sequence[str] | None = None, comment: str = ""
) -> str:
    """A sentence as CoNLL-U, with nothing but words, heads and, where they are known, relations.

    >>> print(to_conllu(["dogs", "bark"], [2, 0]).replace("\\t", " "), end="")
    1 dogs _ _ _ _ 2 _ _ _
    2 bark _ _ _ _ 0 _ _ _
    <BLANKLINE>
    """
    numbered = enumerate(zip(words, heads, relations or ["_"] * len(words), strict=True), start=1)
    rows = (f"{i}\t{word}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_" for i, (word, head, relation) in numbered)
    return "\n".join([*([f"# {comment}"] if comment else []), *rows, "", ""])


def clean_word(word: str) -> str:
    """The word as it stands in text: brackets themselves, and no white space, because that separates words.

    >>> clean_word("-LRB-"), clean_word("1 000"), clean_word("F-16")
    ('(', '1_000', 'F-16')
    """
    word = SQUARE_AND_CURLY.get(word, unescape(word))
    return word if word.isalnum() else "_".join(word.split())


class HeadError(ValueError):
    """Heads that form no tree; `word` is the position of the one to blame."""

    def __init__(self, word: int, message: str):
        super().__init__(message)
        self.word = word


def tree_from_heads(words: Sequence[str], heads: Sequence[int]) -> tuple[Tree, int]:
    """Merge every head with all its dependents, in surface order; also count the arcs lifted to be able to.

    Heads are numbered from 1; the root's is 0.

    >>> tree, lifted = tree_from_heads("the old dog barks loudly".split(), [3, 3, 4, 0, 4])
    >>> print(tree, lifted)
    ((the old dog) barks loudly) 0
    """
    check_heads(heads)
    projective, lifted = lift(heads)
    return merge_dependents(words, projective), lifted


def merge_dependents(words: Sequence[str], heads: Sequence[int]) -> Tree:
    """The constituents of a projective dependency tree: each is a head with all its dependents, in surface order.

    >>> print(merge_dependents("the old dog barks loudly".split(), [3, 3, 4, 0, 4]))
    ((the old dog) barks loudly)
    """
    family = [[word] for word in range(len(words))]  # a head and its dependents
    for word, head in enumerate(heads):
        if head:
            family[head - 1].append(word)
    nodes: list[Tree | str] = list(words)
    for word in dependents_first(heads):
        if len(family[word]) > 1:
            nodes[word] = Tree(tuple(nodes[member] for member in sorted(family[word])))
    root = nodes[heads.index(0)]
    return root if isinstance(root, Tree) else Tree((root,))


def check_heads(heads: Sequence[int]) -> None:
    """Refuse heads that form no tree with one root."""
    for word, head in enumerate(heads):
        if not 0 <= head <= len(heads):
            raise HeadError(word, f"expected a head in 0…{len(heads)}, got {head}")
    roots = [word for word, head in enumerate(heads) if head == 0]
    if len(roots) != 1:
        raise HeadError(roots[-1] if roots else 0, f"expected one root in the sentence, got {len(roots)}")
    lost = set(range(len(heads))).difference(dependents_first(heads))
    if lost:
        raise HeadError(min(lost), f"expected heads that lead to the root, got a circle above word {min(lost) + 1}")


def dependents_first(heads: Sequence[int]) -> list[int]:
    """All words below the root, each before its head.

    >>> dependents_first([2, 0, 2, 3])
    [3, 2, 0, 1]
    """
    dependents: dict[int, list[int]] = {}
    for word, head in enumerate(heads):
        dependents.setdefault(head, []).append(word)
    order = list(dependents.get(0, ()))
    for word in order:  # which grows meanwhile
        order += dependents.get(word + 1, ())
    return order[::-1]


def lift(heads: Sequence[int]) -> tuple[list[int], int]:
    """Make a tree projective: the shortest arc that crosses others moves up to its head's head, until none does.

    An arc crosses others if it is over a word that does not descend from its head. When a word moves up, only its
    former head loses descendants, so that only arcs of that head can begin to cross others; none ever stops.

    >>> lift([3, 4, 0, 3])
    ([3, 3, 0, 3], 1)
    """
    lifted, below = list(heads), descendants(heads)
    crossing: list[tuple[int, int]] = []  # a heap of the arcs that cross others: length and dependent
    others: list[list[int]] = [[] for _ in range(len(heads) + 1)]  # by head, the dependents of all other arcs
    unseen = list(range(len(heads)))
    while unseen or crossing:
        for word in unseen:
            if crosses(word, lifted[word], below):
                heappush(crossing, (abs(word - lifted[word] + 1), word))
            else:
                others[lifted[word]].append(word)
        unseen = []
        if crossing:
            _, word = heappop(crossing)
            head = lifted[word]
            lifted[word] = lifted[head - 1]
            below[head - 1] &= ~below[word]
            unseen, others[head] = [word, *others[head]], []
    return lifted, sum(new != old for new, old in zip(lifted, heads, strict=True))


def crosses(word: int, head: int, below: Sequence[int]) -> bool:
    """Whether an arc is over a word that does not descend from its head."""
    if head == 0:
        return False
    left, right = sorted((word, head - 1))
    return bool(((1 << right) - (2 << left)) & ~below[head - 1])


def descendants(heads: Sequence[int]) -> list[int]:
    """Of each word, the word itself and all below it, as bits.

    >>> [bin(below) for below in descendants([2, 0, 2])]
    ['0b1', '0b111', '0b100']
    """
    below = [1 << word for word in range(len(heads))]
    for word in dependents_first(heads):
        if heads[word]:
            below[heads[word] - 1] |= below[word]
    return below


# Bracketed trees: constituents, of which function tags and traces do not matter


@dataclass(frozen=True)
class Constituent:
    """A word or a constituent, the categories of the unary chain it stands for, and its parts."""

    node: Tree | str
    chain: tuple[str, ...] = ()
    parts: tuple[Constituent, ...] = ()

    def tags(self) -> Tags:
        """Of the whole tree, from left to right; no recursion, since trees can be deep."""
        leaf: list[str | None] = []
        node: dict[int, str] = {}  # by the word that begins the right child
        stack: list[tuple[Constituent, list[str]]] = [(self, [])]  # and the tags of the inner nodes it completes
        while stack:
            one, completed = stack.pop()
            if completed:
                node[len(leaf)] = completed[0]
            if not one.parts:
                leaf.append("+".join(one.chain) or NO_CHAIN)
                continue
            own = "+".join(one.chain) or "X"
            steps = [[], *([PARTIAL] for _ in one.parts[2:]), [own]]
            stack += reversed(list(zip(one.parts, steps, strict=True)))
        return Tags(tuple(leaf), tuple(node.get(word) for word in range(len(leaf))))


def _example_from_brackets(block: Block) -> Example:
    root: Constituent | None = None
    open_nodes: list[tuple[list[str], list[Constituent | None]]] = []  # atoms and children of each; None is a trace
    for offset, line in enumerate(block.lines):
        for token in re.findall(r"[()]|[^\s()]+", line):
            if token == "(" and (open_nodes or root is None):
                open_nodes.append(([], []))
            elif not open_nodes:
                raise block.error(offset, f"expected one tree in brackets, got {token!r} outside it")
            elif token != ")":
                open_nodes[-1][0].append(token)
            else:
                node = _constituent(*open_nodes.pop(), block, offset)
                if open_nodes:
                    open_nodes[-1][1].append(node)
                elif (root := node) is None:
                    raise block.error(offset, "expected words in the tree, got only traces")
    if open_nodes:
        raise block.error(
            len(block.lines) - 1, f"expected {len(open_nodes)} more closing bracket(s), got the tree's end"
        )
    assert root is not None
    tree = root.node if isinstance(root.node, Tree) else Tree((root.node,))
    return Example(tree.words(), tree, f"{block.path}:{block.line}", tags=root.tags())


def _constituent(atoms: list[str], children: list, block: Block, offset: int) -> Constituent | None:
    if len(atoms) == 2 and not children:
        tag, word = atoms
        return None if tag == "-NONE-" else Constituent(clean_word(word.replace(r"\/", "/").replace(r"\*", "*")))
    if len(atoms) > 1 or not children:
        text = " ".join([*atoms, *["(…)"] * len(children)])
        raise block.error(offset, f"expected (LABEL (…) …) or (TAG word), got ({text})")
    present = [child for child in children if child is not None]
    chain = tuple(category(atom) for atom in atoms if category(atom))
    if len(present) < 2:
        return replace(present[0], chain=(*chain, *present[0].chain)) if present else None
    return Constituent(Tree(tuple(child.node for child in present)), chain, tuple(present))


def category(label: str) -> str:
    """A label without function tags and indices.

    >>> category("NP-SBJ=2"), category("ADVP|PRT"), category("-LRB-")
    ('NP', 'ADVP', '-LRB-')
    """
    return label if label.startswith("-") else re.split(r"[-=|]", label)[0]


# Raw text: silver trees from a parser that the user has installed


def read_text(paths: Iterable[str | Path]) -> Iterator[str]:
    """The lines of the files that are not empty."""
    for place, line in numbered_lines(paths):
        if not is_text(line):
            raise TreebankError(f"{place}: expected text in UTF-8, got other bytes")
        yield line.strip()


def numbered_lines(paths: Iterable[str | Path]) -> Iterator[tuple[str, str]]:
    """The lines of the files that are not empty, each after its place, file:line; see `is_text`."""
    for path in map(Path, paths):
        for number, line in _lines(path):
            if line.strip():
                yield f"{path}:{number}", line


def parse_text(lines: Iterable[str], parser: str) -> Iterator[str]:
    """CoNLL-U sentences as spaCy or stanza parse the text; `parser` is spacy[:MODEL] or stanza[:LANGUAGE]."""
    name, _, model = parser.partition(":")
    parsers = {"spacy": _spacy_sentences, "stanza": _stanza_sentences}
    if name not in parsers:
        raise ValueError(f"expected the parser spacy[:MODEL] or stanza[:LANGUAGE], got {parser!r}")
    for words, heads, relations in parsers[name](model, lines):
        yield to_conllu([clean_word(word) for word in words], heads, relations, comment=f"silver = {parser}")


def _installed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f"{name} is not installed: pip install 'som-lm[{name}]'") from None


def spacy_pipeline(model: str = "") -> Any:
    """A pipeline of spaCy, or one line on what to install."""
    spacy, model = _installed("spacy"), model or "en_core_web_sm"
    try:
        return spacy.load(model)
    except OSError:
        raise ValueError(f"spaCy has no model {model!r}: python -m spacy download {model}") from None


Parsed = tuple[list[str], list[int], list[str]]  # words, heads, relations


def _spacy_sentences(model: str, texts: Iterable[str]) -> Iterator[Parsed]:
    for document in spacy_pipeline(model).pipe(texts):
        for sentence in document.sents:
            tokens = [token for token in sentence if not token.is_space]  # such tokens have no dependents
            number = {token.i: position for position, token in enumerate(tokens, start=1)}
            heads = [0 if t.head.i == t.i else number[t.head.i] for t in tokens]
            relations = [t.dep_ if head else ROOT for t, head in zip(tokens, heads, strict=True)]  # spaCy's is ROOT
            if tokens:
                yield [t.text for t in tokens], heads, [relation or "_" for relation in relations]


def _stanza_sentences(language: str, texts: Iterable[str]) -> Iterator[Parsed]:
    pipeline = _installed("stanza").Pipeline(
        language or "en", processors="tokenize,mwt,pos,lemma,depparse", verbose=False
    )
    for text in texts:
        for sentence in pipeline(text).sentences:
            words = sentence.words
            yield [word.text for word in words], [word.head for word in words], [word.deprel for word in words]
