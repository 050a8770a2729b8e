"""Recorded motion: what a car's bus, a gyroscope or another program's odometry says."""

from x2localizer.sources.motion.join import join_motion
from x2localizer.sources.motion.read import MOTION_SUFFIXES, read_motion, write_motion
from x2localizer.sources.motion.record import MotionRecord

__all__ = ["MOTION_SUFFIXES", "MotionRecord", "join_motion", "read_motion", "write_motion"]
