"""One job in a process of its own: a whole video in, a track with its files out.

A video that was sent by somebody is decoded here, and not in the process of the service: whatever it does to a decoder,
the other cameras do not notice. Progress and the result are lines of JSON on standard output.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from x2localizer.errors import UserError

NICE = 10
"""Jobs give way to live cameras."""


def main(text: str) -> None:
    """Run a job; the argument is JSON: video, gallery, bundle, out, title, fov_deg, height_m, prior."""
    from x2localizer.odometry import CameraProfile, find_fov  # noqa: PLC0415
    from x2localizer.pipeline import localize_video  # noqa: PLC0415
    from x2localizer.serve.settings import SessionOptions  # noqa: PLC0415

    if hasattr(os, "nice"):
        os.nice(NICE)
    job: dict[str, Any] = json.loads(text)
    prior = SessionOptions.model_validate({"prior": job["prior"]}).prior
    try:
        fov_deg = job["fov_deg"] if job["fov_deg"] is not None else find_fov(job["video"]).degrees
        result = localize_video(
            job["video"], job["gallery"], job["bundle"], Path(job["out"]), title=job["title"],
            camera=CameraProfile(fov_deg, job["height_m"]), prior=None if prior is None else prior.prior,
            progress=lambda done_s, total_s: _say(done_s=done_s, total_s=total_s),
        )  # fmt: skip
    except UserError as problem:
        _say(error=problem.what.replace(job["video"], "the video"), remedy=problem.remedy)
        return
    _say(summary=asdict(result.summary), files=[path.name for path in result.files], note=result.note)


def _say(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
