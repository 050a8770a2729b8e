"""What a hostile or broken client may send: the others do not notice."""

from __future__ import annotations

import asyncio
import io
import socket
import time
from itertools import pairwise
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image as Pillow

from helpers.served import PATIENT, jpeg, served
from x2localizer.encoders import Bundle
from x2localizer.gallery import Gallery
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.serve import connections
from x2localizer.serve.errors import BadInputError, ConflictError, NotThereError
from x2localizer.serve.follower import Follower
from x2localizer.serve.hub import Hub
from x2localizer.serve.pictures import MOST_SCANS, decode_jpeg
from x2localizer.serve.samples import Sample, SampleBuffer
from x2localizer.serve.settings import SessionOptions
from x2localizer.sources.video.open import redacted

BY_SAMPLES = SessionOptions(odometry="samples")


def test_a_jpeg_of_many_scans_is_refused_before_it_is_decoded() -> None:
    out = io.BytesIO()
    image = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    Pillow.fromarray(image).save(out, "JPEG", progressive=True)
    data = out.getvalue()
    assert decode_jpeg(data, 10_000).shape == (64, 64, 3)  # a usual progressive one
    start = data.rindex(b"\xff\xda")
    scan = data[start : data.rindex(b"\xff\xd9")]
    with pytest.raises(BadInputError, match="too many scans"):
        decode_jpeg(data[:start] + scan * (MOST_SCANS + 1) + b"\xff\xd9", 10_000)


def test_a_long_gap_of_the_odometry_is_no_work(served_gallery: Gallery) -> None:
    tracker = Tracker(TrackMap.of(served_gallery, tiles=False), settings=PATIENT.track)
    follower = Follower(tracker, SessionOptions(odometry="samples-only"))
    follower.add_samples([Sample(k / 10, 9.0, 0.0) for k in range(30)])
    assert follower.due_times() == pytest.approx([0.0, 1.0, 2.0])
    day = 80_000.0
    follower.add_samples([Sample(day + k / 10, 9.0, 0.0) for k in range(30)])
    times = follower.due_times()
    assert len(times) < 8
    assert all(abs(time_s - 3.0) < 3.0 or time_s >= day for time_s in times)


@pytest.mark.parametrize("batches", [[[0.0], [5e10]], [[0.0, 5e10]], [[0.0, 0.1], [0.2, 5e10]]])
def test_samples_of_another_age_are_refused(served_gallery: Gallery, batches: list[list[float]]) -> None:
    tracker = Tracker(TrackMap.of(served_gallery, tiles=False), settings=PATIENT.track)
    follower = Follower(tracker, SessionOptions(odometry="samples-only"))
    with pytest.raises(ConflictError, match="jumps ahead"):
        for times in batches:
            follower.add_samples([Sample(time_s, 9.0, 0.0) for time_s in times])


def test_movements_across_a_long_gap_are_those_of_its_ends() -> None:
    buffer, day = SampleBuffer(), 80_000.0
    buffer.add([Sample(start_s + k / 10, 9.0, 0.0) for start_s in (0.0, day) for k in range(30)])
    movements = buffer.movements(0.3, day + 2.9, 0.5)
    naive = [buffer._between(float(a), float(b)) for a, b in pairwise(np.linspace(0.3, day + 2.9, 160_007))]
    expected = [movement for movement in naive if movement is not None]
    assert len(movements) == len(expected) > 8
    for ours, theirs in zip(movements, expected, strict=True):
        assert (ours.start_s, ours.end_s, ours.distance_m) == pytest.approx(
            (theirs.start_s, theirs.end_s, theirs.distance_m)
        )


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("rtsp://user:p@ss@camera/live", "rtsp://camera/live"),
        ("rtsp://user:pass@camera:554/a@b", "rtsp://camera:554/a@b"),
        ("rtsp://camera/live", "rtsp://camera/live"),
    ],
)
def test_no_part_of_a_password_is_shown(address: str, shown: str) -> None:
    assert redacted(address) == shown


def test_an_origin_that_is_no_address_is_forbidden(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "FIRST_REQUEST_S", 0.5)
    with served(served_gallery, tiny_bundle, tmp_path) as service:
        assert httpx.get(service.address + "/v1/sessions", headers={"origin": "http://["}).status_code == 403
        host, port = service.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as silent:
            silent.settimeout(10.0)
            assert silent.recv(1) == b""  # closed: it holds no place for long
        with httpx.Client() as busy:
            assert busy.get(service.address + "/healthz").status_code == 200
            time.sleep(0.8)
            assert busy.get(service.address + "/healthz").status_code == 200  # one that has asked is kept


def _in_hub(gallery: Gallery, bundle: Bundle, folder: Path, work: object, **limits: object) -> None:
    async def go() -> None:
        hub = Hub(gallery, bundle, folder, PATIENT.model_copy(update=limits))
        await hub.start()
        try:
            await work(hub)  # type: ignore[operator]
        finally:
            await hub.close()

    asyncio.run(asyncio.wait_for(go(), 120.0))


def test_old_ended_sessions_make_room(served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path) -> None:
    async def work(hub: Hub) -> None:
        ended = [await hub.create(BY_SAMPLES) for _ in range(5)]
        for session in ended:
            await session.end()
        await hub.tidy()
        assert [session.id for session in hub.sessions()] == [session.id for session in ended[-2:]]

    _in_hub(served_gallery, tiny_bundle, tmp_path, work, ended_sessions=2)


def test_a_clock_that_is_set_back_keeps_nobody_awake(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(hub: Hub) -> None:
        session = await hub.create(BY_SAMPLES)
        await session.push(jpeg(), 0.0)
        await session.settle()
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now - 3600.0)
        await asyncio.sleep(0.2)
        await hub.tidy()
        assert not session.awake

    _in_hub(served_gallery, tiny_bundle, tmp_path, work, park_after_s=0.1)


def test_what_waits_for_a_session_that_ends_is_refused(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    async def work(hub: Hub) -> None:
        session = await hub.create(BY_SAMPLES)
        async with session._lock:
            ending = asyncio.create_task(session.end())
            await asyncio.sleep(0)
            adding = asyncio.create_task(session.add_odometry([Sample(0.0, 1.0, 0.0)]))
            await asyncio.sleep(0)
        await ending
        with pytest.raises(ConflictError, match="has ended"):
            await adding
        await hub.remove(session.id)
        with pytest.raises(NotThereError):
            await hub.wake(session)

    _in_hub(served_gallery, tiny_bundle, tmp_path, work)


def test_a_cancelled_step_is_taken_back(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(hub: Hub) -> None:
        session = await hub.create(BY_SAMPLES)
        await session.add_odometry([Sample(0.0, 1.0, 0.0)])
        assert session.awake

        async def forever(*_: object) -> None:
            await asyncio.sleep(60.0)

        monkeypatch.setattr(session, "_save", forever)
        adding = asyncio.create_task(session.add_odometry([Sample(1.0, 1.0, 0.0)]))
        await asyncio.sleep(0.1)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert not session.awake  # the next step starts from what is stored

    _in_hub(served_gallery, tiny_bundle, tmp_path, work)
