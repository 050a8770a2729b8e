"""Checksums of a gallery's files, so that damage is an error and never a wrong answer.

    checksums.json   the size and CRC-32 of every file, and the version of every table, written when a build ends

LanceDB never changes a file that it has written, apart from a hint at the latest version, so a checksum holds for as
long as its file is there. Files that are newer than the last seal have none yet. CRC-32 finds accidents (a bad disk, an
interrupted copy), at three times the speed of a cryptographic digest; it is no defence against somebody who can write
to the folder. Galleries in object stores have no checksums of ours: the stores have their own.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from x2localizer.errors import GalleryError, UserError
from x2localizer.files import only_writer, parse_json, write_text

FILE = "checksums.json"
FORMAT = 1
SMALL_BYTES = 4 << 30
"""Tables up to this size are checked as a whole when anything of them is read; 2 s at 2 GB/s."""
_CHUNK = 1 << 20
_HINT = "latest_version_hint.json"
"""The one file that LanceDB overwrites; it does without."""

Verify = Literal["used", "full", "none"]
"""How a gallery is checked as it is opened: what is read of it, all of it, or nothing."""
Progress = Callable[[int, int], None]
"""Called with the bytes done and their total."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """The size of a file in bytes, and its CRC-32."""

    size: int
    crc: int


@dataclass(frozen=True, slots=True)
class Seal:
    """What a finished build wrote: files by their path below the gallery, and the versions of tables by name."""

    files: Mapping[str, Checksum]
    versions: Mapping[str, int]

    def to_json(self) -> str:
        """As text that carries a checksum of its own."""
        files = {name: [known.size, known.crc] for name, known in sorted(self.files.items())}
        body = {"format": FORMAT, "files": files, "versions": dict(self.versions)}
        return json.dumps({**body, "crc": zlib.crc32(json.dumps(body).encode())}, indent=1) + "\n"

    def bytes_of_rows(self, name: str) -> int:
        """The size of the files that hold the rows of a table."""
        rows = f"{name}.lance/data/"
        return sum(known.size for path, known in self.files.items() if path.startswith(rows))

    @classmethod
    def from_json(cls, text: str) -> Seal:
        """From such text; what does not fit is a ValueError, KeyError or TypeError."""
        body = parse_json(text)
        crc = body.pop("crc")
        if body["format"] != FORMAT or zlib.crc32(json.dumps(body).encode()) != crc:
            raise ValueError("the checksums do not match their own")
        return cls({name: Checksum(*values) for name, values in body["files"].items()}, body["versions"])


def local_folder(address: str) -> Path | None:
    """The folder of a gallery; None if it is in an object store."""
    return None if "://" in address else Path(address)


def only_gallery_writer(address: str) -> AbstractContextManager[None]:
    """Lock a gallery for this process; there are no locks in object stores, where LanceDB's transactions have to do."""
    folder = local_folder(address)
    if folder is not None and folder.is_file():
        raise GalleryError(
            f"The gallery file {address} cannot be changed.",
            f"Unpack it first: x2l gallery import {address} --out GALLERY",
        )
    return nullcontext() if folder is None else only_writer(folder)


def read_seal(address: str) -> Seal | None:
    """The checksums of a gallery; None if it was made before there were any."""
    folder = local_folder(address)
    if folder is None or not (folder / FILE).exists():
        return None
    try:
        return Seal.from_json((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise damaged(address, f"{FILE} cannot be read") from problem


def write_seal(address: str, versions: Mapping[str, int]) -> None:
    """Write checksums of all files. Those that are known are kept, so that damage since then is not made official."""
    folder = local_folder(address)
    if folder is None:
        return
    old = read_seal(address)
    known = {} if old is None else old.files
    files = {name: known.get(name) or _checksum(folder / name) for name in stored_files(folder)}
    write_text(folder / FILE, Seal(files, versions).to_json())


def stored_files(folder: Path) -> list[str]:
    """The files of a gallery's tables that never change, by their path below the gallery."""
    paths = (path for table in sorted(folder.glob("*.lance")) for path in sorted(table.rglob("*")))
    return [path.relative_to(folder).as_posix() for path in paths if path.is_file() and path.name != _HINT]


@dataclass
class Checks:
    """Checks the tables of an open gallery, each once, when they are first read."""

    address: str
    verify: Verify = "used"
    _seal: Seal | None = field(init=False, repr=False)
    _done: set[tuple[str, bool]] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        self._seal = None if self.verify == "none" else read_seal(self.address)

    def table(self, name: str, version: Callable[[], int], *, whole: bool) -> None:
        """Raise if a table is damaged.

        version: of the table as it is now.
        whole: all of it will be read. Otherwise the rows of a large table are taken on trust: only the sizes of its
            files are compared, and all that is not rows.
        """
        if self._seal is None:
            return
        whole = whole or self.verify == "full" or self._seal.bytes_of_rows(name) <= SMALL_BYTES
        if (name, True) in self._done or (name, whole) in self._done:
            return
        problems = list(table_problems(self.address, self._seal, name, version(), whole))
        if problems:
            raise damaged(self.address, problems[0])
        self._done.add((name, whole))


def table_problems(
    address: str, seal: Seal, name: str, version: int, whole: bool, advance: Callable[[int], None] = lambda count: None
) -> Iterator[str]:
    """What is wrong with the files of a table, in words; ``advance`` is called with numbers of bytes that were read."""
    folder = Path(address)
    sealed = seal.versions.get(name)
    if sealed is not None and version < sealed:
        yield f"{name}.lance lacks its latest version"
    files = {path: known for path, known in seal.files.items() if path.startswith(f"{name}.lance/")}
    rows = f"{name}.lance/data/"
    for path, known in files.items():
        try:
            if (folder / path).stat().st_size != known.size:
                yield f"{path} has another size than it was written with"
            elif (whole or not path.startswith(rows)) and _checksum(folder / path, advance) != known:
                yield f"{path} does not match its checksum"
        except FileNotFoundError:
            if version == sealed:  # otherwise a later build has cleaned up, and was killed before it wrote checksums
                yield f"{path} is missing"
        except OSError as problem:
            yield f"{path} cannot be read ({problem.strerror or problem})"


def _checksum(path: Path, advance: Callable[[int], None] = lambda count: None) -> Checksum:
    size = crc = 0
    with path.open("rb") as data:
        while chunk := data.read(_CHUNK):
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
            advance(len(chunk))
    return Checksum(size, crc)


def damaged(address: str, why: str) -> GalleryError:
    """The error for a damaged gallery."""
    return GalleryError(
        f"The gallery {address} is damaged: {why}.",
        f"`x2l gallery verify {address}` lists all damage. Copy the gallery again from a sound copy, "
        "or index its imagery into a new one: x2l index IMAGERY --out NEW",
    )


def reading(address: str) -> AbstractContextManager[None]:
    """Turn whatever LanceDB and the decoders raise for damaged files into one error, panics of Rust included."""
    return _one_error(lambda problem: damaged(address, first_line(problem)))


def writing(address: str) -> AbstractContextManager[None]:
    """Turn whatever LanceDB raises when it cannot write into one error."""
    return _one_error(
        lambda problem: GalleryError(
            f"Cannot write to the gallery {address}: {first_line(problem)}.",
            "Check that the disk has space left, and run the same command again; it resumes.",
        )
    )


@contextmanager
def _one_error(error: Callable[[BaseException], GalleryError]) -> Iterator[None]:
    try:
        yield
    except (UserError, MemoryError):
        raise
    except BaseException as problem:
        if not _of_a_library(problem):
            raise
        raise error(problem) from problem


def _of_a_library(problem: BaseException) -> bool:
    """Whether this is an error, and not Ctrl-C; a panic of Rust is a BaseException without a public name."""
    return isinstance(problem, Exception) or type(problem).__name__ == "PanicException"


def first_line(problem: BaseException) -> str:
    """The first line of an error of LanceDB, which may have many."""
    return (str(problem).splitlines() or [type(problem).__name__])[0][:200].rstrip(".")
