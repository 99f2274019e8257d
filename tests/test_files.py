"""What happens to the files that users name for output."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from som import files
from som.files import write_whole


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.fixture
def umask():
    """A umask that keeps everything from others."""
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.parametrize("content", ["trees", b"trees"])
def test_a_file_is_replaced_and_nothing_else_is_left_in_its_folder(tmp_path, content):
    for _ in range(2):
        write_whole(tmp_path / "out", content)
        assert (tmp_path / "out").read_text() == "trees"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.usefixtures("umask")
def test_permissions_are_those_of_the_former_file_or_of_the_umask(tmp_path):
    (tmp_path / "secret").write_text("old")
    (tmp_path / "secret").chmod(0o600)
    for name in ("secret", "new"):
        write_whole(tmp_path / name, "trees")
    assert (mode(tmp_path / "secret"), mode(tmp_path / "new")) == (0o600, 0o640)


@pytest.mark.parametrize("target", ["elsewhere/file", "elsewhere/new"])
def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path, target):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("old")
    (tmp_path / "link").symlink_to(target)
    write_whole(tmp_path / "link", "trees")
    assert os.readlink(tmp_path / "link") == target
    assert (tmp_path / target).read_text() == "trees"


def test_links_that_lead_to_themselves_are_an_error(tmp_path):
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(OSError, match="link"):
        write_whole(tmp_path / "link", "trees")
    assert (tmp_path / "link").is_symlink()


def test_a_link_under_the_name_of_a_scratch_file_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("old")
    (tmp_path / ".out.new").symlink_to("precious")
    write_whole(tmp_path / "out", "trees")
    assert (tmp_path / "precious").read_text() == "old" and (tmp_path / ".out.new").is_symlink()


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_whole(tmp_path / "pipe", "trees")
    reader.join()
    assert read == ["trees"] and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_device_is_written_to_and_stays_a_device(tmp_path):
    (tmp_path / "null").symlink_to(os.devnull)  # as root, a wrong implementation would replace the device itself
    write_whole(tmp_path / "null", "trees")
    assert (tmp_path / "null").is_symlink() and stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.parametrize("name", ["stdout", "out"])
@pytest.mark.parametrize("to_file", [True, False])
def test_the_file_that_standard_output_goes_to_gets_everything_in_order(tmp_path, name, to_file):
    (tmp_path / "stdout").symlink_to("/dev/stdout")  # a link, for the same reason
    lines = f"print('before')\nwrite_whole({name!r}, 'trees\\n')\nprint('after')"
    program = [sys.executable, "-c", f"from files import write_whole\n{lines}"]
    alone = {**os.environ, "PYTHONPATH": str(Path(files.__file__).parent)}  # importing the package takes long
    with open(tmp_path / "out", "w") as out:
        done = subprocess.run(program, cwd=tmp_path, env=alone, check=True, stdout=out if to_file else subprocess.PIPE)
    printed = (tmp_path / "out").read_bytes() if to_file else done.stdout
    assert printed == (b"before\nafter\n" if name == "out" and not to_file else b"before\ntrees\nafter\n")


@pytest.mark.parametrize("link", [False, True])
def test_an_open_file_is_written_to_where_it_is_open(tmp_path, link):
    (tmp_path / "log").write_text("before\n")
    number = (tmp_path / "log").stat().st_ino
    descriptor = os.open(tmp_path / "log", os.O_WRONLY | os.O_APPEND)
    name = f"/dev/fd/{descriptor}"
    if link:
        (tmp_path / "link").symlink_to(name)
    try:
        for _ in range(2):
            write_whole(tmp_path / "link" if link else name, "trees\n")
        os.write(descriptor, b"after\n")
    finally:
        os.close(descriptor)
    assert (tmp_path / "log").read_text() == "before\ntrees\ntrees\nafter\n"
    assert (tmp_path / "log").stat().st_ino == number


def test_what_is_unfinished_can_be_removed(tmp_path):
    with files.whole_file(tmp_path / "out") as out:
        out.write(b"half")
        assert len(list(tmp_path.iterdir())) == 1
        files.remove_unfinished()
        assert list(tmp_path.iterdir()) == []
        (scratch,) = files.UNFINISHED
        scratch.touch()  # which the block expects at its end
    assert set() == files.UNFINISHED


def test_a_former_file_stays_when_the_new_one_cannot_be_written(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError("No space left on device")

    (tmp_path / "out").write_text("old")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left on device"):
        write_whole(tmp_path / "out", "trees")
    assert (tmp_path / "out").read_text() == "old" and [path.name for path in tmp_path.iterdir()] == ["out"]
