"""Atomic writes and locks: a crash leaves the old file or the new file, never half of either."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from x2localizer.errors import UserError

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, nothing stops a second writer
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
TEMPORARY = "-writing-"
"""Part of the name of every unfinished file."""


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """A temporary path beside ``target``, which it replaces when the block ends without an error.

    The temporary has the target's suffix, because some libraries choose a format by it.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        name = f".{target.stem}{TEMPORARY}{secrets.token_hex(4)}{target.suffix}"
        temporary = target.parent.absolute() / name  # absolute, as FFmpeg reads "a:b.mp4" as a protocol
        temporary.touch(exist_ok=False)
        mode = stat.S_IMODE(temporary.stat().st_mode)  # what the umask leaves of 0o666
    except OSError as problem:
        raise cannot_write(target, problem) from problem
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(mode)  # some libraries replace the file by one that only its owner can read
        temporary.replace(target)
    except OSError as problem:
        raise cannot_write(target, problem) from problem
    finally:
        temporary.unlink(missing_ok=True)


def holds_other_files(folder: Path) -> bool:
    """Whether a folder holds more than an interrupted run leaves behind: a lock, links and unfinished files."""
    if not folder.is_dir():
        return folder.exists()
    return any(item.name != LOCK and TEMPORARY not in item.name and not item.is_symlink() for item in folder.iterdir())


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; a second writer gets an error. The lock ends with the block or the process.

    The lock file is removed at the end, and so is the folder if it was made for the lock and stayed empty. What
    ``kill -9`` leaves behind is a file that locks nobody out.
    """
    there = folder.exists()
    lock = _locked(folder)
    try:
        yield
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)  # while it is still ours
        lock.close()
        if not there:
            with suppress(OSError):
                folder.rmdir()


def _locked(folder: Path) -> IO[str]:
    """The lock file of a folder, open and locked."""
    flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.fdopen(os.open(folder / LOCK, flags, 0o644), "r+")
        except OSError as problem:
            raise cannot_write(folder, problem) from problem
        if fcntl is None:
            return lock
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            lock.close()
            raise UserError(
                f"Another process is writing to {folder}.", "Wait until it is done, or choose another folder."
            ) from problem
        except OSError:
            return lock  # a file system without locks: better to work without one than not at all
        try:
            if os.path.samestat(os.fstat(lock.fileno()), (folder / LOCK).stat()):
                return lock
        except FileNotFoundError:
            pass
        lock.close()  # its owner removed it just before we locked it


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files that a killed process left in a folder."""
    for left in folder.rglob(".*" + TEMPORARY + "*"):
        left.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write a text file atomically, as UTF-8."""
    with atomic_path(target) as path:
        path.write_text(text, encoding="utf-8")


def write_bytes(target: Path, data: bytes) -> None:
    """Write a binary file atomically."""
    with atomic_path(target) as path:
        path.write_bytes(data)


def cannot_write(target: Path, problem: OSError) -> UserError:
    """The error to raise when ``target`` cannot be written: a read-only folder, a full disk, a file in the way."""
    if isinstance(problem, FileExistsError | NotADirectoryError):
        return UserError(f"Cannot write {target}: a file is where a folder should be.", "Choose another path.")
    return UserError(
        f"Cannot write {target}: {problem.strerror or problem}.",
        "Check that the folder is writable and the disk has space left.",
    )
