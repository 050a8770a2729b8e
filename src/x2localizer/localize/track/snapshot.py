"""A tracker's state as bytes, and back: a restored tracker gives the same fixes as one that never stopped.

The bytes are a NumPy archive of plain arrays: the poses of the belief (and of a search, while there is one), and a JSON
text with everything else. Nothing in it is ever executed. Numbers that a term of evidence keeps are found by their
type, so that a new term needs no line here.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections import deque
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from x2localizer.errors import UserError
from x2localizer.localize.track.belief import PoseBelief, PoseEstimate
from x2localizer.localize.track.kernels import POSE
from x2localizer.localize.track.tracker import Tracker, _Search, _State

FORMAT = 1
Thing = TypeVar("Thing")


class SnapshotError(UserError):
    """A snapshot that is damaged, or of another map, bundle or settings."""


def map_fingerprint(tracker: Tracker) -> str:
    """A short name for what a belief depends on: the map, the settings, and the kinds of evidence."""
    digest = hashlib.sha256(tracker.map.patches.corners.tobytes())
    digest.update(json.dumps([POSE, tracker.map.patches.zoom, [term.name for term in tracker.belief.terms]]).encode())
    digest.update(tracker.settings.model_dump_json().encode())
    return digest.hexdigest()[:16]


def pack(tracker: Tracker) -> bytes:
    """Everything that the next fix depends on. Steps kept for a second pass are not part of it."""
    about: dict[str, Any] = {
        "format": FORMAT, "map": map_fingerprint(tracker), "tracker": _numbers(tracker),
        "state": asdict(replace(tracker._state, reckoning=None)),  # type: ignore[arg-type]
        "reckoning": _numbers(tracker._state.reckoning), "belief": _about(tracker.belief),
        "watches": [_numbers(watch) for watch in _watches(tracker)],
        "odds": None if tracker._odds is None else _numbers(tracker._odds),
    }  # fmt: skip
    arrays: dict[str, npt.NDArray[Any]] = {"poses": tracker.belief.poses, "patch": tracker.belief.patch}
    if tracker._search is not None:
        search = tracker._search
        about["search"] = {
            "numbers": _numbers(search), "reckoning": _numbers(search.reckoning), "belief": _about(search.belief),
        }  # fmt: skip
        arrays |= {"search_poses": search.belief.poses, "search_patch": search.belief.patch}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    out = io.BytesIO()
    np.savez(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def restore(tracker: Tracker, data: bytes) -> None:
    """Bring a new tracker on the same map, with the same settings, to the state of a snapshot.

    Raises :class:`SnapshotError` and leaves the tracker as it was if that is not possible.
    """
    arrays, about = _read(data)
    if about["map"] != map_fingerprint(tracker) or (about["odds"] is None) != (tracker._odds is None):
        raise SnapshotError(
            "The snapshot belongs to another gallery, bundle or other settings.", "Start the track again."
        )
    search = about.get("search")
    fresh = None if search is None else tracker._new_belief()
    _set_numbers(tracker, about["tracker"])
    if tracker._odds is not None:
        _set_numbers(tracker._odds, about["odds"])
    _set_belief(tracker.belief, about["belief"], arrays["poses"], arrays["patch"])
    for watch, numbers in zip(_watches(tracker), about.get("watches", []), strict=False):  # older snapshots have none
        _set_numbers(watch, numbers)
    state = dict(about["state"])
    guess = state.pop("guess")
    state["reckoning"] = _set_numbers(tracker.new_reckoning(), about["reckoning"])
    tracker._state = _State(**state, guess=None if guess is None else _estimate(guess))
    tracker._search = None
    if search is not None and fresh is not None:
        _set_belief(fresh, search["belief"], arrays["search_poses"], arrays["search_patch"])
        reckoning = _set_numbers(tracker.new_reckoning(), search["reckoning"])
        tracker._search = _Search(fresh, reckoning, **search["numbers"])


def _read(data: bytes) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        about = json.loads(arrays["about"].tobytes())
        named = ("poses", "search_poses") if "search" in about else ("poses",)
        whole = all(
            arrays[name].shape == (POSE, len(arrays[name.replace("poses", "patch")])) and arrays[name].dtype == "f8"
            for name in named
        )
        if about["format"] != FORMAT or not whole:
            raise ValueError("another format")
    except (ValueError, KeyError, TypeError, RecursionError, OSError, EOFError, zipfile.BadZipFile) as problem:
        raise SnapshotError("The snapshot of a belief is damaged.", "Start the track again.") from problem
    return arrays, about


def _watches(tracker: Tracker) -> tuple[object, ...]:
    return tracker._watch, tracker._speeds, tracker._turns, tracker._fit


def _about(belief: PoseBelief) -> dict[str, Any]:
    return {
        "numbers": _numbers(belief), "rng": belief._rng.bit_generator.state,
        "terms": [_numbers(term) for term in belief.terms],
    }  # fmt: skip


def _set_belief(
    belief: PoseBelief, about: dict[str, Any], poses: npt.NDArray[np.float64], patch: npt.NDArray[np.int32]
) -> None:
    _set_numbers(belief, about["numbers"])
    belief._rng.bit_generator.state = about["rng"]
    for term, numbers in zip(belief.terms, about["terms"], strict=True):
        _set_numbers(term, numbers)
    belief.poses, belief.patch = poses, patch


def _numbers(thing: object) -> dict[str, Any]:
    """The numbers that an object keeps, and its short histories."""
    return {
        name: list(value) if isinstance(value, deque) else value
        for name, value in vars(thing).items()
        if isinstance(value, bool | int | float | deque)
    }


def _set_numbers(thing: Thing, numbers: dict[str, Any]) -> Thing:
    for name, value in numbers.items():
        if isinstance(value, list):
            history = getattr(thing, name)
            history.clear()
            history.extend(tuple(item) if isinstance(item, list) else item for item in value)
        else:
            setattr(thing, name, value)
    return thing


def _estimate(values: dict[str, Any]) -> PoseEstimate:
    east, across, north = values.pop("covariance_m2")
    return PoseEstimate(**values, covariance_m2=(east, across, north))
