"""The camera behind a video: how wide it sees, how high it is mounted, and where its horizon lies."""

from __future__ import annotations

import math
from dataclasses import dataclass

from x2localizer.errors import ConfigError

USUAL_HORIZON, USUAL_HORIZON_SD = 0.54, 0.04
"""Where the horizon of a dash camera usually lies, as a share of the frame's height, and its standard deviation."""
KNOWN_HORIZON_SD = 0.005
"""Standard deviation of a horizon that the user states."""


@dataclass(frozen=True, slots=True)
class CameraProfile:
    """A camera that looks along a car's way, about level.

    fov_deg: horizontal field of view.
    height_m: above the road. All distances are in proportion to it.
    height_sd_m: standard deviation of that height.
    horizon: row of the horizon as a share of the frame's height, 0 at the top; None to estimate it from the video.
    bonnet: share of the frame's height at its bottom that the car itself covers.
    """

    fov_deg: float = 65.0
    height_m: float = 1.5
    height_sd_m: float = 0.03
    horizon: float | None = None
    bonnet: float = 0.0

    def __post_init__(self) -> None:
        if not 10.0 <= self.fov_deg <= 150.0:
            raise ConfigError(f"A field of view of {self.fov_deg} degrees is not possible.", "Use 10 to 150 degrees.")
        if not 0.1 <= self.height_m <= 10.0:
            raise ConfigError(f"A camera {self.height_m} m above the road is not possible.", "Use 0.1 to 10 metres.")
        if not 0.0 <= self.height_sd_m <= self.height_m:
            raise ConfigError(
                f"A deviation of {self.height_sd_m} m is not possible.", "Use 0 to the height of the camera."
            )
        if self.horizon is not None and not 0.2 <= self.horizon <= 0.8:
            raise ConfigError(
                f"A horizon at {self.horizon} of the frame's height is not possible.",
                "Use 0.2 to 0.8: 0 is the top of the frame, 1 its bottom.",
            )
        if not 0.0 <= self.bonnet <= 0.4:
            raise ConfigError(f"A bonnet over {self.bonnet} of the frame's height is not possible.", "Use 0 to 0.4.")

    def lens(self, height: int, width: int) -> Lens:
        """The geometry of frames of a size in pixels."""
        focal = 0.5 * width / math.tan(math.radians(self.fov_deg) / 2)
        known = self.horizon is not None
        horizon = (self.horizon or USUAL_HORIZON) * height - 0.5
        sd = (KNOWN_HORIZON_SD if known else USUAL_HORIZON_SD) * height
        bottom = round(height * (1.0 - self.bonnet))
        return Lens(height, width, focal, 0.5 * (width - 1), horizon, sd, bottom, self.height_m)


@dataclass(frozen=True, slots=True)
class Lens:
    """A pinhole in pixels, whose pixels have their centres at whole numbers.

    focal: focal length.
    centre: column that looks straight ahead.
    horizon, horizon_sd: row of the horizon that is expected before anything was seen.
    bottom: first row that the car itself covers.
    height_m: of the camera above the road.
    """

    height: int
    width: int
    focal: float
    centre: float
    horizon: float
    horizon_sd: float
    bottom: int
    height_m: float
