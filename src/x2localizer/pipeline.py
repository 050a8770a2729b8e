"""The main job in one call: a video or recorded motion and a gallery in, a track with its files and its report out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from x2localizer import geo
from x2localizer.config import LocalizeSettings, TrackSettings
from x2localizer.encoders import Encoder, open_bundle, shipped_for
from x2localizer.errors import ConfigError, GalleryError, MotionError, VideoError
from x2localizer.gallery import Gallery, open_gallery
from x2localizer.gallery.checksums import Verify
from x2localizer.gallery.store import check_encoder
from x2localizer.localize import Localizer
from x2localizer.localize.follow import NoOdometryError, VideoFollower, follow_record, keyframes
from x2localizer.localize.summary import Summary
from x2localizer.localize.track.movements import movements_between
from x2localizer.localize.track.second_pass import second_pass
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.odometry import CameraProfile, VisualOdometry, find_fov
from x2localizer.odometry.record import scale_sd_of
from x2localizer.search import Prior, SearchMode
from x2localizer.sinks import TrackContext, TrackFolder
from x2localizer.sinks.live import LiveSinks, open_sinks
from x2localizer.sources.motion import MotionRecord, read_motion
from x2localizer.sources.tracks import Track
from x2localizer.sources.video import VideoInfo, open_video
from x2localizer.types import Fix, Frame, Movement

Method = Literal["track", "window"]
"""track: one belief over the whole map, moved by odometry. window: searches of the last keyframes (SWRL)."""
Settings = TrackSettings | LocalizeSettings
Progress = Callable[[float, float | None], None]
"""Called with the seconds done, and their total if it is known."""
MOTION_STEP_S = 0.1
"""Steps in which recorded motion is handed on to other programs between two fixes."""
PORTRAIT = (
    "The video is in portrait: its frames are squeezed to a landscape shape. Film in landscape for better results."
)
FELL_BACK = "The camera's movement cannot be measured in this video, so it was localized by windows of keyframes."


@dataclass(frozen=True, slots=True)
class LocalizedVideo:
    """A video, or a drive of recorded motion, that was localized.

    fixes: one for each frame, or each second of motion.
    summary: the track in a few numbers.
    files: what was written.
    calibrated: whether the confidence was fitted for these settings; without, no fix counts as sure.
    method: that was used.
    note: why it is not the one that was asked for.
    undelivered: what sinks could not hand on to other programs, in words.
    advice: what would give better results, in words.
    """

    fixes: tuple[Fix, ...]
    summary: Summary
    files: tuple[Path, ...]
    calibrated: bool
    method: Method = "track"
    note: str | None = None
    undelivered: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


def localize_video(
    video: str | Path,
    gallery: Gallery | str | Path,
    encoder: Encoder | str | Path | None = None,
    out: str | Path = "track",
    settings: Settings | None = None,
    *,
    method: Method | None = None,
    odometry: MotionRecord | str | Path | None = None,
    camera: CameraProfile | None = None,
    live: bool = False,
    truth: Track | None = None,
    prior: Prior | None = None,
    formats: Sequence[str] | None = None,
    sinks: Sequence[str] = (),
    realtime: bool = False,
    search: SearchMode = "auto",
    title: str | None = None,
    verify: Verify = "used",
    progress: Progress = lambda done_s, total_s: None,
) -> LocalizedVideo:
    """Localize a video and write its track into a folder.

    gallery, encoder: open ones, or where they are; the encoder must have made the gallery, and is by default the bundle
        of this package that did. Roads alone need none.
    settings: those of the method; see :class:`x2localizer.config.TrackSettings` and ``LocalizeSettings``.
    method: "track" or "window"; by default the one that the settings are for, and "track" without any.
    odometry: recorded motion, or a file of it, with times that count from the start of the video; by default the
        camera's movement is measured in the video.
    camera: of the video, to measure its movement; by default as wide as the file says, 1.5 m above the road.
    live: keep each fix as it came; by default the fixes of a finished video are smoothed, so that each knows the whole
        drive. Those of cameras and streams are always live.
    truth: a recorded track to compare with.
    prior: what is known in advance of where the camera is.
    formats: which files to write, such as ("gpx", "report"); all by default.
    sinks: addresses of other programs that get each fix as it comes, such as "nmea://127.0.0.1:10110"; see
        :mod:`x2localizer.sinks.live`.
    realtime: localize no faster than the video was filmed, for programs that expect a receiver.
    search: how windows are searched: "exact", "approximate", or "auto": approximate where the gallery has an index.
    verify: how a gallery that is opened here is checked; see :func:`x2localizer.gallery.open_gallery`.
    """
    method = method or ("window" if isinstance(settings, LocalizeSettings) else "track")
    _check_settings(method, settings)
    with open_sinks(sinks, realtime=realtime) as handed_on:  # first: programs can connect while a model is loaded
        opened = open_gallery(gallery, verify=verify) if isinstance(gallery, str | Path) else gallery
        name = Path(str(video)).stem
        context = TrackContext(Path(out), name, title or f"Where was the camera? {name}", None, opened, truth)
        run = _Run(context, formats, progress, handed_on)
        if isinstance(settings, LocalizeSettings) or method == "window":
            window = settings if isinstance(settings, LocalizeSettings) else None
            localizer = Localizer(opened, _tile_encoder(opened, encoder), window, prior=prior, search=search)
            result = run.by_windows(video, localizer)
        else:
            settings = settings or TrackSettings()
            uses_tiles = opened.has_tiles and settings.use_tiles
            made_by = _tile_encoder(opened, encoder) if uses_tiles else None
            track_map = _track_map(opened, prior, roads=settings.use_roads, tiles=uses_tiles)
            record = read_motion(odometry, own_process=True) if isinstance(odometry, str | Path) else odometry
            if record is None:
                camera = camera or CameraProfile(find_fov(video).degrees)
                tracker = Tracker(track_map, made_by, settings, scale_sd=scale_sd_of(camera), bias_sd_deg_s=0.0)
                follower = VideoFollower(tracker, VisualOdometry(camera), handed_on.motion)
            else:
                tracker = _recorded_tracker(track_map, made_by, settings, record)
                follower = VideoFollower(tracker, record)
            fall_back = None if made_by is None else lambda: Localizer(opened, made_by, prior=prior, search=search)
            result = run.by_tracking(video, follower, fall_back, live=live)
    return replace(result, undelivered=tuple(handed_on.notes()))


def localize_odometry(
    record: MotionRecord | str | Path,
    gallery: Gallery | str | Path,
    out: str | Path = "track",
    settings: TrackSettings | None = None,
    *,
    live: bool = False,
    truth: Track | None = None,
    prior: Prior | None = None,
    formats: Sequence[str] | None = None,
    sinks: Sequence[str] = (),
    realtime: bool = False,
    title: str | None = None,
    verify: Verify = "used",
    progress: Progress = lambda done_s, total_s: None,
) -> LocalizedVideo:
    """Localize a drive of which only the motion was recorded, on the roads of a gallery; one fix a second.

    Arguments as for :func:`localize_video`.
    """
    name = Path(record).stem if isinstance(record, str | Path) else "drive"
    motion = read_motion(record, own_process=True) if isinstance(record, str | Path) else record
    opened = open_gallery(gallery, verify=verify) if isinstance(gallery, str | Path) else gallery
    if not opened.manifest.roads:
        raise GalleryError(
            f"The gallery {opened.address} has no roads, and odometry alone needs them.",
            f"Add them: x2l index --roads FILE --out {opened.address}",
        )
    settings = (settings or TrackSettings()).model_copy(update={"use_tiles": False})
    context = TrackContext(
        Path(out), name, title or f"Where was the camera? {name}", motion.start_time, opened, truth, odometry="recorded"
    )
    end_s = float(motion.times_s[-1])
    with open_sinks(sinks, realtime=realtime) as handed_on:
        tracker = _recorded_tracker(_track_map(opened, prior, roads=True, tiles=False), None, settings, motion)
        tracker.keeps_steps = not live
        handed_on.start(motion.start_time)
        with TrackFolder(context, formats) as folder:
            for fix in follow_record(tracker, motion):
                folder.write(fix)
                _hand_on(handed_on, fix, motion)
                progress(fix.time_s, end_s)
            if not live:
                folder.smooth(_smoothed(tracker, context.fixes))
    result = _result(folder, tracker.confidence.calibrated, "track")
    return replace(result, undelivered=tuple(handed_on.notes()))


def _hand_on(sinks: LiveSinks, fix: Fix, record: MotionRecord | None = None) -> None:
    """Give a fix to other programs, after what was recorded of the motion since the last one."""
    if not sinks:
        return
    steps: list[Movement] = []
    if record is not None and sinks.time_s is not None:
        steps = movements_between(record, sinks.time_s, fix.time_s, MOTION_STEP_S)
    for movement in steps[:-1]:
        sinks.motion(movement)
    sinks.fix(fix)  # before the movement that ends with it
    for movement in steps[-1:]:
        sinks.motion(movement)


@dataclass(frozen=True, slots=True)
class _Run:
    """What both methods need to turn a video into files."""

    context: TrackContext
    formats: Sequence[str] | None
    progress: Progress
    handed_on: LiveSinks

    def by_windows(self, video: str | Path, localizer: Localizer) -> LocalizedVideo:
        spacing_s = localizer.settings.frame_spacing_s
        with open_video(video, size=localizer.frame_size, spacing_s=spacing_s, own_process=True) as source:
            self.context.start_time = source.info.start_time
            self.handed_on.start(source.info.start_time)
            with TrackFolder(self.context, self.formats) as folder:
                self._localize(folder, localizer, source, source.info)
        result = _result(folder, localizer.confidence.calibrated, "window", str(video))
        return replace(result, advice=_advice(source.info))

    def by_tracking(
        self, video: str | Path, follower: VideoFollower, fall_back: Callable[[], Localizer] | None, *, live: bool
    ) -> LocalizedVideo:
        tracker, record, context = follower.tracker, follower.odometry, self.context
        with open_video(video, spacing_s=follower.spacing_s, own_process=True) as source:
            info = source.info
            tracker.keeps_steps = not (live or info.live or info.duration_s is None)
            context.start_time = info.start_time
            self.handed_on.start(info.start_time)
            context.odometry = "recorded" if isinstance(record, MotionRecord) else "from the video"
            if isinstance(record, MotionRecord) and info.duration_s is not None:
                _check_overlap(record, info.duration_s)
            with TrackFolder(context, self.formats) as folder:
                try:
                    for fix in follower.run(source):
                        folder.write(fix)
                        _hand_on(self.handed_on, fix, record if isinstance(record, MotionRecord) else None)
                        self.progress(fix.time_s, info.duration_s)
                except NoOdometryError as problem:
                    if fall_back is None:
                        raise _nothing_measured(video) from problem
                    localizer, context.odometry = fall_back(), None
                    frames = keyframes(problem.held, source, localizer.settings.frame_spacing_s)
                    self._localize(folder, localizer, frames, info)
                    calibrated = localizer.confidence.calibrated
                else:
                    calibrated = tracker.confidence.calibrated
                    if tracker.keeps_steps:
                        folder.smooth(_smoothed(tracker, context.fixes))
        if context.odometry is None:
            result = _result(folder, calibrated, "window", str(video), FELL_BACK)
        else:
            result = _result(folder, calibrated, "track", str(video))
        return replace(result, advice=_advice(info))

    def _localize(self, folder: TrackFolder, localizer: Localizer, frames: Iterable[Frame], info: VideoInfo) -> None:
        for frame in frames:
            fix = localizer.update(frame)
            folder.write(fix)
            _hand_on(self.handed_on, fix)
            self.progress(frame.time_s, info.duration_s)


def _check_settings(method: str, settings: Settings | None) -> None:
    wanted = {"track": TrackSettings, "window": LocalizeSettings}
    if method not in wanted:
        raise ConfigError(f"There is no method '{method}'.", f"Use one of: {', '.join(wanted)}.")
    if settings is not None and not isinstance(settings, wanted[method]):
        raise ConfigError(
            f"{type(settings).__name__} are not settings of the method '{method}'.",
            f"Use {wanted[method].__name__}, or another method.",
        )


def _tile_encoder(gallery: Gallery, encoder: Encoder | str | Path | None) -> Encoder:
    """The encoder of a gallery's tiles."""
    if not gallery.has_tiles:
        raise GalleryError(
            f"The gallery {gallery.address} has no tiles to search.",
            f"Use the method 'track' on its roads, or add imagery: x2l index IMAGERY --out {gallery.address}",
        )
    named = shipped_for(gallery.manifest.encoder) if encoder is None else encoder
    opened = open_bundle(named) if isinstance(named, str | Path) else named
    check_encoder(gallery, opened)
    return opened


def _track_map(gallery: Gallery, prior: Prior | None, *, roads: bool, tiles: bool) -> TrackMap:
    track_map = TrackMap.of(gallery, prior, roads=roads, tiles=tiles)
    field = track_map.roads
    if prior is None or track_map.tiles is not None or field is None:
        return track_map
    lats, lons = geo.from_tile_coordinates(field.x, field.y, track_map.patches.zoom)
    if not prior.contains(lats, geo.wrap_longitude(lons)).any():
        raise GalleryError(
            f"The gallery {gallery.address} has nothing near that place.",
            f"Check the place, and what the gallery covers: x2l index --info --out {gallery.address}",
        )
    return track_map


def _recorded_tracker(
    track_map: TrackMap, encoder: Encoder | None, settings: TrackSettings, record: MotionRecord
) -> Tracker:
    return Tracker(track_map, encoder, settings, scale_sd=record.scale_sd, bias_sd_deg_s=record.bias_sd_deg_s)


def _advice(info: VideoInfo) -> tuple[str, ...]:
    return (PORTRAIT,) if info.height > info.width else ()


def _check_overlap(record: MotionRecord, duration_s: float) -> None:
    first_s, last_s = float(record.times_s[0]), float(record.times_s[-1])
    if last_s <= 0.0 or first_s >= max(duration_s, 1.0):
        raise MotionError(
            f"The odometry covers {first_s:,.0f} to {last_s:,.0f} s, the video 0 to {duration_s:,.0f} s.",
            "Say how many seconds after the odometry the video starts: --odometry-offset SECONDS",
        )


def _nothing_measured(video: str | Path) -> VideoError:
    return VideoError(
        f"The camera's movement cannot be measured in {video}, and the gallery has no tiles to search.",
        "Give recorded motion (--odometry FILE), or a video with at least 3 frames a second.",
    )


def _smoothed(tracker: Tracker, fixes: Sequence[Fix]) -> list[Fix]:
    """Fixes that know the whole drive, each with the region around its guess."""
    manifest = tracker.map.gallery.manifest
    return [
        fix
        if fix.region is None or fix.guess is None
        else replace(fix, region=geo.region_around(fix.guess, manifest.zoom, manifest.region_tiles))
        for fix in second_pass(tracker, fixes)
    ]


def _result(
    folder: TrackFolder, calibrated: bool, method: Method, video: str = "", note: str | None = None
) -> LocalizedVideo:
    context = folder.context
    if not context.fixes or context.summary is None:
        raise VideoError(f"{video} has no frame that could be read.", "Look at it: x2l inspect VIDEO")
    return LocalizedVideo(tuple(context.fixes), context.summary, tuple(folder.files), calibrated, method, note)
