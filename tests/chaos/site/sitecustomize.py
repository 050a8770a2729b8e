"""Loaded when a disturbed process starts: limits, ignored signals, slow writes, a clock that jumps."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from typing import Any

for _limit in os.environ.get("CHAOS_LIMIT", "").split():
    _name, _amount = _limit.split("=")
    resource.setrlimit(getattr(resource, _name), (int(_amount), int(_amount)))
for _name in os.environ.get("CHAOS_IGNORE", "").split():
    signal.signal(getattr(signal, _name), signal.SIG_IGN)
_slow_s = float(os.environ.get("CHAOS_SLOW_DISK_S", "0"))
_jumps = os.environ.get("CHAOS_CLOCK_SEED")

if _slow_s:

    def _slowed(function: Any) -> Any:
        def slow(*args: Any, **more: Any) -> Any:
            time.sleep(_slow_s)
            return function(*args, **more)

        return slow

    for _name in ("fsync", "replace", "rename", "unlink", "mkdir"):
        setattr(os, _name, _slowed(getattr(os, _name)))

if _jumps is not None:
    _real, _rng = time.time, random.Random(int(_jumps))
    _offset = [0.0]

    def _jumping() -> float:
        """Now and then an hour or a day forward or back, as when a clock is set."""
        if _rng.random() < 0.05:
            _offset[0] += _rng.choice((-86400.0, -3600.0, 3600.0, 86400.0))
        return max(0.0, _real() + _offset[0])

    time.time = _jumping
