"""The hub in this process: back-pressure, sleep, listeners, a store that fails, sources and pictures."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.served import FEW_POSES, PATIENT, jpeg
from x2localizer.encoders import Bundle
from x2localizer.gallery import Gallery
from x2localizer.serve import store
from x2localizer.serve.allow import Allowed
from x2localizer.serve.errors import BusyError, ConflictError, StoreError
from x2localizer.serve.events import Board, Event
from x2localizer.serve.hub import Hub
from x2localizer.serve.samples import Sample, SampleBuffer, from_array, to_array
from x2localizer.serve.session import Session
from x2localizer.serve.settings import Near, ServeSettings, SessionOptions
from x2localizer.serve.town_car import TownCar, drive_session
from x2localizer.sources.motion import MotionRecord
from x2localizer.town.folder import save_drive
from x2localizer.town.town import Town
from x2localizer.types import Codes, Images

BY_SAMPLES = SessionOptions(odometry="samples")


@asynccontextmanager
async def hub_on(
    gallery: Gallery, bundle: Bundle, folder: Path, settings: ServeSettings = PATIENT, allowed: Allowed | None = None
) -> AsyncIterator[Hub]:
    hub = Hub(gallery, bundle, folder, settings, allowed=allowed)
    await hub.start()
    try:
        yield hub
    finally:
        await hub.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 300.0))


def samples(start_s: float, end_s: float) -> list[Sample]:
    times = np.arange(round(start_s * 10), round(end_s * 10)) / 10
    return [Sample(float(t), 9.0, 1.0) for t in times]


async def drive(session: Session, start: int, end: int) -> None:
    for second in range(start, end):
        await session.add_odometry(samples(second, second + 1))
        answer = await session.push(jpeg(second), second + 0.9)
        assert answer.outcome == "fix"


def hold_up(hub: Hub, seconds: float) -> None:
    """Make the encoder slow."""
    assert hub.batcher is not None
    real = hub.batcher.encoder

    class Slow:
        def encode_frames(self, images: Images) -> Codes:
            time.sleep(seconds)
            return real.encode_frames(images)

    hub.batcher.encoder = Slow()  # type: ignore[assignment]


def test_too_many_frames_push_out_the_oldest_and_the_newest_is_answered(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    async def work() -> None:
        settings = PATIENT.model_copy(update={"queue_frames": 3})
        async with hub_on(served_gallery, tiny_bundle, tmp_path, settings) as hub:
            session = await hub.create(BY_SAMPLES)
            hold_up(hub, 0.2)
            with session.subscribe() as news:
                waiting = [session.submit(jpeg(k), float(k)) for k in range(10)]
                answers = await asyncio.gather(*waiting)
                first = await news.next(5.0)
            assert [a.outcome for a in answers][:6] == ["dropped"] * 6 or answers[0].outcome == "fix"
            assert [a.outcome for a in answers][-3:] == ["fix"] * 3
            assert session.counts.dropped == sum(a.outcome == "dropped" for a in answers) >= 6
            assert answers[-1].dropped == session.counts.dropped
            assert first is not None
            assert first.kind == "dropped"

    run(work())


def test_no_answer_is_later_than_the_bound(served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path) -> None:
    async def work() -> None:
        settings = PATIENT.model_copy(update={"answer_within_s": 0.5})
        async with hub_on(served_gallery, tiny_bundle, tmp_path, settings) as hub:
            session = await hub.create(BY_SAMPLES)
            hold_up(hub, 2.0)
            with session.subscribe() as news:
                start = time.monotonic()
                waiting = [session.submit(jpeg(k), float(k)) for k in range(3)]
                answers = await asyncio.gather(*waiting)
                took = time.monotonic() - start
                assert took < 1.9
                assert answers[0].outcome == "late"
                assert {a.outcome for a in answers[1:]} == {"dropped"}
                event = await news.next(30.0)
                while event is not None and event.kind != "fix":
                    event = await news.next(30.0)
            assert event is not None  # the fix that was late
            assert event.fix is not None
            assert event.fix.time_s == 0.0
            assert session.counts.late == 1

    run(work())


def test_frames_of_many_sessions_are_encoded_together(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    async def work() -> None:
        async with hub_on(served_gallery, tiny_bundle, tmp_path) as hub:
            sizes: list[int] = []
            assert hub.batcher is not None
            hub.batcher._observe = lambda seconds, frames: sizes.append(frames)
            hold_up(hub, 0.1)
            sessions = [await hub.create(BY_SAMPLES) for _ in range(8)]
            answers = await asyncio.gather(*(session.push(jpeg(k), 0.0) for k, session in enumerate(sessions)))
            assert {a.outcome for a in answers} == {"fix"}
            assert sum(sizes) == 8
            assert len(sizes) < 8

    run(work())


def test_a_sleeping_session_wakes_up_as_it_was(served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path) -> None:
    async def work() -> None:
        async with hub_on(served_gallery, tiny_bundle, tmp_path) as hub:
            awake, sleeper = await hub.create(BY_SAMPLES), await hub.create(BY_SAMPLES)
            await drive(awake, 0, 4)
            await drive(sleeper, 0, 4)
            await sleeper.park()
            assert not sleeper.awake
            await drive(awake, 4, 6)
            await drive(sleeper, 4, 6)
            assert [f.guess for f in await sleeper.fixes()] == [f.guess for f in await awake.fixes()]

    run(work())


def test_a_thousand_sessions_that_are_left_open_cost_little(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    async def work() -> None:
        async with hub_on(served_gallery, tiny_bundle, tmp_path) as hub:
            busy = await hub.create(BY_SAMPLES)
            await drive(busy, 0, 1)
            left = [await hub.create(BY_SAMPLES) for _ in range(1000)]
            assert not any(session.awake for session in left)
            await drive(busy, 1, 2)
            for session in left:
                session._used -= hub.settings.expire_after_s + 1.0
            await hub.tidy()
            assert not any(session.is_open for session in left)
            assert busy.is_open

    run(work())


def test_only_so_many_sessions_are_awake(served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path) -> None:
    async def work() -> None:
        settings = PATIENT.model_copy(update={"awake_sessions": 2})
        async with hub_on(served_gallery, tiny_bundle, tmp_path, settings) as hub:
            first, second, third = [await hub.create(BY_SAMPLES) for _ in range(3)]
            await first.push(jpeg(), 0.0)
            await second.push(jpeg(), 0.0)
            with pytest.raises(BusyError, match="as many as it can"):
                await third.push(jpeg(), 0.0)
            first._used -= 60.0
            assert (await third.push(jpeg(), 1.0)).outcome == "fix"
            assert not first.awake

    run(work())


def test_what_cannot_be_stored_is_not_acknowledged(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def work() -> None:
        async with hub_on(served_gallery, tiny_bundle, tmp_path) as hub:
            session = await hub.create(BY_SAMPLES)
            await drive(session, 0, 2)
            with monkeypatch.context() as broken:
                broken.setattr(store, "apply", full)
                with pytest.raises(StoreError, match="disk is full"):
                    await session.push(jpeg(2), 2.9)
            assert len(await session.fixes()) == 2
            await session.add_odometry(samples(2, 4))
            answer = await session.push(jpeg(3), 3.9)
            assert answer.fix is not None
            assert answer.fix.index == 2

    run(work())


def test_a_slow_listener_misses_the_oldest_and_is_told() -> None:
    async def work() -> None:
        board = Board()
        with board.subscribe(most=3) as slow, board.subscribe(most=100) as quick:
            for number in range(10):
                board.publish(Event("dropped", "x", dropped=number))
            assert slow.missed == 7
            assert [(await slow.next()).dropped for _ in range(3)] == [7, 8, 9]  # type: ignore[union-attr]
            assert quick.missed == 0
            assert await slow.next(0.01) is None
        assert len(board) == 0

    run(work())


def test_a_new_prior_starts_the_belief_again_and_keeps_the_track(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    async def work() -> None:
        async with hub_on(served_gallery, tiny_bundle, tmp_path) as hub:
            session = await hub.create(BY_SAMPLES)
            await drive(session, 0, 3)
            assert session.latest is not None
            guess = session.latest.guess
            assert guess is not None
            await session.set_prior(Near(lat_deg=guess.lat_deg, lon_deg=guess.lon_deg, radius_m=50.0))
            await drive(session, 3, 4)
            assert [fix.index for fix in await session.fixes()] == [0, 1, 2, 3]
            grid = await session.belief_grid(16)
            assert grid is not None
            assert grid.values.sum() == pytest.approx(grid.on_map, rel=0.1)

    run(work())


def test_a_video_file_is_pulled_to_its_end(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path, town: Town
) -> None:
    save_drive(town, tmp_path / "videos", 1, 4.0, fps=7.0, height=96, width=160)
    video = str(tmp_path / "videos" / "drive.mp4")

    async def work() -> None:
        allowed = Allowed((tmp_path / "videos",))
        async with hub_on(served_gallery, tiny_bundle, tmp_path / "state", allowed=allowed) as hub:
            session = await hub.create(SessionOptions(source=video))
            with session.subscribe() as news:
                while session.is_open:
                    await news.next(60.0)
            assert session.source_state == "ended"
            assert len(await session.fixes()) == 4
            assert session.counts.dropped == 0

    run(work())


def test_a_car_drives_through_a_session(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path, town: Town
) -> None:
    async def work() -> None:
        car = TownCar.on(town, 1, 5.0, height=96, width=160)
        async with hub_on(served_gallery, tiny_bundle, tmp_path) as hub:
            session = await hub.create(BY_SAMPLES)
            answers = [answer async for answer in drive_session(car, session, pace=50.0)]
            assert answers[0].outcome == "fix"
            assert answers[-1].fix is not None
            assert len(await session.fixes()) == len([a for a in answers if a.outcome == "fix"])
        truth = car.truth(2.0)
        assert -90 < truth.lat_deg < 90
        assert [s.time_s for s in car.samples_between(1.0, 2.0)] == pytest.approx(np.arange(1.1, 2.05, 0.1))

    run(work())


def test_samples_become_the_movements_of_a_motion_record() -> None:
    rng = np.random.default_rng(1)
    times = np.cumsum(rng.uniform(0.05, 0.15, 80))
    speeds, yaw = rng.uniform(0, 20, 80), rng.uniform(-20, 20, 80)
    rows = [Sample(*(float(v) for v in row)) for row in zip(times, speeds, yaw, strict=True)]
    buffer = SampleBuffer()
    buffer.add(rows[:40])
    buffer.add(from_array(to_array(rows[40:])))
    record = MotionRecord.of_rates(times, speeds, yaw)
    (movement,) = buffer.movements(float(times[3]), float(times[70]), 100.0)
    other = record.between(float(times[3]), float(times[70]))
    assert other is not None
    assert movement.distance_m == pytest.approx(other.distance_m)
    assert movement.turn_deg == pytest.approx(other.turn_deg)
    assert movement.distance_sd_m == pytest.approx(other.distance_sd_m)
    assert movement.turn_sd_deg == pytest.approx(other.turn_sd_deg)
    steps = buffer.movements(float(times[3]) + 0.01, float(times[70]), 0.5)
    assert sum(step.distance_m for step in steps) == pytest.approx(movement.distance_m, abs=0.2)


def test_samples_that_know_no_speed_say_so() -> None:
    buffer = SampleBuffer()
    buffer.add([Sample(k / 10, None, 2.0) for k in range(20)])
    (movement,) = buffer.movements(0.5, 1.0, 0.5)
    assert movement.turn_deg == pytest.approx(1.0)
    assert movement.distance_sd_m == np.inf
    with pytest.raises(ConflictError, match="backwards"):
        buffer.add([Sample(0.3, None, 1.0)])


def test_few_poses_are_not_the_settings_that_the_confidence_was_fitted_with(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    async def work() -> None:
        async with hub_on(served_gallery, tiny_bundle, tmp_path) as hub:
            assert hub.track == FEW_POSES
            session = await hub.create(BY_SAMPLES)
            await drive(session, 0, 2)
            assert all(fix.position is None for fix in await session.fixes())  # nothing is claimed

    run(work())
