"""Atomic writes and locks: a crash leaves the old file or the new file, never half of either. And bounded reads."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from x2localizer.errors import UserError

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows has no such locks: there, nothing stops a second writer
    fcntl = None

LOCK = ".lock"
TEMPORARY = "-writing-"
"""Part of the name of every unfinished file."""
MOST_JSON_BYTES = 64 << 20
DEEPEST_JSON = 32
MOST_DIGITS = 40
"""Limits on files of settings and manifests; the deepest of ours has eight levels, and whole numbers fit in 64 bits."""


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
            if os.fstat(lock.fileno()).st_size == 0:  # otherwise somebody else's file has that name
                (folder / LOCK).unlink(missing_ok=True)  # while it is still ours
        lock.close()
        if not there:
            with suppress(OSError):
                folder.rmdir()


def _locked(folder: Path) -> IO[str]:
    """The lock file of a folder, open and locked."""
    if fcntl is None:
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / LOCK).open("a")
    flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.fdopen(os.open(folder / LOCK, flags, 0o644), "r+")
        except OSError as problem:
            raise cannot_write(folder, problem) from problem
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


def read_bounded(path: Path, most_bytes: int) -> str:
    """The text of a small file in UTF-8; a larger one is a ValueError, before anything is parsed."""
    if path.stat().st_size > most_bytes:
        raise ValueError(f"{path} is larger than {most_bytes:,} bytes")
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)  # a device has no size
    if len(data) > most_bytes:
        raise ValueError(f"{path} is larger than {most_bytes:,} bytes")
    return data.decode("utf-8")


def read_json(path: Path, most_bytes: int = MOST_JSON_BYTES) -> Any:
    """What a JSON file holds; one that is too large, too deep or no JSON is a ValueError."""
    return parse_json(read_bounded(path, most_bytes))


def parse_json(text: str) -> Any:
    """What JSON text holds; text nested deeper, or with more digits, than in any file of ours is a ValueError."""
    try:
        values = json.loads(text, parse_int=_whole_number)
    except RecursionError as problem:
        raise ValueError("it is nested too deep") from problem
    level = [values]
    for _ in range(DEEPEST_JSON):
        level = [item for branch in level for item in _below(branch)]
        if not level:
            return values
    raise ValueError("it is nested too deep")


def _whole_number(text: str) -> int:
    if len(text) > MOST_DIGITS:  # it would be an error wherever it becomes a float
        raise ValueError("a number has too many digits")
    return int(text)


def _below(branch: Any) -> Iterable[Any]:
    return branch.values() if isinstance(branch, dict) else branch if isinstance(branch, list) else ()


def cannot_write(target: Path, problem: OSError) -> UserError:
    """The error to raise when ``target`` cannot be written: a read-only folder, a full disk, a file in the way."""
    if isinstance(problem, FileExistsError | NotADirectoryError):
        return UserError(f"Cannot write {target}: a file is where a folder should be.", "Choose another path.")
    return UserError(
        f"Cannot write {target}: {problem.strerror or problem}.",
        "Check that the folder is writable and the disk has space left.",
    )
