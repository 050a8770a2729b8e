"""What goes wrong upstream of the tracker: frames, odometry and imagery with faults, on drives whose truth is known.

A fault changes what a tracker is given of a drive, from a moment on: from its start, or from halfway, when most are
sure. The truth stays. A tracker may become unsure, or stay right by what is still sound; it must not state a
position that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from x2localizer.evaluate.recordings import Odometry, Recording
from x2localizer.evaluate.track_calibration import LIES
from x2localizer.evaluate.track_fit import first_late
from x2localizer.types import Codes, Movement, Position

Onset = Literal["start", "halfway"]
ONSETS: tuple[Onset, ...] = get_args(Onset)
LATE_S = 5.0
"""How late odometry is whose clock is off."""
LOOP_S = 10
"""Frames that a stream which hangs in a loop repeats."""
GYRO_DRIFT_DEG_S = 5.0
SHIFT_M = 100.0
"""How far imagery is shifted to the east against the truth and the roads."""


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What faults are made of.

    recording: the sound drive.
    mirrored: image codes of its frames, left and right exchanged, (f, d).
    foreign: image codes of a drive in another area, (g, d).
    first: the frame that the fault begins with.
    """

    recording: Recording
    mirrored: Codes
    foreign: Codes
    first: int


Change = Callable[[Given], Recording]


@dataclass(frozen=True, slots=True)
class Fault:
    """One way in which a part upstream fails.

    part: frames, odometry or imagery.
    moves_roads: the imagery is shifted; only the difference counts, so the roads and the truth are shifted instead.
    """

    name: str
    part: str
    change: Change
    moves_roads: bool = False


# Frames --------------------------------------------------------------------------------------------------------------


def _with_codes(given: Given, later: Codes) -> Recording:
    """The drive with other codes from the fault's first frame on."""
    codes = np.concatenate([given.recording.codes[: given.first], later])
    return replace(given.recording, codes=codes.astype(np.float32))


def _later(given: Given) -> Codes:
    return given.recording.codes[given.first :]


def _frozen(given: Given) -> Recording:
    return _with_codes(given, np.repeat(_later(given)[:1], len(_later(given)), 0))


def _repeated(given: Given) -> Recording:
    later = _later(given)
    return _with_codes(given, later[np.arange(len(later)) % LOOP_S])


def _shuffled(given: Given) -> Recording:
    rng = np.random.default_rng(sum(given.recording.ride.ride_id.encode()))
    return _with_codes(given, rng.permutation(_later(given)))


def _backwards(given: Given) -> Recording:
    return _with_codes(given, _later(given)[::-1])


def _mirrored(given: Given) -> Recording:
    return _with_codes(given, given.mirrored[given.first :])


def _foreign(given: Given) -> Recording:
    later = len(_later(given))
    return _with_codes(given, given.foreign[np.arange(later) % len(given.foreign)])


# Odometry ------------------------------------------------------------------------------------------------------------


def _with_odometry(given: Given, change: Callable[[Odometry], Sequence[tuple[Movement, ...]]]) -> Recording:
    """The drive with other movements from the fault's first frame on."""
    odometry = {
        source: replace(own, movements=(*own.movements[: given.first], *change(own)))
        for source, own in given.recording.odometry.items()
    }
    return replace(given.recording, odometry=odometry)


def _lie(lie: Callable[[Movement], Movement]) -> Change:
    def change(given: Given) -> Recording:
        return _with_odometry(
            given, lambda own: [tuple(lie(m) for m in movements) for movements in own.movements[given.first :]]
        )

    return change


def _late(given: Given) -> Recording:
    """Each movement is that of ``LATE_S`` before, as if it were of now; frames come once a second."""

    def change(own: Odometry) -> list[tuple[Movement, ...]]:
        back = int(LATE_S)
        out = []
        for number in range(given.first, len(own.movements)):
            now, then = own.movements[number], own.movements[max(0, number - back)]
            out.append(tuple(
                replace(a, distance_m=b.distance_m, turn_deg=b.turn_deg) for a, b in zip(now, then, strict=False)
            ) if then else now)  # fmt: skip
        return out

    return _with_odometry(given, change)


def _drift(movement: Movement) -> Movement:
    seconds = movement.end_s - movement.start_s
    return replace(movement, turn_deg=movement.turn_deg + GYRO_DRIFT_DEG_S * seconds)


def _standing(movement: Movement) -> Movement:
    return replace(movement, distance_m=0.0, turn_deg=0.0)


# All -----------------------------------------------------------------------------------------------------------------


def _sound(given: Given) -> Recording:
    return given.recording


FAULTS: tuple[Fault, ...] = (
    Fault("none", "-", _sound),
    Fault("frozen: the same frame again and again", "frames", _frozen),
    Fault("mirrored: left and right exchanged", "frames", _mirrored),
    Fault("repeated: a loop of 10 s", "frames", _repeated),
    Fault("shuffled: frames in random order", "frames", _shuffled),
    Fault("backwards: frames in reverse order", "frames", _backwards),
    Fault("foreign: frames of a drive elsewhere", "frames", _foreign),
    Fault("scale: distances three times too long", "odometry", _lie(LIES[0])),
    Fault("stuck gyroscope: no turn at all", "odometry", _lie(LIES[1])),
    Fault("scale: distances 0.4 times as long", "odometry", _lie(LIES[2])),
    Fault("mirrored turns: left for right", "odometry", _lie(LIES[3])),
    Fault("drifting gyroscope: 5 degrees a second", "odometry", _lie(_drift)),
    Fault("stuck odometry: the car seems to stand", "odometry", _lie(_standing)),
    Fault("clock off: odometry 5 s late", "odometry", _late),
    Fault("imagery shifted by 100 m", "imagery", _sound, moves_roads=True),
)


def first_frame(recording: Recording, onset: Onset) -> int:
    """The frame from which a fault acts."""
    return 0 if onset == "start" else first_late(len(recording.codes))


def faulty(fault: Fault, given: Given) -> Recording:
    """A drive as the tracker gets it; with imagery that is shifted to the east, its truth lies to the west of it."""
    recording = fault.change(given)
    if not fault.moves_roads:
        return recording
    truth = tuple(moved_west(place) for place in recording.ride.truth)
    return replace(recording, ride=replace(recording.ride, truth=truth))


def moved_west(place: Position) -> Position:
    """A place ``SHIFT_M`` west of another."""
    east_m_per_deg = 111_320.0 * float(np.cos(np.radians(place.lat_deg)))
    return Position(place.lat_deg, place.lon_deg - SHIFT_M / east_m_per_deg)


def foreign_codes(recordings: Sequence[Recording], number: int) -> Codes:
    """Codes of the next drive that is in another area."""
    own = recordings[number]
    for ahead in range(1, len(recordings)):
        other = recordings[(number + ahead) % len(recordings)]
        if other.area != own.area:
            return other.codes
    return own.codes[::-1]
