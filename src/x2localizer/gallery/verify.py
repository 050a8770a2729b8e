"""Reading all of a gallery, to find damage before it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from x2localizer.errors import GalleryError
from x2localizer.gallery.checksums import Progress, Seal, local_folder, read_seal, reading, stored_files, table_problems
from x2localizer.gallery.open import SHARED_SUFFIX, open_any
from x2localizer.gallery.share import verify_file
from x2localizer.gallery.store import Gallery


@dataclass(frozen=True, slots=True)
class Verified:
    """What a gallery looks like after all of it was read.

    problems: what is damaged, in words; none if all is well.
    files, size: how many files there are, and their bytes; 0 in an object store.
    unsealed: files without a checksum: the gallery is older than checksums, or a build was interrupted.
    """

    problems: tuple[str, ...]
    files: int
    size: int
    unsealed: int

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems


def verify(address: str, progress: Progress = lambda done, total: None) -> Verified:
    """Compare all files of a gallery with their checksums, and decode every row of every table.

    Of a gallery in one file, its tables are compared with their checksums.
    """
    if address.endswith(SHARED_SUFFIX) and Path(address).is_file():
        return _verified_file(Path(address), progress)
    folder = local_folder(address)
    if folder is not None and not any(folder.glob("*.lance")):
        raise GalleryError(f"There is no gallery at {address}.", f"Make one: x2l index IMAGERY --out {address}")
    try:
        seal = read_seal(address)
        gallery = open_any(address, verify="none")
    except GalleryError as problem:
        return Verified((problem.what,), 0, 0, 0)
    names = [] if folder is None else stored_files(folder)
    size = sum((folder / name).stat().st_size for name in names) if folder is not None else 0
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(done, size)

    problems = [] if seal is None else list(_file_problems(gallery, seal, advance))
    problems = problems or list(_row_problems(gallery))
    unsealed = len(names) if seal is None else len(set(names) - seal.files.keys())
    return Verified(tuple(problems), len(names), size, unsealed)


def _verified_file(path: Path, progress: Progress) -> Verified:
    try:
        verify_file(path, lambda what, done, total: progress(done, total))
    except GalleryError as problem:
        return Verified((problem.what,), 1, path.stat().st_size, 0)
    return Verified((), 1, path.stat().st_size, 0)


def _file_problems(gallery: Gallery, seal: Seal, advance: Callable[[int], None]) -> Iterator[str]:
    for name in sorted({path.partition(".lance/")[0] for path in seal.files}):
        try:
            version = gallery.version(name)
        except GalleryError as problem:
            yield f"{name}: {problem.what}"
            version = seal.versions.get(name, 0)
        yield from table_problems(gallery.address, seal, name, version, True, advance)


def _row_problems(gallery: Gallery) -> Iterator[str]:
    """Problems that show when rows are decoded: the only check of galleries without checksums."""
    readers: dict[str, Callable[[], object]] = {
        "tiles": lambda: sum(1 for _ in gallery.tile_blocks()),
        "pictures": lambda: [gallery.pictures([corner]) for corner in gallery.corners()],
        "regions": lambda: sum(1 for _ in gallery.region_sets()) if "regions" in gallery.manifest.codes else 0,
        "roads": gallery.roads,
    }
    for name, read in readers.items():
        try:
            with reading(gallery.address):
                read()
        except GalleryError as problem:
            yield f"{name}: {problem.what}"
