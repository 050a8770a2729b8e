"""The main job in one call: a video and a gallery in, a track with its files and its report out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from x2localizer.config import LocalizeSettings
from x2localizer.encoders import Encoder, open_bundle
from x2localizer.errors import VideoError
from x2localizer.gallery import Gallery, open_gallery
from x2localizer.localize import Localizer
from x2localizer.localize.summary import Summary
from x2localizer.search import Prior
from x2localizer.sinks import TrackContext, TrackFolder
from x2localizer.sources.tracks import Track
from x2localizer.sources.video import open_video
from x2localizer.types import Fix


@dataclass(frozen=True, slots=True)
class LocalizedVideo:
    """A video that was localized.

    fixes: one for each frame.
    summary: the track in a few numbers.
    files: what was written.
    calibrated: whether the confidence was fitted for these settings; without, no fix counts as sure.
    """

    fixes: tuple[Fix, ...]
    summary: Summary
    files: tuple[Path, ...]
    calibrated: bool


def localize_video(
    video: str | Path,
    gallery: Gallery | str | Path,
    encoder: Encoder | str | Path = "town",
    out: str | Path = "track",
    settings: LocalizeSettings | None = None,
    *,
    truth: Track | None = None,
    prior: Prior | None = None,
    formats: Sequence[str] | None = None,
    title: str | None = None,
    progress: Callable[[float, float | None], None] = lambda done_s, total_s: None,
) -> LocalizedVideo:
    """Localize a video and write its track into a folder.

    gallery, encoder: open ones, or where they are; the encoder must have made the gallery.
    truth: a recorded track to compare with.
    prior: what is known in advance of where the camera is.
    formats: which files to write, such as ("gpx", "report"); all by default.
    progress: called with the seconds of video done, and their total if it is known.
    """
    opened_encoder = open_bundle(encoder) if isinstance(encoder, str | Path) else encoder
    opened = open_gallery(gallery, opened_encoder) if isinstance(gallery, str | Path) else gallery
    localizer = Localizer(opened, opened_encoder, settings, prior=prior)
    name = Path(str(video)).stem
    spacing_s = localizer.settings.frame_spacing_s
    with open_video(video, size=localizer.frame_size, spacing_s=spacing_s) as source:
        context = TrackContext(
            Path(out), name, title or f"Where was the camera? {name}", source.info.start_time, opened, truth
        )
        with TrackFolder(context, formats) as folder:
            for frame in source:
                folder.write(localizer.update(frame))
                progress(frame.time_s, source.info.duration_s)
    if not context.fixes or context.summary is None:
        raise VideoError(f"{video} has no frame that could be read.", "Look at it: x2l inspect VIDEO")
    return LocalizedVideo(tuple(context.fixes), context.summary, tuple(folder.files), localizer.confidence.calibrated)
