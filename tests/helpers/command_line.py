"""The command line, run as a user runs it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from x2localizer.cli import main

RUN = [sys.executable, "-c", "from x2localizer.cli import main; main()"]
"""The command in a process of its own, for tests that kill it."""


def x2l(*words: str, code: int = 0) -> str:
    """Run a command in this process and check its exit code; returns everything that was printed.

    Starting Python and importing the package takes longer than most commands do.
    """
    out, err = io.StringIO(), io.StringIO()
    ended: object = None
    with patch.object(sys, "argv", ["x2l", *words]), patch.dict(os.environ), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            ended = end.code or 0
        except Exception:  # as Python would do it, with --debug
            traceback.print_exc()
            ended = 1
    text = out.getvalue() + err.getvalue()
    assert ended == code, text
    return text


def x2l_process(*words: str, code: int = 0) -> str:
    """The same in a process of its own."""
    done = subprocess.run([*RUN, *words], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr
