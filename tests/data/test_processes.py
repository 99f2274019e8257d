import os
import signal
import subprocess
import sys
import time

import pytest

from som.data.processes import AHEAD, shared


def double(number):
    if number == 40:
        raise ValueError("forty")
    time.sleep(0.01 if number % 3 else 0)
    return 2 * number


@pytest.mark.parametrize("num_proc", [1, 2])
def test_results_keep_the_order_and_things_are_read_as_they_are_needed(num_proc):
    things = iter(range(100))
    with shared(double, num_proc) as doubled:
        assert next(doubled(things)) == 0
        assert next(things) <= num_proc * AHEAD + 1
        assert list(doubled(range(30))) == list(range(0, 60, 2))


@pytest.mark.parametrize("num_proc", [1, 2])
def test_an_error_is_raised_where_its_result_would_be(num_proc):
    with shared(double, num_proc) as doubled:
        results = doubled(range(100))
        assert [next(results) for _ in range(40)] == list(range(0, 80, 2))
        with pytest.raises(ValueError, match="forty"):
            next(results)


SCRIPT = """
import os, time
from som.data.processes import shared

def wait(_):
    print(os.getpid(), flush=True)
    time.sleep(60)

if __name__ == "__main__":
    with shared(wait, 2) as waiting:
        list(waiting(range(2)))
"""


def alive(number):
    """Whether there is such a process, and it has not ended."""
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")
def test_the_processes_end_with_the_one_that_started_them(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "script.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        workers = [int(process.stdout.readline()) for _ in range(2)]
        assert all(map(alive, workers))
        process.send_signal(signal.SIGKILL)
        process.wait()
        limit = time.monotonic() + 10
        while any(map(alive, workers)) and time.monotonic() < limit:
            time.sleep(0.05)
        assert not any(map(alive, workers))
