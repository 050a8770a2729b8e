"""Decoding in a second process: what a file does to a library is an error message, and never a crash or a hang."""

from x2localizer.sources.guard.process import AVAILABLE, Answer, GuardProcess

__all__ = ["AVAILABLE", "Answer", "GuardProcess"]
