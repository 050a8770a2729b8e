"""Sliding-Window Re-Localization, the paper's policy: a new window every 20 s, searched when it is full."""

from __future__ import annotations

from x2localizer.localize.refresh.base import RefreshPolicy, SearchMoment, policies

ROUNDING_S = 1e-3


@policies.register
class SlidingWindow(RefreshPolicy):
    """The first window at every keyframe, so that the answer improves from the first frame on; then by the clock."""

    name = "swrl"

    def is_due(self, moment: SearchMoment) -> bool:
        """Whether to search now."""
        if moment.searches < moment.budget or moment.since_search_s is None:
            return True
        return moment.since_search_s >= self.settings.window_s - ROUNDING_S
