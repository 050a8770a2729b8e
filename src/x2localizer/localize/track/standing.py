"""Does the camera stand where the odometry says so? A wheel sensor that has failed says it all the time.

While the odometry reports no movement, the view must stay as it is. It is compared with the view at the beginning of
the stand, and with the one before. The thresholds were chosen on validation drives by day and at night, with the codes
of both shipped bundles: they doubted none of 36 stands, and found a speed that is stuck at zero after 5 s in the
median.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import median

import numpy as np

from x2localizer.types import Codes, Movement

STANDING_M_S = 0.5
"""Speed below which the odometry says that the camera stands."""
SAME_VIEW = 0.75
"""Similarity with the beginning of a stand, below which a view is another one."""
OTHER_VIEWS = 2
"""Other views in a row that make a stand doubtful: something large may drive by."""
STEADY_VIEW, STEADY_FRAMES = 0.92, 7
"""Similarity of each frame with the one before, in the median of the last so many, below which a stand is doubtful."""


class StandingWatch:
    """Watches the view while the odometry says that the camera stands.

    since_s: when the stand began.
    others: views in a row that are not the one at the beginning.
    """

    def __init__(self) -> None:
        self._first: deque[float] = deque()
        self._last: deque[float] = deque()
        self._steps: deque[float] = deque(maxlen=STEADY_FRAMES)
        self.reset()

    def reset(self) -> None:
        """Forget the last stand."""
        self.since_s, self.others = 0.0, 0
        for views in (self._first, self._last, self._steps):
            views.clear()

    @property
    def doubtful(self) -> bool:
        """Whether the view says that the camera moves, and the odometry that it stands."""
        moving = len(self._steps) == STEADY_FRAMES and median(self._steps) < STEADY_VIEW
        return self.others >= OTHER_VIEWS or moving

    def see(self, time_s: float, movements: Sequence[Movement], code: Codes | None) -> float:
        """Take in a step; returns the seconds of a doubtful stand that it ends, in which the camera moved unseen."""
        distance_m = sum(abs(m.distance_m) for m in movements)
        seconds = sum(abs(m.end_s - m.start_s) for m in movements)
        if not movements or distance_m > STANDING_M_S * seconds:
            unseen_s = abs(time_s - self.since_s) if self.doubtful else 0.0
            self.reset()
            return unseen_s
        if code is None or not np.isfinite(code).all():
            return 0.0
        view = np.asarray(code, np.float64) / max(float(np.linalg.norm(code)), 1e-9)
        if not self._first:
            self.since_s = time_s
            self._first.extend(view.tolist())
        else:
            self.others = self.others + 1 if float(view @ np.array(self._first)) < SAME_VIEW else 0
            self._steps.append(float(view @ np.array(self._last)))
        self._last = deque(view.tolist())
        return 0.0
