"""What SOM is compared with, one system per file."""

from som.baselines.gpt2 import GPT2, gpt2
from som.baselines.lstm import LSTMForCausalLM, lstm
from som.baselines.ngrams import KneserNey
from som.baselines.scoring import BUILDERS, evaluate_trees, evaluate_words, load_baseline, score_neural, tree_baselines
from som.baselines.shift_reduce import ShiftReduce, shift_reduce

__all__ = [
    "BUILDERS",
    "GPT2",
    "KneserNey",
    "LSTMForCausalLM",
    "ShiftReduce",
    "evaluate_trees",
    "evaluate_words",
    "gpt2",
    "load_baseline",
    "lstm",
    "score_neural",
    "shift_reduce",
    "tree_baselines",
]
