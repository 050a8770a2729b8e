"""A tracker on a video or on recorded motion: what has happened since the last fix goes in, and a fix comes out.

Every frame of a video is looked at by visual odometry. One frame a second goes on to the tracker, with the movements
since the one before. Times without any movement, such as those of a covered lens, are left out: the tracker then knows
that the camera may have gone anywhere in reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from PIL import Image as Pillow

from x2localizer.localize.frames import FLAT
from x2localizer.localize.track.movements import movements_between
from x2localizer.localize.track.tracker import Tracker
from x2localizer.odometry import VisualOdometry
from x2localizer.odometry.record import SPACING_S
from x2localizer.sources.motion import MotionRecord
from x2localizer.sources.video.source import FrameGrid
from x2localizer.types import Fix, Frame, Movement

ENOUGH_FRAMES = 12
"""Frames that show something, without any movement between them, after which a video has no odometry."""
_BLACK = np.zeros((1, 1, 3), np.uint8)


class NoOdometryError(Exception):
    """A video whose frames cannot be compared with each other: too far apart, too small, or without any content.

    held: the frames that were due so far, one for each fix.
    """

    def __init__(self, held: Sequence[Frame]) -> None:
        super().__init__("no movement between the frames can be measured")
        self.held = list(held)


class VideoFollower:
    """Feeds a tracker with the frames of one video, and with how the camera moves.

    odometry: measures it from the video, which then needs frames 0.07 to 0.2 s apart; or a record of it, with times
        that count from the start of the video.
    on_motion: called by ``run`` with each movement that is measured in the video, after the fix of the same frame.
    """

    def __init__(
        self, tracker: Tracker, odometry: VisualOdometry | MotionRecord,
        on_motion: Callable[[Movement], None] | None = None,
    ) -> None:  # fmt: skip
        self.tracker, self.odometry, self.on_motion = tracker, odometry, on_motion
        self.movement: Movement | None = None
        """The one that ends at the last frame, if it was measured in the video."""
        self.moved = False
        """Whether any movement is known so far."""
        self._grid = FrameGrid(tracker.settings.frame_spacing_s)
        self._movements: list[Movement] = []
        self._held: list[Frame] = []
        self._count = self._shown = 0
        self._last_s: float | None = None

    @property
    def spacing_s(self) -> float:
        """Time between the frames that it needs."""
        return SPACING_S if isinstance(self.odometry, VisualOdometry) else self.tracker.settings.frame_spacing_s

    def run(self, frames: Iterable[Frame]) -> Iterator[Fix]:
        """A fix for each frame that is due; raises :class:`NoOdometryError` if no movement can be measured."""
        for frame in frames:
            yield from self.update(frame)
            if self.movement is not None and self.on_motion is not None:
                self.on_motion(self.movement)
        if self._held:
            raise NoOdometryError(self._held)

    def update(self, frame: Frame) -> list[Fix]:
        """Take in a frame: no fix, or one if it was due; with the first movement also those held back until then."""
        if isinstance(self.odometry, VisualOdometry):
            self._measure(self.odometry, frame)
        if frame.time_s < self._grid.due_s:
            return self._release()
        self._grid.hand_out(frame.time_s)
        due = self._prepared(frame)
        self._count += 1
        if self.moved or isinstance(self.odometry, MotionRecord):
            return [*self._release(), self._fix(due)]
        self._held.append(due)
        self._give_up_if_hopeless()
        return []

    def _measure(self, odometry: VisualOdometry, frame: Frame) -> None:
        self.movement = movement = odometry.update(frame)
        if movement is not None:
            self._movements.append(movement)
            self.moved = True
        elif not self.moved:
            self._shown += float(frame.image.std()) >= FLAT

    def _give_up_if_hopeless(self) -> None:
        if self._shown >= ENOUGH_FRAMES:
            raise NoOdometryError(self._held)

    def _release(self) -> list[Fix]:
        """The fixes of frames that were held back until it was clear that the video has odometry."""
        if not self._held or not self.moved:
            return []
        held, self._held = self._held, []
        movements, self._movements = self._movements, []
        fixes = [self._fix(frame) for frame in held]
        self._movements = movements
        return fixes

    def _prepared(self, frame: Frame) -> Frame:
        """The frame with its number among the fixes, at the size that the encoder takes."""
        size, image = self.tracker.frame_size, frame.image
        if size is not None and image.shape[:2] != size:
            whole = Pillow.fromarray(np.ascontiguousarray(image))
            image = np.asarray(whole.resize(size[::-1], Pillow.Resampling.BOX))
        if size is None or float(image.std()) < FLAT:
            image = _BLACK  # many may be held back
        return Frame(self._count, frame.time_s, image)

    def _fix(self, frame: Frame) -> Fix:
        movements = self._movements_until(frame.time_s)
        if not movements and self._last_s is not None:
            return Fix(frame.index, frame.time_s, "lost")
        self._last_s = frame.time_s
        return self.tracker.update(frame, movements)

    def _movements_until(self, time_s: float) -> list[Movement]:
        step_s = self.tracker.settings.step_s
        if isinstance(self.odometry, VisualOdometry):
            movements, self._movements = self._movements, []
            return joined(movements, step_s)
        if self._last_s is None:
            return []
        movements = movements_between(self.odometry, self._last_s, time_s, step_s)
        self.moved = self.moved or bool(movements)
        return movements


def joined(movements: Sequence[Movement], step_s: float) -> list[Movement]:
    """Movements in steps of at most ``step_s``, where they follow each other without a gap."""
    steps: list[Movement] = []
    for m in movements:
        last = steps[-1] if steps else None
        if last is None or m.start_s - last.end_s > 1e-3 or m.end_s - last.start_s > step_s + 1e-3:
            steps.append(m)
        else:
            steps[-1] = last.then(m)
    return steps


def follow_record(tracker: Tracker, record: MotionRecord) -> Iterator[Fix]:
    """A fix for every second of recorded motion, without any picture."""
    settings, start_s = tracker.settings, float(record.times_s[0])
    last_s = start_s
    yield tracker.advance(0, start_s)
    for index in range(1, int(record.duration_s / settings.frame_spacing_s + 1e-6) + 1):
        time_s = start_s + index * settings.frame_spacing_s
        movements = movements_between(record, last_s, time_s, settings.step_s)
        if movements:
            yield tracker.advance(index, time_s, movements)
            last_s = time_s
        else:
            yield Fix(index, time_s, "lost")


def keyframes(held: Sequence[Frame], frames: Iterable[Frame], spacing_s: float) -> Iterator[Frame]:
    """The frames that were held back, then one of the others every ``spacing_s`` seconds."""
    yield from held
    index = len(held)
    grid = FrameGrid(spacing_s, held[-1].time_s + spacing_s if held else 0.0)
    for frame in frames:
        if frame.time_s >= grid.due_s:
            grid.hand_out(frame.time_s)
            yield Frame(index, frame.time_s, frame.image)
            index += 1
