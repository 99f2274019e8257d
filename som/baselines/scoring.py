"""Scores of what a SOM is compared with: language models, n-grams, and simple trees.

Everything that predicts words is a scorer, sequences of ids to `Scored`, and can be measured like a SOM:
`evaluate_words`, `som.evaluation.judge_suites`, `som.evaluation.judge_pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

import torch
import torch.nn.functional as F
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modeling_som.scoring_som import BATCH_TOKENS, Scored, batches, evaluating
from modeling_som.sentences_som import encode
from som.evaluation import Counts, Report, Scorer, TreebankCounts, count_brackets, count_likelihood
from som.syntax import Example, Tree, binarise, left_branching_tree, random_tree, right_branching_tree


@torch.inference_mode()
def score_neural(model: PreTrainedModel, sequences: Sequence[Sequence[int]]) -> Iterator[Scored]:
    """Scores sequences of ids, in their order; padding on the right, which causal models do not see."""
    results: dict[int, Scored] = {}
    with evaluating(model):  # type: ignore[arg-type]  # only switches to evaluation
        for batch in batches(sequences, None, BATCH_TOKENS // 4, model.device):
            logits = model(input_ids=batch.ids).logits[:, :-1].float()  # (B, T - 1, V)
            nats = F.cross_entropy(logits.transpose(1, 2), batch.ids[:, 1:], reduction="none")
            for place, row in zip(batch.places, (-nats).tolist(), strict=True):
                results[place] = Scored(row[: len(sequences[place]) - 1], depths=[])
    for place in range(len(sequences)):
        yield results.pop(place)


def evaluate_words(
    scorer: Scorer, tokenizer: PreTrainedTokenizerFast, examples: Sequence[Example], method: str, name: str
) -> Report[TreebankCounts]:
    """Perplexity on a treebank of what knows no trees."""
    scored = scorer([encode(tokenizer, example.words, words=True).ids for example in examples])
    counts = (Counts(sentences=1) + count_likelihood(*one) for one in zip(examples, scored, strict=True))
    return Report(name, method, TreebankCounts.of(examples, counts))


def evaluate_trees(
    parse: Callable[[Example], Tree], examples: Sequence[Example], method: str, name: str
) -> Report[TreebankCounts]:
    """Brackets on a treebank of what predicts no words."""
    counts = (Counts(sentences=1) + count_brackets(example, parse(example)) for example in examples)
    return Report(name, method, TreebankCounts.of(examples, counts))


def tree_baselines(seed: int = 0) -> dict[str, Callable[[Example], Tree]]:
    """Trees that need no learning, and the best that binary trees can be."""
    random = Random(seed)
    return {
        "left-branching trees": lambda example: left_branching_tree(example.words),
        "right-branching trees": lambda example: right_branching_tree(example.words),
        "random trees": lambda example: random_tree(example.words, random),
        "oracle binary trees": lambda example: binarise(example.tree),
    }
