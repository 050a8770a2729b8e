"""Opening galleries: finished ones to read, others to add to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from x2localizer.encoders import Encoder
from x2localizer.errors import GalleryError
from x2localizer.gallery.checksums import Checks, Verify, damaged, first_line, reading
from x2localizer.gallery.columns import schema
from x2localizer.gallery.manifest import FORMAT, NO_MANIFEST, ROADS_ONLY, GalleryManifest
from x2localizer.gallery.object_store import is_object_store, local_copy, storage_options
from x2localizer.gallery.store import TABLES, Gallery, check_encoder, table_names

SHARED_SUFFIX = ".x2g"
"""Of a gallery in one file; see :mod:`x2localizer.gallery.share`."""


def open_gallery(
    address: str | os.PathLike[str], encoder: Encoder | None = None, *, verify: Verify = "used"
) -> Gallery:
    """Open a finished gallery, also one of roads alone, or one in a file that ``x2l gallery export`` made.

    A half-built one, one that is damaged, or one whose codes another encoder made, is refused with the way out. Of a
    gallery in an object store, a copy on this machine is opened; see :mod:`x2localizer.gallery.object_store`.

    verify: which files are compared with their checksums: those that are "used", when they are first read; "full" for
        all of them, now; or "none".
    """
    gallery = open_to_read(str(address), verify=verify)
    if not gallery.has_tiles:
        if not gallery.manifest.roads:
            raise GalleryError(
                f"The gallery {address} is half built: no file of roads is all in.",
                f"Finish it: x2l index --roads FILE --out {address}",
            )
        return gallery
    if encoder is not None:
        check_encoder(gallery, encoder)
    missing = gallery.manifest.unfinished()
    if missing:
        files = " ".join(source.imagery for source in missing)
        codes = ",".join(gallery.manifest.codes)
        options = (" --replace" if missing[0].replace else "") + (f" --codes {codes}" if codes != "tiles" else "")
        raise GalleryError(
            f"The gallery {address} is half built: {files} is not all in.",
            f"Finish it: x2l index {files} --out {address}{options}",
        )
    if not len(gallery.regions):
        side = gallery.manifest.region_tiles
        raise GalleryError(
            f"The gallery {address} has no regions: its imagery covers less than one region of {side} x {side} tiles.",
            f"Add a larger area: x2l index IMAGERY --out {address}",
        )
    return gallery


def open_to_read(address: str, *, verify: Verify = "used") -> Gallery:
    """Open a gallery whether it is finished or not; if it is elsewhere, its copy on this machine."""
    if address.endswith(SHARED_SUFFIX) and not Path(address).is_dir():
        from x2localizer.gallery.file import open_file  # noqa: PLC0415 - a file is read by what opens galleries

        return open_file(Path(address), verify=verify)
    if not is_object_store(address):
        return open_any(address, verify=verify)
    gallery = open_any(str(local_copy(address)), verify=verify)
    gallery.address = address
    return gallery


def open_for_writing(address: str, fresh: GalleryManifest) -> Gallery:
    """Open a gallery to add imagery to, or make one; encoder and grid must be the same, codes may be added."""
    db = _connect(address)
    if not _has_gallery(address, db):
        return _make(address, fresh, db)
    gallery = open_any(address)
    if not gallery.has_tiles:  # roads alone: its grid was only a guess
        return _make(address, replace(fresh, roads=gallery.manifest.roads), db, mode="overwrite")
    for name in ("encoder", "zoom", "region_tiles", "stride", "dim"):
        has, wants = getattr(gallery.manifest, name), getattr(fresh, name)
        if has != wants:
            raise GalleryError(
                f"The gallery {address} has {name} {has}, this is {wants}.",
                "Choose a new --out, or the same settings.",
            )
    return gallery


def find_gallery(address: str) -> Gallery | None:
    """The gallery at an address, finished or not; None if there is none."""
    return open_any(address) if _has_gallery(address, _connect(address)) else None


def make_roads_only(address: str) -> Gallery:
    """A new gallery for roads alone; imagery may follow."""
    return _make(address, ROADS_ONLY, _connect(address))


def make_gallery(address: str, manifest: GalleryManifest, mode: str = "create") -> Gallery:
    """A new gallery without rows; with ``mode="overwrite"`` in place of one that is there."""
    return _make(address, manifest, _connect(address), mode)


def _has_gallery(address: str, db: Any) -> bool:
    """Whether there is a gallery; what a process leaves that is killed while it makes one is none."""
    with reading(address):
        names = table_names(db)
        return _table(db, names, "about") is not None or _has_lost_its_manifest(db, names)


def _has_lost_its_manifest(db: Any, names: Sequence[str]) -> bool:
    """Whether a gallery without a manifest is a damaged one: it has rows."""
    tables = (_table(db, names, name) for name in names) if "about" in names else ()
    return any(table is not None and table.count_rows() for table in tables)


def _table(db: Any, names: Sequence[str], name: str) -> Any | None:
    """A table of those that are listed; None if only its folder is there, which is listed, too."""
    try:
        return db.open_table(name) if name in names else None
    except (ValueError, OSError, RuntimeError) as problem:
        if "not found" in str(problem):
            return None
        raise


def _make(address: str, manifest: GalleryManifest, db: Any, mode: str = "create") -> Gallery:
    gallery = Gallery(address, manifest, db)
    try:
        there = table_names(db)
        for name in TABLES if gallery.has_tiles else ():
            half_made = name in there and _table(db, there, name) is None
            db.create_table(name, schema=schema(manifest, name), mode="overwrite" if half_made else mode, exist_ok=True)
        gallery.save_manifest(manifest)
    except (OSError, RuntimeError) as problem:
        raise GalleryError(
            f"Cannot make a gallery at {address}: {first_line(problem)}", "Check the path and the disk."
        ) from problem
    return gallery


def open_any(address: str, *, verify: Verify = "used") -> Gallery:
    """Open a gallery whether it is finished or not."""
    db = _connect(address)
    with reading(address):
        names = table_names(db)
        about = _table(db, names, "about")
        if about is None and _has_lost_its_manifest(db, names):
            raise damaged(address, "Table 'about' was not found")
        if about is None:
            raise GalleryError(f"There is no gallery at {address}.", f"Make one: x2l index IMAGERY --out {address}")
        checks = Checks(address, verify)
        checks.table("about", lambda: int(about.version), whole=True)
        try:
            manifest = GalleryManifest.from_json(about.to_arrow()["text"][0].as_py())
        except NO_MANIFEST as problem:
            raise damaged(address, "its manifest makes no sense") from problem
    if manifest.format != FORMAT:
        raise GalleryError(
            f"The gallery {address} has format {manifest.format}, this version reads {FORMAT}.",
            "Index the imagery again.",
        )
    gallery = Gallery(address, manifest, db, checks)
    if verify == "full":
        for name in names:
            checks.table(name, partial(gallery.version, name), whole=True)
    return gallery


def _connect(address: str) -> Any:
    """The database at an address; LanceDB is loaded when it is first needed."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # read when it is imported; it warns of every table that it makes
    import lancedb  # noqa: PLC0415

    try:
        return lancedb.connect(address, storage_options=storage_options(address) or None)
    except (OSError, ValueError, RuntimeError) as problem:
        raise GalleryError(f"Cannot open a gallery at {address}: {problem}", "Check the path or address.") from problem
