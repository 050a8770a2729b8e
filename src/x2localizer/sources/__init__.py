"""Inputs: video, aerial imagery, roads, recorded tracks and recorded motion."""
