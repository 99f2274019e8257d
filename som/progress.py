"""How far a long piece of work is: a bar in a terminal, and in a log file a line every so often."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 30.0  # between the lines in a log file; the demo lowers it


class Progress:
    """Counts what is done, and says so on standard error; also while nothing is finished for long."""

    def __init__(self, what: str, total: int | None = None, unit: str = "sentences"):
        self.what, self.total, self.unit = what, total, unit
        self.count, self.started, self.over = 0, time.monotonic(), threading.Event()

    def update(self, count: int = 1) -> None:
        self.count += count

    def line(self) -> str:
        """The state in words, for a log file.

        >>> Progress("som parse", total=2000).line()
        'som parse: 0 of 2,000 sentences [0:00]'
        """
        minutes, seconds = divmod(round(time.monotonic() - self.started), 60)
        of = "" if self.total is None else f" of {self.total:,}"
        done = f" {self.count:,}{of} {self.unit}" if self.unit else " still at work"
        return f"{self.what}:{done} [{minutes}:{seconds:02}]"

    def tell(self) -> None:
        """The lines of a log file, until the work is over."""
        while not self.over.wait(SECONDS):
            print(self.line(), file=sys.stderr, flush=True)


class Bar(Progress):
    """The same in a terminal, as a bar that tqdm draws."""

    def __init__(self, what: str, total: int | None = None, unit: str = "sentences"):
        super().__init__(what, total, unit)
        from tqdm.auto import tqdm

        self.bar = tqdm(desc=what, total=total, unit=f" {unit}", leave=False, delay=1)

    def update(self, count: int = 1) -> None:
        super().update(count)
        self.bar.update(count)


@contextmanager
def progress(what: str, total: int | None = None, unit: str = "sentences", shown: bool = True) -> Iterator[Progress]:
    """Shows progress while the work in its block goes on; `unit` is what `update` counts, empty for nothing."""
    if not shown:
        yield Progress(what, total, unit)
        return
    if sys.stderr.isatty():
        bar = Bar(what, total, unit)
        try:
            yield bar
        finally:
            bar.bar.close()
        return
    lines = Progress(what, total, unit)
    thread = threading.Thread(target=lines.tell, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        lines.over.set()
        thread.join()  # no line comes after the work
