"""The side that asks: starts the second process, waits with a limit, and turns its end into an error.

The wait is in Python, so Ctrl-C works at once, whatever the library is doing. The second process ends when this one
does, however that ends: its input is then closed.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from x2localizer import errors
from x2localizer.errors import UserError
from x2localizer.sources.guard.wire import packed, received

AVAILABLE = hasattr(os, "readv")
"""Whether a second process can be waited for here; not on Windows, whose pipes cannot be."""
_PIPE_BYTES = 1 << 20
_LOOK_S = 0.5
_PACKAGE = Path(__file__).parents[3]
_WHEN_SLOW = {
    "imagery": "Check the disk and the connection; imagery without overviews is slow (gdaladdo adds them).",
    "video": "Check the disk. If other programs play the file, write it anew: ffmpeg -i FILE -c copy NEW.mp4",
    "packets": "Check the disk. If other programs play the file, write it anew: ffmpeg -i FILE -map 0 -c copy NEW.mp4",
    "roads": "Check the disk, or cut the file to your area: osmium extract -b WEST,SOUTH,EAST,NORTH FILE -o NEW.pbf",
    "motion": "Check the disk, or cut the recording to the drive.",
}
"""What to do about a file that takes too long, by the kind of process."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What the second process said: plain values, and bytes such as pixels."""

    values: dict[str, Any]
    data: bytearray


class GuardProcess:
    """A process that decodes one file.

    kind: "imagery", "video", "roads", "motion" or "packets"; what answers there is in
        :mod:`x2localizer.sources.guard.worker`.
    name: of the file, in errors.
    error: the class of errors about it.
    """

    def __init__(self, kind: str, name: str, error: type[UserError]) -> None:
        self._kind, self._name, self._error = kind, name, error
        paths = [str(_PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "x2localizer.sources.guard.worker", kind],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            start_new_session=True,  # Ctrl-C is for this process, which then ends the other
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )  # fmt: skip
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        _widen(self._out)

    def ask(self, timeout_s: float, **values: Any) -> Answer:
        """Send a question and wait for its answer."""
        self.send(**values)
        return self.answer(timeout_s)

    def send(self, **values: Any) -> None:
        """Send a question, to be answered later."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(packed(values))
        except OSError as problem:
            raise self._ended() from problem

    def answer(self, timeout_s: float) -> Answer:
        """The answer to the oldest question; an error that the other side raised is raised here."""
        until = time.monotonic() + timeout_s
        values, data = received(lambda count: self._read(count, until, timeout_s))
        if "bug" in values:
            raise RuntimeError(values["bug"])
        if "error" in values:
            kind = getattr(errors, str(values["error"]), self._error)
            raise (kind if isinstance(kind, type) and issubclass(kind, UserError) else self._error)(
                str(values["what"]), str(values["remedy"])
            )
        return Answer(values, data)

    def _read(self, count: int, until: float, timeout_s: float) -> bytearray:
        data = bytearray(count)
        view, done = memoryview(data), 0
        while done < count:
            left = until - time.monotonic()
            if left <= 0:
                self.close()
                raise self._error(f"{self._name} took longer than {timeout_s:g} s to read.", _WHEN_SLOW[self._kind])
            if select.select([self._out], [], [], min(left, _LOOK_S))[0]:
                got = os.readv(self._out, [view[done:]])
                if not got:
                    raise self._ended()
                done += got
        return data

    def _ended(self) -> UserError:
        """The error for a process that has ended, by the way it did."""
        code = self._process.wait()
        if code == -signal.SIGKILL:
            what, remedy = "took more memory than there is", "Give it more memory, or use a smaller file."
        else:
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            what, remedy = (
                f"crashes the library that decodes it ({how})",
                "The file is damaged, or made to do harm: get it again, or convert it with another program.",
            )
        return self._error(f"{self._name} {what}.", remedy)

    def close(self) -> None:
        """End the process; closing twice does nothing."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _widen(pipe: int) -> None:
    """Make a pipe hold more than 64 kB, so that a picture takes fewer turns."""
    with suppress(ImportError, OSError, AttributeError):
        import fcntl  # noqa: PLC0415 - not on Windows

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
