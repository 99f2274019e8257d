"""What a trained SOM says of a text: its trees, its surprisals, and texts that it makes up."""

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
    "write_parse",
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
    "parse",
    "parse_all",
    "parse_chunk",
    "parse_each",
    "plot",
    "quiet",
    "render",
    "surprisals",
    "surprisals_all",
    "surprisals_chunk",
    "surprisals_each",
    "to_dicts",
    "to_tsv",
    "tree_svg",
]
