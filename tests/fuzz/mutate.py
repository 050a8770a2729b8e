"""Ways to break a file that know its structure: text, JSON, MP4 boxes, TIFF entries, SQLite, Parquet, or plain bytes.

Every way takes a random generator, so that a number names an input: the same seed, reader and number give the same one.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import struct
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MOST_BYTES = 4_000_000
"""Inputs are not made larger than that: memory is to be filled by readers, not by us."""
NUMBERS = (
    "0", "-0", "-1", "1", "127", "255", "65536", "2147483648", "-2147483649", "18446744073709551616", "1e308", "1e400",
    "-1e308", "1e-320", "nan", "NaN", "inf", "-Infinity", "", "0x10", "1,5", "91", "-181", "360.0001", "9" * 400,
    "null", "true", "\u0664\u0662", "1_0", "+5", "--1", "1e", "2026-13-40T25:61:61Z", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:60+14:00", "%s", "../../x", "\x00", "\ud7ff",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 1e308, -1e308, 1e-320, float("nan"), float("inf"),
    "", "x", "\x00", "a" * 5000, [], {}, [[]], [None], {"": None}, [0] * 1000, "../../x", "NaN", "1e999", "\U0001f600",
)  # fmt: skip
WORDS = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0xFFFFFFFE,
    2**63,
    2**64 - 1,
)
Rng = random.Random


# Bytes ---------------------------------------------------------------------------------------------------------------


def broken_bytes(data: bytes, rng: Rng) -> bytes:
    """A few random changes of the bytes, with no idea of what they mean."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16, 64))):
        out = _change(out, rng)
    return bytes(out[:MOST_BYTES])


def _change(out: bytearray, rng: Rng) -> bytearray:
    if not out:
        return bytearray(rng.randbytes(rng.randrange(1, 64)))
    at, length = rng.randrange(len(out)), rng.choice((1, 2, 4, 8, 64, 1024))
    # Headers lie at the start: half of the changes go there.
    at = at if rng.random() < 0.5 else rng.randrange(min(len(out), 256))
    way = rng.randrange(9)
    if way == 0:
        out[at] ^= 1 << rng.randrange(8)
    elif way == 1:
        out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    elif way == 2:
        del out[at : at + length]
    elif way == 3:
        out[at:at] = rng.randbytes(length)
    elif way == 4:
        out[at:at] = out[at : at + length] * rng.choice((1, 2, 50))
    elif way == 5:
        size, order = rng.choice((1, 2, 4, 8)), rng.choice(("big", "little"))
        out[at : at + size] = (rng.choice(WORDS) % (1 << 8 * size)).to_bytes(size, order)  # type: ignore[arg-type]
    elif way == 6:
        del out[at:]
    elif way == 7:
        other = rng.randrange(len(out))
        out[at : at + length], out[other : other + length] = out[other : other + length], out[at : at + length]
    else:
        out[at : at + length] = bytes([rng.choice((0, 0xFF, 0x20))]) * length
    return out


# Text ----------------------------------------------------------------------------------------------------------------


def broken_text(data: bytes, rng: Rng) -> bytes:
    """Numbers, lines, tags and quotes changed; now and then another encoding."""
    text = data.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 4))):
        text = rng.choice((_number, _number, _line, _tag, _nested, _separator, _word))(text, rng)[:MOST_BYTES]
    how = rng.random()
    if how < 0.04:
        return text.encode(rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7")), "replace")
    if how < 0.15:
        return broken_bytes(text.encode("utf-8", "replace"), rng)
    return text.encode("utf-8", "replace")


def _number(text: str, rng: Rng) -> str:
    found = list(re.finditer(r"[-+]?\d[\d.eE+:TZ-]*", text[:200_000]))
    if not found:
        return text + rng.choice(NUMBERS)
    match = rng.choice(found)
    return text[: match.start()] + rng.choice(NUMBERS) + text[match.end() :]


def _line(text: str, rng: Rng) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at = rng.randrange(len(lines))
    way = rng.randrange(5)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines[at:at] = [lines[at]] * rng.choice((1, 3, 2000))
    elif way == 2:
        rng.shuffle(lines)
    elif way == 3:
        lines[at] = lines[at].rstrip("\n") * rng.choice((2, 300)) + "\n"
    else:
        del lines[at:]
    return "".join(lines)


def _tag(text: str, rng: Rng) -> str:
    found = list(re.finditer(r"<[^<>]*>", text[:200_000]))
    if not found:
        return _separator(text, rng)
    match, other = rng.choice(found), rng.choice(found)
    new = rng.choice(("", match[0] * 2, other[0], "<x>", "<!--", "<![CDATA[", "&amp;", "&undefined;", "</x>"))
    return text[: match.start()] + new + text[match.end() :]


def _nested(text: str, rng: Rng) -> str:
    at = rng.randrange(len(text) + 1)
    opening, closing = rng.choice((("[", "]"), ("{", "}"), ("<a>", "</a>"), ("(", ")"), ('"', '"'), ('{"a":', "}")))
    depth = rng.choice((3, 200, 3000, 100_000))
    return text[:at] + opening * depth + (closing * depth if rng.random() < 0.5 else "") + text[at:]


def _separator(text: str, rng: Rng) -> str:
    found = [number for number, letter in enumerate(text[:200_000]) if letter in ",;\t\n\"'=<>{}[]:/ "]
    if not found:
        return text
    at = rng.choice(found)
    return (
        text[:at] + rng.choice((",", ";", "\t", "\n", '"', "'", "=", "", "\r", "\x00", "\u2028", "  ")) + text[at + 1 :]
    )


def _word(text: str, rng: Rng) -> str:
    found = list(re.finditer(r"[A-Za-z_]{2,}", text[:200_000]))
    if not found:
        return text
    match, other = rng.choice(found), rng.choice(found)
    new = rng.choice((other[0], match[0].upper(), "", match[0] * 2, "x" * 300, "\u00e9"))
    return text[: match.start()] + new + text[match.end() :]


def broken_json(data: bytes, rng: Rng) -> bytes:
    """Nodes of the tree replaced, deleted, doubled or nested; text that is no JSON is changed as text."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return broken_text(data, rng)
    if rng.random() < 0.2:
        return broken_text(data, rng)
    for _ in range(rng.choice((1, 1, 2, 3))):
        tree = _tree(tree, rng)
    return json.dumps(tree)[:MOST_BYTES].encode("utf-8", "replace")


def _tree(tree: Any, rng: Rng) -> Any:
    """One node of a tree, changed."""
    if not isinstance(tree, dict | list) or not tree or rng.random() < 0.15:
        return rng.choice((deepcopy(rng.choice(VALUES)), [tree], {"a": tree}, _deep(tree, rng)))
    key: Any = rng.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
    way = rng.random()
    if way < 0.15:
        del tree[key]
    elif way < 0.25 and isinstance(tree, list):
        tree.insert(key, tree[key])
    elif way < 0.25 and isinstance(tree, dict):
        tree[rng.choice(("x", "", f"{key}_"))] = tree.pop(key)
    elif way < 0.5:
        tree[key] = deepcopy(rng.choice(VALUES))  # or a later change would change it for all
    else:
        tree[key] = _tree(tree[key], rng)
    return tree


def _deep(tree: Any, rng: Rng) -> Any:
    for _ in range(rng.choice((5, 100, 400))):
        tree = [tree]
    return tree


# Containers ----------------------------------------------------------------------------------------------------------

_HOLDING = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"udta", b"edts", b"dinf", b"mvex", b"moof", b"traf", b"meta"}


def broken_boxes(data: bytes, rng: Rng) -> bytes:
    """An MP4 file with a box deleted, doubled, moved, resized, or changed inside."""
    boxes: list[tuple[int, int]] = []
    _find_boxes(data, 0, len(data), boxes)
    if not boxes or rng.random() < 0.25:
        return broken_bytes(data, rng)
    out = bytearray(data)
    start, end = rng.choice(boxes)
    way = rng.randrange(6)
    if way == 0:
        del out[start:end]
    elif way == 1:
        out[start:start] = out[start:end] * rng.choice((1, 5))
    elif way == 2:
        struct.pack_into(">I", out, start, rng.choice(WORDS) & 0xFFFFFFFF)
    elif way == 3:
        out[start + 4 : start + 8] = rng.choice((b"free", b"stts", b"moov", b"stsz", b"\0\0\0\0", b"uuid"))
    elif way == 4:
        out[start + 8 : end] = broken_bytes(bytes(out[start + 8 : end]), rng)
    elif end - start > 12:
        at = rng.randrange(start + 8, end - 3)
        struct.pack_into(">I", out, at, rng.choice(WORDS) & 0xFFFFFFFF)
    return bytes(out[:MOST_BYTES])


def _find_boxes(data: bytes, start: int, end: int, out: list[tuple[int, int]]) -> None:
    while start + 8 <= end:
        size, kind = struct.unpack(">I4s", data[start : start + 8])
        if size < 8 or start + size > end:
            return
        out.append((start, start + size))
        if kind in _HOLDING:
            _find_boxes(data, start + 8, start + size, out)
        start += size


def broken_tiff(data: bytes, rng: Rng) -> bytes:
    """A TIFF with an entry of its directory changed: its tag, type, count or value."""
    if len(data) < 16 or data[:4] != b"II*\0" or rng.random() < 0.3:
        return broken_bytes(data, rng)
    (at,) = struct.unpack("<I", data[4:8])
    out = bytearray(data)
    with suppress(struct.error):
        (count,) = struct.unpack_from("<H", out, at)
        for _ in range(rng.choice((1, 1, 2, 4))):
            entry = at + 2 + 12 * rng.randrange(max(count, 1))
            field, size = rng.choice(((0, 2), (2, 2), (4, 4), (8, 4), (8, 4), (8, 4)))
            value = rng.choice((*WORDS, rng.randrange(2**16), rng.randrange(14))) % (1 << 8 * size)
            struct.pack_into("<I" if size == 4 else "<H", out, entry + field, value)
    return bytes(out)


# Tables --------------------------------------------------------------------------------------------------------------


def broken_sqlite(path: Path, rng: Rng) -> None:
    """A SQLite file with rows, columns or tables changed; or its bytes."""
    if rng.random() < 0.4:
        path.write_bytes(broken_bytes(path.read_bytes(), rng))
        return
    with suppress(sqlite3.Error, IndexError):  # a file that an earlier change left without tables
        with sqlite3.connect(path) as db:
            tables = [row[0] for row in db.execute("select name from sqlite_master where type='table'")]
            name = rng.choice(tables)
            columns = [row[1] for row in db.execute(f"pragma table_info('{name}')")]
            column = rng.choice(columns)
            value = rng.choice((*NUMBERS[:20], None, b"\xff\xd8\xff", rng.randbytes(200), "9" * 30, 2**62, -(2**62)))
            way = rng.randrange(5)
            if way == 0:
                db.execute(f"drop table '{name}'")
            elif way == 1:
                db.execute(f"delete from '{name}' where rowid % 2 = ?", (rng.randrange(2),))
            elif way == 2:
                db.execute(f"update '{name}' set \"{column}\" = ?", (value,))
            else:
                db.execute(f"update '{name}' set \"{column}\" = ? where rowid % 3 = ?", (value, rng.randrange(3)))
        db.close()


def broken_parquet(path: Path, rng: Rng) -> None:
    """A Parquet file with a column of another type, without a column, with nulls, with rows doubled; or its bytes."""
    if rng.random() < 0.3:
        path.write_bytes(broken_bytes(path.read_bytes(), rng))
        return
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):  # an earlier change has broken it
        path.write_bytes(broken_bytes(path.read_bytes(), rng))
        return
    at = rng.randrange(max(1, table.num_columns))
    name, column = table.column_names[at], table.column(at)
    new: pa.Table = table
    way = rng.randrange(7)
    with suppress(pa.ArrowException, ValueError, OverflowError, TypeError):
        if way == 0:
            new = table.drop_columns([name])
        elif way == 1:
            kind = rng.choice((pa.string(), pa.int8(), pa.float16(), pa.float64(), pa.binary(), pa.large_string()))
            new = table.set_column(at, name, column.cast(kind, safe=False))
        elif way == 2:
            values = column.to_pylist()
            for _ in range(rng.choice((1, 5))):
                if values:
                    values[rng.randrange(len(values))] = rng.choice((None, *VALUES[:16]))
            new = table.set_column(at, name, pa.array(values, from_pandas=False))
        elif way == 3:
            new = pa.concat_tables([table, table.slice(0, rng.randrange(table.num_rows + 1))])
        elif way == 4:
            new = table.slice(0, rng.choice((0, 1, table.num_rows // 2)))
        elif way == 5:
            new = table.set_column(at, name, pa.nulls(table.num_rows))
        else:
            other = rng.randrange(table.num_columns)
            new = table.set_column(at, name, table.column(other))
    pq.write_table(new, path)


# By name -------------------------------------------------------------------------------------------------------------

_TEXTS = {".csv", ".tsv", ".txt", ".gpx", ".osm", ".toml", ".xml", ".vrt", ".yaml", ".kml", ".prj"}
_BOXES = {".mp4", ".mov", ".m4v", ".insv", ".360"}
_TREES = {".json", ".geojson"}


def break_path(path: Path, rng: Rng) -> None:
    """Break a file in a way that suits its name, or one to three files of a folder."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            if files:
                _break_in_folder(rng.choice(files), files, rng)
        return
    if path.suffix in (".mbtiles", ".gpkg", ".db3"):
        broken_sqlite(path, rng)
    elif path.suffix == ".parquet":
        broken_parquet(path, rng)
    else:
        change: Callable[[bytes, Rng], bytes] = broken_bytes
        if path.suffix in _TEXTS:
            change = broken_text
        elif path.suffix in _TREES:
            change = broken_json
        elif path.suffix in _BOXES:
            change = broken_boxes
        elif path.suffix in (".tif", ".tiff"):
            change = broken_tiff
        path.write_bytes(change(path.read_bytes(), rng))


def _break_in_folder(path: Path, files: list[Path], rng: Rng) -> None:
    way = rng.random()
    if not path.is_file():
        return
    if way < 0.1:
        path.unlink()
    elif way < 0.15:
        path.write_bytes(b"")
    elif way < 0.2:
        path.unlink()
        path.mkdir()
    elif way < 0.3:
        other = rng.choice(files)
        if other.is_file():
            path.write_bytes(other.read_bytes())
    elif way < 0.35:
        path.rename(path.with_name(rng.choice(("x", "0", "99999999999", "é")) + path.suffix))
    elif path.stat().st_size < MOST_BYTES:
        break_path(path, rng)
