"""The command line, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys

RUN = [sys.executable, "-c", "from x2localizer.cli import main; main()"]


def x2l(*words: str, code: int = 0) -> str:
    """Run a command and check its exit code; returns everything that was printed."""
    done = subprocess.run([*RUN, *words], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr
