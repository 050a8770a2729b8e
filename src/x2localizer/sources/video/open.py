"""Opening a file, a folder of images, a bag, a camera or a stream as frames with their true times.

with open_video("drive.mp4", size=(270, 480), spacing_s=1.0) as video:
    for frame in video:
        print(frame.time_s, frame.image.shape)
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote

import av

from x2localizer.errors import ConfigError, VideoError
from x2localizer.sources.guard import AVAILABLE
from x2localizer.sources.ros import bag_at
from x2localizer.sources.video.containers import open_container
from x2localizer.sources.video.file import FileSource
from x2localizer.sources.video.guarded import GuardedVideo
from x2localizer.sources.video.image_folder import IMAGE_SUFFIXES, ImageFolderSource
from x2localizer.sources.video.live import LiveSource
from x2localizer.sources.video.ros_bag import RosBagSource
from x2localizer.sources.video.ros_topic import RosTopicSource
from x2localizer.sources.video.source import FrameGrid, VideoInfo, VideoSource

__all__ = ["VideoInfo", "VideoSource", "open_video"]

# Addresses that are always live; others (http, ...) are live if they state no duration.
_LIVE_SCHEMES = frozenset({"rtsp", "rtsps", "rtmp", "rtmps", "rtp", "udp", "srt", "tcp"})


def open_video(
    address: str | Path,
    *,
    size: tuple[int, int] | None = None,
    spacing_s: float | None = None,
    start_s: float = 0.0,
    end_s: float | None = None,
    images_per_s: float = 1.0,
    timeout_s: float = 10.0,
    own_process: bool = False,
) -> VideoSource:
    """Open a video source of any kind.

    ``address`` is a file, a folder of images, a single image, a ROS 2 bag (``drive.mcap#/front/image_raw`` names a
    topic), a live topic (``ros2:/front/image_raw``), ``camera:0`` (or ``/dev/video0``, or ``camera:NAME`` on
    Windows), or any address that FFmpeg reads, such as ``rtsp://...``. ``size`` is (height, width) to resize to. Frames
    are returned from ``start_s`` until before ``end_s``: the first at or after each multiple of ``spacing_s``, or all
    if it is None. Times are seconds from the first frame of the source. ``images_per_s`` applies to folders without a
    ``times.csv``, ``timeout_s`` to cameras and the network. With ``own_process``, a video file or a bag is decoded in a
    second process, so that a crash or a hang of the decoder is an error here.
    """
    if size is not None and min(size) < 1:
        raise ConfigError(f"Frames cannot be {size[1]} x {size[0]} pixels.", "Use a width and height above 0.")
    if not timeout_s > 0:
        raise ConfigError(f"The timeout is {timeout_s} s.", "Use a number of seconds above 0.")
    grid = FrameGrid(spacing_s, start_s, end_s)
    text = str(address)
    scheme = re.match(r"([a-z][a-z0-9+.-]*)://", text, re.IGNORECASE)
    if text.startswith("camera:") or re.fullmatch(r"/dev/video\d+", text):
        return _open_camera(text.removeprefix("camera:"), grid, size, timeout_s)
    if text.startswith("ros2:"):
        return RosTopicSource(text.removeprefix("ros2:"), grid, size, timeout_s)
    bag = bag_at(address)
    if bag is not None:
        if own_process and AVAILABLE:
            return GuardedVideo(text, size, spacing_s, start_s, end_s)
        return RosBagSource(*bag, grid, size)
    if scheme is not None and scheme[1].lower() != "file":
        return _open_network(text, scheme[1].lower(), grid, size, timeout_s)
    path = Path(unquote(text.removeprefix("file://")) if scheme else text)
    if not text.strip() or not os.path.exists(path):  # noqa: PTH110 - Path.exists raises for some paths
        raise VideoError(f"There is no video at '{text}'.", "Check the path.")
    if path.is_dir() or path.suffix.lower() in IMAGE_SUFFIXES:
        return ImageFolderSource(path, grid, size, images_per_s)
    if own_process and AVAILABLE:
        return GuardedVideo(str(path), size, spacing_s, start_s, end_s)
    # Without "file:" FFmpeg takes a colon in a name, as in 12:30.mp4, for the end of a protocol.
    return FileSource(open_container(f"file:{path}", str(path), timeout_s=None), str(path), grid, size)


def redacted(address: str) -> str:
    """An address without the user and the password in it."""
    return re.sub(r"//[^/?#]*@", "//", address)


def _open_network(
    address: str, scheme: str, grid: FrameGrid, size: tuple[int, int] | None, timeout_s: float
) -> VideoSource:
    name = redacted(address)  # no passwords in errors
    options = {"rtsp_transport": "tcp"} if scheme.startswith("rtsp") else {}
    container = open_container(address, name, options=options, timeout_s=timeout_s)
    if scheme in _LIVE_SCHEMES or container.duration is None:
        return LiveSource(container, name, grid, size, timeout_s)
    return FileSource(container, name, grid, size, timeout_s)


def _open_camera(which: str, grid: FrameGrid, size: tuple[int, int] | None, timeout_s: float) -> VideoSource:
    """Open a camera by number or name, with the capture interface of the operating system."""
    name = f"camera {which}"
    options: dict[str, str] = {}
    if sys.platform == "darwin":
        interface, device = "avfoundation", f"{which}:none"
        options["framerate"] = "30"  # the default, 29.97, is refused by most built-in cameras
    elif sys.platform == "win32":
        interface, device = "dshow", f"video={which}"
    else:
        interface, device = "v4l2", f"/dev/video{which}" if which.isdigit() else which
        if not Path(device).exists():
            raise VideoError(f"There is no {name} ({device}).", "Check that it is connected: ls /dev/video*")
    if not any(interface in known.split(",") for known in av.formats_available):
        raise VideoError(f"This build of PyAV cannot read cameras: it has no {interface}.", "Install PyAV from PyPI.")
    container = open_container(device, name, format=interface, options=options, timeout_s=timeout_s)
    return LiveSource(container, name, grid, size, timeout_s)
