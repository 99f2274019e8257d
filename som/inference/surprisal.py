"""Surprisal word by word: of one sentence or many, with attachments forced, partial parses, tables and pictures."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from modeling_som import SOMCache, SOMForCausalLM
from modeling_som.scoring_som import Method, Reading, evaluating
from modeling_som.search_som import best_trees
from modeling_som.sentences_som import Sentence
from modeling_som.surprisal_som import RankedParse, WordSurprisal, read_words, with_end, word_labels, word_places
from modeling_som.tags_som import Labels
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
from som.syntax import tree_from_depths
from som.tables import UNQUOTED, text_cell, tsv_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

PLOTTABLE = 200  # words of a sentence: more have no room in a picture
PANELS = 50  # sentences in a picture

Attach = Mapping[int, int | str]  # a word's number → its depth, or "word 3": join the constituent that word 3 begins


class SurprisalOptions(ReadOptions, total=False):
    """Options of `surprisals_all` and `surprisals_each`."""

    eos: bool
    attach: Attach | None
    parses: int


class Surprisals(list[WordSurprisal]):
    """The words of a sentence, a list that notebooks show as a picture: the tree, and what each word costs."""

    def __init__(self, rows: Iterable[WordSurprisal] = (), labels: Labels | None = None) -> None:
        super().__init__(rows)
        self.labels = labels  # of the tree, where the model knows any

    def _repr_svg_(self) -> str | None:
        """None, for text, where there is nothing to draw or no room for it."""
        from som.inference.pictures import standalone, surprisal_figure

        return standalone(surprisal_figure(self, self.labels)) if 0 < len(self) <= PLOTTABLE else None

    def _repr_html_(self) -> str | None:
        from som.inference.pictures import framed, surprisal_figure

        total = (
            f"{sum(row.surprisal for row in self):.1f} bits in all; bars: structural, then lexical; line: surprisal"
        )
        return framed(surprisal_figure(self, self.labels), total) if 0 < len(self) <= PLOTTABLE else None


def surprisals(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    text: Text,
    method: str | Method | None = None,
    **options: Unpack[SurprisalOptions],
) -> Surprisals:
    """Surprisals of a text's words, or of a list of words. Options:

    `k` and `seed` belong to the method. `eos` adds the end of the sentence. `attach` forces attachments and leaves the
    other decisions greedy: {6: 2} puts word 6 at depth 2, {6: "word 3"} makes it the sister of the constituent so far
    that word 3 begins. `parses` asks for so many partial parses per word: with `particles` or `beam`, the best trees
    found for the words so far; otherwise the greedy tree of the words before with the best attachments of this one,
    weighted by p. With `words`, the words of a list may have spaces.
    """
    return read_one(surprisals_chunk, model, tokenizer, text, method, **options)


def surprisals_all(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Texts,
    method: str | Method | None = None,
    *,
    missing: str = "error",
    **options: Unpack[SurprisalOptions],
) -> list[Surprisals]:
    """`surprisals` of many sentences, read in batches.

    A dict or a pandas Series of texts gives one of results, with the same names. Where a text is missing (None, NaN)
    there is an error, or with missing="skip" no result. Options are those of `surprisals_each`.
    """
    return read_named(texts, missing, partial(surprisals_each, model, tokenizer, method=method, **options))


def surprisals_each(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: Iterable[Text],
    method: str | Method | None = None,
    **options: Unpack[SurprisalOptions],
) -> Iterator[Surprisals]:
    """`surprisals` of sentences one after the other, for any number of them, such as the lines of a file.

    Options are those of `surprisals`. Sentences are read `batch_size` at a time (default: as many as fit), and
    `progress` shows how many.
    """
    return read_each(surprisals_chunk, model, tokenizer, texts, method, **options)


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
) -> list[Surprisals | ValueError]:
    """`surprisals` of some sentences; where one cannot be read, or is too long, there is an error in its place."""
    sentences = [readable(tokenizer, text, eos, words, longest) for text in texts]
    if eos:
        sentences = [with_end(one, tokenizer.eos_token) if isinstance(one, Sentence) else one for one in sentences]
    options = (method, attach or {}, parses, batch_size)
    return read_in_place(sentences, lambda good: read_surprisals(model, tokenizer, good, *options))


def read_surprisals(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sentence],
    method: Method,
    attach: Attach,
    parses: int,
    batch_size: int | None,
) -> Iterator[Surprisals]:
    """The words of each sentence."""
    depths = [forced_depths(model, sentence, attach) for sentence in sentences] if attach else None
    forced = [[sentence.starts[number - 1] for number in attach] for sentence in sentences]
    found = read_words(model, tokenizer, sentences, method, batch_size, depths, forced)
    for sentence, (rows, reading) in zip(sentences, found, strict=True):
        if method.k and parses:
            best = best_parses(model, sentence, method, parses)
        else:
            best = attachment_parses(sentence, reading, parses)
        with_parses = (replace(row, parses=trees) for row, trees in zip(rows, best, strict=True))
        labels = word_labels(sentence, reading, model.config.tree_tags, tokenizer.eos_token_id)
        yield Surprisals(with_parses if parses else rows, labels)


# ---------------------------------------------------------------------------------------------- partial parses


def best_parses(model: SOMForCausalLM, sentence: Sentence, method: Method, count: int) -> list[list[RankedParse]]:
    """For each word, the best of the trees that are followed so far."""
    with evaluating(model), torch.inference_mode():
        ids = torch.tensor([sentence.ids], device=model.device)
        clouds = list(method.follow(model, ids, torch.ones_like(ids)))
    return [
        [ranked_parse(sentence, depths, share) for depths, share in best_trees(clouds[stop - 2], 0, count)]
        for _, stop in word_places(sentence)
    ]


def attachment_parses(sentence: Sentence, reading: Reading, count: int) -> list[list[RankedParse]]:
    """For each word, the tree before it with the best attachments of the word itself."""
    parses = []
    for start in sentence.starts:
        posterior = reading.posterior[start - 1].exp()
        shares, attach = posterior.topk(min(count, int((posterior > 0).sum())))
        best = zip(attach.tolist(), shares.tolist(), strict=True)
        parses.append([ranked_parse(sentence, [*reading.depths[:start], e + 1], share) for e, share in best])
    return parses


def ranked_parse(sentence: Sentence, depths: Sequence[int], probability: float) -> RankedParse:
    of_words = sentence.of_words(depths)
    return RankedParse(str(tree_from_depths(of_words, sentence.words[: len(of_words)])), of_words, probability)


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
COLUMNS = [column.name for column in fields(WordSurprisal)]
MEASURES = COLUMNS[COLUMNS.index("surprisal") : COLUMNS.index("parses")]  # what spillover repeats


def with_names(sentences: Sentences) -> Iterator[tuple[Any, Sequence[WordSurprisal]]]:
    """The sentences with their names, which are numbers from 1 where they have no others."""
    return iter(sentences.items() if hasattr(sentences, "items") else enumerate(sentences, start=1))


def word_records(rows: Sequence[WordSurprisal], spillover: int = 0) -> list[dict]:
    """One record per word, with the measures of so many words before it, as `surprisal_1`, `surprisal_2` …; None where
    the sentence has no such word."""
    records = [asdict(row) for row in rows]
    before = [
        {
            f"{name}_{back}": records[i - back][name] if i >= back else None
            for back in range(1, spillover + 1)
            for name in MEASURES
        }
        for i in range(len(records))
    ]
    return [record | more for record, more in zip(records, before, strict=True)]


def to_dicts(sentences: Sentences, spillover: int = 0) -> list[dict]:
    """One record per sentence, nested, for JSON."""
    return [{"sentence": name, "words": word_records(rows, spillover)} for name, rows in with_names(sentences)]


def to_records(sentences: Sentences, spillover: int = 0) -> list[dict]:
    """One flat record per word, with its sentence; partial parses as one text, with the last word's depth."""
    records = []
    for name, rows in with_names(sentences):
        for row, record in zip(rows, word_records(rows, spillover), strict=True):
            parses = " | ".join(
                f"{parse.brackets} at {parse.depths[-1]}: {parse.probability:.3f}" for parse in row.parses
            )
            records.append({"sentence": name, **record, "parses": parses})
    return records


def to_frame(sentences: Sentences, spillover: int = 0) -> DataFrame:
    """All words as a pandas table."""
    from pandas import DataFrame

    return DataFrame(to_records(sentences, spillover))


def to_tsv(sentences: Sentences, header: bool = True, spillover: int = 0) -> str:
    """All words as tab-separated values with a header, nothing quoted; numbers with four decimals, yes and no as 1
    and 0."""
    text = StringIO()
    lagged = [f"{name}_{back}" for back in range(1, spillover + 1) for name in MEASURES]
    writer = csv.DictWriter(text, ["sentence", *COLUMNS, *lagged], **UNQUOTED)
    if header:
        writer.writeheader()
    for record in to_records(sentences, spillover):
        writer.writerow({key: tsv_value(text_cell(value, computed=True)) for key, value in record.items()})
    return text.getvalue()


def plot(sentences: Sequence[Sequence[WordSurprisal]]) -> Figure:
    """Surprisal by word, one panel per sentence, with the two parts behind it."""
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
