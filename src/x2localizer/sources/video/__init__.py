"""Video in and out: files, cameras, streams and folders of images as frames with their true time."""

from x2localizer.sources.video.open import open_video
from x2localizer.sources.video.source import VideoInfo, VideoSource
from x2localizer.sources.video.writer import VideoWriter

__all__ = ["VideoInfo", "VideoSource", "VideoWriter", "open_video"]
