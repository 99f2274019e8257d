"""What a trained SOM says of a text: its trees, its surprisals, and texts that it makes up."""

from som.inference.generation import Generated, generate
from som.inference.loading import CheckpointError, load, load_weights, quiet
from som.inference.parsing import Parse, parse, parse_all, render, tree_svg
from som.inference.pictures import longest_bar, surprisal_figure, tree_figure
from som.inference.surprisal import WordSurprisal, plot, surprisals, surprisals_all, to_dicts, to_tsv

__all__ = [
    "tree_figure",
    "tree_svg",
    "CheckpointError",
    "Generated",
    "Parse",
    "WordSurprisal",
    "generate",
    "load",
    "load_weights",
    "longest_bar",
    "parse",
    "parse_all",
    "plot",
    "quiet",
    "render",
    "surprisal_figure",
    "surprisals",
    "surprisals_all",
    "to_dicts",
    "to_tsv",
]
