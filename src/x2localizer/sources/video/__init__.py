"""Video as frames with their true times, from files, cameras, streams and folders of images; and a video writer."""

from x2localizer.sources.video.open import open_video
from x2localizer.sources.video.source import VideoInfo, VideoSource
from x2localizer.sources.video.writer import VideoWriter

__all__ = ["VideoInfo", "VideoSource", "VideoWriter", "open_video"]
