"""Whole videos: uploaded, localized in a process of their own, fetched, removed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from helpers.served import Served
from x2localizer.errors import UserError
from x2localizer.serve import jobs
from x2localizer.serve.client import Client
from x2localizer.serve.errors import StoreError
from x2localizer.serve.settings import ServeSettings
from x2localizer.serve.store import Store
from x2localizer.town.folder import save_drive
from x2localizer.town.town import Town


@pytest.mark.slow
def test_a_video_becomes_a_track_with_a_report(client: Client, service: Served, town: Town, tmp_path: Path) -> None:
    save_drive(town, tmp_path, 1, 5.0, fps=7.0, height=96, width=160)
    job = client.localize((tmp_path / "drive.mp4").read_bytes(), name="a drive")
    assert job["state"] in ("waiting", "running")
    path = f"/v1/jobs/{job['id']}"
    for _ in range(1200):
        job = client.request("GET", path).json()
        if job["state"] in ("done", "failed"):
            break
        time.sleep(0.25)
    assert job["state"] == "done", job
    assert job["summary"]["frames"] >= 4
    assert {"report.html", "track.gpx", "track.geojson"} <= set(job["files"])
    report = client.request("GET", f"{path}/files/report.html")
    assert "<html" in report.text
    assert "sandbox" in report.headers["content-security-policy"]
    with pytest.raises(UserError, match="no file"):
        client.request("GET", f"{path}/files/video")
    assert client._http.get(f"{path}/files/..%2f..%2fserve.sqlite").status_code == 404
    client.request("DELETE", path)
    assert not (service.hub.folder / "jobs" / job["id"]).exists()


@pytest.mark.parametrize("body", [b"", b"#EXTM3U\nfile:///etc/passwd\n", b"ffconcat version 1.0\n", b"\0" * 100])
def test_what_is_no_video_is_refused(client: Client, service: Served, body: bytes) -> None:
    answer = httpx.post(f"{service.address}/v1/jobs", content=body)
    assert answer.status_code == 422
    assert client.request("GET", "/v1/jobs").json() == []
    assert not list((service.hub.folder / "jobs").glob("*"))


@pytest.mark.slow
def test_a_damaged_video_fails_with_a_reason(client: Client) -> None:
    job = client.localize(b"\0\0\0\x20ftypisom" + bytes(range(256)) * 40)
    for _ in range(1200):
        job = client.request("GET", f"/v1/jobs/{job['id']}").json()
        if job["state"] == "failed":
            break
        time.sleep(0.25)
    assert job["state"] == "failed"
    assert job["error"]
    assert "/" not in job["error"]  # no paths of the service
    client.request("DELETE", f"/v1/jobs/{job['id']}")


def test_a_job_that_ends_on_a_full_disk_is_stored_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "SAVE_AGAIN_S", 0.01)
    tries = 0

    async def work() -> None:
        kept = Store(tmp_path, lambda seconds: None)
        all_jobs = jobs.Jobs(kept, "gallery", "bundle", ServeSettings())
        job = jobs.Job("a1", 0.0, "done", "a drive")
        video = tmp_path / "jobs" / "a1" / "video"
        video.parent.mkdir(parents=True)
        video.write_bytes(b"x")
        save = all_jobs._save

        async def sometimes(one: jobs.Job) -> None:
            nonlocal tries
            tries += 1
            assert video.exists()  # until the end is stored
            if tries < 3:
                raise StoreError("The disk is full.", "Free some space.")
            await save(one)

        monkeypatch.setattr(all_jobs, "_save", sometimes)
        await all_jobs._finish(job)
        assert await kept.read(lambda db: [row for (row,) in db.execute("SELECT state FROM jobs")]) == ["done"]
        assert not video.exists()
        kept.close()

    asyncio.run(work())
    assert tries == 3
