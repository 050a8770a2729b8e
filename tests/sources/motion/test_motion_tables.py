"""Motion in tables: units, times, files that are written and read again, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.command_line import x2l
from x2localizer.errors import MotionError
from x2localizer.sources.motion import MotionRecord, read_motion, write_motion

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ROWS = [(0.0, 10.0, 0.0), (1.0, 10.0, 6.0), (2.0, 20.0, 6.0)]


def _save(folder: Path, text: str, name: str = "a.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def _table(header: str, rows: Sequence[tuple[float, ...]], separator: str = ",") -> str:
    return "\n".join([header, *(separator.join(f"{value:.10g}" for value in row) for row in rows)]) + "\n"


def _is_the_drive(record: MotionRecord) -> None:
    np.testing.assert_allclose(record.times_s - record.times_s[0], [0.0, 1.0, 2.0], atol=1e-6)
    np.testing.assert_allclose(record.distances_m, [0.0, 10.0, 25.0], rtol=1e-6)
    np.testing.assert_allclose(record.headings_deg, [0.0, 3.0, 9.0], rtol=1e-6)
    assert record.has_distance
    assert record.has_turn


RAD = np.pi / 180


@pytest.mark.parametrize(
    ("header", "factors", "separator"),
    [
        ("time_s,speed_m_s,yaw_rate_deg_s", (1, 1, 1), ","),
        ("time_ms;speed_km_h;yaw_rate_rad_s", (1000, 3.6, RAD), ";"),
        ("Timestamp [ns]\tSpeed [km/h]\tYaw Rate (°/s)", (1e9, 3.6, 1), "\t"),
        ("seconds,SPEED_MPH,yaw_rate_ccw_rad_s", (1, 1 / 0.44704, -RAD), ","),
        ("time_s,distance_sensor,speed_m_s,yaw_rate_deg_s", (1, None, 1, 1), ","),
    ],
)
def test_units_are_in_the_names(header: str, factors: tuple[float | None, ...], separator: str, tmp_path: Path) -> None:
    rows = []
    for row in ROWS:
        values = iter(row)
        rows.append(tuple(7.0 if factor is None else next(values) * factor for factor in factors))
    _is_the_drive(read_motion(_save(tmp_path, _table(header, rows, separator))))


def test_decimal_commas_and_other_blanks(tmp_path: Path) -> None:
    text = "\ufefftime_s; speed_m_s ;yaw_rate_deg_s\r\n0,0;10,0;0,0\r\n 1,0;10;6\r\n2;20;6,0\r\n"
    _is_the_drive(read_motion(_save(tmp_path, text)))


@pytest.mark.parametrize("clock", ["2024-05-01T12:00:0{}Z", "2024-05-01 14:00:0{}+02:00", "2024/05/01 12:00:0{}"])
def test_dates_are_times(clock: str, tmp_path: Path) -> None:
    lines = [f"{clock.format(int(t))},{v},{w}" for t, v, w in ROWS]
    record = read_motion(_save(tmp_path, "\n".join(["time,speed_m_s,yaw_rate_deg_s", *lines])))
    _is_the_drive(record)
    assert (record.start_time, record.times_s[0]) == (NOON, 0.0)


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e6, 1e9])
def test_numbers_since_1970_need_no_unit(unit: float, tmp_path: Path) -> None:
    lines = [f"{int((NOON.timestamp() + t) * unit)},{v},{w}" for t, v, w in ROWS]
    record = read_motion(_save(tmp_path, "\n".join(["timestamp,speed_m_s,yaw_rate_deg_s", *lines])), offset_s=0.5)
    _is_the_drive(record)
    assert record.times_s[0] == pytest.approx(-0.5)
    assert record.start_time == NOON + timedelta(seconds=0.5)


def test_parquet(tmp_path: Path) -> None:
    t, v, w = (list(column) for column in zip(*ROWS, strict=True))
    pq.write_table(pa.table({"time_s": t, "speed_m_s": v, "yaw_rate_deg_s": w}), tmp_path / "a.parquet")
    _is_the_drive(read_motion(tmp_path / "a.parquet"))
    dates = pa.array([NOON + timedelta(seconds=s) for s in t], pa.timestamp("ms", tz="UTC"))
    pq.write_table(pa.table({"time": dates, "speed_m_s": v, "yaw_rate_deg_s": w}), tmp_path / "b.parquet")
    record = read_motion(tmp_path / "b.parquet")
    _is_the_drive(record)
    assert record.start_time == NOON
    (tmp_path / "c.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-30])
    with pytest.raises(MotionError, match="as a table"):
        read_motion(tmp_path / "c.parquet")


def test_deviations_are_variances_that_add_up(tmp_path: Path) -> None:
    header = "time_s,speed_m_s,yaw_rate_deg_s,speed_sd_m_s,yaw_rate_sd_deg_s"
    record = read_motion(_save(tmp_path, _table(header, [(*row, 0.5, 2.0) for row in ROWS])))
    np.testing.assert_allclose(record.distance_vars, [0.0, 0.25, 0.5])
    np.testing.assert_allclose(record.heading_vars, [0.0, 4.0, 8.0])


def test_one_of_the_two_is_enough(tmp_path: Path) -> None:
    wheel = read_motion(_save(tmp_path, _table("time_s,speed_m_s", [row[:2] for row in ROWS])))
    assert (wheel.has_distance, wheel.has_turn) == (True, False)
    move = wheel.between(0.0, 2.0)
    assert move is not None
    assert (move.distance_m, move.turn_deg, move.turn_sd_deg) == (25.0, 0.0, np.inf)
    assert np.isfinite(move.distance_sd_m)
    gyro = read_motion(_save(tmp_path, _table("time_s,yaw_rate_deg_s", [(row[0], row[2]) for row in ROWS])))
    move = gyro.between(0.0, 2.0)
    assert move is not None
    assert (move.turn_deg, move.distance_sd_m) == (9.0, np.inf)


def test_an_odometer_and_a_compass(tmp_path: Path) -> None:
    rows = [(0.0, 1000.0, 350.0), (1.0, 1010.0, 358.0), (2.0, 1025.0, 8.0)]
    record = read_motion(_save(tmp_path, _table("time_s,distance_m,heading_deg", rows)))
    np.testing.assert_allclose(record.distances_m, [0.0, 10.0, 25.0])
    np.testing.assert_allclose(record.headings_deg, [0.0, 8.0, 18.0])


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.uniform(0.05, 0.2, 300))
    record = MotionRecord.of_rates(times, rng.uniform(0, 20, 300), rng.normal(0, 30, 300))
    write_motion(tmp_path / "a.csv", record)
    again = read_motion(tmp_path / "a.csv")
    for name in ("times_s", "distances_m", "headings_deg", "distance_vars", "heading_vars"):
        values = getattr(record, name)
        np.testing.assert_allclose(getattr(again, name), values, rtol=1e-7, atol=1e-6)
    assert (tmp_path / "a.csv").read_text().startswith("time_s,speed_m_s,distance_m,")
    turn = MotionRecord.of_rates(times, None, rng.normal(0, 30, 300))
    write_motion(tmp_path / "b.csv", turn)
    assert not read_motion(tmp_path / "b.csv").has_distance


BAD = {
    "no column of times; it has 'speed_m_s'": "speed_m_s\n1\n2\n",
    "no column of speeds or yaw rates": "time_s,lat,lon\n0,1,2\n1,1,2\n",
    "column 'speed', whose unit is not known": "time_s,speed,yaw_rate_deg_s\n0,1,2\n1,1,2\n",
    "column 'Yaw', whose unit is not known": "time_s,speed_m_s,Yaw\n0,1,2\n1,1,2\n",
    "does not say the unit of its column 'time'": "time,speed_m_s\n0,1\n1,1\n",
    "that are not dates": "time,speed_m_s\nyesterday,1\ntoday,1\n",
    "go back at row 3": "time_s,speed_m_s\n0,1\n2,1\n1,1\n",
    "Rows 2 and 3 of .* the same time": "time_s,speed_m_s\n0,1\n1,1\n1,1\n2,1\n3,1\n",
    "clock of .* is stuck: 75%": "time_s,speed_m_s\n5,1\n5,1\n5,1\n5,1\n6,1\n",
    "Row 2 of .* no number in the column 'speed_m_s', but 'nan'": "time_s,speed_m_s\n0,1\n1,nan\n",
    "Row 1 of .* no number in the column 'speed_m_s', but ''": "time_s,speed_m_s\n0,\n1,3\n",
    "Row 2 of .* but 'fast'": "time_s,speed_m_s\n0,1\n1,fast\n",
    "has 1 rows, too few": "time_s,speed_m_s\n0,1\n",
    "has 0 rows, too few": "time_s,speed_m_s\n",
    "is empty": "",
    "Row 2 of .* speed of 200 m/s": "time_s,speed_m_s\n0,1\n1,200\n",
    "Row 1 of .* yaw rate of -5,730 degrees": "time_s,yaw_rate_rad_s\n0,-100\n1,2\n",
    "as a table": "time_s,speed_m_s\n0,1\n1,2,3\n",
}


@pytest.mark.parametrize("match", BAD)
def test_bad_tables_are_clear_errors(match: str, tmp_path: Path) -> None:
    with pytest.raises(MotionError, match=match):
        read_motion(_save(tmp_path, BAD[match]))


def test_bad_paths_offsets_and_bytes(tmp_path: Path) -> None:
    with pytest.raises(MotionError, match="No such file"):
        read_motion(tmp_path / "none.csv")
    with pytest.raises(MotionError, match="offset of nan"):
        read_motion(tmp_path / "none.csv", float("nan"))
    with pytest.raises(MotionError, match="rate of 0"):
        read_motion(tmp_path / "none.csv", rate_hz=0.0)
    (tmp_path / "a.bin").write_bytes(bytes(range(256)) * 9)
    with pytest.raises(MotionError, match="not motion in a known format"):
        read_motion(tmp_path / "a.bin")
    rng = np.random.default_rng(1)
    good = _table("time_s,speed_m_s,yaw_rate_deg_s", ROWS).encode()
    for _ in range(60):
        data = np.frombuffer(good, np.uint8).copy()
        data[rng.integers(0, len(data), 3)] = rng.integers(0, 256, 3)
        (tmp_path / "b.csv").write_bytes(data.tobytes())
        try:
            read_motion(tmp_path / "b.csv")
        except MotionError as problem:
            assert "b.csv" in str(problem)


def test_inspect_shows_motion(tmp_path: Path) -> None:
    path = _save(tmp_path, _table("time_s,speed_m_s,yaw_rate_deg_s", ROWS))
    text = x2l("inspect", str(path))
    assert "25 m" in text
    assert "9 degrees, clockwise" in text


def test_a_recording_of_years_is_refused(tmp_path: Path) -> None:
    """It would be followed second by second."""
    (tmp_path / "m.csv").write_text("time_s,speed_m_s\n0,8\n1,8\n100000000,8\n")
    with pytest.raises(MotionError, match="days long"):
        read_motion(tmp_path / "m.csv")


def test_a_table_too_large_for_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.csv").write_text("time_s,speed_m_s\n" + "".join(f"{t},8\n" for t in range(100)))
    assert len(read_motion(tmp_path / "m.csv").times_s) == 100
    monkeypatch.setattr("x2localizer.sources.motion.read.MAX_BYTES", 100)
    with pytest.raises(MotionError, match="too large"):
        read_motion(tmp_path / "m.csv")
