"""Every system of the comparison tables, SOM included, under one interface: one entry of `SYSTEMS` each.

`som train --system NAME` builds and trains an entry's model. `som evaluate RUN` finds the entry by the model class
that the run's config.json names, and measures its model. To add a system:

1. Write `som/baselines/NAME.py` with three things: a strict configuration with a `model_type` of its own, a
   `PreTrainedModel` with that `config_class` and a class name of its own, and a builder, (settings, tokenizer) → new
   model, with about as many parameters as a SOM of that hidden size. `forward` takes a training batch (`input_ids`,
   `attention_mask`, `labels`, `first_sibling`, each (B, T), padded on the right; see `som.data.SOMCollator`) and
   `**kwargs`, which it hands to its loss (`num_items_in_batch`). A model that is no SOM returns `loss` and `logits`
   alone: validation computes the perplexity from `logits`, and takes further outputs for those of a SOM's parsers
   (see `som.training.validation`).
2. Give it a `score`: `score_neural` for every model whose logits at token t predict token t + 1.
3. If it has trees, either fill in `Scored.depths` or give it `trees`.
4. Add a `System` to the table below. Nothing else is needed: training, resuming, evaluation and the tests in
   `tests/baselines/test_systems.py`, which run over the whole table, then know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from modeling_som import SOMForCausalLM
from modeling_som.scoring_som import Scored, score
from modeling_som.sentences_som import Sentence, encode
from som.baselines.distances import distance_trees
from som.baselines.gpt2 import GPT2, gpt2
from som.baselines.lstm import LSTMForCausalLM, lstm
from som.baselines.onlstm import ONLSTMForCausalLM, ONLSTMSYDForCausalLM, onlstm, onlstm_syd
from som.baselines.ordered_memory import OrderedMemoryForCausalLM, ordered_memory, ordered_memory_trees
from som.baselines.prpn import PRPNForCausalLM, prpn
from som.baselines.rnng import RNNGForCausalLM, rnng, score_rnng
from som.baselines.scoring import score_neural
from som.baselines.shift_reduce import ShiftReduce, shift_reduce
from som.baselines.shift_reduce_lm import ShiftReduceLM, shift_reduce_lm
from som.baselines.urnng import URNNGForCausalLM, urnng, urnng_trees
from som.evaluation import (
    BlimpCounts,
    Counts,
    Pair,
    Report,
    Suite,
    SyntaxGymCounts,
    TreebankCounts,
    count_brackets,
    count_likelihood,
    judge_pairs,
    judge_suites,
)
from som.inference import load_checkpoint
from som.syntax import Example, Tree, tree_from_depths
from som.training import Builder, make_model, recorded_system, train

# settings that mean nothing to a model that is no SOM; the others either hold for all or are about batches and steps
SOM_SETTINGS = ("dsom", "syntactic_size", "oracle", "prediction_network", "next_attachment", "start", "teachers")


@dataclass(frozen=True)
class System:
    """How a system is built, trained and measured."""

    name: str  # on the command line
    build: Builder  # (settings, tokenizer) → a new model
    model_class: type[PreTrainedModel]  # what saved models are loaded with
    # (model, sequences of ids from BOS on) → what each token after the first costs, in the order of the sequences;
    # depths as those of a SOM, one per token, or [] where the system has no trees or gives them through `trees`
    score: Callable[[Any, Sequence[Sequence[int]]], Iterator[Scored]]
    # (model, sentences) → a binary tree over the words of each sentence
    trees: Callable[[Any, Sequence[Sentence]], Iterator[Tree]] | None = None
    # defaults of a new run: any arguments of `make_settings`, such as beta1
    defaults: Mapping[str, Any] = field(default_factory=dict)
    # whose trained models a run may begin with; SOMs begin with SOMs
    starts_with: type[PreTrainedModel] | None = None

    @property
    def is_som(self) -> bool:
        """Whether its model is a SOM, with methods of scoring, gold trees and two parsers to measure."""
        return issubclass(self.model_class, SOMForCausalLM)

    @property
    def has_beam(self) -> bool:
        """Whether it is an RNNG, which is always read by beam search."""
        return issubclass(self.model_class, RNNGForCausalLM)

    def with_beam(self, k: int) -> System:
        """The same RNNG, of which k trees are kept after each word."""
        return replace(self, score=partial(score_rnng, word_beam=k))

    def evaluate(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, examples: Sequence[Example], name: str
    ) -> Report[TreebankCounts]:
        """Perplexity on a treebank, and brackets where the system has trees."""
        sentences = [encode(tokenizer, example.words) for example in examples]
        scored = list(self.score(model, [sentence.ids for sentence in sentences]))
        trees = self.trees_of(model, sentences, scored)
        counts = (count_scored(*one) for one in zip(examples, scored, trees, strict=True))
        return Report(name, self.name, TreebankCounts.of(examples, counts))

    def trees_of(
        self, model: PreTrainedModel, sentences: Sequence[Sentence], scored: Sequence[Scored]
    ) -> Iterator[Tree | None]:
        """One tree per sentence; None where the system has none."""
        if self.trees is not None:
            yield from self.trees(model, sentences)
            return
        for sentence, one in zip(sentences, scored, strict=True):
            depths = sentence.of_words(one.depths)
            yield tree_from_depths(depths, sentence.words) if depths else None

    def evaluate_syntaxgym(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, suites: Sequence[Suite]
    ) -> Report[SyntaxGymCounts]:
        return judge_suites(partial(self.score, model), tokenizer, suites, self.name)

    def evaluate_blimp(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair]
    ) -> Report[BlimpCounts]:
        return judge_pairs(partial(self.score, model), tokenizer, pairs, self.name)


def count_scored(example: Example, scored: Scored, tree: Tree | None) -> Counts:
    """The counts of one sentence."""
    words = Counts(sentences=1) + count_likelihood(example, scored)
    return words if tree is None else words + count_brackets(example, tree)


# momentum helps where the path of gradients does not change from step to step
MOMENTUM = {"beta1": 0.9}
NO_WORDS = {"prediction_network": False, "lm_loss_weight": 0.0}  # predicts no words
SYSTEMS = {
    system.name: system
    for system in (
        System("som", make_model, SOMForCausalLM, score),
        System("lstm", lstm, LSTMForCausalLM, score_neural, defaults=MOMENTUM),
        System("gpt2", gpt2, GPT2, score_neural, defaults=MOMENTUM),
        System("onlstm", onlstm, ONLSTMForCausalLM, score_neural, distance_trees, MOMENTUM),
        System("onlstm-syd", onlstm_syd, ONLSTMSYDForCausalLM, score_neural, distance_trees, MOMENTUM),
        System("prpn", prpn, PRPNForCausalLM, score_neural, distance_trees, MOMENTUM),
        System("shift-reduce", shift_reduce, ShiftReduce, score, defaults=NO_WORDS),
        System("shift-reduce-lm", shift_reduce_lm, ShiftReduceLM, score),
        System("om", ordered_memory, OrderedMemoryForCausalLM, score_neural, ordered_memory_trees),
        System("rnng", rnng, RNNGForCausalLM, score_rnng, defaults=MOMENTUM),
        System("urnng", urnng, URNNGForCausalLM, score_rnng, urnng_trees, MOMENTUM, RNNGForCausalLM),
    )
}
BUILDERS = {name: system.build for name, system in SYSTEMS.items()}


def system_named(name: str) -> System:
    if name not in SYSTEMS:
        raise ValueError(f"system must be one of {', '.join(SYSTEMS)}, got {name!r}")
    return SYSTEMS[name]


def system_of(path: str | Path | None) -> System:
    """The system whose model a checkpoint holds; SOM where that cannot be told, whose loading then says why."""
    try:
        classes = PreTrainedConfig.get_config_dict(path)[0]["architectures"] if path is not None else []
    except Exception:  # whatever is wrong with config.json, `load` reports it
        classes = []
    return next((one for one in SYSTEMS.values() if [one.model_class.__name__] == classes), SYSTEMS["som"])


def load_baseline(run: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """The trained model of any system, and its tokenizer."""
    return load_checkpoint(run, system_of(run).model_class)


def train_system(
    name: str | None, data: str | Path, out: str | Path, *, resume: bool = False, **given: Any
) -> dict[str, Any]:
    """`som.training.train` of a system: SOM by default, and the run's own where one is resumed."""
    recorded = recorded_system(Path(out)) if resume else None
    system = system_named(name or recorded or "som")
    own = SOM_SETTINGS if system.is_som else ("start",) if system.starts_with else ()
    if foreign := [setting for setting in SOM_SETTINGS if setting in given and setting not in own]:
        raise ValueError(f"{foreign[0]} is a setting of SOMs, which the system {system.name} does not have")
    if recorded is None:
        given = {**system.defaults, **given}
    kind = system.starts_with or SOMForCausalLM
    return train(data, out, resume=resume, build=system.build, system=system.name, starts_with=kind, **given)
