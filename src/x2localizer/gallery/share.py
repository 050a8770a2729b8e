"""A gallery in one file, to be opened elsewhere.

    gallery.json    what it is: format, manifest, and the rows, size and SHA-256 of each table
    tiles.arrow     a table each, as an Arrow stream
    pictures.arrow, regions.arrow, roads.arrow

An ``.x2g`` file is a zip archive of these members and no others, without compression: nothing in it names a path, and
nothing is larger than it looks. The same gallery gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from x2localizer import __version__
from x2localizer.errors import GalleryError
from x2localizer.files import atomic_path, parse_json
from x2localizer.gallery.checksums import only_gallery_writer
from x2localizer.gallery.columns import schema
from x2localizer.gallery.copying import tables_of, write_copy
from x2localizer.gallery.grid import HALVES
from x2localizer.gallery.manifest import FORMAT as GALLERY_FORMAT
from x2localizer.gallery.manifest import NO_MANIFEST, GalleryManifest
from x2localizer.gallery.object_store import is_object_store
from x2localizer.gallery.open import SHARED_SUFFIX, open_gallery
from x2localizer.gallery.store import Gallery
from x2localizer.types import Progress

FORMAT = 1
ABOUT = "gallery.json"
ROWS_AT_ONCE = 16
"""Of a table, which a reader holds in memory: 4 MB of tiles in eight headings."""
MOST_ABOUT_BYTES = 64 << 20
"""Bytes of the description; one of a gallery of 100,000 files of imagery has 20 MB."""


@dataclass(frozen=True, slots=True)
class SharedTable:
    """A table in a file: how many rows and bytes it has, and their SHA-256."""

    rows: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SharedFile:
    """What a file says of itself.

    identity: a digest of the description, and so of everything in the file.
    """

    manifest: GalleryManifest
    tables: dict[str, SharedTable]
    identity: str

    @property
    def size(self) -> int:
        """Bytes of all tables."""
        return sum(table.size for table in self.tables.values())


def export(address: str, out: Path, progress: Progress = lambda what, done, total: None) -> SharedFile:
    """Write a finished gallery into one file; of local imagery and roads only the names of the files go with it."""
    if out.suffix != SHARED_SUFFIX:
        raise GalleryError(f"'{out}' is not a name for a gallery file.", f"Let it end in {SHARED_SUFFIX}.")
    gallery = open_gallery(address)
    manifest = _without_paths(gallery.manifest)
    names = tables_of(manifest)
    tables = {}
    with atomic_path(out) as path, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as file:
        for i, name in enumerate(names):
            with file.open(_member(f"{name}.arrow"), "w", force_zip64=True) as member:
                tables[name] = _write_table(gallery, name, member)
            progress("tables", i + 1, len(names))
        about = {
            "format": FORMAT, "made by": f"x2localizer {__version__}", "manifest": json.loads(manifest.to_json()),
            "tables": {name: [table.rows, table.size, table.sha256] for name, table in tables.items()},
        }  # fmt: skip
        text = json.dumps(about, indent=1).encode()
        file.writestr(_member(ABOUT), text)
    return SharedFile(manifest, tables, _identity(text))


def unpack(path: Path, out: str, progress: Progress = lambda what, done, total: None) -> Gallery:
    """Make a gallery of a file, after its checksums were compared."""
    with only_gallery_writer(out):
        return _unpack(path, out, progress)


def _unpack(path: Path, out: str, progress: Progress) -> Gallery:
    """The same in a folder that is locked already."""
    with _opened(path) as file:
        shared = _verified(path, file, progress)
        _insist_on_space(out, shared.size)
    tables = {name: _as_tables(rows_of(path, shared, name)) for name in shared.tables}
    return write_copy(out, shared.manifest, tables)


def describe_file(path: Path) -> SharedFile:
    """What a file says of itself, without reading its tables."""
    with _opened(path) as file:
        return _about(path, file)


def verify_file(path: Path, progress: Progress = lambda what, done, total: None) -> SharedFile:
    """What a file says of itself, after all of it was compared with its checksums."""
    with _opened(path) as file:
        return _verified(path, file, progress)


class _Hashing:
    """A file to write to that counts and digests what passes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.size, self.digest, self.closed = file, 0, hashlib.sha256(), False

    def write(self, data: bytes) -> int:
        """Write some bytes."""
        view = memoryview(data)
        self.size += view.nbytes
        self.digest.update(view)
        self._file.write(view)
        return view.nbytes

    def flush(self) -> None:
        """Nothing is held back."""


def _write_table(gallery: Gallery, name: str, member: IO[bytes]) -> SharedTable:
    sink, rows = _Hashing(member), 0
    with pa.ipc.new_stream(sink, schema(gallery.manifest, name)) as stream:
        for some in gallery.rows(name):
            stream.write_table(some, max_chunksize=ROWS_AT_ONCE)
            rows += some.num_rows
    return SharedTable(rows, sink.size, sink.digest.hexdigest())


def _member(name: str) -> zipfile.ZipInfo:
    """A member of the archive with a fixed date: the same gallery is the same file."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def _without_paths(manifest: GalleryManifest) -> GalleryManifest:
    """A manifest that names local files without their folders: what is handed on tells nothing of this machine."""
    return replace(
        manifest,
        sources=tuple(replace(source, imagery=_file_name(source.imagery)) for source in manifest.sources),
        roads=tuple(replace(source, path=_file_name(source.path)) for source in manifest.roads),
    )


def _file_name(path: str) -> str:
    return path if "://" in path or path.startswith("/vsi") else Path(path).name


def _identity(about: bytes) -> str:
    return hashlib.sha256(about).hexdigest()


def _opened(path: Path) -> zipfile.ZipFile:
    if not path.is_file():
        raise GalleryError(f"There is no gallery file {path}.", "Check the path.")
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as problem:
        raise _damaged(path, "it is truncated, or no gallery file at all") from problem


def _about(path: Path, file: zipfile.ZipFile) -> SharedFile:
    """The description of a file; members that do not belong, or are not what they claim to be, are refused."""
    members = {member.filename: member for member in file.infolist()}
    if len(members) != len(file.infolist()) or ABOUT not in members or members[ABOUT].file_size > MOST_ABOUT_BYTES:
        raise _damaged(path, f"it has no proper {ABOUT}")
    if any(member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1 for member in members.values()):
        raise _damaged(path, "its members are compressed or encrypted")
    try:
        text = file.read(ABOUT)
        about = parse_json(text.decode())
        version = about["format"]
        manifest = GalleryManifest.from_json(json.dumps(about["manifest"]))
        tables = {name: SharedTable(*values) for name, values in about["tables"].items()}
    except (zipfile.BadZipFile, OSError, *NO_MANIFEST) as problem:
        raise _damaged(path, f"{ABOUT} makes no sense") from problem
    if version != FORMAT or manifest.format != GALLERY_FORMAT:
        raise GalleryError(
            f"{path} has format {version} with a gallery of format {manifest.format}; "
            f"this version reads {FORMAT} with {GALLERY_FORMAT}.",
            "Update x2localizer, or ask for an export by this version.",
        )
    if set(tables) != set(tables_of(manifest)) or set(members) != {ABOUT, *(f"{name}.arrow" for name in tables)}:
        raise _damaged(path, "it has other tables than it says")
    return SharedFile(manifest, tables, _identity(text))


def _verified(path: Path, file: zipfile.ZipFile, progress: Progress) -> SharedFile:
    """The description of a file whose tables match their checksums."""
    shared = _about(path, file)
    for i, name in enumerate(shared.tables):
        _verify_table(path, file, shared, name)
        progress("checksums", i + 1, len(shared.tables))
    return shared


def verify_table(path: Path, shared: SharedFile, name: str) -> None:
    """Compare a table with its checksum."""
    with _opened(path) as file:
        _verify_table(path, file, shared, name)


def _verify_table(path: Path, file: zipfile.ZipFile, shared: SharedFile, name: str) -> None:
    digest, size = hashlib.sha256(), 0
    try:
        with file.open(f"{name}.arrow") as member:
            while chunk := member.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
    except (zipfile.BadZipFile, OSError, EOFError, KeyError) as problem:
        raise _damaged(path, f"its {name} cannot be read") from problem
    if (size, digest.hexdigest()) != (shared.tables[name].size, shared.tables[name].sha256):
        raise _damaged(path, f"its {name} do not match their checksum")


def rows_of(path: Path, shared: SharedFile, name: str) -> Iterator[pa.RecordBatch]:
    """The rows of a table; whatever a crafted file may hold, they have the columns and sizes of a gallery."""
    wanted = schema(shared.manifest, name)
    sizes = {"tiles": HALVES * HALVES, "regions": shared.manifest.region_tiles**2}
    rows = 0
    try:
        with _opened(path) as file, file.open(f"{name}.arrow") as member, pa.ipc.open_stream(member) as stream:
            if stream.schema != wanted:
                raise _damaged(path, f"its {name} have other columns")
            for batch in stream:
                batch.validate(full=True)
                if name in sizes and not pc.all(pc.equal(pc.binary_length(batch["valid"]), sizes[name])).as_py():
                    raise _damaged(path, f"its {name} have another size")
                rows += batch.num_rows
                yield batch
    except (pa.ArrowException, zipfile.BadZipFile, OSError, ValueError, KeyError) as problem:
        raise _damaged(path, f"its {name} cannot be read") from problem
    if rows != shared.tables[name].rows:
        raise _damaged(path, f"its {name} have {rows} rows instead of {shared.tables[name].rows}")


def _as_tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    for batch in batches:
        yield pa.Table.from_batches([batch])


def _insist_on_space(out: str, size: int) -> None:
    if is_object_store(out):
        return
    folder = next(parent for parent in (Path(out).absolute(), *Path(out).absolute().parents) if parent.is_dir())
    free = shutil.disk_usage(folder).free
    if size > free:
        raise GalleryError(
            f"The gallery takes {size / 1e9:.1f} GB, and {folder} has {free / 1e9:.1f} GB left.",
            "Free some space, or choose another place (X2L_CACHE for files that are opened where they are).",
        )


def _damaged(path: Path, why: str) -> GalleryError:
    return GalleryError(
        f"The gallery file {path} is damaged: {why}.", "Copy or download it again, or ask for a new export."
    )
