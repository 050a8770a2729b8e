"""The lists of GAMa as published: videos, seconds, and tiles of Web-Mercator zoom 19.

train_day.list     video frames
val_day_vid.list   video
val_gps_day.list   video second x_y
gallery_gps.list   x_y video
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from x2localizer.errors import DatasetError

ZOOM = 19
Row = TypeVar("Row")
TilePlace = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Second:
    """The tile in which a validation video was at one second."""

    video: str
    second: int
    tile: TilePlace


@dataclass(frozen=True, slots=True)
class Lists:
    """All four lists, in their order. ``train`` maps training videos to their number of frames at the full rate."""

    train: dict[str, int]
    val: tuple[str, ...]
    seconds: tuple[Second, ...]
    gallery: tuple[tuple[TilePlace, str], ...]

    def spans(self) -> dict[str, TilePlace]:
        """Numbers of tiles that each validation video spans, across and down."""
        seen: dict[str, list[TilePlace]] = {}
        for row in self.seconds:
            seen.setdefault(row.video, []).append(row.tile)
        return {
            video: (max(x for x, _ in tiles) - min(x for x, _ in tiles) + 1,
                    max(y for _, y in tiles) - min(y for _, y in tiles) + 1)
            for video, tiles in seen.items()
        }  # fmt: skip


def find_lists(*folders: Path) -> Path:
    """The first folder that contains the lists, itself or in ``lists`` or ``GAMa``."""
    for folder in folders:
        for place in (folder, folder / "lists", folder / "GAMa"):
            if (place / "val_day_vid.list").is_file():
                return place
    raise DatasetError(
        f"There is no val_day_vid.list in {' or '.join(str(folder) for folder in folders)}.",
        "Put the four lists of GAMa there, or set their folder with --lists.",
    )


def read_lists(folder: Path) -> Lists:
    """Read all four lists; an invalid line is an error that states its number."""
    train: dict[str, int] = {}
    for video, frames in _rows(folder / "train_day.list", lambda words: (_only(words, 2)[0], int(words[1]))):
        if video in train:
            raise DatasetError(f"{folder / 'train_day.list'} lists {video} twice.", "Download the list again.")
        train[video] = frames
    val = tuple(_rows(folder / "val_day_vid.list", lambda words: _only(words, 1)[0]))
    if len(set(val)) < len(val):
        raise DatasetError(f"{folder / 'val_day_vid.list'} lists a video twice.", "Download the list again.")
    seconds = _rows(
        folder / "val_gps_day.list", lambda words: Second(_only(words, 3)[0], int(words[1]), _tile(words[2]))
    )
    gallery = _rows(folder / "gallery_gps.list", lambda words: (_tile(_only(words, 2)[0]), words[1]))
    return Lists(train, val, tuple(seconds), tuple(gallery))


def _only(words: list[str], count: int) -> list[str]:
    if len(words) != count:
        raise ValueError(f"{len(words)} words instead of {count}")
    if any("/" in word or "\\" in word or word.startswith(".") for word in words):
        raise ValueError("a name that is a path")
    return words


def _tile(text: str) -> TilePlace:
    x, y = (int(part) for part in text.split("_"))
    if not (0 <= x < 1 << ZOOM and 0 <= y < 1 << ZOOM):
        raise ValueError("a tile that is not on the map")
    return x, y


def _rows(path: Path, parse: Callable[[list[str]], Row]) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    yield parse(line.split())
                except ValueError as problem:
                    raise DatasetError(
                        f"{path}, line {number}: {line.strip()[:60]!r} is invalid ({problem}).",
                        "Download the list again, or fix that line.",
                    ) from problem
    except UnicodeDecodeError as problem:
        raise DatasetError(f"{path} is not text.", "Download the list again.") from problem
    except OSError as problem:
        raise DatasetError(f"Cannot read {path}: {problem.strerror}.", "Put all four lists of GAMa there.") from problem
