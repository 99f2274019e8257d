"""Surprisal word by word, in bits, with what it is made of: for experiments on how people read.

A word's surprisal is −log2 of its probability by the chosen method (see `som.inference`), summed over its pieces.
Beside it stand the two parts of another quantity, the surprisal of the word together with the attachment it has in the
sentence's parse (which, with `particles` or `beam`, is chosen when the whole sentence has been read):
structural, −log2 p'(attachment), and lexical, −log2 p(word | attachment). A word whose attachment is forced has no
other reading left, so its surprisal is the sum of the two.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from io import StringIO
from math import log
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from modeling_som import SOMCache, SOMForCausalLM
from modeling_som.scoring_som import Method, Reading, evaluating, read, score
from modeling_som.search_som import best_trees
from modeling_som.sentences_som import Sentence
from som.inference.inputs import Text, Texts, named, only, readable, results, too_long
from som.syntax import tree_from_depths

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

PLOTTABLE = 200  # words of a sentence: more have no room in a picture
PANELS = 50  # sentences in a picture

Attach = Mapping[int, int | str]  # a word's number → its depth, or "word 3": join the constituent that word 3 begins


@dataclass(frozen=True)
class PartialParse:
    """A tree of the words read so far, and how probable it is among those compared with it."""

    brackets: str
    depths: list[int]  # of the words
    probability: float


@dataclass(frozen=True)
class WordSurprisal:
    """One word; all surprisals and entropies in bits."""

    number: int  # words count from 1, BOS is 0
    word: str
    start: int
    end: int
    tokens: str  # what the vocabulary has for it: the word, its class if it is unknown, its pieces
    surprisal: float
    structural: float | None  # None without prediction network, as is entropy_before
    lexical: float
    entropy_before: float | None  # of p', which does not yet know the word
    entropy_after: float  # of p, which does
    depth: int
    parses: list[PartialParse] = field(default_factory=list)  # best first


def surprisals(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    text: Text,
    method: str | Method | None = None,
    *,
    k: int | None = None,
    seed: int = 0,
    **options: Any,
) -> list[WordSurprisal]:
    """Surprisals of a text's words, or of a list of words. Options:

    `eos` adds the end of the sentence. `attach` forces attachments and leaves the other decisions greedy: {6: 2} puts
    word 6 at depth 2, {6: "word 3"} makes it the sister of the constituent so far that word 3 begins. `parses` asks
    for so many partial parses a word: with `particles` or `beam`, the best trees found for the words so far; otherwise
    the greedy tree of the words before with the best attachments of this one, weighted by p. With `words`, the words
    of a list may have spaces.
    """
    method = Method.of(model, method, k, seed, given=bool(options.get("attach")))
    return only(surprisals_chunk(model, tokenizer, [text], method, **options))


def surprisals_all(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Texts,
    method: str | Method | None = None,
    *,
    missing: str = "error",
    **options: Any,
) -> list[list[WordSurprisal]]:
    """`surprisals` of many sentences, read in batches.

    A dict or a pandas Series of texts gives one of results, with the same names. Where a text is missing (None, NaN)
    there is an error, or with missing="skip" no result. Options are those of `surprisals_each`.
    """
    given, like = named(texts, missing)
    return like(list(surprisals_each(model, tokenizer, given, method, **options)))


def surprisals_each(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Iterable[Text],
    method: str | Method | None = None,
    *,
    k: int | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool = False,
    **options: Any,
) -> Iterator[list[WordSurprisal]]:
    """`surprisals` of sentences one after the other, for any number of them, such as the lines of a file.

    Sentences are read `batch_size` at a time (default: as many as fit), and `progress` shows how many.
    """
    method = Method.of(model, method, k, seed, given=bool(options.get("attach")))
    read = partial(surprisals_chunk, model, tokenizer, method=method, batch_size=batch_size, **options)
    return results(texts, read, batch_size, progress)


def surprisals_chunk(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    method: Method,
    *,
    eos: bool = False,
    attach: Attach | None = None,
    parses: int = 0,
    words: bool = False,
    batch_size: int | None = None,
    longest: int | None = None,
) -> list[list[WordSurprisal] | ValueError]:
    """`surprisals` of some sentences; where one cannot be read, or is too long, there is an error in its place."""
    sentences = [readable(tokenizer, text, eos, words, longest) for text in texts]
    good = [sentence for sentence in sentences if isinstance(sentence, Sentence)]
    if eos:
        good = [with_end(sentence, tokenizer.eos_token) for sentence in good]
    rows = iter(read_surprisals(model, tokenizer, good, method, attach or {}, parses, batch_size))
    return [next(rows) if isinstance(one, Sentence) else one for one in sentences]


def read_surprisals(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sentence],
    method: Method,
    attach: Attach,
    parses: int,
    batch_size: int | None,
) -> Iterator[list[WordSurprisal]]:
    """The words of each sentence."""
    sequences = [sentence.ids for sentence in sentences]
    depths, totals = None, None
    if method.k:
        scored = list(score(model, sequences, method, batch_size=batch_size))
        depths = [one.depths for one in scored]
        totals = [torch.tensor(one.log_probs, dtype=torch.float64) for one in scored]
    elif attach:
        depths = [forced_depths(model, sentence, attach) for sentence in sentences]
    readings = read(model, sequences, depths, batch_size)
    totals = [log_totals(reading, method) for reading in readings] if totals is None else totals
    for sentence, reading, total in zip(sentences, readings, totals, strict=True):
        if method.k and parses:
            found = best_parses(model, sentence, method, parses)
        else:
            found = attachment_parses(sentence, reading, parses)
        forced = [sentence.starts[number - 1] for number in attach]
        tokens = tokenizer.convert_ids_to_tokens(sentence.ids)
        yield word_surprisals(sentence, tokens, reading, total, forced, found)


def with_end(sentence: Sentence, eos: str) -> Sentence:
    """The sentence with EOS as its last word."""
    end = sentence.offsets[-1][1]
    place = len(sentence.ids) - 1
    words, offsets, starts = [*sentence.words, eos], [*sentence.offsets, (end, end)], [*sentence.starts, place]
    return Sentence(sentence.ids, words, offsets, starts)


def log_totals(reading: Reading, method: Method) -> Tensor:
    """(T - 1,): log-probability of each token after the first."""
    if reading.prior is None:
        return reading.words[:, 0]
    if method.name == "greedy":
        return reading.words.gather(1, reading.prior.argmax(dim=1, keepdim=True))[:, 0]
    return (reading.prior + reading.words).logsumexp(dim=1)


def word_surprisals(
    sentence: Sentence,
    tokens: Sequence[str],
    reading: Reading,
    total: Tensor,
    forced: Sequence[int],
    parses: Sequence[list[PartialParse]],
) -> list[WordSurprisal]:
    """Sums over the pieces of each word; `forced` are the places of tokens whose attachment was."""
    attach = torch.tensor(reading.depths[1:])[:, None] - 1
    lexical = reading.words.gather(1, torch.zeros_like(attach) if reading.prior is None else attach)[:, 0]
    structural = torch.zeros_like(lexical) if reading.prior is None else reading.prior.gather(1, attach)[:, 0]
    # pieces inside a word are attached by rule, and predicted by the mixture over all guesses of p'
    if reading.prior is not None and reading.inside.any():
        lexical = torch.where(reading.inside, (reading.prior + reading.words).logsumexp(dim=1), lexical)
        structural = structural.masked_fill(reading.inside, 0)
    total = total.clone()
    total[[place - 1 for place in forced]] = (structural + lexical)[[place - 1 for place in forced]]
    rows = []
    for i, (start, stop) in enumerate(word_places(sentence)):
        piece = slice(start - 1, stop - 1)
        rows.append(
            WordSurprisal(
                number=i + 1,
                word=sentence.words[i],
                start=sentence.offsets[i][0],
                end=sentence.offsets[i][1],
                tokens=" ".join(tokens[start:stop]),
                surprisal=bits(total[piece]),
                structural=None if reading.prior is None else bits(structural[piece]),
                lexical=bits(lexical[piece]),
                entropy_before=None if reading.prior is None else entropy(reading.prior[start - 1]),
                entropy_after=entropy(reading.posterior[start - 1]),
                depth=reading.depths[start],
                parses=parses[i],
            )
        )
    return rows


def word_places(sentence: Sentence) -> list[tuple[int, int]]:
    """First and 1 + last token of each word."""
    return list(zip(sentence.starts, [*sentence.starts[1:], len(sentence.ids)], strict=True))


def bits(log_probs: Tensor) -> float:
    return 0.0 - log_probs.sum().item() / log(2)


def entropy(log_probs: Tensor) -> float:
    """In bits.

    >>> round(entropy(torch.tensor([0.5, 0.5, 0.0]).log()), 6)
    1.0
    """
    return torch.special.entr(log_probs.exp()).sum().item() / log(2)


# ---------------------------------------------------------------------------------------------- partial parses


def best_parses(model: SOMForCausalLM, sentence: Sentence, method: Method, count: int) -> list[list[PartialParse]]:
    """For each word, the best of the trees that are followed so far."""
    with evaluating(model), torch.inference_mode():
        ids = torch.tensor([sentence.ids], device=model.device)
        clouds = list(method.follow(model, ids, torch.ones_like(ids)))
    return [
        [partial_parse(sentence, depths, share) for depths, share in best_trees(clouds[stop - 2], 0, count)]
        for _, stop in word_places(sentence)
    ]


def attachment_parses(sentence: Sentence, reading: Reading, count: int) -> list[list[PartialParse]]:
    """For each word, the tree before it with the best attachments of the word itself."""
    parses = []
    for start in sentence.starts:
        posterior = reading.posterior[start - 1].exp()
        shares, attach = posterior.topk(min(count, int((posterior > 0).sum())))
        best = zip(attach.tolist(), shares.tolist(), strict=True)
        parses.append([partial_parse(sentence, [*reading.depths[:start], e + 1], share) for e, share in best])
    return parses


def partial_parse(sentence: Sentence, depths: Sequence[int], probability: float) -> PartialParse:
    of_words = sentence.of_words(depths)
    return PartialParse(str(tree_from_depths(of_words, sentence.words[: len(of_words)])), of_words, probability)


# ---------------------------------------------------------------------------------------------- forced attachments


@torch.inference_mode()
def forced_depths(model: SOMForCausalLM, sentence: Sentence, attach: Attach) -> list[int]:
    """Depths of all tokens: those asked for, and greedy ones everywhere else."""
    cache, depths = SOMCache(), [0]
    ids = torch.tensor([sentence.ids], device=model.device)
    with evaluating(model):
        model.model(ids[:, :1], past_key_values=cache)
        for number, where in sorted(attach.items()):
            if not 1 <= number <= len(sentence.words):
                raise ValueError(f"word {number} cannot be attached: words are 1 to {len(sentence.words)}")
            place = sentence.starts[number - 1]
            depths += follow(model, cache, ids[:, len(depths) : place])
            assert cache.state is not None, "BOS was read"
            deepest = min(int(cache.state.depth[0]) + 1, model.config.num_slots)  # below the last word, whole
            depth = wanted_depth(sentence, depths, number, where, deepest, model.config.num_slots)
            model.model(ids[:, place : place + 1], depths=ids.new_tensor([[depth]]), past_key_values=cache)
            depths.append(depth)
        return depths + follow(model, cache, ids[:, len(depths) :])


def follow(model: SOMForCausalLM, cache: SOMCache, ids: Tensor) -> list[int]:
    """The model's own decisions for the next tokens."""
    return model.model(ids, past_key_values=cache).depths[0].tolist() if ids.shape[1] else []


def wanted_depth(
    sentence: Sentence, depths: Sequence[int], number: int, where: int | str, deepest: int, num_slots: int
) -> int:
    """The depth that is asked for, or an error that says why it cannot follow the depths before."""
    word = f"word {number} ({sentence.words[number - 1]!r})"
    if isinstance(where, int):
        if not 1 <= where <= deepest:
            raise ValueError(f"{word} cannot be put at depth {where}: here depths are 1 to {deepest}")
        return where
    match = re.fullmatch(r"word (\d+)", where)
    if not match or int(match[1]) >= number:
        raise ValueError(f"{word} attaches at a depth or to an earlier 'word N' (0 is BOS), got {where!r}")
    sister = sentence.starts[int(match[1]) - 1] if int(match[1]) else 0
    if min(depths[sister:][1:], default=deepest) <= depths[sister] or depths[sister] >= num_slots:
        raise ValueError(f"{word} cannot join what {where} begins: that is finished, or too deep")
    return depths[sister] + 1


# ---------------------------------------------------------------------------------------------- output


Sentences = Sequence[Sequence[WordSurprisal]] | Mapping[Any, Sequence[WordSurprisal]]  # or a Series of pandas


def with_names(sentences: Sentences) -> Iterator[tuple[Any, Sequence[WordSurprisal]]]:
    """The sentences with their names, which are numbers from 1 where they have no others."""
    return iter(sentences.items() if hasattr(sentences, "items") else enumerate(sentences, start=1))


def to_dicts(sentences: Sentences) -> list[dict]:
    """One record a sentence, nested, for JSON."""
    return [{"sentence": name, "words": [asdict(row) for row in rows]} for name, rows in with_names(sentences)]


def to_records(sentences: Sentences) -> list[dict]:
    """One flat record a word, with its sentence; partial parses as one text, with the last word's depth."""
    records = []
    for name, rows in with_names(sentences):
        for row in rows:
            parses = " | ".join(
                f"{parse.brackets} at {parse.depths[-1]}: {parse.probability:.3f}" for parse in row.parses
            )
            records.append({"sentence": name, **asdict(row), "parses": parses})
    return records


def to_frame(sentences: Sentences) -> DataFrame:
    """All words as a pandas table."""
    from pandas import DataFrame

    return DataFrame(to_records(sentences))


def to_tsv(sentences: Sentences, header: bool = True) -> str:
    """All words as tab-separated values with a header; numbers with four decimals."""
    text = StringIO()
    columns = ["sentence", *(column.name for column in fields(WordSurprisal))]
    writer = csv.DictWriter(text, columns, dialect="excel-tab", lineterminator="\n")
    if header:
        writer.writeheader()
    for record in to_records(sentences):
        writer.writerow({key: f"{v:.4f}" if isinstance(v, float) else v for key, v in record.items()})
    return text.getvalue()


def plot(sentences: Sequence[Sequence[WordSurprisal]]) -> Figure:
    """Surprisal by word, one panel a sentence, with the two parts behind it."""
    from matplotlib.figure import Figure

    longest = max(map(len, sentences))
    if longest > PLOTTABLE:
        raise too_long(longest, PLOTTABLE)
    if len(sentences) > PANELS:
        raise ValueError(f"{len(sentences)} sentences are too many to draw, {PANELS} the most")
    figure = Figure(figsize=(min(max(5, 0.7 * longest), 60), 2.8 * len(sentences)), layout="constrained")
    for axes, rows in zip(figure.subplots(len(sentences), squeeze=False)[:, 0], sentences, strict=True):
        places = range(len(rows))
        lexical, structural = [row.lexical for row in rows], [row.structural or 0 for row in rows]
        axes.bar(places, lexical, color="#c6d8e8", label="lexical")
        axes.bar(places, structural, bottom=lexical, color="#f0c9a0", label="structural")
        axes.plot(places, [row.surprisal for row in rows], "o-", color="#1f3b5c", label="surprisal")
        axes.set_xticks(places, [row.word for row in rows], rotation=45, ha="right", parse_math=False)  # $ is a word
        axes.set_ylabel("bits")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small")
    return figure
