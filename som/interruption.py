"""Ctrl-C that is never lost, and signals that wait until work has been saved."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from som.files import remove_unfinished


class Interrupted(KeyboardInterrupt):
    """A signal stopped the program, with a message for the user and the exit code that shells expect."""

    def __init__(self, message: str, number: int = signal.SIGINT):
        super().__init__(message)
        self.exit_code = 128 + number


class Signals:
    """Remembers the first signal, for the program to look at; a second Ctrl-C interrupts at once.

    Launchers of several processes pass Ctrl-C on, so that each process gets it twice: there a second one is the same.
    """

    def __init__(self, processes: int = 1):
        self.number: int | None = None
        self.processes = processes

    def handle(self, number: int, frame: Any) -> None:
        if self.number is not None and number == signal.SIGINT and self.processes == 1:
            raise KeyboardInterrupt
        if self.number is None and sys.stderr.isatty():
            print("stopping after the next checkpoint, which is being made; Ctrl-C again: at once", file=sys.stderr)
        self.number = self.number or number

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Where signals wait. Those that the program ignores stay ignored, and only the main thread gets any."""
        numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        before = {number: signal.getsignal(number) for number in numbers}
        heeded = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
        for number in heeded:
            signal.signal(number, self.handle)
        try:
            yield
        finally:
            for number, handler in heeded.items():
                signal.signal(number, handler)


@contextmanager
def interruptible_imports(message: str) -> Iterator[None]:
    """While a module is being imported, Ctrl-C prints a message and ends the process; otherwise it does what it did.

    Libraries import each other for seconds, and an exception that is raised there can get lost: in a destructor, or
    where a library tries whether another one is there."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if is_importing(frame):
            remove_unfinished()
            os.write(2, f"{message}\n".encode())
            os._exit(130)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def is_importing(frame: FrameType | None) -> bool:
    """Whether an import is under way here."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
