"""``x2l index`` and ``x2l localize`` as a user runs them, and what they answer to bad input."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image as Pillow

from helpers.command_line import x2l
from x2localizer import geo
from x2localizer.encoders import Bundle
from x2localizer.files import only_writer
from x2localizer.localize import Localizer
from x2localizer.sinks.folder import TrackFolder
from x2localizer.sources.tracks import read_track
from x2localizer.sources.video import VideoWriter, open_video
from x2localizer.town.folder import save_drive, save_town
from x2localizer.town.town import Town
from x2localizer.types import Fix, Frame


@pytest.fixture(scope="module")
def place(town: Town, tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A town, a drive, and a gallery of it."""
    folder = tmp_path_factory.mktemp("place")
    save_town(town, folder)
    save_drive(town, folder, 1, 30.0, fps=2.0, height=64, width=128)
    text = x2l("index", str(folder / "aerial.tif"), "--bundle", str(tiny_bundle.root), "--out", str(folder / "g"))
    assert "complete" in text
    return folder


def _localize(place: Path, bundle: Bundle, video: Path, out: Path, *more: str, code: int = 0) -> str:
    words = ("localize", str(video), "--gallery", str(place / "g"), "--bundle", str(bundle.root), "--out", str(out))
    return x2l(*words, *more, code=code)


def test_a_video_becomes_a_track_and_a_report(place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "t"
    text = _localize(place, tiny_bundle, place / "drive.mp4", out, "--truth", str(place / "drive.gpx"))
    assert "report.html" in text
    assert "not calibrated" in text
    names = {path.name for path in out.iterdir()}
    assert names == {
        "fixes.jsonl", "map.jpg", "report.html", "track.csv", "track.geojson", "track.gpx", "track.kml",
    }  # fmt: skip
    assert (out / "fixes.jsonl").read_text().count("\n") == 30
    told = _localize(place, tiny_bundle, place / "drive.mp4", out, "--truth", str(place / "drive.gpx"), "--json")
    assert json.loads(told)["with_truth"] == 30
    told = x2l("index", "--info", "--out", str(place / "g"), "--json")
    assert json.loads(told)["regions"] > 5


def test_motion_alone_is_localized_on_roads(place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    x2l("index", "--roads", str(place / "roads.geojson"), "--out", str(tmp_path / "roads"))
    rows = "".join(f"{0.5 * i},8,{20 if 20 < i < 29 else 0}\n" for i in range(80))
    (tmp_path / "m.csv").write_text("time_s,speed_m_s,yaw_rate_deg_s\n" + rows)
    words = ("localize", "--odometry", str(tmp_path / "m.csv"), "--out", str(tmp_path / "t"))
    summary = json.loads(x2l(*words, "--gallery", str(tmp_path / "roads"), "--json"))
    assert summary["frames"] == 40
    assert (summary["odometry"], summary["smoothed"]) == ("recorded", True)
    text = x2l(*words, "--gallery", str(tmp_path / "roads"), "--live", "--set", "step_s=1")
    assert "live" in text
    assert "has no roads" in x2l(*words, "--gallery", str(place / "g"), code=2)
    text = _localize(place, tiny_bundle, place / "drive.mp4", tmp_path / "v", "--odometry", str(tmp_path / "m.csv"))
    assert "recorded" in text
    late = ("--odometry", str(tmp_path / "m.csv"), "--odometry-offset", "500")
    assert "--odometry-offset" in _localize(place, tiny_bundle, place / "drive.mp4", tmp_path / "v", *late, code=2)


def test_options_that_make_no_sense_are_clear_errors(place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    video, out = place / "drive.mp4", tmp_path / "t"
    assert "nothing to localize" in x2l("localize", "--gallery", str(place / "g"), code=2)
    for text in ("48.1", "48.1,11.5", "a,b,c", "98,11.5,3", "48,11,-1"):
        assert "LAT,LON,KM" in _localize(place, tiny_bundle, video, out, "--near", text, code=2)
    assert "no method 'path'" in _localize(place, tiny_bundle, video, out, "--method", "path", code=2)
    window = ("--method", "window")
    assert "uses no odometry" in _localize(place, tiny_bundle, video, out, *window, "--odometry", "m.csv", code=2)
    assert "field of view" in _localize(place, tiny_bundle, video, out, "--fov", "5", code=2)
    assert "budget" in _localize(place, tiny_bundle, video, out, "--set", "budget=4", code=2), "not of this method"
    assert "searches" in _localize(place, tiny_bundle, video, out, *window, "--set", "budget=4")


def test_still_pictures_and_single_frames_are_answered(place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    Pillow.fromarray(np.random.default_rng(0).integers(0, 256, (64, 128, 3), dtype=np.uint8)).save(tmp_path / "s.jpg")
    told = _localize(place, tiny_bundle, tmp_path / "s.jpg", tmp_path / "a", "--json")
    assert json.loads(told)["frames"] == 1
    with VideoWriter(tmp_path / "one.mp4", 128, 64, 10) as writer:
        writer.write(np.full((64, 128, 3), 90, np.uint8))
    told = _localize(place, tiny_bundle, tmp_path / "one.mp4", tmp_path / "b", "--json")
    assert json.loads(told)["frames"] == 1
    assert json.loads(told)["tracking_percent"] == 0


def _audio_only(path: Path) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@pytest.mark.parametrize("kind", ["missing", "empty", "text", "audio"])
def test_what_is_no_video_is_a_clear_error(kind: str, place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "v.mp4"
    if kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("no video at all")
    elif kind == "audio":
        _audio_only(path)
    text = _localize(place, tiny_bundle, path, tmp_path / "out", code=2)
    assert text.removeprefix("seconds of video: starting\n").startswith("error:"), "a busy machine may take 2 s"
    assert "next:" in text
    assert "Traceback" not in text


def test_a_truncated_video_gives_what_it_holds(place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    whole = tmp_path / "whole.mkv"
    with av.open(str(place / "drive.mp4")) as source, av.open(str(whole), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    data = whole.read_bytes()
    (tmp_path / "cut.mkv").write_bytes(data[: len(data) * 2 // 3])
    told = _localize(place, tiny_bundle, tmp_path / "cut.mkv", tmp_path / "out", "--json")
    assert 5 <= json.loads(told)["frames"] < 30


def test_a_truth_far_away_and_one_at_another_time_are_told(place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    far = tmp_path / "far.csv"
    far.write_text("time_s,lat,lon\n" + "".join(f"{t},10.0,{20 + t * 1e-4}\n" for t in range(40)))
    told = _localize(place, tiny_bundle, place / "drive.mp4", tmp_path / "a", "--truth", str(far), "--json")
    assert json.loads(told)["within_80m_percent"] == 0
    assert json.loads(told)["median_m"] > 100_000
    text = _localize(place, tiny_bundle, place / "drive.mp4", tmp_path / "b", "--truth", str(far), "--offset", "9000")
    assert "covers no moment" in text


def test_a_video_that_starts_after_its_truth_is_compared_with_the_right_part(
    place: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    late = tmp_path / "late.mp4"
    with open_video(place / "drive.mp4", start_s=12.0) as whole, VideoWriter(late, 128, 64, 2) as writer:
        for frame in whole:
            writer.write(frame.image)
    truth = ("--truth", str(place / "drive.gpx"), "--offset", "12")
    summary = json.loads(_localize(place, tiny_bundle, late, tmp_path / "t", *truth, "--json"))
    assert summary["with_truth"] == summary["frames"] == 18
    track = read_track(place / "drive.gpx")
    errors = []
    for line in (tmp_path / "t" / "fixes.jsonl").read_text().splitlines():
        fix, true = json.loads(line), track.at(12.0 + json.loads(line)["time_s"])
        assert true is not None
        errors.append(float(geo.distance_m(fix["lat_deg"], fix["lon_deg"], true.lat_deg, true.lon_deg)))
    assert summary["median_m"] == pytest.approx(float(np.median(errors)), abs=1.0)


def test_galleries_that_do_not_fit_are_clear_errors(place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    words = ("localize", str(place / "drive.mp4"), "--out", str(tmp_path / "o"))
    text = x2l(*words, "--gallery", str(tmp_path / "no"), "--bundle", str(tiny_bundle.root), code=2)
    assert "There is no gallery" in text
    other = tmp_path / "other"
    shutil.copytree(tiny_bundle.root, other)
    told = json.loads((other / "bundle.json").read_text())
    with (other / "weights.bin").open("ab") as file:
        file.write(b"\0")
    from x2localizer.encoders.bundle import files_fingerprint

    told["fingerprint"] = files_fingerprint(other)
    (other / "bundle.json").write_text(json.dumps(told))
    text = x2l(*words, "--gallery", str(place / "g"), "--bundle", str(other), code=2)
    assert "was made by the bundle" in text


@pytest.mark.parametrize("kind", ["no crs", "missing", "text"])
def test_imagery_that_cannot_be_indexed_is_a_clear_error(
    kind: str, place: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    path = tmp_path / "i.tif"
    if kind == "no crs":
        Pillow.fromarray(np.zeros((64, 64, 3), np.uint8)).save(path)
    elif kind == "text":
        path.write_text("no picture")
    text = x2l("index", str(path), "--bundle", str(tiny_bundle.root), "--out", str(tmp_path / "g"), code=2)
    assert "error:" in text
    assert "Traceback" not in text


def test_a_disk_that_fills_up_loses_nothing(place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    """A limit on file sizes stands in for the full disk."""
    code = f"""
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
sys.argv = ["x2l", "localize", {str(place / "drive.mp4")!r}, "--gallery", {str(place / "g")!r},
            "--bundle", {str(tiny_bundle.root)!r}, "--out", {str(tmp_path / "t")!r}]
from x2localizer.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert f"error: Cannot write {tmp_path / 't' / 'fixes.jsonl'}: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    kept = (tmp_path / "t" / "fixes.jsonl").read_text().splitlines()
    assert len(kept) > 5
    assert all(json.loads(line)["index"] == i for i, line in enumerate(kept[:-1]))


def test_a_portrait_video_is_named(place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "p.mp4", 64, 128, 2) as writer:
        for shade in range(4):
            writer.write(np.full((128, 64, 3), 60 * shade, np.uint8))
    assert "in portrait" in _localize(place, tiny_bundle, tmp_path / "p.mp4", tmp_path / "t", "--method", "window")


def test_two_runs_do_not_write_into_one_folder(place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    with only_writer(tmp_path / "t"):
        text = _localize(place, tiny_bundle, place / "drive.mp4", tmp_path / "t", code=2)
    assert "Another process is writing" in text
    assert "choose another folder" in text


@pytest.mark.parametrize("after", [0, 7])
def test_after_an_interrupt_it_says_that_it_starts_over(
    after: int, place: Path, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Localizer, frame: Frame) -> Fix:
        if frame.index == after:
            raise KeyboardInterrupt
        return plain(self, frame)

    plain = Localizer.update
    monkeypatch.setattr(Localizer, "update", stop)
    out = tmp_path / "t"
    text = _localize(place, tiny_bundle, place / "drive.mp4", out, "--method", "window", code=130)
    assert "starts over" in text
    assert ("The track so far" in text) == bool(after)
    assert (out / "fixes.jsonl").read_text().count("\n") == after
    assert (out / "track.csv").exists()
    monkeypatch.undo()
    _localize(place, tiny_bundle, place / "drive.mp4", out, "--method", "window")
    assert (out / "fixes.jsonl").read_text().count("\n") == 30


def _stop_at(monkeypatch: pytest.MonkeyPatch, fixes: int) -> None:
    """Let Ctrl-C come before a fix is written, after some others."""

    def stop(self: TrackFolder, fix: Fix) -> None:
        if len(self.context.fixes) == fixes:
            raise KeyboardInterrupt
        plain(self, fix)

    plain = TrackFolder.write
    monkeypatch.setattr(TrackFolder, "write", stop)


@pytest.mark.parametrize("method", [pytest.param("track", marks=pytest.mark.slow), "window"])
def test_the_run_after_an_interrupt_gives_what_an_undisturbed_one_gives(
    method: str, place: Path, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.csv").write_text("time_s,speed_m_s,yaw_rate_deg_s\n" + "".join(f"{i},8,0\n" for i in range(40)))
    words = ["--method", method, *(["--odometry", str(tmp_path / "m.csv")] if method == "track" else [])]
    _localize(place, tiny_bundle, place / "drive.mp4", tmp_path / "whole", *words)
    _stop_at(monkeypatch, 7)
    text = _localize(place, tiny_bundle, place / "drive.mp4", tmp_path / "t", *words, code=130)
    assert f"The track so far is in {tmp_path / 't'}" in text
    assert "starts over from the beginning; name another --out to keep this" in text
    assert (tmp_path / "t" / "track.csv").read_text().count("\n") == 1 + 7
    monkeypatch.undo()
    _localize(place, tiny_bundle, place / "drive.mp4", tmp_path / "t", *words)
    for name in ("fixes.jsonl", "track.csv"):
        assert (tmp_path / "t" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_earlier_track_is_not_taken_for_the_interrupted_one(
    place: Path, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "fixes.jsonl").write_text('{"index": 0}\n')
    monkeypatch.setattr("x2localizer.pipeline.open_video", _interrupted)
    text = _localize(place, tiny_bundle, place / "drive.mp4", tmp_path / "t", "--method", "window", code=130)
    assert "Interrupted before the first fix" in text
    monkeypatch.undo()
    _stop_at(monkeypatch, 3)
    words = ("--method", "window", "--formats", "gpx")
    text = _localize(place, tiny_bundle, place / "drive.mp4", tmp_path / "g", *words, code=130)
    assert "The track so far" in text, "whatever the files are called"


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_killed_index_resumes(place: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    words = ["index", str(place / "aerial.tif"), "--bundle", str(tiny_bundle.root), "--out", str(tmp_path / "g")]
    code = f"""
import os, sys
from x2localizer.gallery import parts, work
plain = parts.PartEncoder.encode
count = 0
def killed(self, part):
    global count
    count += 1
    if count == 4:
        os.kill(os.getpid(), 9)
    return plain(self, part)
parts.PartEncoder.encode = killed
parts.SIDES = (1,)
work.COMMIT_S = 0.0
sys.argv = ["x2l", *{words!r}]
from x2localizer.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    text = x2l("localize", str(place / "drive.mp4"), "--gallery", str(tmp_path / "g"),
               "--bundle", str(tiny_bundle.root), "--out", str(tmp_path / "o"), code=2)  # fmt: skip
    assert "half built" in text
    assert "half built" in x2l("index", "--info", "--out", str(tmp_path / "g"))
    assert "complete" in x2l(*words)
    one, two = (json.loads(x2l("index", "--info", "--out", str(g), "--json")) for g in (tmp_path / "g", place / "g"))
    assert one["regions"] == two["regions"]


@pytest.mark.slow
def test_the_demo_ends_with_files_to_open_and_can_be_run_again(tmp_path: Path) -> None:
    words = ["demo", "--out", str(tmp_path / "demo"), "--tiles", "16", "--seconds", "40"]
    for _ in range(2):
        text = x2l(*words)
        assert "sure of its position" in text
        assert "next, with your own" in text
    track = tmp_path / "demo" / "track"
    assert "<svg" in (track / "report.html").read_text(encoding="utf-8")
    assert (track / "map.jpg").read_bytes().startswith(b"\xff\xd8")
    fixes = [json.loads(line) for line in (track / "fixes.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(fixes) == 40
    dark = [fix for fix in fixes if 20 <= fix["time_s"] < 22]
    assert dark
    assert all(fix["status"] == "lost" for fix in dark)
