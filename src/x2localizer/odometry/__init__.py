"""Odometry from the video alone: how the camera moved between frames, and how sure that is."""

from x2localizer.odometry.camera import CameraProfile
from x2localizer.odometry.fov import FieldOfView, estimate_fov, find_fov
from x2localizer.odometry.record import video_motion
from x2localizer.odometry.visual import VisualOdometry

__all__ = ["CameraProfile", "FieldOfView", "VisualOdometry", "estimate_fov", "find_fov", "video_motion"]
