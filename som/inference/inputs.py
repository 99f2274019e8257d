"""Texts as users give them: one or many, in lists, dicts and pandas columns, and read some at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from itertools import islice
from typing import Any, TypedDict, TypeVar

from transformers import PreTrainedTokenizerBase

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Method
from modeling_som.sentences_som import Sentence, encode
from som.progress import progress

TEXTS_AT_ONCE = 512  # read before the first of them are answered: memory does not grow with their number
Text = str | Sequence[str]  # one sentence, as running text or as words
Texts = Iterable[Text] | Mapping[Any, Text]
Result = TypeVar("Result")


def readable(
    tokenizer: PreTrainedTokenizerBase, text: Text, eos: bool = True, words: bool = False, longest: int | None = None
) -> Sentence | ValueError:
    """The text as the model reads it, or what is wrong with it."""
    try:
        sentence = encode(tokenizer, text, eos, words)
    except ValueError as error:
        return error
    if longest is not None and len(sentence.words) > longest:
        return too_long(len(sentence.words), longest)
    return sentence


def read_in_place(
    sentences: Iterable[Sentence | ValueError], read: Callable[[list[Sentence]], Iterable[Result]]
) -> list[Result | ValueError]:
    """What `read` makes of the sentences; what is wrong with the others stays in its place."""
    sentences = list(sentences)
    found = iter(read([sentence for sentence in sentences if isinstance(sentence, Sentence)]))
    return [next(found) if isinstance(one, Sentence) else one for one in sentences]


def too_long(words: int, longest: int) -> ValueError:
    return ValueError(f"{words} words are too many to draw, {longest} the most: the other formats have no limit")


def only_result(results: Sequence[Result | ValueError]) -> Result:
    """The result of a single text; what was wrong with it is raised."""
    (result,) = results
    if isinstance(result, ValueError):
        raise result
    return result


class ReadOptions(TypedDict, total=False):
    """Options of every function that reads many texts."""

    k: int | None  # trees that `particles` and `beam` follow
    seed: int  # of particles
    words: bool  # the words of a list may have spaces
    batch_size: int | None  # sentences read together (default: as many as fit)
    progress: bool  # show how many are done


def read_one(
    chunk: Callable[..., Sequence[Result | ValueError]],
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    text: Text,
    method: str | Method | None,
    *,
    k: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Result:
    """What `chunk` makes of a single text."""
    method = Method.of(model, method, k, seed, given=bool(options.get("attach")))
    return only_result(chunk(model, tokenizer, [text], method, **options))


def read_each(
    chunk: Callable[..., Sequence[Result | ValueError]],
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Texts,
    method: str | Method | None,
    *,
    k: int | None = None,
    seed: int = 0,
    progress: bool = False,
    **options: Any,
) -> Iterator[Result]:
    """What `chunk` makes of texts one after the other."""
    method = Method.of(model, method, k, seed, given=bool(options.get("attach")))
    read = partial(chunk, model, tokenizer, method=method, **options)
    return results(texts, read, options.get("batch_size"), progress)


def results(
    texts: Texts,
    read: Callable[[list[Text]], Sequence[Result | ValueError]],
    batch_size: int | None = None,
    shown: bool = False,
) -> Iterator[Result]:
    """What `read` makes of the texts, some at a time; what is wrong with one is raised with its number."""
    check_many(texts)
    if isinstance(texts, Mapping):
        raise ValueError("expected texts one after the other, got a dict: the function for all keeps its names")
    rest, number = iter(texts), 0
    with progress("som", len(texts) if isinstance(texts, Sized) else None, shown=shown) as bar:
        while chunk := list(islice(rest, max(TEXTS_AT_ONCE, batch_size or 0))):
            for result in read(chunk):
                number += 1
                if isinstance(result, ValueError):
                    raise ValueError(f"text {number}: {result}") from result
                bar.update()
                yield result


def read_named(texts: Texts, missing: str, each: Callable[[Iterable[Text]], Iterable[Result]]) -> Any:
    """The results of a list, dict or pandas Series of texts, under the same names.

    Where a text is missing (None, NaN) there is an error, or with missing="skip" no result."""
    given, like = named(texts, missing)
    return like(list(each(given)))


def check_many(texts: Texts) -> None:
    if isinstance(texts, str):
        raise ValueError(f"expected many texts, got one: {texts[:60]!r}; put it into a list")


def named(texts: Texts, missing: str = "error") -> tuple[Iterable[Text], Callable[[list], Any]]:
    """The texts of a list, dict or pandas Series, and what gives the results their names.

    >>> texts, like = named({"a": "the dog", "b": None}, missing="skip")
    >>> list(texts), like([1])
    (['the dog'], {'a': 1})
    """
    if missing not in ("error", "skip"):
        raise ValueError(f"missing must be 'error' or 'skip', got {missing!r}")
    check_many(texts)
    if is_series(texts):
        return series(texts, missing)
    if isinstance(texts, Mapping):
        rows = {name: text for name, text in texts.items() if not absent(text, repr(name), missing)}
        return list(rows.values()), lambda found: dict(zip(rows, found, strict=True))
    numbered = enumerate(texts, start=1)
    return [text for number, text in numbered if not absent(text, f"text {number}", missing)], lambda found: found


def series(texts: Any, missing: str) -> tuple[list[Text], Callable[[list], Any]]:
    """The same of a column of pandas, whose results have its index."""
    kept = texts[[not absent(text, f"row {name!r}", missing) for name, text in texts.items()]]
    return list(kept), lambda found: type(kept)(found, index=kept.index, name=kept.name, dtype=object)


def is_series(texts: Any) -> bool:
    """Whether this is a column of pandas, which is not imported for the question."""
    return "pandas" in sys.modules and isinstance(texts, sys.modules["pandas"].Series)


def absent(text: Any, place: str, missing: str) -> bool:
    """Whether there is no text here, None, NaN or NA, which is an error unless such rows are to be skipped."""
    if isinstance(text, str) or (isinstance(text, Iterable) and not isinstance(text, Mapping)):
        return False
    if text is None or repr(text) in ("nan", "<NA>", "NaT"):
        if missing == "skip":
            return True
        raise ValueError(f"{place}: the text is missing, got {text!r}; missing='skip' leaves such rows out")
    raise ValueError(f"{place}: expected a text or a list of words, got {text!r}")
