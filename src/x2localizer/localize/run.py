"""The main job: a video and a gallery in, a track out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from x2localizer.config import LocalizeSettings
from x2localizer.encoders import Bundle
from x2localizer.errors import VideoError
from x2localizer.gallery.store import Gallery
from x2localizer.localize.localizer import Localizer, View
from x2localizer.localize.summary import Summary, summarize
from x2localizer.localize.track_files import TrackFiles
from x2localizer.search import Prior
from x2localizer.sources.tracks import Track
from x2localizer.sources.video import open_video
from x2localizer.types import Fix

MOST_VIEWS = 24
"""Keyframes that a report shows; of a long drive every second, every fourth, ..."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave."""

    fixes: list[Fix]
    views: list[View]
    summary: Summary


def localize(
    video: str | Path,
    gallery: Gallery,
    bundle: Bundle,
    out: Path,
    settings: LocalizeSettings | None = None,
    *,
    truth: Track | None = None,
    prior: Prior | None = None,
    progress: Callable[[float, float | None], None] = lambda done_s, total_s: None,
) -> Outcome:
    """Localize a video and write its track into a folder; ``progress`` is told seconds of video done and in all."""
    settings = settings or LocalizeSettings()
    localizer = Localizer(gallery, bundle, settings, prior=prior)
    views: list[View] = []
    every = 1
    with (
        open_video(video, size=localizer.frame_size, spacing_s=settings.frame_spacing_s) as source,
        TrackFiles(out, source.info.start_time, Path(str(video)).stem) as files,
    ):
        for frame in source:
            fix = localizer.update(frame)
            files.write(fix)
            if fix.refreshed and localizer.view is not None and len(files.fixes) % every == 0:
                views.append(localizer.view)
                if len(views) > MOST_VIEWS:
                    views, every = views[::2], every * 2
            progress(frame.time_s, source.info.duration_s)
    fixes = files.fixes
    if not fixes:
        raise VideoError(f"{video} holds no frame that could be read.", "Look at it: x2l inspect VIDEO")
    return Outcome(fixes, views, summarize(fixes, truth))
