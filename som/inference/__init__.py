"""Using a trained SOM: parsing, surprisal, generation."""

from som.inference.generation import Generated, generate
from som.inference.loading import CheckpointError, load, load_checkpoint, quiet
from som.inference.parsing import (
    CONLL_HEADER,
    DRAWABLE,
    Parse,
    parse,
    parse_all,
    parse_chunk,
    parse_each,
    render,
    tree_svg,
    write_parse,
)
from som.inference.pictures import longest_bar, surprisal_figure, tree_figure
from som.inference.surprisal import (
    PANELS,
    PLOTTABLE,
    WordSurprisal,
    plot,
    surprisals,
    surprisals_all,
    surprisals_chunk,
    surprisals_each,
    to_dicts,
    to_tsv,
)

__all__ = [
    "CONLL_HEADER",
    "CheckpointError",
    "DRAWABLE",
    "Generated",
    "PANELS",
    "PLOTTABLE",
    "Parse",
    "WordSurprisal",
    "generate",
    "load",
    "load_checkpoint",
    "longest_bar",
    "parse",
    "parse_all",
    "parse_chunk",
    "parse_each",
    "plot",
    "quiet",
    "render",
    "surprisal_figure",
    "surprisals",
    "surprisals_all",
    "surprisals_chunk",
    "surprisals_each",
    "to_dicts",
    "to_tsv",
    "tree_figure",
    "tree_svg",
    "write_parse",
]
