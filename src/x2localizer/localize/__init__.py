"""From frames to fixes: windows, candidates, the path through their tiles, and how sure it all is."""

from x2localizer.localize.localizer import Localizer

__all__ = ["Localizer"]
