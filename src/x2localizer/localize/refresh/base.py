"""What a refresh policy is, the registry of all of them, and how one is replayed on a recorded clip."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from x2localizer.config import LocalizeSettings
from x2localizer.registry import Registry


@dataclass(frozen=True, slots=True)
class SearchMoment:
    """What a policy knows when a keyframe has come.

    time_s: of the keyframe.
    searches: how many there were since the start, or since the last interruption.
    since_search_s: seconds since the last of them; None if there was none.
    keyframes: in the window, the new one included.
    budget: keyframes of a full window.
    confidence: of the last fix; 0 if there was none, or while a clip is replayed.
    """

    time_s: float
    searches: int
    since_search_s: float | None
    keyframes: int
    budget: int
    confidence: float = 0.0


class RefreshPolicy(ABC):
    """Decides when to search.

    name: how settings call it.
    adds_regions: whether the candidates may grow between searches, where a path leaves its region.
    """

    name: ClassVar[str]
    adds_regions: ClassVar[bool] = True

    def __init__(self, settings: LocalizeSettings) -> None:
        self.settings = settings

    @abstractmethod
    def is_due(self, moment: SearchMoment) -> bool:
        """Whether to search now, with the keyframe that has just come."""


policies: Registry[RefreshPolicy] = Registry("refresh policy", "x2localizer.localize.refresh")


def searched_windows(policy: RefreshPolicy, times_s: Sequence[float], budget: int) -> list[tuple[int, int]]:
    """The windows that a policy searches on a clip: the first and the last keyframe of each.

    ``times_s`` are those of the clip's keyframes. A window is searched at its last keyframe. Windows that are not full
    are left out, unless the clip is too short for any other.
    """
    searches: list[tuple[int, int]] = []
    for last, time_s in enumerate(times_s):
        since = time_s - times_s[searches[-1][1]] if searches else None
        moment = SearchMoment(time_s, len(searches), since, min(last + 1, budget), budget)
        if policy.is_due(moment):
            searches.append((max(0, last + 1 - budget), last))
    full = [(first, last) for first, last in searches if last - first + 1 == budget]
    return full or [(0, len(times_s) - 1)]
