"""One camera: frames and odometry in step, for a tracker. Plain and synchronous; one call at a time.

A frame is first looked at (:meth:`Follower.look`): visual odometry, and whether a fix is due. The encoder comes in
between, because it is shared by all sessions. Then the tracker advances (:meth:`Follower.advance`). Everything that
the next fix depends on can be stored and restored: the tracker by snapshots and the steps since, the rest as
:class:`Progress`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise

import numpy as np
from PIL import Image as Pillow

from x2localizer.localize.follow import joined
from x2localizer.localize.frames import FrameGate
from x2localizer.localize.track.tracker import Step, Tracker
from x2localizer.odometry import VisualOdometry
from x2localizer.serve.errors import ConflictError
from x2localizer.serve.samples import Sample, SampleBuffer
from x2localizer.serve.settings import SessionOptions
from x2localizer.sources.video.source import ROUNDING_S
from x2localizer.types import Codes, Fix, Frame, Image, Movement

LONGEST_JUMP_S = 86_400.0
"""A clock that jumps ahead by more has gone wrong."""
MOST_PENDING = 600
"""Movements that may wait for the next fix."""
NO_MOVEMENT = "No movement is known since the last fix. Send odometry samples, or 4 or more frames a second."


@dataclass
class Progress:
    """Where a session stands, beside its tracker.

    count: fixes so far.
    frame_s: time of the last frame that was taken.
    due_s: time from which the next fix is due.
    covered_s: time until which the tracker knows the movement.
    pending: movements since then, measured in frames.
    """

    count: int = 0
    frame_s: float | None = None
    due_s: float | None = None
    covered_s: float | None = None
    pending: list[Movement] = field(default_factory=list)

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Progress:
        """From text."""
        values = json.loads(text)
        pending = [Movement(**movement) for movement in values.pop("pending")]
        return Progress(**values, pending=pending)


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """A frame that was looked at.

    due: whether a fix is due.
    small: the picture at the encoder's size; None if it shows nothing, or no encoder needs it.
    """

    due: bool
    small: Image | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Advanced:
    """A fix, and what to keep of it.

    step: what the tracker took in; None if it was not asked.
    note: why there is no better fix.
    """

    fix: Fix
    step: Step | None
    note: str | None = None


class Follower:
    """A tracker with the odometry of one session."""

    def __init__(self, tracker: Tracker, options: SessionOptions, progress: Progress | None = None) -> None:
        self.tracker, self.options = tracker, options
        self.progress = progress or Progress()
        self.samples = SampleBuffer()
        self._odometry = VisualOdometry(options.camera.profile) if options.odometry == "frames" else None
        self._gate = FrameGate(math.inf)

    def check_time(self, time_s: float) -> None:
        """Refuse a frame whose time does not follow that of the last."""
        check_follows(self.progress.frame_s, time_s)

    def look(self, image: Image, time_s: float) -> Look:
        """Take in a frame of any size, up to the question whether it is due."""
        self.check_time(time_s)
        p = self.progress
        p.frame_s = time_s
        if self._odometry is not None:
            movement = self._odometry.update(Frame(p.count, time_s, image))
            if movement is not None and len(p.pending) < MOST_PENDING:
                p.pending.append(movement)
        if p.due_s is not None and time_s < p.due_s - ROUNDING_S:
            return Look(False)
        spacing_s = self.tracker.settings.frame_spacing_s
        late = p.due_s is None or time_s - p.due_s >= spacing_s
        p.due_s = (time_s if late or p.due_s is None else p.due_s) + spacing_s
        return Look(True, self._prepared(image, time_s))

    def _prepared(self, image: Image, time_s: float) -> Image | None:
        size = self.tracker.frame_size
        if size is None:
            return None
        if image.shape[:2] != size:
            whole = Pillow.fromarray(np.ascontiguousarray(image))
            image = np.asarray(whole.resize(size[::-1], Pillow.Resampling.BOX))
        return image if self._gate.usable(Frame(self.progress.count, time_s, image)) else None

    def advance(self, time_s: float, code: Codes | None = None, small: Image | None = None) -> Advanced:
        """A fix at a time, with the code of the frame taken then, if there is one."""
        p, first = self.progress, self.progress.covered_s is None
        movements = self._movements_until(time_s)
        index, p.count = p.count, p.count + 1
        if not movements and not first:
            return Advanced(Fix(index, time_s, "lost"), None, NO_MOVEMENT)
        p.covered_s = time_s if not movements or time_s - movements[-1].end_s > 0.25 else movements[-1].end_s
        self.samples.forget_before(p.covered_s)
        fix = self.tracker.advance(index, time_s, movements, code)
        step = Step(index, time_s, tuple(movements), code)
        if code is not None and small is not None:
            fix = self.tracker.with_view(fix, Frame(index, time_s, small))
        return Advanced(fix, step)

    def _movements_until(self, time_s: float) -> list[Movement]:
        p, step_s = self.progress, self.tracker.settings.step_s
        if self._odometry is not None:
            movements, p.pending = joined(p.pending, step_s), []
            return movements
        if p.covered_s is None:
            return []
        start_s, end_s = p.covered_s, min(time_s, self.samples.last_s)
        if end_s <= start_s:
            return []
        movements = self.samples.movements(start_s, end_s, step_s)
        if not movements and start_s < self.samples.first_s < end_s:  # the first samples came after the first frame
            movements = self.samples.movements(self.samples.first_s, end_s, step_s)
        return movements

    def due_times(self) -> list[float]:
        """Times at which fixes are due by the samples alone, and marks them as done. There are none in a gap."""
        p, spacing_s = self.progress, self.tracker.settings.frame_spacing_s
        if p.due_s is None:
            p.due_s = self.samples.first_s
        if not math.isfinite(p.due_s) or self.samples.last_s - p.due_s > LONGEST_JUMP_S:
            p.due_s = self.samples.last_s if math.isfinite(self.samples.last_s) else None
        times: list[float] = []
        while p.due_s is not None and p.due_s <= self.samples.last_s + 1e-6:
            if self.samples.is_near(p.due_s):
                times.append(p.due_s)
            p.due_s += spacing_s
        return times

    def add_samples(self, samples: Sequence[Sample]) -> None:
        """Take in odometry."""
        if self._odometry is not None:
            raise ConflictError(
                "This session measures its odometry in the frames.",
                'Create one with "odometry": "samples" to send samples.',
            )
        times = [sample.time_s for sample in samples]
        newest_s = self.samples.newest_s
        for before, after in pairwise(times if newest_s == -math.inf else [newest_s, *times]):
            check_jump(before, after)
        self.samples.add(samples)

    def replay(self, steps: Iterable[Step]) -> None:
        """Bring the tracker to where it was after some steps."""
        for step in steps:
            self.tracker.advance(step.index, step.time_s, step.movements, step.code)


def check_follows(last_s: float | None, time_s: float) -> None:
    """Refuse a time that is not after the last one, or far ahead of it."""
    if last_s is None:
        return
    if time_s <= last_s:
        raise ConflictError(
            f"The clock runs backwards: {time_s:.3f} s after {last_s:.3f} s.",
            "Send frames in order of time; after a reset of the clock, create a new session.",
        )
    check_jump(last_s, time_s)


def check_jump(last_s: float, time_s: float) -> None:
    """Refuse a time that is more than a day ahead."""
    if time_s - last_s > LONGEST_JUMP_S:
        raise ConflictError(
            f"The clock jumps ahead by {time_s - last_s:,.0f} s.",
            "Check the unit, which is seconds; after a reset of the clock, create a new session.",
        )
