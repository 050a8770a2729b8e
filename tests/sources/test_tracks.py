"""Recorded tracks: GPX and CSV in, interpolation that refuses gaps, GPX out."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from x2localizer.errors import TrackError, UserError
from x2localizer.geo import distance_m
from x2localizer.sources.tracks import Track, read_track, write_gpx
from x2localizer.sources.tracks.points import Dropped
from x2localizer.types import Position

settings.register_profile("no-deadline", deadline=None)  # a busy machine is no failure
settings.load_profile("no-deadline")

NOON = datetime(2024, 5, 1, 12, 0, 0, tzinfo=UTC)
NOON_S = NOON.timestamp()


def point(lat: object, lon: object, time: str | None = None, extra: str = "") -> str:
    timed = "" if time is None else f"<time>{time}</time>"
    return f'<trkpt lat="{lat}" lon="{lon}">{timed}{extra}</trkpt>'


def gpx(*segments: str, head: str = '<?xml version="1.0" encoding="UTF-8"?>') -> str:
    inside = "".join(f"<trkseg>{segment}</trkseg>" for segment in segments)
    return (
        f'{head}<gpx version="1.1" creator="test" xmlns="http://www.topografix.com/GPX/1/1">'
        f"<trk><name>Straße</name>{inside}</trk></gpx>"
    )


def save(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def track(*rows: tuple[float, float, float], start: datetime | None = None) -> Track:
    times, lats, lons = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    return Track(times, lats, lons, start)


# ---------------------------------------------------------------- interpolation


def test_position_between_two_points_is_on_the_way_at_even_speed() -> None:
    drive = track((0, 48.0, 11.0), (4, 48.0, 11.004))
    quarter = drive.at(1.0)
    assert quarter is not None
    assert quarter.lon_deg == pytest.approx(11.001, abs=1e-9)
    assert quarter.lat_deg == pytest.approx(48.0, abs=1e-7)


def test_points_are_exact_and_the_outside_is_refused() -> None:
    drive = track((1, 48.1, 11.1), (2, 48.2, 11.2), (3, 48.3, 11.3))
    assert [drive.at(t) for t in (1, 2, 3)] == [
        Position(48.1, 11.1),
        Position(48.2, 11.2),
        Position(48.3, 11.3),
    ]
    for outside in (0.999, 3.001, -1e12, 1e12, np.inf, -np.inf, np.nan):
        assert drive.at(outside) is None


def test_a_gap_is_refused_but_its_two_ends_are_not() -> None:
    drive = track((0, 48.0, 11.0), (5, 48.0, 11.1), (10.1, 48.0, 11.2), (11, 48.0, 11.3))
    lats, _ = drive.positions(np.array([2.5, 5.0, 7.5, 10.1, 10.5]))
    assert np.isnan(lats).tolist() == [False, False, True, False, False]
    assert drive.at(7.5, max_gap_s=6.0) is not None
    assert drive.at(2.5, max_gap_s=4.9) is None


def test_an_allowed_gap_survives_rounding() -> None:
    drive = track((0, 48, 11), (5, 48, 11)).shifted(-3.3)
    assert drive.duration_s > 5.0
    assert drive.at(4.0) is not None


def test_a_stopped_car_and_a_single_point_are_tracks() -> None:
    parked = track((0, 48.0, 11.0), (1, 48.0, 11.0), (2, 48.0, 11.0))
    there = parked.at(0.5)
    assert there is not None
    assert (there.lat_deg, there.lon_deg) == pytest.approx((48.0, 11.0), abs=1e-12)
    assert parked.length_m == 0.0
    lone = track((7, 48.0, 11.0))
    assert lone.at(7) == Position(48.0, 11.0)
    assert lone.at(7.1) is None
    assert (lone.duration_s, lone.length_m) == (0.0, 0.0)


def test_many_positions_keep_the_shape_and_agree_with_one_by_one() -> None:
    drive = track((0, 48.0, 11.0), (1, 48.001, 11.001), (20, 48.1, 11.1))
    times = np.linspace(-1, 21, 24).reshape(4, 6)
    lats, lons = drive.positions(times)
    assert lats.shape == lons.shape == (4, 6)
    for when, lat, lon in zip(times.flat, lats.flat, lons.flat, strict=True):
        assert drive.at(float(when)) == (None if np.isnan(lat) else Position(lat, lon))


lat = st.floats(-89.0, 89.0)
lon = st.floats(-180.0, 180.0)
step = st.floats(-0.05, 0.05)


@given(lat, lon, step, step, st.floats(0.001, 5.0), st.floats(0.0, 1.0))
def test_interpolation_never_leaves_the_way_between_the_points(
    lat: float, lon: float, north: float, east: float, lasts_s: float, share: float
) -> None:
    lat_b = min(max(lat + north, -90), 90)
    lon_b = (lon + east + 180) % 360 - 180
    drive = track((0, lat, lon), (lasts_s, lat_b, lon_b))
    place = drive.at(lasts_s * share)
    assert place is not None
    assert -180 <= place.lon_deg <= 180
    whole = float(distance_m(lat, lon, lat_b, lon_b))
    before = float(distance_m(lat, lon, place.lat_deg, place.lon_deg))
    after = float(distance_m(place.lat_deg, place.lon_deg, lat_b, lon_b))
    assert before + after == pytest.approx(whole, abs=1e-5)
    assert before == pytest.approx(whole * share, abs=1e-5)


def test_the_antimeridian_is_crossed_the_short_way() -> None:
    ship = track((0, -17.0, 179.999), (2, -17.0, -179.999))
    middle = ship.at(1)
    assert middle is not None
    assert abs(middle.lon_deg) == pytest.approx(180.0, abs=1e-9)
    assert ship.length_m < 300


@pytest.mark.parametrize(
    ("times", "lats", "start"),
    [
        ([], [], None),
        ([0, 1], [1], None),
        ([0, 0], [1, 1], None),
        ([1, 0], [1, 1], None),
        ([0, np.nan], [1, 1], None),
        ([0, 1], [1, np.inf], None),
        ([[0, 1]], [[1, 1]], None),
        ([0, 1], [1, 1], datetime(2024, 1, 1)),
    ],
)
def test_a_track_refuses_what_is_not_one(times: list[float], lats: list[float], start: datetime | None) -> None:
    with pytest.raises(ValueError, match="track"):
        Track(np.array(times), np.array(lats), np.array(lats), start)


def test_a_track_cannot_be_changed() -> None:
    times = np.array([0.0, 1.0])
    drive = Track(times, times, times)
    times[0] = 9.0
    assert drive.times_s[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        drive.times_s[0] = 1.0


# ---------------------------------------------------------------- times


def test_of_points_at_the_same_time_the_first_is_kept(tmp_path: Path) -> None:
    rows = [f"{time},{lat},11" for lat in range(40) for time in (2, 1)]
    drive = read_track(save(tmp_path, "a.csv", "\n".join(["time,lat,lon", *rows])))
    assert drive.lats_deg.tolist() == [0.0, 0.0]
    assert drive.dropped == Dropped(duplicate_time=78)


@pytest.mark.parametrize("name", ["a.gpx", "a.csv"])
def test_a_time_without_a_zone_is_utc_wherever_the_reader_is(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "2024-05-01T12:00:00"
    content = gpx(point(48, 11, text)) if name == "a.gpx" else f"time,lat,lon\n{text},48,11\n"
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        if hasattr(time, "tzset"):
            time.tzset()
        start = read_track(save(tmp_path, name, content)).start_time
    if hasattr(time, "tzset"):
        time.tzset()
    assert start == NOON


# ---------------------------------------------------------------- offset


def test_offset_is_track_time_less_video_time(tmp_path: Path) -> None:
    """The logger was switched on 12 s before the camera: its 12 s is the first frame."""
    path = save(tmp_path, "a.csv", "time_s,lat,lon\n10,48.0,11\n12,48.2,11\n14,48.4,11\n")
    assert read_track(path).at(12) == Position(48.2, 11.0)
    shifted = read_track(path, offset_s=12)
    assert shifted.at(0) == Position(48.2, 11.0)
    assert shifted.at(2) == Position(48.4, 11.0)
    assert np.array_equal(read_track(path).shifted(12).times_s, shifted.times_s)


def test_offset_moves_the_utc_of_time_zero(tmp_path: Path) -> None:
    text = gpx(point(48, 11, "2024-05-01T12:00:00Z") + point(48, 11.001, "2024-05-01T12:00:04Z"))
    path = save(tmp_path, "a.gpx", text)
    moved = read_track(path, offset_s=1.5)
    assert moved.start_time == NOON + timedelta(seconds=1.5)
    assert moved.times_s.tolist() == [-1.5, 2.5]
    assert read_track(path).shifted(1.5).start_time == moved.start_time


@pytest.mark.parametrize("offset_s", [float("nan"), float("inf"), 1e300])
def test_a_senseless_offset_is_refused(tmp_path: Path, offset_s: float) -> None:
    path = save(tmp_path, "a.csv", "time_s,lat,lon\n0,48,11\n")
    with pytest.raises(TrackError, match="offset"):
        read_track(path, offset_s=offset_s)


# ---------------------------------------------------------------- GPX


def test_gpx_joins_segments_sorts_and_counts(tmp_path: Path) -> None:
    text = gpx(
        point(48.2, 11, "2024-05-01T12:00:02Z") + point(48.3, 11, "2024-05-01T12:00:03.500Z"),
        point(48.0, 11, "2024-05-01T14:00:00+02:00") + point(48.1, 11, "2024-05-01T12:00:01"),
        point(1, 1)
        + point(2, 2, "someday")
        + point(3, 3, "2024-05-01T12:00:02Z")
        + point(2, 2, "2024-05-01T12:00:05+99:00")
        + point(4, 4, "1970-01-01T00:00:00Z"),
        point(95, 11, "2024-05-01T12:00:09Z") + point("nan", 11, "2024-05-01T12:00:09Z"),
        point(5, 5, "2024-05-01T12:00:09Z", "<fix>none</fix>"),
    )
    drive = read_track(save(tmp_path, "a.gpx", text))
    assert drive.times_s.tolist() == [0.0, 1.0, 2.0, 3.5]
    assert drive.lats_deg.tolist() == [48.0, 48.1, 48.2, 48.3]
    assert drive.start_time == NOON
    assert drive.dropped == Dropped(without_time=4, without_fix=1, bad_position=2, duplicate_time=1)
    assert drive.dropped.total == 8
    assert "4 without a time" in str(drive.dropped)
    assert drive.reordered == 3


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("name", ["a.gpx", "a.xml"])
def test_gpx_of_any_encoding_and_suffix(tmp_path: Path, encoding: str, name: str) -> None:
    text = gpx(point(48, 11, "2024-05-01T12:00:00Z"), head="")
    assert read_track(save(tmp_path, name, text.encode(encoding))).at(0) == Position(48.0, 11.0)


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE gpx [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + "]><gpx>&i;</gpx>"
)
ENTITY = '<?xml version="1.0"?><!DOCTYPE gpx [<!ENTITY x SYSTEM "file:///etc/passwd">]><gpx>&x;</gpx>'


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "empty"),
        ("\n", "as GPX"),
        ("hello", "as GPX"),
        (
            gpx("<trkpt><extensions>" + "<a>" * 150_000 + "</a>" * 150_000 + "</extensions></trkpt>"),
            "more than 100 deep",
        ),
        (bytes(range(256)) * 20, "as GPX"),
        (gpx(point(48, 11, "2024-05-01T12:00:00Z"))[:-20], "as GPX"),
        (gpx(point("north", 11, "2024-05-01T12:00:00Z")), "as GPX"),
        (gpx('<trkpt lat="1"/>'), "as GPX"),
        (BOMB, "document type"),
        (BOMB.encode("utf-16"), "document type"),
        (ENTITY, "document type"),
        ("<html><body/></html>", "no recorded track"),
        (gpx(""), "no recorded track"),
        ('<gpx version="1.1"><wpt lat="1" lon="2"/></gpx>', "only routes or waypoints"),
        ('<gpx version="1.1"><rte><rtept lat="1" lon="2"/></rte></gpx>', "only routes or waypoints"),
        (gpx(point(48, 11) + point(48, 12)), "2 without a time"),
        (gpx(point(98, 11, "2024-05-01T12:00:00Z")), "1 with an impossible position"),
    ],
)
def test_gpx_that_holds_no_track(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    with pytest.raises(TrackError, match=complaint) as caught:
        read_track(save(tmp_path, "a.gpx", content))
    assert caught.value.remedy


# ---------------------------------------------------------------- CSV


@pytest.mark.parametrize(
    "content",
    [
        "time_s,lat,lon\n0,48.5,11.25\n1.5,48.6,-11.5\n",
        "\ufefflatitude;LONGITUDE;Time\r\n48,5;11,25;0\r\n48,6;-11,5;1,5\r\n",
        "Lat (deg)\tLong [deg]\tseconds\n48.5\t11.25\t0\n\n48.6\t-11.5\t1.5\n",
        '"speed","lng","timestamp","lat"\n"3","11.25","0","48.5"\n"4","-11.5","1.5","48.6"\n',
        "timestamp_ms, lat-deg, lon deg\n0, 48.5, 11.25\n1500, 48.6, -11.5\n",
        "time,time_s,lat,lon\nx,0,48.5,11.25\ny,1.5,48.6,-11.5\n",
    ],
    ids=["plain", "german", "tab-units", "quoted-reordered", "milliseconds", "best-time-column"],
)
def test_csv_of_plain_seconds(tmp_path: Path, content: str) -> None:
    drive = read_track(save(tmp_path, "a.csv", content))
    assert drive.times_s.tolist() == [0.0, 1.5]
    assert drive.lats_deg.tolist() == [48.5, 48.6]
    assert drive.lons_deg.tolist() == [11.25, -11.5]
    assert drive.start_time is None
    assert drive.dropped.total == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"{NOON_S:.3f}", f"{NOON_S + 1.5:.3f}"),
        (f"{NOON_S * 1e3:.0f}", f"{(NOON_S + 1.5) * 1e3:.0f}"),
        (f"{NOON_S * 1e6:.0f}", f"{(NOON_S + 1.5) * 1e6:.0f}"),
        (f"{NOON_S * 1e9:.0f}", f"{(NOON_S + 1.5) * 1e9:.0f}"),
        ("2024-05-01T12:00:00Z", "2024-05-01T12:00:01.500Z"),
        ("2024-05-01 12:00:00", "2024-05-01 12:00:01.5"),
        ("2024/05/01 12:00:00 UTC", "2024/05/01 12:00:01.5 UTC"),
        ("2024-05-01T07:00:00-05:00", "2024-05-01T14:00:01.500+02:00"),
    ],
)
def test_csv_of_absolute_times(tmp_path: Path, first: str, second: str) -> None:
    drive = read_track(save(tmp_path, "a.csv", f"utc,lat,lon\n{first},48,11\n{second},49,12\n"))
    assert drive.times_s == pytest.approx([0.0, 1.5], abs=1e-3)
    assert drive.start_time is not None
    assert abs(drive.start_time - NOON) < timedelta(milliseconds=1)


def test_csv_counts_bad_rows(tmp_path: Path) -> None:
    rows = ["time,lat,lon", "3,48.3,11", "1,48.1,11", "1,0,0", "2,91,11", "2,48,181", "2,nan,11", "x,48,11"]
    rows += [
        ",48,11",
        "2,,11",
        "2",
        "2,north,11",
        "",
        " , , ",
        "nan,48,11",
        "-inf,48,11",
        "4,48.4,11,more,cells",
    ]
    drive = read_track(save(tmp_path, "a.csv", "\n".join(rows)))
    assert drive.times_s.tolist() == [1.0, 3.0, 4.0]
    assert drive.lats_deg.tolist() == [48.1, 48.3, 48.4]
    assert drive.dropped == Dropped(without_time=3, bad_position=3, unreadable=4, duplicate_time=1)
    assert drive.reordered == 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "empty"),
        ("\n\n", "no column for lat and lon and time"),
        ("lat,lon\n1,2\n", "no column for time"),
        ("when,lat,lon\n0,1,2\n", "'when', 'lat', 'lon'"),
        ("0,48,11\n1,48,11\n", "no column for lat"),
        ("time,lat,lon\n", "no GPS positions"),
        ("time,lat,lon\n0,100,11\n", "1 with an impossible position"),
        ("time,lat,lon\n0,a,b\n0,c,d\n", "2 that cannot be parsed"),
        ("time,lat,lon\n12:00:01,1,2\n", "1 that cannot be parsed"),
        ("time,lat,lon\n2024-05-01,1,2,\n"[:13] + "\0" * 9, "not a text file"),
        ("time,lat,lon\n0,1," + "9" * 200_000, "as a table"),
        (bytes(range(256)), "not a text file"),
        (b"\xff\xd8\xff\xe0" + b"\x80\x9f" * 500, "no column"),
    ],
)
def test_csv_that_holds_no_track(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    with pytest.raises(TrackError, match=complaint) as caught:
        read_track(save(tmp_path, "a.csv", content))
    assert caught.value.remedy


numbers = ("0", "1.5", "-3", "48", "11", "1e9", "1e400", "1714564800", "nan", "-inf", "١", "1_0")
dates = ("2024-05-01T12:00:00Z", "0001-01-01", "9999-12-31", "9999-12-31T23:59:59-12:00")
cells = st.sampled_from([*numbers, *dates, "", '"', "\u2028", "x,y"])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(cells, max_size=4), max_size=8), st.sampled_from(",;\t"), st.floats(-1e9, 1e9))
def test_any_table_gives_a_sound_track_or_a_track_error(
    tmp_path: Path, rows: list[list[str]], separator: str, offset_s: float
) -> None:
    lines = [separator.join(["time", "lat", "lon"]), *(separator.join(row) for row in rows)]
    path = save(tmp_path, "a.csv", "\n".join(lines))
    try:
        drive = read_track(path, offset_s=offset_s)
    except TrackError:
        return
    assert np.all(np.diff(drive.times_s) > 0)
    assert np.all(np.abs(drive.lats_deg) <= 90)
    assert np.all(np.abs(drive.lons_deg) <= 180)


# ---------------------------------------------------------------- files of other kinds


@pytest.mark.parametrize("name", ["a.gpx", "a.csv"])
def test_a_file_too_large_for_memory_is_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("x2localizer.sources.tracks.text_files.MAX_BYTES", 10)
    with pytest.raises(TrackError, match="larger than"):
        read_track(save(tmp_path, name, "time,lat,lon\n0,1,2\n"))


@pytest.mark.parametrize("name", ["a.fit", "a", "a.png"])
def test_an_unknown_kind_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TrackError, match="known format"):
        read_track(save(tmp_path, name, b"\x0e\x10\xd9\x07 whatever"))


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.gpx", tmp_path):
        with pytest.raises(TrackError, match="Cannot read"):
            read_track(path)


# ---------------------------------------------------------------- GPX out


@given(
    st.lists(st.tuples(st.floats(-90, 90), st.floats(-180, 180)), min_size=1, max_size=20),
    st.lists(st.floats(0.001, 30.0), min_size=20, max_size=20),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_gpx_round_trip(tmp_path: Path, places: list[tuple[float, float]], steps: list[float]) -> None:
    times = np.cumsum(steps[: len(places)])
    lats, lons = np.array(places).T
    write_gpx(tmp_path / "out.gpx", Track(times, lats, lons, NOON), name="Tour <1> & back\x01")
    back = read_track(tmp_path / "out.gpx")
    assert back.start_time is not None
    utc = (back.start_time - NOON).total_seconds() + back.times_s
    assert utc == pytest.approx(times, abs=1e-3)
    assert back.lats_deg == pytest.approx(lats, abs=1e-7)
    assert back.lons_deg == pytest.approx(lons, abs=1e-7)


def test_gpx_out_has_utc_times_a_name_and_a_segment_after_a_gap(tmp_path: Path) -> None:
    start = NOON.astimezone(timezone(timedelta(hours=9)))
    drive = track((0, 48, 11), (1.25, 48, 11), (60, 48, 11), start=start)
    write_gpx(tmp_path / "new" / "out.gpx", drive, name="Tour")
    text = (tmp_path / "new" / "out.gpx").read_text()
    assert "<name>Tour</name>" in text
    assert "2024-05-01T12:00:01.250000Z" in text
    assert text.count("<trkseg>") == 2


def test_gpx_out_needs_a_date(tmp_path: Path) -> None:
    undated = track((0, 48, 11))
    with pytest.raises(TrackError, match="date"):
        write_gpx(tmp_path / "out.gpx", undated)
    with pytest.raises(ValueError, match="time zone"):
        write_gpx(tmp_path / "out.gpx", undated, start_time=datetime(2024, 5, 1))
    assert not (tmp_path / "out.gpx").exists()
    write_gpx(tmp_path / "out.gpx", undated, start_time=NOON)
    assert read_track(tmp_path / "out.gpx").start_time == NOON


def test_gpx_out_to_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    save(tmp_path, "file", "")
    with pytest.raises(UserError, match="Cannot write"):
        write_gpx(tmp_path / "file" / "out.gpx", track((0, 48, 11)), start_time=NOON)


@pytest.mark.parametrize("time", ["1e300", "-1e308", "1e12"])
def test_absurd_times_of_an_own_clock_are_dropped(tmp_path: Path, time: str) -> None:
    (tmp_path / "t.csv").write_text(f"time_s,lat,lon\n0,48,11\n1,48.0001,11\n{time},48.0002,11\n")
    track = read_track(tmp_path / "t.csv")
    assert (len(track), track.dropped.without_time) == (2, 1)
