"""A toy refresh policy: search at every second keyframe. One file is all it takes."""

from __future__ import annotations

from x2localizer.localize.refresh.base import RefreshPolicy, SearchMoment, policies


@policies.register
class EverySecond(RefreshPolicy):
    """By counting keyframes."""

    name = "every-second"

    def is_due(self, moment: SearchMoment) -> bool:
        """Whether to search now."""
        return moment.since_search_s is None or moment.since_search_s >= 2 * self.settings.keyframe_spacing_s - 1e-3
