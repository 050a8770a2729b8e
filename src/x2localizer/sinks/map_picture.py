"""The map: one picture with the track on it."""

from __future__ import annotations

from collections.abc import Sequence

from x2localizer.show.pictures import save_picture
from x2localizer.show.track_map import track_picture
from x2localizer.sinks.base import Sink, sinks
from x2localizer.types import Fix


@sinks.register
class MapPicture(Sink):
    """Drawn on the gallery's own pictures and roads."""

    name = "map"
    file = "map.jpg"

    def finish(self, fixes: Sequence[Fix]) -> None:
        """Write the file."""
        if self.context.gallery is not None:
            save_picture(self.path, track_picture(self.context.gallery, fixes, self.context.truth))
