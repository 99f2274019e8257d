"""Models, data and readers that several tables share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import record
from datasets import load_from_disk
from lab import Lab
from transformers import PreTrainedTokenizerFast

from modeling_som import SOMForCausalLM
from modeling_som.tokenization_som import load_tokenizer
from som.baselines import (
    BUILDERS,
    KneserNey,
    ShiftReduce,
    System,
    evaluate_words,
    load_baseline,
    score_neural,
    shift_reduce,
)
from som.evaluation import Pair, Report, Scorer, judge_pairs, judge_suites, load_suites, read_blimp
from som.training import Builder, make_model

THREE = (0, 1, 2)
MODELS: dict[str, dict[str, Any]] = {  # of UD English EWT
    "SOM": {},
    "SOM, oracle's next attachment": {"next_attachment": "oracle"},
    "SOM, marginal next attachment": {"next_attachment": "marginal"},
    "dSOM": {"dsom": True},
    "left-branching": {"oracle": "left_branching"},
}
BARE = {"prediction_network": False}
PARSER = {**BARE, "lm_loss_weight": 0.0}  # predicts no words


@dataclass(frozen=True)
class Variant:
    """A trained model, and how it is read."""

    model: str
    settings: dict[str, Any] = field(default_factory=dict)  # of `som train`
    method: str = "greedy"
    gold: bool = False  # the trees are given
    tokenizer: str = "word"
    seeds: Sequence[int] = (0,)


ABLATION = {
    "SOM": Variant("SOM", seeds=THREE),
    "− prediction network": Variant("no prediction network", BARE, seeds=THREE),
    "− prediction network − LM loss": Variant("no LM loss", PARSER, seeds=THREE),
    "static oracle": Variant("static oracle", {"oracle": "static"}),
    "left-branching oracle": Variant("left-branching", MODELS["left-branching"], seeds=THREE),
    "oracle as printed": Variant("oracle as printed", {"oracle": "dynamic_paper"}),
    "gold trees at inference": Variant("SOM", gold=True, seeds=THREE),
    "dSOM": Variant("dSOM", MODELS["dSOM"], seeds=THREE),
    "bpe:8000": Variant("SOM", tokenizer="bpe:8000"),
    **{
        f"next attachment {name}, {method}": Variant(model, MODELS[model], method, seeds=THREE)
        for name, model in zip(("sampled", "oracle", "marginal"), MODELS, strict=False)
        for method in ("greedy", "marginal", "particles")
        if (name, method) != ("sampled", "greedy")  # the first row
    },
}


# Data


def find_ewt(lab: Lab) -> dict[str, record.Files]:
    """UD English EWT by split."""
    names = {"train": "train", "validation": "dev", "test": "test"}
    return {split: record.find_treebank(lab, f"ud/en_ewt-ud-{name}.conllu.gz") for split, name in names.items()}


def find_amalgum(lab: Lab, train: str) -> dict[str, record.Files]:
    """AMALGUM by split; there are two training splits."""
    names = {"train": train, "validation": "dev", "test": "test"}
    return {split: record.find_treebank(lab, f"amalgum/{name}.conllu.gz") for split, name in names.items()}


def prepare_ewt(lab: Lab, tokenizer: str = "word") -> Path:
    return record.prepare_once(lab, f"ewt-{tokenizer.replace(':', '')}", find_ewt(lab), tokenizer=tokenizer)


def read_pairs(lab: Lab) -> list[Pair]:
    """All pairs of BLiMP, or for a trial some of every kind."""
    pairs = list(read_blimp(record.check_file(lab.data / "blimp" / "blimp.jsonl.gz")))
    return pairs[:: max(1, len(pairs) // lab.sentences)] if lab.sentences else pairs


# Models


def builder_and_kind(name: str) -> tuple[Builder, type[SOMForCausalLM]]:
    """What builds the model of a row, and what reads it."""
    return (shift_reduce, ShiftReduce) if name == "shift-reduce" else (make_model, SOMForCausalLM)


NEURAL = {"LSTM": "lstm", "GPT-2": "gpt2"}
RATES = {"LSTM": (1e-3, 3e-3, 1e-2), "GPT-2": (3e-4, 1e-3, 3e-3)}
ORDERS = (2, 3, 4, 5, 6)  # of n-grams of EWT
OWN = {"beta1": 0.9, "dropout": 0.2}  # momentum is welcome, as no path changes; dropout stands in fewer places


def train_neural(lab: Lab, name: str, seed: int, rate: float) -> Path:
    settings = {**OWN, "learning_rate": rate}
    return record.train_or_resume(lab, prepare_ewt(lab), f"{name} {rate:g}", seed, BUILDERS[NEURAL[name]], **settings)


def train_with_best_rate(lab: Lab, name: str, seed: int) -> Path:
    return train_neural(lab, name, seed, find_best_rate(lab, name))


def find_best_rate(lab: Lab, name: str) -> float:
    """The learning rate that is best for the first seed, as its result says or as its trainings show."""
    file = record.result_file(lab, "open_language_models", name, THREE[0])
    if file.is_file():
        result = json.loads(file.read_text(encoding="utf-8"))
        if result["settings"] == lab.sizes:
            return result["training"]["learning_rate"]
    return min(RATES[name], key=lambda rate: record.validation_ppl(train_neural(lab, name, THREE[0], rate)))


def find_best_ngrams(
    data: Path, validation: record.Files, orders: Sequence[int]
) -> tuple[KneserNey, dict[int, float]]:
    """The n-grams of the order that has the lowest perplexity on the validation split, and what each order has."""
    tokenizer, sentences = load_tokenizer(data), list(load_from_disk(str(data))["train"]["input_ids"])
    models = {order: KneserNey(sentences, len(tokenizer), order) for order in orders}
    tried = {
        order: evaluate_words(model, tokenizer, record.read_examples(validation), f"{order}-gram", "validation")
        for order, model in models.items()
    }
    perplexities = {order: float(report.measures()["ppl"] or "inf") for order, report in tried.items()}
    return models[min(perplexities, key=perplexities.__getitem__)], perplexities


# Measures


def measure_ngrams(
    lab: Lab, data: Path, treebanks: dict[str, record.Files], orders: Sequence[int], blimp: bool
) -> dict[str, Any]:
    """The figures of the best n-grams on treebanks, one of them the validation split, and on syntax."""
    model, tried = find_best_ngrams(data, treebanks["validation"], orders)
    tokenizer, method = load_tokenizer(data), f"{model.order}-gram"
    words = evaluate_on_words(model, tokenizer, treebanks, method)
    syntax = evaluate_on_syntax(lab, model, tokenizer, method, blimp)
    about = {"order": model.order, "tried": tried, "vocabulary": len(tokenizer)}
    return {**about, "evaluations": record.reports_to_json({**words, **syntax})}


def evaluate_neural_run(lab: Lab, run: Path, name: str) -> dict[str, Any]:
    """The perplexity of an LSTM or a GPT-2 on EWT."""
    model, tokenizer = load_baseline(run)
    reports = evaluate_on_words(partial(score_neural, model), tokenizer, record.select_held_out(find_ewt(lab)), name)
    return {**record.describe_run(run, model), "evaluations": record.reports_to_json(reports)}


def evaluate_system(
    lab: Lab,
    run: Path,
    data: Path,
    system: System,
    treebanks: dict[str, record.Files],
    words: bool = True,
    pairs: Sequence[Pair] = (),
) -> dict[str, Any]:
    """The figures of any system on treebanks and, if it predicts words, on syntax."""
    model, tokenizer = load_baseline(run)
    reports: dict[str, Report] = {
        name: system.evaluate(model, tokenizer, record.read_examples(files), name) for name, files in treebanks.items()
    }
    if words:
        suites = load_suites(lab.data / "syntaxgym" / "suites")
        reports["syntaxgym"] = system.evaluate_syntaxgym(model, tokenizer, suites)
    if pairs:
        reports["blimp"] = system.evaluate_blimp(model, tokenizer, pairs)
    about = record.describe_with_speed(run, model, data)
    return {**about, "evaluations": record.reports_to_json(reports)}


def evaluate_on_words(
    scorer: Scorer, tokenizer: PreTrainedTokenizerFast, treebanks: dict[str, record.Files], method: str
) -> dict[str, Report]:
    """Perplexity on treebanks of what knows no trees."""
    return {
        name: evaluate_words(scorer, tokenizer, record.read_examples(files), method, name)
        for name, files in treebanks.items()
    }


def evaluate_on_syntax(
    lab: Lab, scorer: Scorer, tokenizer: PreTrainedTokenizerFast, method: str, blimp: bool = True
) -> dict[str, Report]:
    """SyntaxGym, and BLiMP unless it is left out."""
    suites, pairs = load_suites(lab.data / "syntaxgym" / "suites"), read_pairs(lab) if blimp else []
    reports: dict[str, Report] = {"syntaxgym": judge_suites(scorer, tokenizer, suites, method)}
    return {**reports, "blimp": judge_pairs(scorer, tokenizer, pairs, method)} if blimp else reports
