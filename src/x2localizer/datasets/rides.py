"""Linking the clips of one ride to long-range sequences."""

from __future__ import annotations

from x2localizer.datasets.tables import VideoRow

LINK_GAP_S = 120.0
"""Longest gap between two clips of one sequence."""


def linked(videos: list[VideoRow]) -> list[tuple[VideoRow, ...]]:
    """Sequences of at least two clips of one ride, each at most ``LINK_GAP_S`` after the previous one."""
    out: list[tuple[VideoRow, ...]] = []
    chain: list[VideoRow] = []
    for video in sorted(videos, key=lambda row: (row.ride_id, row.start_time, row.video_id)):
        if chain and video.ride_id == chain[-1].ride_id:
            gap = (video.start_time - chain[-1].start_time).total_seconds() - chain[-1].duration_s
            if -1.0 <= gap <= LINK_GAP_S:
                chain.append(video)
                continue
        if len(chain) > 1:
            out.append(tuple(chain))
        chain = [video]
    if len(chain) > 1:
        out.append(tuple(chain))
    return out
