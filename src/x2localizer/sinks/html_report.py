"""The report: one HTML file with the map, the frames and the error over time."""

from __future__ import annotations

from collections.abc import Sequence

from x2localizer.files import write_text
from x2localizer.show.report import report_page
from x2localizer.sinks.base import Sink, sinks
from x2localizer.types import Fix


@sinks.register
class HtmlReport(Sink):
    """Opens in any browser, without a network."""

    name = "report"
    file = "report.html"

    def finish(self, fixes: Sequence[Fix]) -> None:
        """Write the file."""
        c = self.context
        if c.gallery is not None and c.summary is not None:
            write_text(self.path, report_page(fixes, c.views, c.gallery, c.summary, c.truth, c.title))
