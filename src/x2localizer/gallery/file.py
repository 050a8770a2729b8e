"""A gallery that is read from its file, as ``x2l gallery export`` wrote it.

Nothing is unpacked, and LanceDB, which takes 100 MB of memory and a second to load, is not needed: the way for small
machines. It is read only, and each table is compared with its checksum when it is first read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from x2localizer.gallery.checksums import Verify
from x2localizer.gallery.columns import schema
from x2localizer.gallery.share import SharedFile, describe_file, rows_of, verify_table
from x2localizer.gallery.store import Gallery
from x2localizer.gallery.where import ALL, Where

PLACES = ("id", "x", "y", "source", "valid")
"""The small columns of the table of tiles."""


@dataclass
class FileGallery(Gallery):
    """An open gallery in one file."""

    shared: SharedFile | None = field(default=None, repr=False)
    verify: Verify = "used"
    _verified: set[str] = field(default_factory=set, repr=False)

    def tables(self) -> list[str]:
        """The names of its tables."""
        assert self.shared is not None
        return list(self.shared.tables)

    def version(self, name: str) -> int:
        """A file does not change."""
        return 1

    def _batches(self, name: str, columns: list[str], where: Where = ALL) -> Iterator[pa.Table]:
        assert self.shared is not None
        self._insist_on(name)
        for batch in rows_of(Path(self.address), self.shared, name):
            rows = where.of(batch)
            if rows.num_rows:
                yield pa.Table.from_batches([rows.select(columns)])

    def _read(self, name: str, columns: list[str], where: Where = ALL) -> pa.Table:
        if where == ALL and name == "tiles" and set(columns) <= set(PLACES):
            return self._tile_places.select(columns)
        return self._joined(name, columns, where)

    @cached_property
    def _tile_places(self) -> pa.Table:
        """Where all blocks of tiles are: read once, as codes have to be passed over."""
        return self._joined("tiles", list(PLACES), ALL)

    def _joined(self, name: str, columns: list[str], where: Where) -> pa.Table:
        parts = list(self._batches(name, columns, where))
        return pa.concat_tables(parts) if parts else schema(self.manifest, name).empty_table().select(columns)

    def _insist_on(self, name: str) -> None:
        """Compare a table with its checksum, once."""
        assert self.shared is not None
        if self.verify != "none" and name not in self._verified:
            verify_table(Path(self.address), self.shared, name)
            self._verified.add(name)


def open_file(path: Path, *, verify: Verify = "used") -> FileGallery:
    """Open the gallery in a file; with ``verify="full"`` after all of it was compared with its checksums."""
    shared = describe_file(path)
    gallery = FileGallery(str(path), shared.manifest, None, shared=shared, verify=verify)
    if verify == "full":
        for name in shared.tables:
            gallery._insist_on(name)
    return gallery
