"""GPS inside videos; the payloads and the MP4 files around them are made here, byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import telemetry_parser
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.telemetry_files import item, mp4, nest
from x2localizer.errors import TrackError
from x2localizer.sources.tracks import read_track
from x2localizer.sources.tracks.gpmf import gps_block
from x2localizer.sources.tracks.points import Dropped

settings.register_profile("no-deadline", deadline=None)  # a busy machine is no failure
settings.load_profile("no-deadline")

NOON = datetime(2024, 5, 1, 12, 0, 0, tzinfo=UTC)
Place = tuple[float, float]


def gps5(places: Sequence[Place], utc: datetime | None = NOON, fix: int = 3, dop: float = 2.0) -> bytes:
    stamp = b"" if utc is None else utc.strftime("%y%m%d%H%M%S.%f")[:16].encode()
    rows = b"".join(struct.pack(">5i", round(a * 1e7), round(b * 1e7), 500, 0, 0) for a, b in places)
    return nest(
        "STRM",
        item("GPSF", "L", 4, struct.pack(">I", fix)),
        item("GPSU", "U", 16, stamp),
        item("GPSP", "S", 2, struct.pack(">H", round(dop * 100))),
        item("SCAL", "l", 4, struct.pack(">5i", 10_000_000, 10_000_000, 1000, 1000, 100)),
        item("GPS5", "l", 20, rows),
    )


def gps9(places: Sequence[Place], utc: datetime = NOON, fixes: Sequence[int] = (), dop: float = 2.0) -> bytes:
    since = utc - datetime(2000, 1, 1, tzinfo=UTC)
    milliseconds = round((since.seconds + since.microseconds / 1e6) * 1e3)
    rows = b"".join(
        struct.pack(
            ">7i2H",
            *(round(a * 1e7), round(b * 1e7), 0, 0, 0, since.days, milliseconds),
            *(round(dop * 100), fixes[i] if fixes else 3),
        )
        for i, (a, b) in enumerate(places)
    )
    scales = (10_000_000, 10_000_000, 1000, 1000, 100, 1, 1000, 100, 1)
    return nest(
        "STRM",
        item("TYPE", "c", 1, b"lllllllSS"),
        item("SCAL", "l", 4, struct.pack(">9i", *scales)),
        item("GPS9", "?", 32, rows),
    )


def payload(*streams: bytes) -> bytes:
    accelerometer = nest("STRM", item("SCAL", "s", 2, b"\x01\xa2"), item("ACCL", "s", 6, b"\x01\x02\x03" * 10))
    return nest("DEVC", item("DVNM", "c", 1, b"Camera"), accelerometer, *streams)


def insta360_gps(readings: Sequence[tuple[float, bytes, float, float]]) -> bytes:
    return b"".join(
        struct.pack(
            "<QHcdcdcddd",
            *(int(time), round(time % 1 * 1000), fix, abs(lat), b"N" if lat >= 0 else b"S"),
            *(abs(lon), b"E" if lon >= 0 else b"W", 0.0, 0.0, 0.0),
        )
        for time, fix, lat, lon in readings
    )


def insta360_trailer(records: Sequence[tuple[int, bytes]]) -> bytes:
    """What Insta360 puts behind the film: records, each followed by its format, kind and length."""
    body = b"".join(data + struct.pack("<BBI", 0, kind, len(data)) for kind, data in records)
    return body + bytes(32) + struct.pack("<II", len(body) + 72, 3) + b"8db42d694ccc418790edff439fe026bf"


def insta360(readings: Sequence[tuple[float, bytes, float, float]]) -> bytes:
    return insta360_trailer([(7, insta360_gps(readings))])


def save(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


EAST: list[Place] = [(48.0, 11.0), (48.0, 11.0001), (48.0, 11.0002), (48.0, 11.0003)]
FURTHER: list[Place] = [(48.0, 11.0004), (48.0, 11.0005)]


# ---------------------------------------------------------------- GoPro


@pytest.mark.parametrize("make", [gps5, gps9], ids=["GPS5", "GPS9"])
@pytest.mark.parametrize("name", ["a.mp4", "a.360", "a.bin"])
def test_gopro_video_gives_positions_on_the_clock_of_the_video(tmp_path: Path, make: object, name: str) -> None:
    assert callable(make)
    film = mp4([payload(make(EAST)), payload(make(FURTHER, NOON + timedelta(seconds=1)))], b"gpmd")
    drive = read_track(save(tmp_path, name, film))
    assert drive.times_s == pytest.approx([0, 0.25, 0.5, 0.75, 1.0, 1.5])
    assert drive.lons_deg == pytest.approx([11.0, 11.0001, 11.0002, 11.0003, 11.0004, 11.0005], abs=1e-9)
    assert drive.lats_deg == pytest.approx([48.0] * 6, abs=1e-9)
    assert drive.start_time == NOON
    assert drive.dropped.total == 0


def test_time_zero_is_the_first_frame_of_the_picture(tmp_path: Path) -> None:
    """The picture starts half a second into the file, and the telemetry with it."""
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as film:
        pictures = film.add_stream("mpeg4", rate=10)
        pictures.width = pictures.height = 64
        telemetry = film.add_data_stream("bin_data")
        for i in range(5, 16):
            picture = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24")
            picture.pts, picture.time_base = i, Fraction(1, 10)
            film.mux(pictures.encode(picture))
        packet = av.Packet(payload(gps5(EAST)))
        packet.pts = packet.dts = 500
        packet.duration, packet.time_base, packet.stream = 1000, Fraction(1, 1000), telemetry
        film.mux(packet)
        film.mux(pictures.encode())
    drive = read_track(path)
    assert drive.times_s == pytest.approx([0, 0.25, 0.5, 0.75], abs=1e-3)
    assert drive.start_time == NOON


def test_the_video_starts_before_the_first_fix(tmp_path: Path) -> None:
    nowhere = payload(gps5([(0.0, 0.0)] * 2, utc=datetime(2015, 1, 1, tzinfo=UTC), fix=0))
    film = mp4([nowhere, nowhere, payload(gps5(FURTHER, NOON))], b"gpmd", packet_ms=1001)
    drive = read_track(save(tmp_path, "a.mp4", film))
    assert drive.times_s == pytest.approx([2.002, 2.5025])
    assert drive.start_time == NOON - timedelta(seconds=2.002)
    assert drive.at(0.5) is None
    assert drive.dropped == Dropped(without_fix=4)


def test_readings_without_fix_or_precision_are_dropped(tmp_path: Path) -> None:
    streams = [
        gps9(EAST, fixes=[3, 0, 2, 3]),
        gps9(EAST, dop=99.99),
        gps5([(0.0, 0.0), (48.0, 11.0)]),
    ]
    film = mp4([payload(stream) for stream in streams], b"gpmd")
    drive = read_track(save(tmp_path, "a.mp4", film))
    assert drive.times_s == pytest.approx([0.0, 0.5, 0.75, 2.5])
    assert drive.dropped == Dropped(without_fix=2, imprecise=4)


def test_the_better_of_two_gps_streams_is_taken_alone(tmp_path: Path) -> None:
    for streams in ([gps5(FURTHER), gps9(EAST)], [gps9(EAST), gps5(FURTHER)]):
        film = mp4([payload(*streams)], b"gpmd")
        assert len(read_track(save(tmp_path, "a.mp4", film))) == len(EAST)


@pytest.mark.parametrize("name", ["a.raw", "a.gpmf", "a.bin"])
def test_a_bare_stream_is_timed_by_its_utc(tmp_path: Path, name: str) -> None:
    data = payload(gps5(EAST)) + payload(gps5(FURTHER, NOON + timedelta(seconds=1.2)))
    drive = read_track(save(tmp_path, name, data))
    assert drive.times_s == pytest.approx([0, 0.3, 0.6, 0.9, 1.2, 1.7], abs=1e-5)
    assert drive.start_time == NOON


def test_a_bare_stream_without_utc_has_no_times(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match="4 without a time"):
        read_track(save(tmp_path, "a.raw", payload(gps5(EAST, utc=None))))


def test_a_gopro_without_fix_or_gps_says_so(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match="4 without a GPS fix") as caught:
        read_track(save(tmp_path, "a.mp4", mp4([payload(gps5(EAST, fix=0))], b"gpmd")))
    assert "open sky" in caught.value.remedy
    with pytest.raises(TrackError, match="no GPS positions"):
        read_track(save(tmp_path, "a.mp4", mp4([payload()], b"gpmd")))


def test_a_cut_payload_is_read_as_far_as_it_goes() -> None:
    whole = payload(gps5(EAST))
    for cut, samples in [(0, 4), (1, 3), (20, 3), (21, 2), (60, 1), (80, 0)]:
        block = gps_block(whole[: len(whole) - cut])
        assert block is not None
        assert len(block.lats_deg) == samples
    assert gps_block(whole[: len(whole) - 90]) is None


@pytest.mark.parametrize(
    "stream",
    [
        nest("STRM", item("GPS5", "l", 20, bytes(20))),  # no scale
        nest("STRM", item("SCAL", "l", 4, bytes(20)), item("GPS5", "l", 20, bytes(20))),  # a scale of 0
        nest("STRM", item("SCAL", "l", 4, b"\0\0\0\1" * 3), item("GPS5", "l", 20, bytes(20))),
        nest("STRM", item("SCAL", "s", 2, b"\0\1"), item("GPS5", "l", 16, bytes(16))),
        nest("STRM", item("SCAL", "s", 2, b"\0\1"), item("GPS5", "z", 20, bytes(20))),
        nest("STRM", item("SCAL", "s", 2, b"\0\1"), item("GPS9", "?", 32, bytes(32))),  # no type
        nest("STRM", item("SCAL", "s", 2, b"\0\1"), item("TYPE", "c", 1, b"ll"), item("GPS9", "?", 8, bytes(8))),
    ],
)
def test_damaged_gps_is_no_gps(stream: bytes) -> None:
    assert gps_block(payload(stream)) is None


@given(st.integers(0, 400), st.binary(min_size=1, max_size=12), st.booleans())
def test_damage_anywhere_does_no_harm(at: int, damage: bytes, newer: bool) -> None:
    data = bytearray(payload(gps9(EAST) if newer else gps5(EAST)))
    data[at : at + len(damage)] = damage
    block = gps_block(bytes(data))
    assert block is None or len(block.lats_deg) == len(block.fixed) == len(block.dops)


@given(st.binary(max_size=200))
def test_noise_is_no_gps(noise: bytes) -> None:
    gps_block(noise)
    gps_block(nest("DEVC", noise))


def test_deep_nesting_is_not_followed() -> None:
    data = gps5(EAST)
    for _ in range(2000):
        data = nest("DEVC", data[:65000])
    assert gps_block(data) is None


# ---------------------------------------------------------------- other cameras


def test_camm_positions_are_on_the_clock_of_the_video(tmp_path: Path) -> None:
    gyroscope = struct.pack("<HH3f", 0, 2, 0.1, 0.2, 0.3)
    simple = struct.pack("<HHddd", 0, 5, 48.0, 11.0, 500.0)
    found = struct.pack("<HHdidd7f", 0, 6, 1.39e9, 3, 48.1, 11.1, *[0.0] * 7)
    lost = struct.pack("<HHdidd7f", 0, 6, 1.39e9, 0, 48.2, 11.2, *[0.0] * 7)
    film = mp4([gyroscope, simple, found, lost], b"camm", packet_ms=500)
    drive = read_track(save(tmp_path, "a.mp4", film))
    assert drive.times_s == pytest.approx([0.5, 1.0])
    assert drive.lats_deg.tolist() == [48.0, 48.1]
    assert drive.start_time is None
    assert drive.dropped == Dropped(without_fix=1)


def test_insta360_positions_start_at_the_first(tmp_path: Path) -> None:
    start = NOON.timestamp()
    readings = [
        (start + 0.25, b"A", 48.0, -11.0),
        (start + 1.25, b"V", 48.0, -11.0),
        (start + 2.25, b"A", -48.1, 11.1),
    ]
    drive = read_track(save(tmp_path, "a.insv", mp4([b"none"], b"mp4s") + insta360(readings)))
    assert drive.times_s == pytest.approx([0.0, 2.0])
    assert drive.lats_deg.tolist() == [48.0, -48.1]
    assert drive.lons_deg.tolist() == [-11.0, 11.1]
    assert drive.start_time == NOON + timedelta(seconds=0.25)
    assert drive.dropped == Dropped(without_fix=1)


def test_insta360_agrees_with_telemetry_parser(tmp_path: Path) -> None:
    """The library reads the same, but loads every motion sensor with it."""
    readings = [(NOON.timestamp() + i + i / 100, b"AAV"[i % 3 :][:1], 48.0 - 10 * i, 9.0 * i - 50) for i in range(9)]
    path = save(tmp_path, "a.insv", mp4([b"none"], b"mp4s") + insta360(readings))
    theirs = telemetry_parser.Parser(str(path)).telemetry()[0]["GPS"]["Data"]
    fixed = [reading for reading in theirs if reading["is_acquired"]]
    drive = read_track(path)
    assert drive.start_time is not None
    assert drive.start_time.timestamp() + drive.times_s == pytest.approx(
        [reading["unix_timestamp"] for reading in fixed], abs=1e-5
    )
    assert drive.lats_deg.tolist() == [reading["lat"] for reading in fixed]
    assert drive.lons_deg.tolist() == [reading["lon"] for reading in fixed]
    assert drive.dropped.without_fix == len(theirs) - len(fixed) == 3


def test_the_gps_record_is_found_behind_and_before_others(tmp_path: Path) -> None:
    reading = insta360_gps([(NOON.timestamp(), b"A", 48.0, 11.0)])
    for records in ([(3, bytes(999)), (7, reading), (4, b"")], [(7, reading + b"cut"), (1, b"x")]):
        film = mp4([b"none"], b"mp4s") + insta360_trailer(records)
        assert len(read_track(save(tmp_path, "a.insv", film))) == 1


@given(st.integers(0, 200), st.binary(min_size=1, max_size=8))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_trailer_does_no_harm(tmp_path: Path, before_end: int, damage: bytes) -> None:
    film = bytearray(mp4([b"none"], b"mp4s") + insta360([(NOON.timestamp(), b"A", 48.0, 11.0)] * 2))
    at = len(film) - before_end
    film[at : at + len(damage)] = damage
    with suppress(TrackError):
        assert len(read_track(save(tmp_path, "a.insv", bytes(film)))) > 0


def test_a_video_without_gps_says_so(tmp_path: Path) -> None:
    for film in (mp4([b"none"], b"mp4s"), mp4([b"none"], b"mp4s") + insta360([])):
        with pytest.raises(TrackError, match="no GPS positions") as caught:
            read_track(save(tmp_path, "a.mp4", film))
        assert "GPX" in caught.value.remedy


@pytest.mark.parametrize("content", [b"no video at all" * 9, bytes(4) + b"ftypmp41" + bytes(99)])
def test_a_broken_video_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(TrackError, match="as a video"):
        read_track(save(tmp_path, "a.mp4", content))


@pytest.mark.parametrize("data", [b"", b"\0" * 64, bytes(range(256)) * 4])
def test_a_raw_file_without_any_gps_is_a_clear_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "noise.gpmf"
    path.write_bytes(data)
    with pytest.raises(TrackError):
        read_track(path)
