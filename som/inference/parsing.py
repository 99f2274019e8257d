"""The trees a SOM reads off a text, and the ways to write them down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, starmap
from typing import TYPE_CHECKING, Any, Unpack

from transformers import PreTrainedTokenizerBase

from modeling_som import SOMForCausalLM
from modeling_som.parses_som import bracketed, build_tree, parse_record, parse_sentences, sibling_numbers
from modeling_som.scoring_som import FoundTree, Method, Reading, read_sequences
from modeling_som.sentences_som import CLITIC, NOT, Sentence, encode, offsets_in, running_text
from modeling_som.tags_som import Decided, Labels, decided_labels
from som.inference.inputs import (
    ReadOptions,
    Text,
    Texts,
    read_each,
    read_in_place,
    read_named,
    read_one,
    readable,
    too_long,
)
from som.syntax import (
    Tags,
    Tree,
    draw_tree,
    evalb_line,
    first_siblings,
    gold_depths,
    labelled_spans,
    tree_from_depths,
    visible,
)

if TYPE_CHECKING:
    from nltk import Tree as NltkTree

SEPARATORS = re.compile("[\x1c-\x1f]")  # white space to Python, not to tokenizers
INNER_SPACE = "\x00"  # stands for a space inside a word while text is put together: by then no word has control signs
DRAWABLE = 200  # more words than anyone can look at, fewer than the drawing libraries can recurse into


@dataclass(frozen=True)
class Parse:
    """One sentence and its tree: the depth of each word, and labels where the model knows them.

    >>> parse = Parse(["the", "cat", "sleeps"], [(0, 3), (4, 7), (8, 14)], [1, 2, 2])
    >>> print(parse.brackets())
    ((the cat) sleeps)
    >>> print(parse.evalb())
    (X (X (X the) (X cat)) (X sleeps))
    >>> print(parse.conll().replace("\\t", " "))
    # depths = 1 2 2
    1 the 1 0 0 3
    2 cat 2 1 4 7
    3 sleeps 2 1 8 14
    <BLANKLINE>

    With labels, trees are n-ary and every constituent has its relation or category:

    >>> labels = Labels(["det", "head", "head"], [None, "nsubj", "root"], [2, 3, 0], ["det", "nsubj", "root"])
    >>> parse = Parse(["the", "cat", "sleeps"], [(0, 3), (4, 7), (8, 14)], [1, 2, 2], labels=labels)
    >>> print(parse.brackets())
    (root (nsubj (det the) (head cat)) (head sleeps))
    >>> parse.heads, parse.relations
    ([2, 3, 0], ['det', 'nsubj', 'root'])
    """

    words: list[str]
    offsets: list[tuple[int, int]]
    depths: list[int]
    log_prob: float | None = None  # of the sentence in nats, EOS included; None if it was not asked for
    labels: Labels | None = None
    text: str | None = None  # what was read, into which the offsets point; None for words that were given one by one

    @classmethod
    def of(cls, sentence: Sentence, tree: FoundTree) -> Parse:
        depths = sentence.of_words(tree.depths)
        return cls(sentence.words, sentence.offsets, depths, tree.log_prob, tree.labels, sentence.text)

    @classmethod
    def of_tree(cls, tree: Tree, tags: Tags | None = None) -> Parse:
        """The tree of a treebank, as if it had been parsed."""
        labels = Labels([tag or "" for tag in tags.leaf], list(tags.node)) if tags else None
        return cls(list(tree.words()), [], gold_depths(first_siblings(tree)), labels=labels)

    @property
    def tree(self) -> Tree:
        """The binary tree."""
        return tree_from_depths(self.depths, self.words)

    @property
    def heads(self) -> list[int] | None:
        """The head of every word, counted from 1, 0 for the root; None without labels of dependencies."""
        return self.labels.heads if self.labels else None

    @property
    def relations(self) -> list[str] | None:
        return self.labels.relations if self.labels else None

    @property
    def first_siblings(self) -> list[int]:
        """The word with which each word's left sibling begins, counted from 1; 0 is BOS."""
        return sibling_numbers(self.depths)

    def to_nltk(self, binary: bool = False) -> NltkTree:
        """The labelled n-ary tree; without labels, or if asked for, the binary one, with * for every constituent."""
        if binary or self.labels is None:
            return self.tree.to_nltk()
        return labelled_tree(self.words, self.depths, self.labels)

    def brackets(self, binary: bool = False) -> str:
        """The tree on one line; round brackets in words are written -LRB- and -RRB-."""
        return bracketed(self.words, self.depths, None if binary else self.labels)

    def evalb(self) -> str:
        """The tree on one line with a label at every constituent and word, as EVALB wants it."""
        return evalb_line(self.tree)

    def draw(self, binary: bool = False) -> str:
        """The tree as a picture of characters."""
        self.check_drawable()
        return visible(draw_tree(self.to_nltk(binary)))

    @property
    def constituents(self) -> Tree:
        """The tree without steps of the binarisation, where labels tell them; otherwise the binary tree."""

        def leaf(word: int, tag: str | None) -> Tree | str:
            return self.words[word]

        def constituent(tag: str | None, parts: list[Tree | str]) -> Tree | str:
            return Tree(tuple(parts))

        whole = build_tree(self.depths, self.labels, leaf, constituent)
        return whole if isinstance(whole, Tree) else Tree((whole,))

    @property
    def span_labels(self) -> dict[tuple[int, int], str]:
        """The label of every constituent and word that has one, by its first word and 1 + its last."""
        if self.labels is None:
            return {}
        found: dict[tuple[int, int], str] = {}
        for label, first, end in labelled_spans(self.depths, Tags(tuple(self.labels.leaf), tuple(self.labels.node))):
            found[first, end] = f"{found[first, end]}+{label}" if (first, end) in found else label
        return found

    def figure(self, binary: bool = False) -> str:
        """The tree as a picture for a web page, in the colours of the page around it."""
        from som.inference.pictures import tree_figure

        self.check_drawable()
        return tree_figure(self.tree) if binary else tree_figure(self.constituents, labels=self.span_labels)

    def svg(self, binary: bool = False) -> str:
        """The tree as a picture."""
        from som.inference.pictures import standalone

        return standalone(self.figure(binary))

    def arcs(self) -> str:
        """The dependencies as a picture: an arc from every head to its dependents."""
        from som.inference.pictures import dependency_figure

        if self.heads is None or self.relations is None:
            raise ValueError("arcs need heads and relations, which this model does not know")
        self.check_drawable()
        return dependency_figure([visible(word) for word in self.words], self.heads, self.relations)

    def _repr_svg_(self) -> str | None:
        """What notebooks show; None, for text, where there is no room for a picture."""
        return self.svg() if len(self.words) <= DRAWABLE else None

    def _repr_html_(self) -> str | None:
        from som.inference.pictures import framed

        note = "" if self.log_prob is None else f"log-likelihood {self.log_prob:.2f} nats"
        return framed(self.figure(), note) if len(self.words) <= DRAWABLE else None

    def check_drawable(self) -> None:
        if len(self.words) > DRAWABLE:
            raise too_long(len(self.words), DRAWABLE)

    def conll(self) -> str:
        """One line per word: number, word, depth, first sibling (0 is BOS), offsets; then an empty line."""
        columns = zip(self.words, self.depths, self.first_siblings, self.offsets, strict=True)
        rows = [
            "\t".join(map(str, (number, word, depth, sibling, *offset)))
            for number, (word, depth, sibling, offset) in enumerate(columns, start=1)
        ]
        return "\n".join([f"# depths = {' '.join(map(str, self.depths))}", *rows, ""])

    def to_conllu(self, sent_id: str | int = 1, probabilities: bool = False) -> str:
        """The dependency tree in CoNLL-U; `probabilities` adds that of each relation to the last column."""
        if self.labels is None or self.labels.heads is None:
            raise ValueError("CoNLL-U needs heads and relations, which this model does not know")
        return conllu_sentence(self, self.labels, sent_id, probabilities)

    def to_spacy(self, vocabulary: Any = None) -> Any:
        """A spaCy `Doc` with heads and relations; needs spaCy to be installed."""
        if self.heads is None or self.relations is None:
            raise ValueError("a spaCy Doc needs heads and relations, which this model does not know")
        try:
            from spacy.tokens import Doc
            from spacy.vocab import Vocab
        except ImportError:
            raise ImportError("to make a spaCy Doc, install spaCy: pip install 'som-lm[spacy]'") from None
        heads = [head - 1 if head else word for word, head in enumerate(self.heads)]
        spaces = [*(start > end for (_, end), (start, _) in pairwise(self.offsets)), False]
        relations = ["ROOT" if relation == "root" else relation for relation in self.relations]
        return Doc(vocabulary or Vocab(), words=self.words, spaces=spaces, heads=heads, deps=relations)

    def to_dict(self) -> dict:
        """Everything as plain data; heads and relations are None without labels."""
        return parse_record(self.words, self.offsets, self.depths, self.log_prob, self.labels)


def labelled_tree(words: Sequence[str], depths: Sequence[int], labels: Labels) -> NltkTree:
    """The n-ary tree: steps of the binarisation disappear, and every constituent and word has its tag.

    A word of a constituency tree with no category above it stands alone."""
    from nltk import Tree as NltkTree

    def leaf(word: int, tag: str | None) -> NltkTree | str:
        return words[word] if tag is None else NltkTree(tag, [words[word]])

    return build_tree(depths, labels, leaf, lambda tag, parts: NltkTree("*" if tag is None else tag, parts))


def conllu_sentence(parse: Parse, labels: Labels, sent_id: str | int, probabilities: bool) -> str:
    """A sentence of CoNLL-U with its blank line; what was written as one word but is several has a range line."""
    words = [one_line(word).replace(" ", INNER_SPACE) or "_" for word in parse.words]
    text = running_text(words) if parse.text is None else one_line(parse.text)
    lines = [f"# sent_id = {sent_id}", f"# text = {text}"]
    offsets = parse.offsets if parse.text is not None else offsets_in(text, words)
    ranges = written_words(words, offsets)
    chances = labels.probabilities or [1.0] * len(words)
    columns = zip(words, labels.heads or [], labels.relations or [], chances, strict=True)
    for number, (word, head, relation, chance) in enumerate(columns, start=1):
        glued = number < len(offsets) and offsets[number][0] == offsets[number - 1][1]
        first, last = ranges[number - 1]
        space = ["SpaceAfter=No"] if glued and number == last else []
        if first < last and number == first:
            end = ["SpaceAfter=No"] if last < len(offsets) and offsets[last][0] == offsets[last - 1][1] else []
            form = "".join(words[first - 1 : last])
            lines.append("\t".join([f"{first}-{last}", form, *["_"] * 7, "|".join(end) or "_"]))
        misc = [*([f"RelationProbability={chance:.4f}"] if probabilities else []), *(space if first == last else [])]
        lines.append("\t".join([str(number), word, *["_"] * 4, str(head), relation, "_", "|".join(misc) or "_"]))
    return "\n".join([*lines, "", ""]).replace(INNER_SPACE, " ")


def one_line(text: str) -> str:
    """A text with single spaces, and signs for control characters, which may be taken for the ends of lines.

    >>> one_line(" a\\tb\\u2028c\\x1cd")
    'a b c␜d'
    """
    return visible(" ".join(SEPARATORS.sub(lambda match: visible(match[0]), text).split()))


def written_words(words: Sequence[str], offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """For each word the first and last word, counted from 1, of what was written as one: "did" and "n't" are one.

    >>> written_words(["I", "did", "n't", "."], [(0, 1), (2, 5), (5, 8), (8, 9)])
    [(1, 1), (2, 3), (2, 3), (4, 4)]
    """
    groups: list[list[int]] = []
    for number, word in enumerate(words, start=1):
        glued = number > 1 and offsets[number - 1][0] == offsets[number - 2][1]
        cannot = word.lower() == "not" and words[number - 2].lower() == "can"
        clitic = cannot or re.fullmatch(f"{NOT}|{CLITIC}", word)
        if glued and clitic and words[number - 2][-1:].isalpha():
            groups[-1].append(number)
        else:
            groups.append([number])
    return [(group[0], group[-1]) for group in groups for _ in group]


@dataclass(frozen=True)
class PartialParse:
    """A sentence up to one of its words: the depth of each, and what is certain of the labels, whatever follows."""

    words: list[str]
    depths: list[int]
    labels: Decided | None  # of a model without tags None, otherwise with None for each that is not decided


def partial_parses(
    model: SOMForCausalLM, tokenizer: PreTrainedTokenizerBase, text: Text, *, words: bool = False
) -> list[PartialParse]:
    """What a greedy reader has decided after each word of a sentence; nothing of it ever changes.

    A word's place is decided when it is read. A tag is decided when its constituent and the one above are complete
    and every reading of what may follow agrees on it: heads of left constituents often wait for the end."""
    sentence = encode(tokenizer, text, words=words)
    (reading,) = read_sequences(model, [sentence.ids], tags=True)
    depths = sentence.of_words(reading.depths)
    decided = decided_after_each_word(sentence, reading, model.config.tree_tags)
    return [PartialParse(sentence.words[:n], depths[:n], labels) for n, labels in enumerate(decided, start=1)]


def decided_after_each_word(sentence: Sentence, reading: Reading, tags: Sequence[str]) -> list[Decided | None]:
    """What is certain of the labels after each word, along the tree of a reading; None if it has no scores of tags."""
    depths = sentence.of_words(reading.depths)
    if reading.leaf_tags is None or reading.node_tags is None:
        return [None] * len(depths)
    leaf, node = (table[sentence.starts].tolist() for table in (reading.leaf_tags, reading.node_tags))
    return [decided_labels(depths[:n], leaf[:n], node[:n], tags) for n in range(1, len(depths) + 1)]


CONLL_HEADER = "# global.columns = ID FORM DEPTH FIRST_SIBLING START END\n"  # as CoNLL-U Plus begins


def render(parses: Sequence[Parse], form: str, binary: bool = False, probabilities: bool = False) -> str:
    """Trees as text, in a format of `write_parse`."""
    numbered = enumerate(parses, start=1)
    return "".join(write_parse(parse, form, binary, probabilities, number) for number, parse in numbered)


def write_parse(
    parse: Parse, form: str, binary: bool = False, probabilities: bool = False, sent_id: str | int = 1
) -> str:
    """A tree as text: `tree` (a picture), `conllu`, `conll`, or on one line as `brackets`, `evalb` or `text`; as SVG:
    `svg` (the tree) or `arcs` (the dependencies).

    `binary` shows the tree as the model builds it, without labels."""
    if form == "conllu":
        return parse.to_conllu(sent_id, probabilities)
    written = {
        "tree": lambda: parse.draw(binary) + "\n",
        "svg": lambda: parse.svg(binary),
        "arcs": parse.arcs,
        "conll": parse.conll,
        "brackets": lambda: parse.brackets(binary),
        "evalb": parse.evalb,
        "text": lambda: visible(running_text(parse.words)),
    }
    return written[form]() + "\n"


def parse(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    text: Text,
    method: str | Method | None = None,
    *,
    k: int | None = None,
    seed: int = 0,
    words: bool = False,
) -> Parse:
    """The tree of one sentence, a text or a list of words; `Parse.to_nltk` gives it to nltk.

    With `words`, the words of a list may have spaces, as in treebanks of Vietnamese.
    """
    return read_one(parse_chunk, model, tokenizer, text, method, k=k, seed=seed, words=words)


def parse_all(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Texts,
    method: str | Method | None = None,
    *,
    missing: str = "error",
    log_probs: bool = True,
    **options: Unpack[ReadOptions],
) -> list[Parse]:
    """The trees of many sentences, read in batches: greedy, or of `k` by `particles` or `beam` the most agreed on.

    A dict or a pandas Series of texts gives one of parses, with the same names. Where a text is missing (None, NaN)
    there is an error, or with missing="skip" no result. Options are those of `parse_each`.
    """
    each = partial(parse_each, model, tokenizer, method=method, log_probs=log_probs, **options)
    return read_named(texts, missing, each)


def parse_each(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Iterable[Text],
    method: str | Method | None = None,
    *,
    log_probs: bool = True,
    **options: Unpack[ReadOptions],
) -> Iterator[Parse]:
    """The trees of sentences one after the other, for any number of them, such as the lines of a file.

    Options are `k`, `seed` and `words`, as for `parse`. Sentences are read `batch_size` at a time (default: as many as
    fit), and `progress` shows how many. With log_probs=False greedy trees come several times as fast and
    `Parse.log_prob` is None.
    """
    return read_each(parse_chunk, model, tokenizer, texts, method, log_probs=log_probs, **options)


def parse_chunk(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    method: Method,
    *,
    words: bool = False,
    batch_size: int | None = None,
    longest: int | None = None,
    log_probs: bool = True,
) -> list[Parse | ValueError]:
    """The trees of some sentences; where one cannot be read, or is too long, there is an error in its place."""
    sentences = [readable(tokenizer, text, words=words, longest=longest) for text in texts]

    def read(good: list[Sentence]) -> Iterator[Parse]:
        return starmap(Parse.of, parse_sentences(model, good, method, batch_size, log_probs))

    return read_in_place(sentences, read)
