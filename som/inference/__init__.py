"""What a trained SOM says of a text: its trees, its surprisals, and texts that it makes up."""

from som.inference.generation import Generated, generate
from som.inference.loading import CheckpointError, load, load_checkpoint, quiet
from som.inference.parsing import Parse, parse, parse_all, render, tree_svg
from som.inference.surprisal import WordSurprisal, plot, surprisals, surprisals_all, to_dicts, to_tsv

__all__ = [
    "tree_svg",
    "CheckpointError",
    "Generated",
    "Parse",
    "WordSurprisal",
    "generate",
    "load",
    "load_checkpoint",
    "parse",
    "parse_all",
    "plot",
    "quiet",
    "render",
    "surprisals",
    "surprisals_all",
    "to_dicts",
    "to_tsv",
]
