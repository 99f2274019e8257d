"""What SOM is compared with, one system per file."""

from som.baselines.gpt2 import GPT2, gpt2
from som.baselines.lstm import LSTMForCausalLM, lstm
from som.baselines.ngrams import KneserNey
from som.baselines.scoring import evaluate_trees, evaluate_words, score_neural, tree_baselines
from som.baselines.shift_reduce import ShiftReduce, shift_reduce
from som.baselines.spelling import Spelling, add_spelling
from som.baselines.systems import BUILDERS, SYSTEMS, System, load_baseline, system_named, system_of, train_system

__all__ = [
    "BUILDERS",
    "GPT2",
    "KneserNey",
    "LSTMForCausalLM",
    "SYSTEMS",
    "ShiftReduce",
    "Spelling",
    "System",
    "add_spelling",
    "evaluate_trees",
    "evaluate_words",
    "gpt2",
    "load_baseline",
    "lstm",
    "score_neural",
    "shift_reduce",
    "system_named",
    "system_of",
    "train_system",
    "tree_baselines",
]
