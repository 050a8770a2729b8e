"""Workers of a Ray cluster that die or run out of memory, as files beside the imagery say."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from x2localizer.gallery.cluster import Job, encode_part
from x2localizer.gallery.parts import Encoded, Part

KILL_ONCE, NO_MEMORY_ONCE, NO_MEMORY = "kill-once", "no-memory-once", "no-memory"


def encode_or_die(job: Job, bundle: list[Any], part: Part) -> Encoded:
    """Encode a part, after dying once for each order that asks for it."""
    folder = Path(job.imagery).parent
    if _take(folder / KILL_ONCE):
        os.kill(os.getpid(), signal.SIGKILL)
    if (folder / NO_MEMORY).exists() or _take(folder / NO_MEMORY_ONCE):
        raise MemoryError
    return encode_part(job, bundle, part)


def _take(order: Path) -> bool:
    """Whether there is such an order; only one worker gets it."""
    try:
        order.rename(order.with_suffix(".taken"))
    except FileNotFoundError:
        return False
    return True
