"""Do the pictures and the odometry agree? One of them may have failed without a word.

A wheel sensor that has failed says that the camera stands, all the time. But while it stands, its view must stay as it
is: the view is compared with that at the beginning of the stand, and with the one before. The thresholds were chosen on
validation drives by day and at night, with the codes of both shipped bundles: they doubted none of 36 stands, and found
a speed that is stuck at zero after 5 s in the median.

A stream that has frozen shows the same picture again and again, with other bytes if it is encoded anew. A camera that
moves never does: on those drives 99 of 100 neighbouring frames were less similar than 0.99.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import median

import numpy as np

from x2localizer.types import Codes, Floats, Movement

STANDING_M_S = 0.5
"""Speed below which the odometry says that the camera stands."""
SAME_VIEW = 0.75
"""Similarity with the beginning of a stand, below which a view is another one."""
OTHER_VIEWS = 2
"""Other views in a row that make a stand doubtful: something large may drive by."""
STEADY_VIEW, STEADY_FRAMES = 0.92, 7
"""Similarity of each frame with the one before, in the median of the last so many, below which a stand is doubtful."""
FROZEN_VIEW, FROZEN_FRAMES = 0.9995, 3
"""Similarity with the frame before, above which so many frames in a row of a moving camera are a frozen picture."""


class ViewWatch:
    """Compares the view with what the odometry says.

    since_s: when the camera began to stand, by the odometry.
    others: views in a row that are not the one at the beginning of the stand.
    same: views in a row of a moving camera that are the one before.
    doubtful: whether the view has said, since the odometry says that the camera stands, that it moves.
    """

    def __init__(self) -> None:
        self.since_s, self.others, self.same, self.doubtful = 0.0, 0, 0, False
        self._first: deque[float] = deque()
        self._last: deque[float] = deque()
        self._steps: deque[float] = deque(maxlen=STEADY_FRAMES)

    @property
    def frozen(self) -> bool:
        """Whether the odometry says that the camera moves, and its view stays the same."""
        return self.same >= FROZEN_FRAMES

    def see(self, time_s: float, movements: Sequence[Movement], code: Codes | None) -> float:
        """Take in a step; returns the seconds of a doubtful stand that it ends, in which the camera moved unseen."""
        view = None
        if code is not None and np.isfinite(code).all():
            view = np.asarray(code, np.float64) / max(float(np.linalg.norm(code)), 1e-9)
        similar = None if view is None or not self._last else float(view @ np.array(self._last))
        unseen_s = 0.0
        if not movements or _distance_m(movements) > STANDING_M_S * _seconds(movements):
            unseen_s = abs(time_s - self.since_s) if self.doubtful else 0.0
            self._end_stand()
            if similar is not None and movements:
                self.same = self.same + 1 if similar > FROZEN_VIEW else 0
        elif view is not None:
            self._stand(time_s, view, similar)
        if view is not None:
            self._last.clear()
            self._last.extend(view.tolist())
        return unseen_s

    def _stand(self, time_s: float, view: Floats, similar: float | None) -> None:
        if not self._first:
            self.since_s = time_s
            self._first.extend(view.tolist())
            return
        self.others = self.others + 1 if float(view @ np.array(self._first)) < SAME_VIEW else 0
        if similar is not None:
            self._steps.append(similar)
        changing = len(self._steps) == STEADY_FRAMES and median(self._steps) < STEADY_VIEW
        self.doubtful = self.doubtful or changing or self.others >= OTHER_VIEWS

    def _end_stand(self) -> None:
        self.since_s, self.others, self.doubtful = 0.0, 0, False
        self._first.clear()
        self._steps.clear()


def _distance_m(movements: Sequence[Movement]) -> float:
    return sum(abs(movement.distance_m) for movement in movements)


def _seconds(movements: Sequence[Movement]) -> float:
    return sum(abs(movement.end_s - movement.start_s) for movement in movements)
