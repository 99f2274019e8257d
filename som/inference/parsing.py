"""The trees a SOM reads off a text, and the ways to write them down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from transformers import PreTrainedTokenizerBase

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Method, Scored, score
from modeling_som.sentences_som import Sentence, encode, running_text
from som.syntax import Tree, evalb_line, first_siblings, tree_from_depths

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
            limit = f"{len(self.words)} words are too many to draw, {DRAWABLE} the most"
            raise ValueError(f"{limit}: brackets, conll and json have no limit")

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

    return svgling.draw_tree(tree.to_nltk()).get_svg().tostring()


def render(parses: Sequence[Parse], form: str) -> str:
    """Trees as text: `tree` (pictures), `svg`, `conll`, or one a line as `brackets`, `evalb` or plain `text`."""
    write: dict[str, Callable[[Parse], str]] = {
        "tree": lambda parse: parse.draw() + "\n",
        "svg": Parse.svg,
        "conll": Parse.conll,
        "brackets": Parse.brackets,
        "evalb": Parse.evalb,
        "text": lambda parse: running_text(parse.words),
    }
    return "".join(write[form](parse) + "\n" for parse in parses)


def parse(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    text: str | Sequence[str],
    method: str | Method | None = None,
    *,
    k: int | None = None,
    seed: int = 0,
) -> Parse:
    """The tree of one sentence, a text or a list of words; `Parse.to_nltk` gives it to nltk and svgling."""
    return parse_all(model, tokenizer, [text], method, k=k, seed=seed)[0]


def parse_all(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str | Sequence[str]],
    method: str | Method | None = None,
    *,
    k: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> list[Parse]:
    """The trees of many sentences, read in batches: greedy, or of `k` by `particles` or `beam` the most agreed on."""
    sentences = [encode(tokenizer, text) for text in texts]
    scored = score(model, [sentence.ids for sentence in sentences], method, k=k, seed=seed, progress=progress)
    return list(map(Parse.of, sentences, scored))
