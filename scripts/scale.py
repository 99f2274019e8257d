"""What a long training would cost on GPUs, computed from counts: floating-point operations, bytes and launches.

python scripts/scale.py

Nothing here is timed. Counts of launches and waits come from the simulated device (tests/model), depths from the
treebanks, speeds of GPUs from their makers' data sheets; the share of a peak that small products reach is an
assumption. The table goes to docs/scale.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from som.cli import positive

DEPTH = 3.6  # mean depth of a token of AMALGUM, BOS at 0
REACHED = 0.4  # of the peak, by products of thousands of rows and hundreds of columns
LAUNCH_SECONDS, WAIT_SECONDS = 6e-6, 3e-5  # what the host needs to start one kernel, and to fetch one decision
LEARNING, EXPLORING_PER_WORD = 800, 62  # launches of one step, and per word of its longest sentence
WAITS_PER_WORD = 1.2


@dataclass(frozen=True)
class ModelSize:
    """Sizes of a SOM."""

    name: str
    hidden: int
    vocabulary: int
    tokens_per_word: float

    @property
    def products(self) -> float:
        """Multiply-adds per token: the cells of its path, two of the prediction network, the parsers, the output."""
        cell = 24 * self.hidden**2  # 2D → 4D → 4D
        return (DEPTH + 2) * cell + (2 * DEPTH + 1) * self.hidden**2 + self.hidden * self.vocabulary

    @property
    def operations(self) -> float:
        """Floating-point operations per token: forward and twice that backward, and exploring before that."""
        return 6 * self.products + 2 * DEPTH * 25 * self.hidden**2

    @property
    def traffic(self) -> float:
        """Bytes per token: activations of cells in half precision, logits in single precision, read and written."""
        return (DEPTH + 2) * 72 * self.hidden * 2 + 3 * self.vocabulary * 4


@dataclass(frozen=True)
class GPU:
    """Peaks of a data sheet."""

    name: str
    operations: float  # per second, bfloat16, dense
    bandwidth: float  # bytes per second


PIECES_PER_WORD = 1.24  # per word, of 16,000 byte pairs on AMALGUM, as `som prepare` counts
MODEL_SIZES = (
    ModelSize("D = 400, 23,815 words", 400, 23_815, 1.0),
    ModelSize("D = 500, 50,257 pieces", 500, 50_257, PIECES_PER_WORD),
)
GPUS = (GPU("A100 80 GB", 312e12, 2.04e12), GPU("H100 SXM", 989e12, 3.35e12))
CORPORA = {"14M": 14e6, "42M": 42e6, "1,000M": 1e9}


def step_seconds(model: ModelSize, gpu: GPU, sentences: int, length: int) -> dict[str, float]:
    """What one training step waits for: arithmetic, memory or the host."""
    tokens = sentences * length
    launches = LEARNING + EXPLORING_PER_WORD * length
    return {
        "arithmetic": tokens * model.operations / (REACHED * gpu.operations),
        "memory": tokens * model.traffic / gpu.bandwidth,
        "launches": launches * LAUNCH_SECONDS + WAITS_PER_WORD * length * WAIT_SECONDS,
    }


def cost_table(sentences: int, length: int) -> Iterator[str]:
    """One row per model and GPU: what limits a step, its speed, and the hours of an epoch on one GPU and on eight."""
    hours = [f"{corpus} words, {count} GPU{'s' * (count > 1)}" for corpus in CORPORA for count in (1, 8)]
    yield "| | GPU | limit | tokens/s | " + " | ".join(hours) + " |"
    yield "| --- | --- | --- |" + " ---: |" * (1 + len(hours))
    for model in MODEL_SIZES:
        for gpu in GPUS:
            seconds = step_seconds(model, gpu, sentences, length)
            limit = max(seconds, key=seconds.__getitem__)
            speed = sentences * length / (max(seconds["arithmetic"], seconds["memory"]) + seconds["launches"])
            cells = [
                words * model.tokens_per_word / speed / count / 3600 for words in CORPORA.values() for count in (1, 8)
            ]
            shown = " | ".join(f"{cell:.2f} h" for cell in cells)
            yield f"| {model.name} | {gpu.name} | {limit} | {speed:,.0f} | {shown} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=positive, default=64, help="in a step, per GPU (64)")
    parser.add_argument("--length", type=positive, default=24, help="of sentences, in tokens (24)")
    print(*cost_table(**vars(parser.parse_args())), sep="\n")
