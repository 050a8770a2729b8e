"""The service over HTTP: sessions, frames, odometry, tracks, errors."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import gpxpy
import httpx
import pytest

from helpers.served import Served, jpeg, samples
from x2localizer.errors import UserError
from x2localizer.serve.client import Client


def status(client: Client, method: str, path: str, **options: object) -> int:
    """The status of any request."""
    return client._http.request(method, path, **options).status_code  # type: ignore[arg-type]


def test_frames_beside_odometry_get_fixes(client: Client) -> None:
    session = client.create(name="van", odometry="samples")
    for second in range(4):
        session.odometry(samples(second, second + 1))
        answer = session.frame(jpeg(second), second + 0.9)
        assert answer["outcome"] == "fix"
        assert answer["fix"]["index"] == second
        assert answer["dropped"] == 0
    assert answer["fix"]["status"] in ("locating", "lost")  # the towers of the tests are untrained
    assert -90 <= answer["fix"]["lat_deg"] <= 90
    assert answer["fix"]["speed_m_s"] == pytest.approx(9.0, rel=0.2)
    assert [fix["index"] for fix in session.fixes()] == [0, 1, 2, 3]
    assert [fix["index"] for fix in session.fixes(2)] == [2, 3]
    about = next(row for row in client.sessions() if row["id"] == session.id)
    assert about["counts"]["fixes"] == 4
    assert about["latest"]["index"] == 3


def test_a_frame_between_two_fixes_is_skipped(client: Client) -> None:
    session = client.create(odometry="samples")
    assert session.frame(jpeg(), 0.0)["outcome"] == "fix"
    assert session.frame(jpeg(1), 0.4)["outcome"] == "skipped"
    session.odometry(samples(0, 1.2))
    assert session.frame(jpeg(2), 1.1)["outcome"] == "fix"


def test_frames_alone_are_used_for_odometry(client: Client) -> None:
    session = client.create(camera={"fov_deg": 70, "height_m": 1.4})
    outcomes = [session.frame(jpeg(k // 3, 96, 160), k / 7)["outcome"] for k in range(9)]
    assert outcomes.count("fix") == 2
    assert outcomes.count("taken") == 7


def test_frames_without_any_movement_are_lost_and_say_why(client: Client) -> None:
    session = client.create(odometry="samples")
    session.frame(jpeg(), 0.0)
    answer = session.frame(jpeg(1), 1.0)
    assert answer["fix"]["status"] == "lost"
    assert answer["fix"]["lat_deg"] is None
    assert "odometry" in answer["note"]


def test_odometry_alone_gets_a_fix_a_second(client: Client) -> None:
    session = client.create(odometry="samples-only")
    answers = session.odometry(samples(0, 3.1))
    assert [answer["fix"]["time_s"] for answer in answers] == [0.0, 1.0, 2.0, 3.0]
    assert session.odometry(samples(3.1, 3.5)) == []
    with pytest.raises(UserError, match="odometry alone"):
        session.frame(jpeg(), 4.0)


def test_a_batch_is_answered_in_order(client: Client) -> None:
    session = client.create(odometry="samples")
    session.odometry(samples(0, 6))
    files = [("frames", (f"{k}.5.jpg", jpeg(k), "image/jpeg")) for k in range(5)]
    answers = client.request("POST", f"/v1/sessions/{session.id}/frames/batch", files=files).json()
    assert [answer["time_s"] for answer in answers] == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert {answer["outcome"] for answer in answers} == {"fix"}


@pytest.mark.parametrize("name", ["noon.jpg", "", "1e9.jpg", "../1.jpg", "nan"])
def test_a_batch_needs_times(client: Client, name: str) -> None:
    session = client.create(odometry="samples")
    path = f"/v1/sessions/{session.id}/frames/batch"
    assert status(client, "POST", path, files=[("frames", (name, jpeg(), "image/jpeg"))]) == 422


def test_tracks_come_in_four_formats(client: Client) -> None:
    session = client.create(name="<van> & co", odometry="samples")
    session.odometry(samples(0, 4))
    for second in range(3):
        session.frame(jpeg(second), float(second))
    gpxpy.parse(session.track("gpx").decode())
    points = [f for f in json.loads(session.track("geojson"))["features"] if f["geometry"]["type"] == "Point"]
    assert len(points) == 3
    assert b"&lt;van&gt;" in session.track("kml")
    assert len(list(csv.DictReader(io.StringIO(session.track("csv").decode())))) == 3
    assert status(client, "GET", f"/v1/sessions/{session.id}/track.exe") == 422


def test_an_ended_session_keeps_its_track_and_takes_no_frame(client: Client) -> None:
    session = client.create(odometry="samples")
    session.frame(jpeg(), 0.0)
    session.end()
    session.end()
    assert len(session.fixes()) == 1
    with pytest.raises(UserError, match="has ended"):
        session.frame(jpeg(), 1.0)
    client.request("DELETE", f"/v1/sessions/{session.id}")
    with pytest.raises(UserError, match="no session"):
        session.fixes()


def test_a_prior_says_where_the_camera_is(client: Client) -> None:
    session = client.create(odometry="samples")
    first = session.frame(jpeg(), 0.0)["fix"]
    near = {"lat_deg": first["lat_deg"], "lon_deg": first["lon_deg"], "radius_m": 60.0}
    about = client.request("PUT", f"/v1/sessions/{session.id}/prior", json={"prior": near}).json()
    assert about["prior"] == near
    session.odometry(samples(0, 2))
    again = session.frame(jpeg(1), 1.0)["fix"]
    assert again["index"] == 1
    assert abs(again["lat_deg"] - first["lat_deg"]) * 111_000 < 150
    with pytest.raises(UserError, match="nothing at that place"):
        client.create(prior={"lat_deg": 0.0, "lon_deg": 0.0, "radius_m": 10.0})


def test_the_belief_and_the_last_frame_can_be_looked_at(client: Client) -> None:
    session = client.create(odometry="samples")
    assert status(client, "GET", f"/v1/sessions/{session.id}/belief") == 404
    assert status(client, "GET", f"/v1/sessions/{session.id}/frame.jpg") == 404
    session.frame(jpeg(0, 480, 960), 0.0)
    grid = client.request("GET", f"/v1/sessions/{session.id}/belief", params={"cells": 8}).json()
    assert len(grid["values"]) == 8
    assert grid["south"] < grid["north"]
    assert 0.5 * grid["on_map"] < sum(map(sum, grid["values"])) <= grid["on_map"] + 1e-3
    picture = client.request("GET", f"/v1/sessions/{session.id}/frame.jpg")
    assert picture.headers["content-type"] == "image/jpeg"
    assert len(picture.content) < 40_000


def test_a_clock_that_runs_backwards_is_refused_and_nothing_is_lost(client: Client) -> None:
    session = client.create(odometry="samples")
    session.odometry(samples(10, 13))
    session.frame(jpeg(), 10.0)
    for bad in (10.0, 9.0, -5.0, 10.0 + 90_000):
        with pytest.raises(UserError, match="clock"):
            session.frame(jpeg(), bad)
    with pytest.raises(UserError, match="backwards"):
        session.odometry(samples(11, 12))
    assert session.frame(jpeg(1), 11.0)["outcome"] == "fix"


@pytest.mark.parametrize(
    "body", [b"", b"not a picture", b"\xff\xd8\xff\xe0garbage", b"GIF89a" + bytes(100), jpeg()[:200], bytes(10_000)],
    ids=["empty", "text", "broken", "gif", "cut", "zeros"],
)  # fmt: skip
def test_garbage_is_refused_and_the_session_goes_on(client: Client, body: bytes) -> None:
    session = client.create(odometry="samples")
    answer = client._http.post(f"/v1/sessions/{session.id}/frames", params={"time_s": 0.5}, content=body)
    assert answer.status_code == 422
    assert set(answer.json()) == {"error", "remedy"}
    assert session.frame(jpeg(), 1.0)["outcome"] == "fix"


def test_a_frame_with_too_many_pixels_is_not_decoded(client: Client) -> None:
    from PIL import Image

    out = io.BytesIO()
    Image.new("L", (12_000, 9_000)).save(out, "JPEG")
    session = client.create(odometry="samples")
    answer = client._http.post(f"/v1/sessions/{session.id}/frames", params={"time_s": 0.0}, content=out.getvalue())
    assert answer.status_code == 413
    assert "12000 x 9000" in answer.json()["error"]


def test_a_body_that_is_too_large_is_refused(client: Client) -> None:
    session = client.create(odometry="samples")
    path = f"/v1/sessions/{session.id}/frames?time_s=0"
    assert status(client, "POST", path, content=bytes((4 << 20) + 1)) == 413

    def parts() -> object:
        for _ in range(50):
            yield bytes(100_000)

    assert status(client, "POST", path, content=parts()) == 413  # without a length


@pytest.mark.parametrize(
    "options",
    [{"odometry": "magic"}, {"name": ""}, {"camera": {"fov_deg": 0}}, {"prior": {"lat_deg": 91}}, {"speed": 1},
     {"use_tiles": False, "use_roads": False}, {"camera": {"fov_deg": 1e400}}],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(client: Client, options: dict[str, object]) -> None:
    answer = client._http.post(
        "/v1/sessions", content=json.dumps(options), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422
    assert set(answer.json()) == {"error", "remedy"}


@pytest.mark.parametrize(
    "sample", [{"time_s": 0.0}, {"time_s": 1e12, "speed_m_s": 1}, {"time_s": 0, "speed_m_s": 500}, {"speed_m_s": 5}]
)
def test_samples_that_make_no_sense_are_refused(client: Client, sample: dict[str, float]) -> None:
    session = client.create(odometry="samples")
    assert status(client, "POST", f"/v1/sessions/{session.id}/odometry", json={"samples": [sample]}) == 422


def test_samples_for_a_session_that_measures_its_own_are_refused(client: Client) -> None:
    session = client.create()
    with pytest.raises(UserError, match="measures its odometry in the frames"):
        session.odometry(samples(0, 1))


def test_events_come_as_they_happen_and_missed_ones_come_first(service: Served, client: Client) -> None:
    session = client.create(odometry="samples")
    session.odometry(samples(0, 5))
    for second in range(3):
        session.frame(jpeg(second), float(second))
    with httpx.stream(
        "GET", f"{service.address}/v1/sessions/{session.id}/events", headers={"last-event-id": "0"}, timeout=20
    ) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        found: list[int] = []
        for line in stream.iter_lines():
            if not line.startswith("id: "):
                continue
            found.append(int(line[4:]))
            if found == [1, 2]:
                session.frame(jpeg(9), 3.0)
            if found == [1, 2, 3]:
                session.end()
    assert found == [1, 2, 3]


def test_health_metrics_and_headers(client: Client) -> None:
    assert client.request("GET", "/healthz").json() == {"status": "ok"}
    assert client.request("GET", "/readyz").json() == {"status": "ok"}
    session = client.create(odometry="samples")
    session.frame(jpeg(), 0.0)
    text = client.request("GET", "/metrics").text
    for name in ("x2l_fixes_total", "x2l_stage_seconds_bucket", "x2l_dropped_frames_total", "x2l_lost_share",
                 "x2l_searches_total", "x2l_answer_seconds_count"):  # fmt: skip
        assert name in text
    answer = client.request("GET", "/v1/info")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "server" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers


def test_the_client_in_the_docs_works(service: Served) -> None:
    page = (Path(__file__).parents[2] / "docs" / "live.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    assert "http://127.0.0.1:8471" in block
    names: dict[str, Any] = {"jpeg": jpeg()}
    exec(compile(block.replace("http://127.0.0.1:8471", service.address), "live.md", "exec"), names)
    assert b"<gpx" in names["gpx"]


def test_unknown_places_and_methods_are_json(client: Client) -> None:
    for method, path, code in (("GET", "/v1/nothing", 404), ("PATCH", "/v1/sessions", 405), ("GET", "/", 404)):
        answer = client._http.request(method, path)
        assert answer.status_code == code
        assert set(answer.json()) == {"error", "remedy"}
