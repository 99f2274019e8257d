"""How good a model is: on treebanks, on SyntaxGym, on BLiMP."""

from som.evaluation.blimp import BlimpResult, Pair, evaluate_blimp, judge_pairs, read_blimp, score_blimp
from som.evaluation.display import cell, percent, table_of_numbers
from som.evaluation.suites import Suite, load_suites
from som.evaluation.syntaxgym import (
    Scorer,
    SyntaxGymResult,
    comparison,
    comparison_table,
    evaluate_syntaxgym,
    judge_suites,
    read_competitors,
    syntaxgym_chart,
)
from som.evaluation.treebanks import (
    LABELS,
    LENGTHS,
    SECTIONS,
    Counts,
    Report,
    count_brackets,
    count_words,
    evaluate,
    sums_by_length,
)

__all__ = [
    "BlimpResult",
    "Counts",
    "LABELS",
    "LENGTHS",
    "Pair",
    "Report",
    "SECTIONS",
    "Scorer",
    "Suite",
    "SyntaxGymResult",
    "cell",
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
    "score_blimp",
    "sums_by_length",
    "syntaxgym_chart",
    "table_of_numbers",
]
