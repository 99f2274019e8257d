"""Nothing mixes tensors of the host with those of a device: checked on a simulated one, where there is no other."""

import subprocess
import sys
from pathlib import Path


def test_the_model_computes_on_another_device_what_it_computes_on_the_cpu():
    """In a process of its own, since torch then has an accelerator for all tests of the process."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
    file = Path(__file__).with_name("device_checks.py")
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, cwd=file.parent.parent)
    assert done.returncode == 0, done.stdout
