"""Motion in tables: CSV, TSV and Parquet.

A table needs a time, and speed or yaw rate (or both); instead of these it may have the distance and the heading so far.
Names state their unit. Yaw rates and headings are positive clockwise, unless the name says ``ccw``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from x2localizer.errors import MotionError
from x2localizer.sources.motion.checks import (
    MAX_SPEED_M_S,
    MAX_YAW_RATE_DEG_S,
    check_rate,
    check_record,
    check_times,
    since_start,
)
from x2localizer.sources.motion.record import MotionRecord
from x2localizer.sources.tracks.points import EARLIEST_S, EPOCH, LATEST_S
from x2localizer.types import Floats

_DEG = 180.0 / np.pi
COLUMNS: dict[str, dict[str, float]] = {
    "time": {"time_s": 1.0, "timestamp_s": 1.0, "seconds": 1.0, "time_ms": 1e-3, "timestamp_ms": 1e-3, "time_us": 1e-6,
             "timestamp_us": 1e-6, "time_ns": 1e-9, "timestamp_ns": 1e-9},
    "speed": {"speed_m_s": 1.0, "speed_mps": 1.0, "velocity_m_s": 1.0, "speed_km_h": 1 / 3.6, "speed_kmh": 1 / 3.6,
              "speed_kph": 1 / 3.6, "velocity_km_h": 1 / 3.6, "speed_mph": 0.44704, "speed_knots": 1852 / 3600},
    "yaw rate": {"yaw_rate_deg_s": 1.0, "yaw_rate_rad_s": _DEG, "yaw_rate_ccw_deg_s": -1.0,
                 "yaw_rate_ccw_rad_s": -_DEG, "turn_rate_deg_s": 1.0, "turn_rate_rad_s": _DEG},
    "speed sd": {"speed_sd_m_s": 1.0, "speed_sd_km_h": 1 / 3.6},
    "yaw rate sd": {"yaw_rate_sd_deg_s": 1.0, "yaw_rate_sd_rad_s": _DEG},
    "distance": {"distance_m": 1.0, "distance_km": 1000.0},
    "heading": {"heading_deg": 1.0, "heading_rad": _DEG},
    "distance variance": {"distance_var_m2": 1.0},
    "heading variance": {"heading_var_deg2": 1.0},
}  # fmt: skip
"""Names of columns by what they hold, with the factor to our units. Case, blanks, brackets and slashes are ignored."""
_CLOCKS = ("time", "timestamp", "datetime", "utc", "date_time", "utc_time", "time_utc")
"""Names of times whose values must say what they are: dates, or numbers since 1970."""
_SUSPECTS = {"speed": ("speed", "velocity"), "yaw rate": ("yaw", "turn", "gyro", "omega")}
_NEEDED = "Name the columns time_s, speed_m_s and yaw_rate_deg_s, with the unit in the name."


@dataclass(frozen=True, slots=True)
class _Table:
    """A table with the columns that are known: name and factor by what they hold."""

    path: Path
    data: pa.Table
    known: dict[str, tuple[str, float]]

    def values(self, what: str) -> Floats | None:
        """A column in our units, (n,); None if there is none."""
        if what not in self.known:
            return None
        name, factor = self.known[what]
        return _floats(self.path, name, self.data[name]) * factor


def read_table(path: Path) -> MotionRecord:
    """Motion from a table."""
    data = _read(path)
    table = _Table(path, data, _known(data.column_names))
    clock = next((name for name in data.column_names if _plain(name) in _CLOCKS), None)
    if "time" not in table.known and clock is None:
        raise MotionError(f"{path} has no column of times; it has {_names(data)}.", _NEEDED)
    if not any(what in table.known for what in ("speed", "yaw rate", "distance", "heading")):
        raise MotionError(f"{path} has no column of speeds or yaw rates; it has {_names(data)}.", _NEEDED)
    _refuse_unknown_units(table)
    used = {name for name, _ in table.known.values()} | {clock}
    twice = next((name for name in data.column_names if name in used and data.column_names.count(name) > 1), None)
    if twice is not None:
        raise MotionError(f"{path} has the column '{twice}' twice.", "Remove or rename one of them.")
    times = table.values("time")
    if times is None:
        times = _clock(path, str(clock), data[clock])
    check_times(path, times)
    times, start = since_start(times)
    try:
        record = _record(table, times, start)
    except ValueError as problem:
        raise MotionError(f"The motion of {path} cannot be: {problem}.", _NEEDED) from problem
    check_record(path, record)
    return record


def _record(table: _Table, times: Floats, start: datetime | None) -> MotionRecord:
    speed, yaw = table.values("speed"), table.values("yaw rate")
    for what, values, most, unit in (
        ("speed", speed, MAX_SPEED_M_S, "m/s"), ("yaw rate", yaw, MAX_YAW_RATE_DEG_S, "degrees per second"),
    ):  # fmt: skip
        if values is not None:
            check_rate(table.path, what, values, most, unit)
    deviations = {
        name: values for name, what in (("speed_sd_m_s", "speed sd"), ("yaw_sd_deg_s", "yaw rate sd"))
        if (values := table.values(what)) is not None
    }  # fmt: skip
    rates = MotionRecord.of_rates(times, speed, yaw, **deviations, start_time=start)  # type: ignore[arg-type]
    distance, heading = table.values("distance"), table.values("heading")
    distance_vars, heading_vars = table.values("distance variance"), table.values("heading variance")
    return MotionRecord(
        times, rates.distances_m if distance is None else distance - distance[0],
        rates.headings_deg if heading is None else np.unwrap(heading - heading[0], period=360.0),
        rates.distance_vars if distance_vars is None else distance_vars,
        rates.heading_vars if heading_vars is None else heading_vars,
        rates.scale_sd, rates.bias_sd_deg_s, start, rates.has_distance or distance is not None,
        rates.has_turn or heading is not None,
    )  # fmt: skip


def _read(path: Path) -> pa.Table:
    """All columns of a file; those of a text as text."""
    with path.open("rb") as file:
        head = file.read(1 << 16)
    try:
        if head.startswith(b"PAR1"):
            table = pyarrow.parquet.read_table(path)
            table.column_names  # noqa: B018 - it decodes them
            return table
        first = head.decode("utf-8-sig", "replace").splitlines()[0]
        separator = max("\t;,", key=first.count)
        names = [name.strip().strip('"') for name in first.split(separator)]
        options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
        read = pyarrow.csv.ReadOptions(column_names=names, skip_rows=1)
        parse = pyarrow.csv.ParseOptions(delimiter=separator)
        table = pyarrow.csv.read_csv(path, read, parse, options)
    except UnicodeDecodeError as problem:
        raise MotionError(f"The columns of {path} have names that are no text.", _NEEDED) from problem
    except (pa.ArrowException, OSError, IndexError) as problem:
        raise MotionError(
            f"Cannot read {path} as a table: {str(problem).splitlines()[0][:150]}.", "Write it as CSV with a header."
        ) from problem
    if separator == ",":
        return table
    columns = [pc.replace_substring(column, ",", ".") for column in table.columns]  # decimal commas
    return pa.table(columns, names=table.column_names)


def _plain(name: str) -> str:
    """A name without case, brackets and slashes: ``Speed [km/h]`` is ``speed_km_h``."""
    return "_".join(re.findall(r"[a-z0-9]+", name.lower().replace("°", "deg").replace("²", "2")))


def _known(names: list[str]) -> dict[str, tuple[str, float]]:
    plain = {_plain(name): name for name in reversed(names)}
    return {
        what: next((plain[alias], factor) for alias, factor in aliases.items() if alias in plain)
        for what, aliases in COLUMNS.items() if any(alias in plain for alias in aliases)
    }  # fmt: skip


def _refuse_unknown_units(table: _Table) -> None:
    """Refuse a column that looks like what is missing, but does not state its unit."""
    taken = {name for name, _ in table.known.values()}
    for what, other in (("speed", "distance"), ("yaw rate", "heading")):
        suspects = [
            name for name in table.data.column_names
            if name not in taken and _plain(name).startswith(_SUSPECTS[what]) and "sd" not in _plain(name)
        ]  # fmt: skip
        if suspects and what not in table.known and other not in table.known:
            names = ", ".join(list(COLUMNS[what])[:4])
            raise MotionError(
                f"{table.path} has a column '{suspects[0]}', whose unit is not known.", f"Name it as one of: {names}."
            )


def _floats(path: Path, name: str, column: pa.ChunkedArray) -> Floats:
    """A column of numbers; anything else is an error that names its row."""
    try:
        if pa.types.is_string(column.type):
            column = pc.utf8_trim_whitespace(column)
        values = np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
    except (pa.ArrowException, ValueError):
        values = np.array([_float(value) for value in column.to_pylist()])
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        raise MotionError(
            f"Row {row + 1} of {path} has no number in the column '{name}', but {column[row].as_py()!r}.",
            "Fill it or remove the row; sensors of different rates can be files of their own.",
        )
    return values


def _float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return np.nan


def _clock(path: Path, name: str, column: pa.ChunkedArray) -> Floats:
    """Seconds since 1970 of dates, or of numbers that can only be that."""
    try:
        if pa.types.is_string(column.type) and not re.fullmatch(r"[-+.,\deE ]+", str(column[0].as_py())):
            return np.array([_seconds(str(text)) for text in column.to_pylist()])
        if pa.types.is_timestamp(column.type):
            return np.asarray(column.cast(pa.timestamp("ns")).to_numpy()).astype(np.int64) / 1e9
    except (ValueError, IndexError, pa.ArrowException) as problem:
        raise MotionError(
            f"{path} has times in the column '{name}' that are not dates: {problem}.",
            "Write them like 2024-05-01T12:00:00.25Z, or as seconds in a column time_s.",
        ) from problem
    values = _floats(path, name, column)
    for unit_s in (1.0, 1e-3, 1e-6, 1e-9):
        if len(values) and EARLIEST_S <= values[0] * unit_s < LATEST_S:
            return values * unit_s
    raise MotionError(f"{path} does not say the unit of its column '{name}'.", "Name it time_s or time_ms.")


def _seconds(text: str) -> float:
    """Seconds since 1970 of a date; without a time zone it is UTC."""
    date = datetime.fromisoformat(text.strip().replace("/", "-"))
    return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - EPOCH).total_seconds()


def _names(data: pa.Table) -> str:
    return ", ".join(f"'{name[:40]}'" for name in data.column_names[:30])
