"""Reading times: what surprisal, its parts, entropies and node counts of several models say of Natural Stories.

python scripts/open_reading.py
python scripts/tables.py

The regression is that of `som reading`; its frequencies are of the words of UD English EWT and AMALGUM, for all models
alike. Models of a million words are those of scripts/open_xs.py: rows whose model is not trained yet are left out.
GPT-3's values come with the data. The trees of SOMs are compared with Natural Stories' own.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
import sys
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from math import log
from pathlib import Path
from typing import Any

import open_xs
import pandas as pd
import record
from datasets import load_from_disk
from lab import Lab, make_parser, run_in_lab
from transformers import PreTrainedTokenizerFast

from modeling_som import SOMForCausalLM
from modeling_som.counts_som import WordCounts
from modeling_som.sentences_som import Sentence, encode, joined_offsets
from modeling_som.surprisal_som import word_places
from modeling_som.tokenization_som import load_tokenizer
from som.baselines import KneserNey, load_baseline, score_neural
from som.data import SUMMARY
from som.evaluation import ReadingSettings, Scorer, evaluate, evaluate_reading
from som.evaluation.reading import with_spillover
from som.files import write_whole
from som.inference import load, surprisal_table
from som.inference.loading import SHIPPED

SENTENCE = ["story", "sent"]  # the columns that tell sentences apart
REGRESSION = ReadingSettings(time="mean_log_rt", log=False, group="story", sentence="sent", measures=["surprisal"])
OF_SOMS = [  # beside surprisal
    "structural",
    "lexical",
    "structural+lexical",
    "entropy_before+entropy_after",
    "next_entropy",
    "entropy_reduction",
    "closed+opened",
    "open",
]
FREQUENCIES = ("ud/en_ewt-ud-train.conllu.gz", "amalgum/train-sm.conllu.gz")
PLACE = re.compile(r"/\d+\.\d+(?:\.\w+)?(?=\))")  # of a leaf of a Penn tree: /story.zone


# Data


def read_stories(lab: Lab) -> pd.DataFrame:
    """One row per word as it was shown, with times and the predictors of the baseline.

    Words that GPT-3 has no value for, or for one of the words before that count too, have no time: so all models are
    tried on the same ones."""
    file = record.check_file(lab.data / "naturalstories" / "words.tsv.gz")
    words = pd.read_csv(file, sep="\t", quoting=csv.QUOTE_NONE, keep_default_na=False, na_values=[""])
    if lab.sentences:
        words = words[words.groupby(SENTENCE, sort=False).ngroup() < lab.sentences]
    unknown = words[["gpt3_logprob"]].isna().astype(float)
    spoilt = with_spillover(unknown, [words[name] for name in SENTENCE], REGRESSION.spillover).max(axis=1) > 0
    counts = count_words_of_files(tuple(record.check_file(lab.data / name) for name in FREQUENCIES))
    return words.assign(
        length=words["word"].str.len(),
        log_frequency=[rarest(counts, tokens.split()) for tokens in words["tokens"]],
        mean_log_rt=words["mean_log_rt"].mask(spoilt),
    )


@cache
def count_words_of_files(files: record.Files) -> WordCounts:
    """The words of CoNLL-U files."""
    return WordCounts(Counter(word for file in files for word in forms(file)))


def forms(file: Path) -> Iterator[str]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            number, _, rest = line.partition("\t")
            if number.isdecimal():
                yield rest.partition("\t")[0]


def rarest(counts: WordCounts, words: Sequence[str]) -> float:
    """The log frequency of the rarest word that has a letter or digit, as regions of `som surprisal` have it."""
    spoken = [word for word in words if any(map(str.isalnum, word))] or words
    return min(map(counts.log_frequency, spoken))


def find_treebanks(lab: Lab) -> dict[str, record.Files]:
    """Natural Stories' trees: hand-corrected ones in Penn's style, and their conversion to UD."""
    file = record.check_file(lab.data / "naturalstories" / "stories-penn.mrg.gz")
    plain = lab.runs / "treebanks" / "naturalstories-penn.mrg"
    plain.parent.mkdir(parents=True, exist_ok=True)
    text = " ".join(PLACE.sub("", gzip.decompress(file.read_bytes()).decode()).split())
    write_whole(plain, text.replace(" (ROOT", "\n(ROOT") + "\n")
    return {
        "Penn": record.shorten(lab, "naturalstories-penn-short", (plain,)),
        "UD": record.find_treebank(lab, "naturalstories/stories-ud.conllu.gz"),
    }


# Measures


def add_som_measures(stories: pd.DataFrame, model: SOMForCausalLM, tokenizer: PreTrainedTokenizerFast) -> pd.DataFrame:
    """The columns of `som surprisal` for the words as they were shown."""
    found = surprisal_table(model, tokenizer, stories[[*SENTENCE, "word"]], "word", sentence_columns=SENTENCE)
    names = dict.fromkeys(name for measure in ("surprisal", *OF_SOMS) for name in measure.split("+"))
    return stories.assign(**{name: found[name].to_numpy() for name in names})


def add_surprisal_column(stories: pd.DataFrame, scorer: Scorer, tokenizer: PreTrainedTokenizerFast) -> pd.DataFrame:
    """Surprisal in bits by any model that scores tokens."""
    sentences = [list(words) for _, words in stories.groupby(SENTENCE, sort=False)["word"]]
    encoded = [encode(tokenizer, " ".join(words), eos=False) for words in sentences]
    scored = scorer([sentence.ids for sentence in encoded])
    rows = zip(sentences, encoded, scored, strict=True)
    return stories.assign(surprisal=[bits for one in rows for bits in region_bits(one[0], one[1], one[2].log_probs)])


def region_bits(words: Sequence[str], sentence: Sentence, log_probs: Sequence[float]) -> list[float]:
    """Of each word as it was shown, what its tokens cost."""
    starts = [start for start, _ in joined_offsets(words)]
    sums = [0.0] * len(words)
    for (start, _), (first, stop) in zip(sentence.offsets, word_places(sentence), strict=True):
        sums[bisect(starts, start) - 1] -= sum(log_probs[first - 1 : stop - 1]) / log(2)
    return sums


def regress(stories: pd.DataFrame, others: Sequence[str] = ()) -> dict[str, Any]:
    """ΔLL per 1,000 words of surprisal and other measures, p of each, and the whole report.

    A measure may be without use for a model: a left-branching one has always the same depth."""
    report = evaluate_reading(stories, REGRESSION).to_json()
    useless = {}
    for name in others:
        try:
            report["measures"] |= evaluate_reading(stories, replace(REGRESSION, measures=[name])).to_json()["measures"]
        except ValueError as error:
            useless[name] = str(error)
    found = report["measures"]
    deltas = {name: one["delta_ll_per_1000"] for name, one in found.items()}
    chances = {name: one["p"] for name, one in found.items()}
    return {"measures": deltas, "p": chances, "without_use": useless, "report": report}


# Rows


def measure_som(lab: Lab, folder: Path, seed: int) -> dict[str, Any]:
    model, tokenizer = load(folder)
    reading = regress(add_som_measures(read_stories(lab), model, tokenizer), OF_SOMS)
    trees = {
        name: evaluate(model, tokenizer, record.read_examples(files), name=name)
        for name, files in find_treebanks(lab).items()
    }
    return {"parameters": model.num_parameters(), "evaluations": {"reading": reading, **record.reports_to_json(trees)}}


def measure_neural(lab: Lab, folder: Path, seed: int) -> dict[str, Any]:
    model, tokenizer = load_baseline(folder)
    reading = regress(add_surprisal_column(read_stories(lab), partial(score_neural, model), tokenizer))
    return {"parameters": model.num_parameters(), "evaluations": {"reading": reading}}


def measure_ngrams(lab: Lab, folder: Path, seed: int) -> dict[str, Any]:
    """Of the order that open_xs.py has found best."""
    tokenizer, sentences = load_tokenizer(folder), list(load_from_disk(str(folder))["train"]["input_ids"])
    order = json.loads(find_ngrams_result(lab).read_text(encoding="utf-8"))["order"]
    stories = add_surprisal_column(read_stories(lab), KneserNey(sentences, len(tokenizer), order), tokenizer)
    return {"order": order, "evaluations": {"reading": regress(stories)}}


def measure_gpt3(lab: Lab, seed: int) -> dict[str, Any]:
    stories = read_stories(lab)
    return {"evaluations": {"reading": regress(stories.assign(surprisal=-stories["gpt3_logprob"] / log(2)))}}


def find_ngrams_result(lab: Lab) -> Path:
    return record.result_file(lab, "open_xs", "Kneser-Ney", 0)


def find_models(lab: Lab) -> dict[str, tuple[Callable[[Lab, Path, int], dict[str, Any]], Path]]:
    """How each model is measured, and where it is, if it has been trained."""
    data = lab.runs / "data" / open_xs.data_name("SOM")
    measures = {"SOM": measure_som, "left-branching": measure_som, "LSTM": measure_neural, "GPT-2": measure_neural}
    million = {name: (measure, record.run_folder(lab, data, name, 0)) for name, measure in measures.items()}
    models = {"SOM, shipped": (measure_som, SHIPPED), **million, "Kneser-Ney": (measure_ngrams, data)}
    return {name if name.endswith("shipped") else f"{name}, a million words": one for name, one in models.items()}


def is_there(lab: Lab, folder: Path) -> bool:
    if folder.parent.name == "data":
        return (folder / SUMMARY).is_file() and find_ngrams_result(lab).is_file()
    return (folder / "model.safetensors").is_file()


def rows(lab: Lab) -> record.TableRows:
    """All rows; a result of another shipped model than today's does not count."""
    weights = hashlib.sha256((SHIPPED / "model.safetensors").read_bytes()).hexdigest()[:12]
    made = {
        name: record.TableRow(partial(measure, lab, folder), {"weights": weights} if folder == SHIPPED else {})
        for name, (measure, folder) in find_models(lab).items()
    }
    return {**made, "GPT-3 (davinci)": record.TableRow(partial(measure_gpt3, lab))}


def fill(lab: Lab) -> None:
    """Measure the rows whose model is there."""
    missing = {name: folder for name, (_, folder) in find_models(lab).items() if not is_there(lab, folder)}
    for name, folder in missing.items():
        print(f"{name}: left out, scripts/open_xs.py has not made {folder}", flush=True)
    found = rows(lab)
    wanted = [name for name in lab.only or found if name not in missing]
    if wanted:
        record.fill_table(replace(lab, only=wanted), found)


def run(argv: Sequence[str] | None = None) -> int:
    return run_in_lab(fill, Path(__file__).stem, make_parser(__doc__, open_data=True), argv)


if __name__ == "__main__":
    sys.exit(run())
