from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from x2localizer.errors import UserError
from x2localizer.files import LOCK, TEMPORARY, atomic_path, only_writer, remove_unfinished, write_bytes, write_text


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b.txt", "x²")
    assert (tmp_path / "a" / "b.txt").read_text(encoding="utf-8") == "x²"
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["b.txt"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_gets_the_mode_of_the_current_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == mode


def test_a_file_that_a_library_replaced_gets_the_same_mode(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "x")
    with atomic_path(tmp_path / "b.txt") as path:
        path.unlink()
        path.write_text("x")
        path.chmod(0o600)
    assert (tmp_path / "b.txt").stat().st_mode == (tmp_path / "a.txt").stat().st_mode


def test_a_failure_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "kept.bin"
    write_bytes(target, b"old")

    def fail() -> None:
        with atomic_path(target) as path:
            path.write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["kept.bin"]


def test_a_folder_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot write"):
        write_text(tmp_path / "file" / "below.txt", "x")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    def fill() -> None:
        with atomic_path(tmp_path / "out.bin"):
            descriptor = os.open("/dev/full", os.O_WRONLY)
            try:
                os.write(descriptor, b"x")
            finally:
                os.close(descriptor)

    with pytest.raises(UserError, match="disk has space left"):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "deep" / f".video{TEMPORARY}abc.mjpeg"
    write_text(left, "half a file")
    write_text(tmp_path / "deep" / "video.mjpeg", "a whole one")
    remove_unfinished(tmp_path)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["video.mjpeg"]


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    with only_writer(tmp_path), pytest.raises(UserError, match="Another process"), only_writer(tmp_path):
        pass
    with only_writer(tmp_path):
        pass


def test_a_lock_leaves_nothing_behind(tmp_path: Path) -> None:
    with only_writer(tmp_path / "kept"):
        write_text(tmp_path / "kept" / "a.txt", "x")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["a.txt"]
    with only_writer(tmp_path / "unused"):
        pass
    assert not (tmp_path / "unused").exists()


def test_a_file_of_the_same_name_is_kept(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("mine")
    with only_writer(tmp_path), pytest.raises(UserError, match="Another process"), only_writer(tmp_path):
        pass
    assert (tmp_path / LOCK).read_text() == "mine"


def test_a_killed_writer_locks_nobody_out(tmp_path: Path) -> None:
    code = f"""
import os, pathlib
from x2localizer.files import only_writer
with only_writer(pathlib.Path({str(tmp_path)!r})):
    os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    assert (tmp_path / LOCK).exists()
    with only_writer(tmp_path):
        pass


def test_a_lock_that_its_owner_just_removed_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking the file, its owner may finish and remove it."""
    import fcntl

    plain = fcntl.flock
    calls: list[int] = []

    def late(file: IO[str], how: int) -> None:
        if not calls:
            (tmp_path / LOCK).unlink()
        calls.append(how)
        plain(file, how)

    monkeypatch.setattr("fcntl.flock", late)
    with only_writer(tmp_path), pytest.raises(UserError, match="Another process"), only_writer(tmp_path):
        pass
    assert len(calls) == 3


def test_a_file_system_without_locks_is_used_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: IO[str], how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with only_writer(tmp_path):
        write_text(tmp_path / "a.txt", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
