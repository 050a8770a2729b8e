"""What a service allows, and what a session is created with."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from x2localizer.config import Settings, TrackSettings
from x2localizer.odometry import CameraProfile
from x2localizer.search import BoxPrior, CirclePrior, Prior
from x2localizer.types import Position

Latitude = Annotated[float, Field(ge=-90, le=90)]
Longitude = Annotated[float, Field(ge=-180, le=180)]


class ServeSettings(Settings):
    """Limits and bounds of a service."""

    answer_within_s: float = Field(2.0, gt=0)
    """The answer to a frame is never later than this; a frame that cannot make it is answered as dropped or late."""
    queue_frames: int = Field(8, ge=1)
    """Frames of one session that may wait; a new one pushes out the oldest."""
    frame_bytes: int = Field(4 << 20, ge=1)
    frame_pixels: int = Field(12_000_000, ge=1)
    """Pixels of a decoded frame; checked in its header, before it is decoded."""
    batch_frames: int = Field(64, ge=1)
    """Frames of one batch request."""
    batch_samples: int = Field(20_000, ge=1)
    """Odometry samples of one request."""
    upload_bytes: int = Field(4 << 30, ge=1)
    """Size of a whole video."""
    jobs: int = Field(100, ge=1)
    """Jobs that may wait or have results that were not removed."""
    sessions: int = Field(2_000, ge=1)
    """Open sessions."""
    awake_sessions: int = Field(64, ge=1)
    """Sessions with a belief in memory; the others lie in the store until their next frame."""
    park_after_s: float = Field(60.0, gt=0)
    """Seconds without a frame after which a belief goes to the store."""
    expire_after_s: float = Field(86_400.0, gt=0)
    """Seconds without a frame after which a session is ended."""
    keep_ended_s: float = Field(7 * 86_400.0, gt=0)
    """Seconds for which the track of an ended session, and the files of a job, are kept."""
    ended_sessions: int = Field(2000, ge=0)
    """Ended sessions that are kept at most; the oldest go first."""
    requests_per_s: float = Field(200.0, gt=0)
    """Of one client; twice as many may come at once."""
    events_waiting: int = Field(256, ge=1)
    """Events that a slow listener may be behind; then it misses the oldest, and is told how many."""
    listeners: int = Field(500, ge=1)
    """Event streams and sockets open at once."""
    track: TrackSettings = TrackSettings()
    """Of all trackers. A confidence counts only for the settings it was fitted with: with others, no fix is sure."""


class Camera(Settings):
    """A camera, as far as odometry from its frames must know it."""

    fov_deg: float = Field(65.0, ge=10, le=150)
    """Horizontal field of view."""
    height_m: float = Field(1.5, ge=0.1, le=10)
    """Above the road."""

    @property
    def profile(self) -> CameraProfile:
        """The camera for visual odometry."""
        return CameraProfile(self.fov_deg, self.height_m)


class Near(Settings):
    """A circle that the camera starts in."""

    lat_deg: Latitude
    lon_deg: Longitude
    radius_m: float = Field(gt=0, le=20_000_000)

    @property
    def prior(self) -> Prior:
        """The circle as a prior."""
        return CirclePrior(Position(self.lat_deg, self.lon_deg), self.radius_m)


class Box(Settings):
    """A box that the camera starts in; a west greater than the east crosses the antimeridian."""

    west: Longitude
    south: Latitude
    east: Longitude
    north: Latitude

    @model_validator(mode="after")
    def _is_a_box(self) -> Box:
        if self.south > self.north:
            raise ValueError("south must not be greater than north")
        return self

    @property
    def prior(self) -> Prior:
        """The box as a prior."""
        return BoxPrior(self.west, self.south, self.east, self.north)


OdometryFrom = Literal["frames", "samples", "samples-only"]
"""frames: measured in the frames, which must come at 4 a second or more. samples: sent beside the frames.
samples-only: sent without any frame, for roads alone."""


class SessionOptions(Settings):
    """What a session is created with."""

    name: str = Field("camera", min_length=1, max_length=100)
    camera: Camera = Camera()
    odometry: OdometryFrom = "frames"
    prior: Near | Box | None = None
    use_tiles: bool = True
    use_roads: bool = True
    source: str | None = Field(None, min_length=1, max_length=1000)
    """An address that the service reads frames from by itself: rtsp://..., camera:0, or a file. It must be allowed."""

    def track_settings(self, base: TrackSettings) -> TrackSettings:
        """The tracker's settings; those of the service where a session leaves them."""
        return base.model_copy(
            update={"use_tiles": base.use_tiles and self.use_tiles, "use_roads": base.use_roads and self.use_roads}
        )
