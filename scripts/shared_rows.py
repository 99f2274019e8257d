"""Models, data and readers that several tables share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import record
from lab import Lab
from transformers import PreTrainedTokenizerFast

from modeling_som import SOMForCausalLM
from som.baselines import BUILDERS, ShiftReduce, evaluate_words, load_baseline, score_neural, shift_reduce
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


# Measures


def evaluate_neural_run(lab: Lab, run: Path, name: str) -> dict[str, Any]:
    """The perplexity of an LSTM or a GPT-2 on EWT."""
    model, tokenizer = load_baseline(run)
    reports = evaluate_on_words(partial(score_neural, model), tokenizer, record.select_held_out(find_ewt(lab)), name)
    return {**record.describe_run(run, model), "evaluations": record.reports_to_json(reports)}


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
