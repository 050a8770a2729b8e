"""What NavSatFix and Odometry of ROS say of an epoch, as plain numbers.

Axes are those of ROS: east, north and up on the map, x forward on the camera, turns counter-clockwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from x2localizer import geo
from x2localizer.sinks.live.reckon import HEADING_SD_DEG, SPEED_SD_M_S, YAW_SD_DEG_S, Epoch
from x2localizer.types import Floats, Position

UNKNOWN_VAR = 1e6
"""Variance of what is not known, in squares of metres, radians, and both per second."""
NO_FIX, FIX = -1, 0
UNKNOWN_COVARIANCE, KNOWN_COVARIANCE = 0, 3
FIX_TOPIC, ODOMETRY_TOPIC = "/x2localizer/fix", "/x2localizer/odometry"


@dataclass(frozen=True, slots=True, eq=False)
class NavSatValues:
    """A position.

    status: -1 without one; latitude and longitude are NaN then.
    covariance: (9,), in square metres.
    """

    status: int
    lat_deg: float
    lon_deg: float
    covariance: Floats
    covariance_type: int


@dataclass(frozen=True, slots=True, eq=False)
class OdometryValues:
    """Metres from the first position, yaw in radians from east, and rates of the camera; covariances are (36,)."""

    east_m: float
    north_m: float
    yaw_rad: float
    speed_m_s: float
    yaw_rate_rad_s: float
    pose_covariance: Floats
    twist_covariance: Floats


def navsat_values(epoch: Epoch) -> NavSatValues:
    """The position of an epoch."""
    if epoch.position is None:
        return NavSatValues(NO_FIX, math.nan, math.nan, np.zeros(9), UNKNOWN_COVARIANCE)
    east, mixed, north = epoch.covariance_m2
    covariance = np.array([east, mixed, 0.0, mixed, north, 0.0, 0.0, 0.0, UNKNOWN_VAR])
    return NavSatValues(FIX, epoch.position.lat_deg, epoch.position.lon_deg, covariance, KNOWN_COVARIANCE)


def odometry_values(epoch: Epoch, origin: Position) -> OdometryValues | None:
    """Pose and rates of an epoch, from an origin; None without a position or a heading."""
    if epoch.position is None or epoch.heading_deg is None:
        return None
    east, north = geo.LocalMetres(origin).to_metres(epoch.position.lat_deg, epoch.position.lon_deg)
    pose, twist = np.diag(np.full(6, UNKNOWN_VAR)), np.diag(np.full(6, UNKNOWN_VAR))
    pose[0, 0], pose[0, 1], pose[1, 1] = epoch.covariance_m2
    pose[1, 0] = pose[0, 1]
    pose[5, 5] = math.radians(epoch.heading_sd_deg or HEADING_SD_DEG) ** 2
    twist[0, 0] = UNKNOWN_VAR if epoch.speed_m_s is None else (epoch.speed_sd_m_s or SPEED_SD_M_S) ** 2
    if epoch.yaw_rate_deg_s is not None:
        twist[5, 5] = math.radians(epoch.yaw_rate_sd_deg_s or YAW_SD_DEG_S) ** 2
    return OdometryValues(
        float(east), float(north), math.radians((90.0 - epoch.heading_deg + 180.0) % 360.0 - 180.0),
        epoch.speed_m_s or 0.0, -math.radians(epoch.yaw_rate_deg_s or 0.0), pose.ravel(), twist.ravel(),
    )  # fmt: skip
