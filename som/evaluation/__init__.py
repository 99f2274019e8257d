"""How good a model is: on treebanks, on SyntaxGym, on BLiMP."""

from som.evaluation.blimp import BlimpCounts, Pair, compare_likelihoods, evaluate_blimp, judge_pairs, read_blimp
from som.evaluation.competitors import comparison, comparison_table, read_competitors, syntaxgym_chart
from som.evaluation.display import cell, percent, table_of_numbers
from som.evaluation.report import Report
from som.evaluation.scorers import Scorer
from som.evaluation.suites import Suite, load_suites
from som.evaluation.syntaxgym import SyntaxGymCounts, evaluate_syntaxgym, judge_suites
from som.evaluation.treebanks import (
    LABELS,
    LENGTHS,
    SECTIONS,
    Counts,
    TreebankCounts,
    count_brackets,
    count_words,
    evaluate,
)

__all__ = [
    "BlimpCounts",
    "Counts",
    "LABELS",
    "LENGTHS",
    "Pair",
    "Report",
    "SECTIONS",
    "Scorer",
    "Suite",
    "SyntaxGymCounts",
    "TreebankCounts",
    "cell",
    "compare_likelihoods",
    "comparison",
    "comparison_table",
    "count_brackets",
    "count_words",
    "evaluate",
    "evaluate_blimp",
    "evaluate_syntaxgym",
    "judge_pairs",
    "judge_suites",
    "load_suites",
    "percent",
    "read_blimp",
    "read_competitors",
    "syntaxgym_chart",
    "table_of_numbers",
]
