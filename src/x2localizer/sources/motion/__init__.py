"""Recorded motion: what a car's bus, a gyroscope or another program's odometry says."""

from x2localizer.sources.motion.record import MotionRecord

__all__ = ["MotionRecord"]
