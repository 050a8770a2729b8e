"""When are the candidates searched again? One file per policy, one registry."""

from x2localizer.localize.refresh.base import RefreshPolicy, SearchMoment, policies, searched_windows

__all__ = ["RefreshPolicy", "SearchMoment", "policies", "searched_windows"]
