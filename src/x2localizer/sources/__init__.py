"""Inputs: video, aerial imagery and recorded tracks."""
