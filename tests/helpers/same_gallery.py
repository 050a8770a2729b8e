"""Whether two galleries are the same."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from x2localizer.gallery import Gallery


def rows(gallery: Gallery, name: str) -> pa.Table:
    """All rows of a table, in order of place."""
    return pa.concat_tables(gallery.rows(name)).sort_by([("source", "ascending"), ("id", "ascending")])


def assert_same(one: Gallery, other: Gallery, without: Sequence[str] = ()) -> None:
    """Two galleries have the same rows, to the bit; some columns may be left out."""
    assert one.manifest.codes == other.manifest.codes
    tables = ("tiles", "pictures", *(("regions",) if "regions" in one.manifest.codes else ()))
    for name in (*tables, *(("roads",) if one.manifest.roads else ())):
        mine, theirs = rows(one, name), rows(other, name)
        assert mine.num_rows > 0
        left = [column for column in without if column in mine.column_names]
        assert mine.drop_columns(left).equals(theirs.drop_columns(left)), name
