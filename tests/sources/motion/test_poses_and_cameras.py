"""Motion from poses and from a GoPro's sensors, against drives whose motion is known; and several records as one."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from helpers.telemetry_files import item, mp4, nest
from x2localizer.errors import MotionError
from x2localizer.sources.motion import MotionRecord, join_motion, read_motion
from x2localizer.sources.motion.join import UNKNOWN_DISTANCE_VAR
from x2localizer.types import Floats

SPEED, YAW = 10.0, 12.0
"""Of the drive: metres and degrees (clockwise) per second."""
COUNT = 101
TILT = np.array([[1.0, 0.0, 0.0], [0.0, 0.8, -0.6], [0.0, 0.6, 0.8]])


def _drive(pitch_deg: float = 0.0) -> tuple[Floats, Floats, Floats]:
    """Times, camera rotations (x right, y down, z forward) and places of a circle to the right, 10 a second."""
    times = np.arange(COUNT) / 10
    heading = np.radians(YAW * times)
    sin, cos, zero, one = np.sin(heading), np.cos(heading), np.zeros(COUNT), np.ones(COUNT)
    rotations = np.array([[cos, zero, sin], [zero, one, zero], [-sin, zero, cos]]).transpose(2, 0, 1)
    radius = SPEED / np.radians(YAW)
    places = np.stack([radius * (1 - cos), zero, radius * sin], 1)
    p = np.radians(pitch_deg)
    pitch = np.array([[1, 0, 0], [0, np.cos(p), -np.sin(p)], [0, np.sin(p), np.cos(p)]])
    return times, rotations @ pitch, places


def _kitti(path: Path, rotations: Floats, places: Floats) -> Path:
    rows = np.concatenate([rotations, places[:, :, None]], 2).reshape(len(places), 12)
    np.savetxt(path, rows, fmt="%.9f")
    return path


def _quaternions(rotations: Floats) -> Floats:
    """x, y, z, w of rotations that turn by less than 180 degrees."""
    w = 0.5 * np.sqrt(np.maximum(1 + np.trace(rotations, axis1=1, axis2=2), 1e-12))
    r = rotations
    vector = np.stack([r[:, 2, 1] - r[:, 1, 2], r[:, 0, 2] - r[:, 2, 0], r[:, 1, 0] - r[:, 0, 1]], 1) / (4 * w[:, None])
    return np.concatenate([vector, w[:, None]], 1)


def _tum(path: Path, times: Floats, rotations: Floats, places: Floats) -> Path:
    rows = np.concatenate([times[:, None], places, _quaternions(rotations)], 1)
    np.savetxt(path, rows, fmt="%.9f", header="timestamp tx ty tz qx qy qz qw")
    return path


def _is_the_drive(record: MotionRecord, seconds: float = 10.0, rel: float = 2e-3) -> None:
    assert record.duration_s == pytest.approx(seconds)
    assert record.distances_m[-1] == pytest.approx(SPEED * 10, rel=rel)
    assert record.headings_deg[-1] == pytest.approx(YAW * 10, rel=rel)
    assert np.all(np.diff(record.headings_deg) > 0)


@pytest.mark.parametrize("pitch_deg", [0.0, 5.0])
@pytest.mark.parametrize("world", [np.eye(3), TILT], ids=["level", "tilted"])
def test_kitti_poses(pitch_deg: float, world: Floats, tmp_path: Path) -> None:
    _, rotations, places = _drive(pitch_deg)
    path = _kitti(tmp_path / "00.txt", world @ rotations, places @ world.T)
    _is_the_drive(read_motion(path), rel=0.02 if pitch_deg else 2e-3)


def test_the_times_of_kitti_poses(tmp_path: Path) -> None:
    times, rotations, places = _drive()
    path = _kitti(tmp_path / "00.txt", rotations, places)
    _is_the_drive(read_motion(path, rate_hz=20.0), 5.0)
    np.savetxt(tmp_path / "times.txt", times * 2)
    _is_the_drive(read_motion(path), 20.0)
    np.savetxt(tmp_path / "times.txt", times[:-1])
    with pytest.raises(MotionError, match=r"101 poses, but .* 100 times"):
        read_motion(path)
    _is_the_drive(read_motion(path, rate_hz=10.0))


def test_driving_back_is_negative_and_standing_is_nothing(tmp_path: Path) -> None:
    _, rotations, places = _drive()
    back = read_motion(_kitti(tmp_path / "a.txt", rotations[::-1], places[::-1]))
    assert back.distances_m[-1] == pytest.approx(-SPEED * 10, rel=2e-3)
    noise = np.random.default_rng(0).normal(0, 0.05, (COUNT, 3))
    still = read_motion(_kitti(tmp_path / "b.txt", np.repeat(rotations[:1], COUNT, 0), noise))
    assert abs(still.distances_m[-1]) < 0.3


def test_tum_trajectories_of_camera_and_body(tmp_path: Path) -> None:
    times, rotations, places = _drive()
    _is_the_drive(read_motion(_tum(tmp_path / "camera.txt", times, rotations, places)))
    body_in_camera = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
    to_level = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])  # x ahead, y left, z up
    body = to_level @ rotations @ body_in_camera
    record = read_motion(_tum(tmp_path / "body.tum", times + 1.7e9, body, places @ to_level.T))
    _is_the_drive(record)
    assert record.times_s[0] == 0.0
    assert record.start_time is not None
    assert record.start_time.timestamp() == pytest.approx(1.7e9)
    sideways = _tum(tmp_path / "side.txt", times, np.repeat(np.eye(3)[None], COUNT, 0), places[:, [1, 0, 1]])
    with pytest.raises(MotionError, match="which way is forward"):
        read_motion(sideways)


def test_bad_poses_are_clear_errors(tmp_path: Path) -> None:
    _, rotations, places = _drive()
    with pytest.raises(MotionError, match=r"Row 1 .* no rotation"):
        read_motion(_kitti(tmp_path / "a.txt", 2 * rotations, places))
    with pytest.raises(MotionError, match=r"Row 1 .* no rotation"):
        read_motion(_kitti(tmp_path / "a.txt", -rotations, places))
    with pytest.raises(MotionError, match="speed of 10,0"):
        read_motion(_kitti(tmp_path / "a.txt", rotations, places * 1000))
    lines = (_kitti(tmp_path / "a.txt", rotations, places)).read_text().splitlines()
    (tmp_path / "a.txt").write_text("\n".join([*lines[:5], "1 2 3", *lines[5:]]))
    with pytest.raises(MotionError, match=r"Line 6 of .* is not 12 numbers"):
        read_motion(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text(lines[0].replace(lines[0].split()[0], "nan") + "\n" + lines[1])
    with pytest.raises(MotionError, match="Line 1"):
        read_motion(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_text("0 0 0 0 0 0 0 1\n0 0 0 0 0 0 0 1\n1 0 0 1 0 0 0 1\n2 0 0 2 0 0 0 1\n")
    with pytest.raises(MotionError, match=r"Rows 1 and 2 of .* same time"):
        read_motion(tmp_path / "b.txt")
    (tmp_path / "b.txt").write_text("0 0 0 0 1 1 1 1\n1 0 0 0 0 0 0 1\n")
    with pytest.raises(MotionError, match="quaternions"):
        read_motion(tmp_path / "b.txt")


def _sensor(key: str, scale: int, rows: Floats) -> bytes:
    values = np.round(rows * scale).astype(">i2").tobytes()
    return nest("STRM", item("SCAL", "s", 2, struct.pack(">h", scale)), item(key, "s", 6, values))


def _gopro(up: Floats, clockwise_deg_s: float = YAW, speed: float | None = SPEED) -> bytes:
    """A second of a camera that is mounted with ``up`` as its upward direction; the rest of its turning is a wobble."""
    up = up / np.linalg.norm(up)
    wobble = np.cross(up, [0.3, 0.5, 0.8]) * np.sin(np.arange(200) * 0.7)[:, None]
    gyro = -np.radians(clockwise_deg_s) * up + wobble
    shake = np.random.default_rng(0).normal(0, 0.5, (200, 3))
    streams = [_sensor("ACCL", 418, 9.81 * up + shake - shake.mean(0)), _sensor("GYRO", 3755, gyro)]
    if speed is not None:
        rows = b"".join(struct.pack(">5i", 481000000, 115000000, 500, round(speed * 1000), 0) for _ in range(18))
        scales = struct.pack(">5i", 10_000_000, 10_000_000, 1000, 1000, 100)
        fix = item("GPSF", "L", 4, struct.pack(">I", 3))
        utc = item("GPSU", "U", 16, b"240501120000.000")
        streams.append(nest("STRM", fix, utc, item("SCAL", "l", 4, scales), item("GPS5", "l", 20, rows)))
    return nest("DEVC", *streams)


@pytest.mark.parametrize("up", [(1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.5, -0.7, 0.3)])
def test_a_gopros_gyroscope_turns_about_the_vertical(up: tuple[float, float, float], tmp_path: Path) -> None:
    (tmp_path / "a.raw").write_bytes(_gopro(np.array(up)) * 10)
    (tmp_path / "a.mp4").write_bytes(mp4([_gopro(np.array(up))] * 10, b"gpmd"))
    for name in ("a.raw", "a.mp4"):
        record = read_motion(tmp_path / name)
        move = record.between(1.0, 9.0)
        assert move is not None
        assert move.turn_deg == pytest.approx(8 * YAW, rel=0.01)
        assert move.distance_m == pytest.approx(8 * SPEED, rel=1e-3)
        assert record.start_time is not None
        assert record.start_time.isoformat() == "2024-05-01T12:00:00+00:00"
        assert len(record.times_s) < 10 * 40


def test_a_gopro_without_gps_has_turns_alone(tmp_path: Path) -> None:
    (tmp_path / "a.raw").write_bytes(_gopro(np.array([1.0, 0.0, 0.0]), speed=None) * 5)
    record = read_motion(tmp_path / "a.raw")
    assert (record.has_distance, record.has_turn) == (False, True)
    assert record.start_time is None


def test_bad_telemetry_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a.raw").write_bytes(nest("DEVC", item("DVNM", "c", 1, b"Camera")))
    with pytest.raises(MotionError, match="no gyroscope and no GPS speed"):
        read_motion(tmp_path / "a.raw")
    (tmp_path / "a.raw").write_bytes(nest("DEVC", _sensor("GYRO", 100, np.zeros((50, 3)))) * 3)
    with pytest.raises(MotionError, match="which way is up"):
        read_motion(tmp_path / "a.raw")
    (tmp_path / "a.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + bytes(40))
    with pytest.raises(MotionError):
        read_motion(tmp_path / "a.mp4")
    good = _gopro(np.array([1.0, 0.0, 0.0])) * 2
    rng = np.random.default_rng(2)
    for _ in range(40):
        data = np.frombuffer(good, np.uint8).copy()
        data[rng.integers(0, len(data), 30)] = rng.integers(0, 256, 30)
        (tmp_path / "b.raw").write_bytes(data.tobytes())
        try:
            read_motion(tmp_path / "b.raw")
        except MotionError as problem:
            assert "b.raw" in str(problem)


def _record(times: Floats, speed: float | None, yaw: float | None, sd: float = 1.0) -> MotionRecord:
    return MotionRecord.of_rates(
        times, None if speed is None else np.full(len(times), speed), None if yaw is None else np.full(len(times), yaw),
        speed_sd_m_s=sd, yaw_sd_deg_s=sd, scale_sd=0.1, bias_sd_deg_s=0.2,
    )  # fmt: skip


def test_records_are_joined_by_their_inverse_variance() -> None:
    a, b = _record(np.arange(0, 11.0), 10.0, 0.0, 1.0), _record(np.arange(0, 10.1, 0.25), 20.0, 8.0, 2.0)
    move = join_motion([a, b]).between(0.0, 10.0)
    assert move is not None
    assert move.distance_m == pytest.approx(10 * (10 * 0.8 + 20 * 0.2))
    assert move.turn_deg == pytest.approx(10 * 8 * 0.2)
    assert move.distance_sd_m == pytest.approx((10 / (1 + 0.25)) ** 0.5)
    assert join_motion([a, b]).scale_sd == pytest.approx(0.1 * (0.8**2 + 0.2**2) ** 0.5)
    assert join_motion([a]) is a


def test_a_wheel_and_a_gyroscope_make_one_record() -> None:
    wheel, gyro = _record(np.arange(0, 21.0), 10.0, None), _record(np.arange(5, 15.0, 0.02), None, 6.0)
    joined = join_motion([wheel, gyro])
    assert joined.has_distance
    assert joined.has_turn
    inside = joined.between(6.0, 10.0)
    assert inside is not None
    assert (inside.distance_m, inside.turn_deg) == pytest.approx((40.0, 24.0))
    assert (inside.distance_sd_m, inside.turn_sd_deg) == pytest.approx((2.0, 2.0))
    before = joined.between(0.0, 4.0)
    assert before is not None
    assert before.distance_m == pytest.approx(40.0)
    assert before.turn_sd_deg == pytest.approx(180.0), "nothing measured a turn there"
    only = join_motion([gyro, gyro])
    assert (only.has_distance, only.has_turn) == (False, True)


def test_a_gap_is_not_bridged_by_joining() -> None:
    times = np.concatenate([np.arange(0, 10.0), np.arange(30, 40.0)])
    joined = join_motion([_record(times, 10.0, 0.0), _record(np.arange(0, 40.0), None, 3.0)])
    gap = joined.between(12.0, 20.0)
    assert gap is not None
    assert gap.distance_sd_m == pytest.approx((8 * UNKNOWN_DISTANCE_VAR) ** 0.5)
    assert gap.turn_deg == pytest.approx(24.0)
    with pytest.raises(MotionError, match="do not belong together"):
        join_motion([_record(np.arange(0, 5.0), 1.0, 1.0), _record(np.arange(100, 105.0), 1.0, 1.0)])
    with pytest.raises(ValueError, match="no records"):
        join_motion([])
