"""How good a model is: on treebanks, on SyntaxGym, on BLiMP; and how well its measures predict reading times."""

from som.evaluation.blimp import BlimpCounts, Pair, compare_likelihoods, evaluate_blimp, judge_pairs, read_blimp
from som.evaluation.competitors import comparison, comparison_table, read_competitors, syntaxgym_chart
from som.evaluation.display import cell, percent, table_of_numbers
from som.evaluation.garden_paths import (
    SHIPPED_ITEMS,
    GardenPathReport,
    garden_path_effects,
    garden_path_figure,
    read_items,
)
from som.evaluation.reading import ReadingReport, ReadingSettings, evaluate_reading, read_frame, reading_figure
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
    count_likelihood,
    evaluate,
)

__all__ = [
    "BlimpCounts",
    "Counts",
    "GardenPathReport",
    "LABELS",
    "LENGTHS",
    "Pair",
    "ReadingReport",
    "ReadingSettings",
    "Report",
    "SECTIONS",
    "SHIPPED_ITEMS",
    "Scorer",
    "Suite",
    "SyntaxGymCounts",
    "TreebankCounts",
    "cell",
    "compare_likelihoods",
    "comparison",
    "comparison_table",
    "count_brackets",
    "count_likelihood",
    "evaluate",
    "evaluate_blimp",
    "evaluate_reading",
    "evaluate_syntaxgym",
    "garden_path_effects",
    "garden_path_figure",
    "judge_pairs",
    "judge_suites",
    "load_suites",
    "percent",
    "read_blimp",
    "read_competitors",
    "read_frame",
    "read_items",
    "reading_figure",
    "syntaxgym_chart",
    "table_of_numbers",
]
