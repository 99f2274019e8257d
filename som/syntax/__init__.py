"""Trees, treebanks and measures, readable without knowing torch: the standard library alone."""

from som.syntax.grammar import builtin_treebank
from som.syntax.labels import HEAD as HEAD_TAG
from som.syntax.labels import NO_CHAIN, PARTIAL, ROOT, Tags, dependency_tags, universal
from som.syntax.metrics import (
    Accuracy,
    Brackets,
    Perplexity,
    evalb_line,
    left_branching_tree,
    random_tree,
    right_branching_tree,
)
from som.syntax.oracle import ORACLES, first_siblings, gold_depths, oracle_labels, tree_from_depths
from som.syntax.treebanks import (
    CONVERSION_VERSION,
    HEAD,
    Example,
    TreebankError,
    check_heads,
    clean_word,
    listed_files,
    parse_text,
    read_file,
    read_text,
    read_treebank,
    to_conllu,
    treebank_files,
    wsj_files,
)
from som.syntax.trees import Bracket, Event, Tree, binarise, escape

__all__ = [
    "escape",
    "HEAD_TAG",
    "NO_CHAIN",
    "PARTIAL",
    "ROOT",
    "Tags",
    "dependency_tags",
    "universal",
    "Accuracy",
    "Bracket",
    "Brackets",
    "CONVERSION_VERSION",
    "Event",
    "Example",
    "HEAD",
    "ORACLES",
    "Perplexity",
    "Tree",
    "TreebankError",
    "binarise",
    "builtin_treebank",
    "check_heads",
    "clean_word",
    "evalb_line",
    "first_siblings",
    "gold_depths",
    "left_branching_tree",
    "listed_files",
    "oracle_labels",
    "parse_text",
    "random_tree",
    "read_file",
    "read_text",
    "read_treebank",
    "right_branching_tree",
    "to_conllu",
    "tree_from_depths",
    "treebank_files",
    "wsj_files",
]
