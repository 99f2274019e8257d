"""One function, applied to many things by several processes."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import parent_process
from threading import Thread
from typing import Any

AHEAD = 4  # things that are read for each process before the first of them is done

_function: Callable[[Any], Any]  # of this process


@contextmanager
def shared(function: Callable[[Any], Any], num_proc: int) -> Iterator[Callable[[Iterable[Any]], Iterator[Any]]]:
    """`map` of the function, by as many processes: results keep the order, and things are read as they are needed.

    >>> with shared(abs, num_proc=1) as absolute:
    ...     list(absolute([-1, 2]))
    [1, 2]
    """
    if num_proc == 1:
        yield partial(map, function)
        return
    with ProcessPoolExecutor(num_proc, initializer=_start, initargs=(function,)) as pool:
        try:
            yield partial(_in_order, pool, num_proc * AHEAD)
        except BaseException:  # also Ctrl-C: what has not begun need not be done
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _in_order(pool: ProcessPoolExecutor, ahead: int, things: Iterable[Any]) -> Iterator[Any]:
    waiting: deque[Future] = deque()
    for thing in things:
        waiting.append(pool.submit(_call, thing))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _start(function: Callable[[Any], Any]) -> None:
    """Takes the function, once; Ctrl-C is for the process that started this one, which ends with it."""
    global _function
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent_process().join()  # type: ignore[union-attr]  # there is one
    os._exit(1)


def _call(thing: Any) -> Any:
    return _function(thing)
