"""Importing the package changes nothing of the process that imports it."""

from __future__ import annotations

import subprocess
import sys

CHANGES = """
import os, signal, sys, threading
import av, cv2, lancedb, numba, numpy, onnxruntime, pyproj, rasterio  # what these change is their own affair
def state():
    mask = os.umask(0o22)
    os.umask(mask)
    signals = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    return dict(os.environ), mask, signals, sys.getrecursionlimit(), os.getcwd(), threading.active_count()
before = state()
import x2localizer, x2localizer.cli, x2localizer.evaluate.run, x2localizer.gallery, x2localizer.pipeline
print([(a, b) for a, b in zip(before, state()) if a != b])
"""


def test_importing_the_package_changes_nothing_of_the_process() -> None:
    run = subprocess.run([sys.executable, "-c", CHANGES], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
