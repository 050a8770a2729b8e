"""From files of roads to a gallery.

A file is read some lines at a time. Its rows count once the manifest names them, which is the last step: whatever is
killed, the gallery has the roads that it had before, and the next run starts with that file again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace as changed
from itertools import chain
from pathlib import Path

import numpy as np

from x2localizer.errors import ConfigError, RoadError
from x2localizer.gallery.checksums import only_gallery_writer
from x2localizer.gallery.manifest import RoadSource
from x2localizer.gallery.open import find_gallery, make_roads_only
from x2localizer.gallery.roads import to_rows
from x2localizer.gallery.store import Gallery
from x2localizer.sources.roads import RoadKind, Roads, road_batches
from x2localizer.sources.roads.roads import bounds_of
from x2localizer.types import Floats, Progress

_BESIDE = (".dbf", ".prj")
"""Files of a Shapefile that say what its lines are and where."""


def index_roads(
    files: str | Path | Sequence[str | Path],
    address: str | Path,
    *,
    replace: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Gallery:
    """Put files of roads into a gallery, a new one or one that is there; no bundle is needed.

    replace: read files again that are in already; a file whose content has changed is always read again.
    """
    names = [files] if isinstance(files, str | Path) else list(files)
    if not names:
        raise ConfigError("There are no roads to index.", "Name a file: x2l index --roads FILE --out GALLERY")
    with only_gallery_writer(str(address)):
        gallery = add_roads(find_gallery(str(address)), str(address), names, replace=replace, progress=progress)
        gallery.seal()
    return gallery


def add_roads(
    gallery: Gallery | None, address: str, files: Sequence[str | Path], *, replace: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Gallery:  # fmt: skip
    """Add files of roads to a gallery; without one it is made, once the first file turns out to be readable."""
    for i, file in enumerate(files):
        digest = _digest(Path(file))
        known = () if gallery is None else gallery.manifest.roads
        if gallery is None or replace or all(source.digest != digest for source in known):
            batches = road_batches(file, own_process=True)
            first = next(batches)
            gallery = gallery or make_roads_only(address)
            _add_file(gallery, str(file), digest, chain([first], batches))
        progress("roads", i + 1, len(files))
    if gallery is None:
        raise ValueError("no files")
    return gallery


def _add_file(gallery: Gallery, name: str, digest: str, batches: Iterable[Roads]) -> None:
    """Add the roads of a file, in place of an older version of it."""
    known = gallery.manifest.roads
    gallery.drop_unused_roads()
    number = max((source.number for source in known), default=-1) + 1
    count, lengths, corners = 0, np.zeros(len(RoadKind)), np.zeros((0, 2))
    for roads in batches:
        gallery.add_road_rows(to_rows(roads, number, count))
        count += len(roads)
        lengths += list(roads.lengths_by_kind_m().values())
        corners = np.append(corners, _corners(roads), 0)
    main, street, service = (float(length) for length in lengths)
    bounds = bounds_of(corners) or (0.0, 0.0, 0.0, 0.0)
    source = RoadSource(number, name, digest, count, (main, street, service), bounds)
    # The rows of an older version stay until roads are added again: others may be reading them.
    kept = tuple(old for old in known if old.path != name and old.digest != digest)
    gallery.save_manifest(changed(gallery.manifest, roads=(*kept, source)))
    gallery.optimize(in_use=True, names=["roads"])


def _corners(roads: Roads) -> Floats:
    """The south-west and north-east corner of the box around some roads; nothing without roads."""
    if roads.bounds is None:
        return np.zeros((0, 2))
    west, south, east, north = roads.bounds
    return np.array([[south, west], [north, east - 360.0 if east > 180.0 else east]])


def _digest(file: Path) -> str:
    """A digest of the content of a file of roads."""
    total = hashlib.sha256()
    beside = [file.with_suffix(suffix) for suffix in _BESIDE] if file.suffix.lower() == ".shp" else []
    try:
        for part in (file, *(path for path in beside if path.is_file())):
            with part.open("rb") as data:
                while chunk := data.read(1 << 20):
                    total.update(chunk)
    except OSError as problem:
        raise RoadError(
            f"Cannot read the road file {file}: {problem.strerror or problem}.", "Check the path and the permissions."
        ) from problem
    return total.hexdigest()[:16]
