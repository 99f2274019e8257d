"""The trees a SOM reads off a text, and the ways to write them down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedTokenizerBase

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Method, Scored, score
from modeling_som.sentences_som import Sentence, running_text
from som.inference.inputs import Text, Texts, named, only, readable, results, too_long
from som.syntax import Tree, evalb_line, first_siblings, tree_from_depths, visible

if TYPE_CHECKING:
    from nltk import Tree as NltkTree

DRAWABLE = 200  # more words than anyone can look at, fewer than the drawing libraries can recurse into


@dataclass(frozen=True)
class Parse:
    """One sentence and its binary tree, as the depth of each word.

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
    """

    words: list[str]
    offsets: list[tuple[int, int]]
    depths: list[int]
    log_prob: float | None = None  # of the sentence in nats, EOS included

    @classmethod
    def of(cls, sentence: Sentence, scored: Scored) -> Parse:
        return cls(sentence.words, sentence.offsets, sentence.of_words(scored.depths), scored.log_prob)

    @property
    def tree(self) -> Tree:
        return tree_from_depths(self.depths, self.words)

    @property
    def first_siblings(self) -> list[int]:
        """The word with which each word's left sibling begins, counted from 1; 0 is BOS."""
        return [sibling + 1 for sibling in first_siblings(self.tree)]

    def to_nltk(self) -> NltkTree:
        return self.tree.to_nltk()

    def brackets(self) -> str:
        return str(self.tree)

    def evalb(self) -> str:
        """The tree on one line with a label at every constituent and word, as EVALB wants it."""
        return evalb_line(self.tree)

    def draw(self) -> str:
        """The tree as a picture of characters."""
        self.check_drawable()
        return self.tree.draw()

    def svg(self) -> str:
        """The tree as a picture."""
        self.check_drawable()
        return tree_svg(self.tree)

    def check_drawable(self) -> None:
        if len(self.words) > DRAWABLE:
            raise too_long(len(self.words), DRAWABLE)

    def conll(self) -> str:
        """One line a word: number, word, depth, first sibling (0 is BOS), offsets; then an empty line."""
        columns = zip(self.words, self.depths, self.first_siblings, self.offsets, strict=True)
        rows = [
            "\t".join(map(str, (number, word, depth, sibling, *offset)))
            for number, (word, depth, sibling, offset) in enumerate(columns, start=1)
        ]
        return "\n".join([f"# depths = {' '.join(map(str, self.depths))}", *rows, ""])

    def to_dict(self) -> dict:
        return {
            "words": self.words,
            "offsets": self.offsets,
            "depths": self.depths,
            "first_siblings": self.first_siblings,
            "brackets": self.brackets(),
            "log_prob": self.log_prob,
        }


def tree_svg(tree: Tree) -> str:
    """A tree as an SVG element."""
    import svgling

    drawing = svgling.draw_tree(tree.to_nltk()).get_svg().tostring()
    return visible(drawing)  # control characters are not allowed in XML


CONLL_HEADER = "# global.columns = ID FORM DEPTH FIRST_SIBLING START END\n"  # as CoNLL-U Plus begins
FORMATS: dict[str, Callable[[Parse], str]] = {
    "tree": lambda parse: parse.draw() + "\n",
    "svg": Parse.svg,
    "conll": Parse.conll,
    "brackets": Parse.brackets,
    "evalb": Parse.evalb,
    "text": lambda parse: running_text(parse.words),
}


def render(parses: Sequence[Parse], form: str) -> str:
    """Trees as text: `tree` (pictures), `svg`, `conll`, or one a line as `brackets`, `evalb` or plain `text`."""
    return "".join(FORMATS[form](parse) + "\n" for parse in parses)


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
    """The tree of one sentence, a text or a list of words; `Parse.to_nltk` gives it to nltk and svgling.

    With `words`, the words of a list may have spaces, as in treebanks of Vietnamese.
    """
    return only(parse_chunk(model, tokenizer, [text], Method.of(model, method, k, seed), words=words))


def parse_all(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Texts,
    method: str | Method | None = None,
    *,
    missing: str = "error",
    **options: Any,
) -> list[Parse]:
    """The trees of many sentences, read in batches: greedy, or of `k` by `particles` or `beam` the most agreed on.

    A dict or a pandas Series of texts gives one of parses, with the same names. Where a text is missing (None, NaN)
    there is an error, or with missing="skip" no result. Options are those of `parse_each`.
    """
    given, like = named(texts, missing)
    return like(list(parse_each(model, tokenizer, given, method, **options)))


def parse_each(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Iterable[Text],
    method: str | Method | None = None,
    *,
    k: int | None = None,
    seed: int = 0,
    words: bool = False,
    batch_size: int | None = None,
    progress: bool = False,
) -> Iterator[Parse]:
    """The trees of sentences one after the other, for any number of them, such as the lines of a file.

    Sentences are read `batch_size` at a time (default: as many as fit), and `progress` shows how many.
    """
    method = Method.of(model, method, k, seed)
    read = partial(parse_chunk, model, tokenizer, method=method, words=words, batch_size=batch_size)
    return results(texts, read, batch_size, progress)


def parse_chunk(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    method: Method,
    *,
    words: bool = False,
    batch_size: int | None = None,
    longest: int | None = None,
) -> list[Parse | ValueError]:
    """The trees of some sentences; where one cannot be read, or is too long, there is an error in its place."""
    sentences = [readable(tokenizer, text, words=words, longest=longest) for text in texts]
    good = [sentence.ids for sentence in sentences if isinstance(sentence, Sentence)]
    scored = score(model, good, method, batch_size=batch_size)
    return [Parse.of(one, next(scored)) if isinstance(one, Sentence) else one for one in sentences]
