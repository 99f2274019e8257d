"""Unlabelled bracket F1 for `evaluate.load("metrics/uf1")`; what is counted, and how, is in `som.syntax.metrics`."""

import datasets
import evaluate

from som.syntax import Brackets, Tree, binarise

DESCRIPTION = """Unlabelled bracket precision, recall and F1 of a corpus: sums over all sentences, every constituent
counted, that of the whole sentence included. Trees are bracketed strings without labels: ((the cat) (sat down))."""

INPUTS = """Args:
    predictions: bracketed trees, one string each.
    references: gold trees over the same words.
    binarised: compare with the gold trees made binary, branching to the left, instead of as they are.
Returns: f1, precision, recall (None if there is nothing to count) and the counts matched, gold, predicted."""


class UF1(evaluate.Metric):
    """The metric of the `evaluate` library around `som.syntax.metrics.Brackets`."""

    def _info(self) -> evaluate.MetricInfo:
        features = datasets.Features({"predictions": datasets.Value("string"), "references": datasets.Value("string")})
        return evaluate.MetricInfo(DESCRIPTION, citation="", inputs_description=INPUTS, features=features)

    def _compute(self, predictions: list[str], references: list[str], binarised: bool = False) -> dict:
        total = Brackets()
        for predicted, reference in zip(predictions, references, strict=True):
            gold = Tree.parse(reference)
            total += Brackets.of(binarise(gold) if binarised else gold, Tree.parse(predicted))
        ratios = {"f1": total.f1, "precision": total.precision, "recall": total.recall}
        return {**ratios, "matched": total.matched, "gold": total.gold, "predicted": total.predicted}
