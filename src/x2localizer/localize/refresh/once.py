"""Search the first window and never again: what the paper compares its policy with."""

from __future__ import annotations

from x2localizer.localize.refresh.base import RefreshPolicy, SearchMoment, policies


@policies.register
class Once(RefreshPolicy):
    """The first window at every keyframe until it is full."""

    name = "once"
    adds_regions = False

    def is_due(self, moment: SearchMoment) -> bool:
        """Whether to search now."""
        return moment.searches < moment.budget
