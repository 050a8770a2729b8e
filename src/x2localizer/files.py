"""Writing files so that a crash leaves the old file or the new one, never half of one."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from x2localizer.errors import UserError

try:
    import fcntl
except ImportError:  # Windows has no such locks; two writers there are the user's own care
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
TEMPORARY = "-writing-"
"""Part of the name of every file that is not finished."""


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Hand out a temporary path beside ``target``; when the block ends well it takes the target's place.

    The temporary keeps the target's suffix, so that libraries which choose a format by name choose the same.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        name = f".{target.stem}{TEMPORARY}{secrets.token_hex(4)}{target.suffix}"
        temporary = target.parent.absolute() / name  # absolute: FFmpeg takes "a:b.mp4" for a protocol
        temporary.touch(exist_ok=False)
        mode = stat.S_IMODE(temporary.stat().st_mode)  # what the umask leaves of 0o666
    except OSError as problem:
        raise cannot_write(target, problem) from problem
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(mode)  # some libraries put a private file in its place
        temporary.replace(target)
    except OSError as problem:
        raise cannot_write(target, problem) from problem
    finally:
        temporary.unlink(missing_ok=True)


def holds_other_files(folder: Path) -> bool:
    """Whether a folder holds more than what an interrupted run leaves: its lock, links, and unfinished files."""
    if not folder.is_dir():
        return folder.exists()
    return any(item.name != LOCK and TEMPORARY not in item.name and not item.is_symlink() for item in folder.iterdir())


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; a second writer gets a clear error. The lock goes with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
        lock = os.fdopen(os.open(folder / LOCK, flags, 0o644), "r+")
    except OSError as problem:
        raise cannot_write(folder, problem) from problem
    with lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as problem:
                raise UserError(
                    f"Another process is writing to {folder}.", "Wait for it, or choose another folder."
                ) from problem
        yield


def remove_unfinished(folder: Path) -> None:
    """Remove temporary files that a killed process left behind in a folder of ours."""
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
    """The error for a folder that is read-only or a disk that is full."""
    if isinstance(problem, FileExistsError | NotADirectoryError):
        return UserError(f"Cannot write {target}: there is a file where a folder should be.", "Choose another path.")
    return UserError(
        f"Cannot write {target}: {problem.strerror or problem}.",
        "Check that the folder is writable and the disk has room.",
    )
