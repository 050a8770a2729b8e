"""What becomes of frames: answers, counts, and times that can be none."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Literal

from x2localizer.serve.errors import BadInputError
from x2localizer.types import Fix

Outcome = Literal["fix", "taken", "skipped", "dropped", "late"]
"""fix: there is a fix. taken: no fix was due; the frame was used for odometry. skipped: no fix was due. dropped: newer
frames came before this one could be looked at. late: it is being looked at; the fix will be an event."""
LATEST_S = 1e11
"""No clock of seconds says more."""


@dataclass(slots=True)
class Counts:
    """Frames so far, by what became of them; and fixes."""

    frames: int = 0
    fixes: int = 0
    tracking: int = 0
    dropped: int = 0
    late: int = 0
    bad: int = 0
    searches: int = 0

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What became of a frame.

    dropped: frames of the session that were dropped so far.
    note: why there is no better fix.
    """

    time_s: float
    outcome: Outcome
    fix: Fix | None = None
    dropped: int = 0
    note: str | None = None


def check_time(time_s: float) -> None:
    """Refuse what is no time."""
    if not math.isfinite(time_s) or abs(time_s) > LATEST_S:
        raise BadInputError(
            f"{time_s} is not a time in seconds.", "Send seconds, counted from any start, or since 1970."
        )
