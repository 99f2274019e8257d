"""What commands say of words that a model has never seen."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from som.inference import WordSurprisal


@dataclass
class Unknown:
    """How many words were not in the training data, and what that means for their surprisal."""

    command: str
    classes: bool  # whether unknown words share classes
    words: int = 0
    unknown: int = 0
    counted: bool = True

    @classmethod
    def of(cls, tokenizer: Any, command: str) -> Unknown:
        return cls(command, classes=hasattr(tokenizer, "word_id"))

    def count(self, rows: Sequence[WordSurprisal]) -> None:
        words = [row for row in rows if row.length]  # not EOS
        self.words += len(words)
        self.unknown += sum(bool(row.unknown) for row in words)
        self.counted = self.counted and all(row.unknown is not None for row in words)

    def report(self) -> None:
        if not self.counted:
            message = "this checkpoint has no word counts: unknown and log_frequency are empty"
        elif self.unknown:
            own = "each has its own probability, from its pieces, and unknown only says that it is new"
            shared = "the number of each that is not in the vocabulary is that of its class, such as UNK-LC-ing"
            message = f"{self.unknown} of {self.words} words are not in the training data: "
            message += shared if self.classes else own
        else:
            return
        print(f"som {self.command}: {message}", file=sys.stderr)
