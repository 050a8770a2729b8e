"""What the API says, as its description shows it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from x2localizer.config import Settings
from x2localizer.serve.answers import LATEST_S, Answer, Outcome
from x2localizer.serve.follower import LONGEST_JUMP_S
from x2localizer.serve.heat import HeatGrid
from x2localizer.serve.jobs import Job, JobState
from x2localizer.serve.samples import Sample
from x2localizer.serve.session import Session
from x2localizer.serve.settings import Box, Near, OdometryFrom
from x2localizer.sinks.base import to_row
from x2localizer.sources.motion.checks import MAX_SPEED_M_S, MAX_YAW_RATE_DEG_S
from x2localizer.sources.video.open import redacted
from x2localizer.types import Fix, Status

TIME = f"Seconds by the camera's clock, counted from any start or since 1970; at most {LONGEST_JUMP_S:,.0f} s ahead."


class Out(BaseModel):
    """Something that is sent."""

    model_config = ConfigDict(extra="forbid")


class ProblemOut(Out):
    """Why a request was refused, and what to do next."""

    error: str
    remedy: str


class StateOut(Out):
    """How the service is."""

    status: Literal["ok", "starting"]


class LimitsOut(Out):
    """What the service takes."""

    frame_bytes: int
    frame_pixels: int
    batch_frames: int
    batch_samples: int
    queue_frames: int
    answer_within_s: float


class InfoOut(Out):
    """The service and its map."""

    version: str
    tiles: bool
    roads: bool
    limits: LimitsOut


class FixOut(Out):
    """Where a camera is. ``lat_deg`` and ``lon_deg`` are the best guess; only ``tracking`` makes it a position."""

    index: int
    time_s: float
    status: Status
    lat_deg: float | None
    lon_deg: float | None
    confidence: float = Field(description="Probability that the guess is within 80 m of the truth.")
    similarity: float
    heading_deg: float | None = Field(description="Clockwise from north.")
    speed_m_s: float | None
    ellipse_major_m: float | None = Field(description="Half of the longer axis of the 95% error ellipse.")
    ellipse_minor_m: float | None
    ellipse_angle_deg: float | None = Field(description="Direction of the longer axis, clockwise from north.")
    on_map: float | None = Field(description="Probability of being on this map.")
    region: str | None
    refreshed: bool = Field(description="Whether a search of the whole map began at this frame.")

    @staticmethod
    def of(fix: Fix) -> FixOut:
        """From a fix."""
        return FixOut(**to_row(fix))


class AnswerOut(Out):
    """What became of a frame."""

    time_s: float
    outcome: Outcome = Field(
        description="fix: there is a fix. taken: used for odometry, no fix was due. skipped: no fix was due. "
        "dropped: newer frames came first. late: it is still being looked at; the fix will be an event."
    )
    fix: FixOut | None = None
    dropped: int = Field(description="Frames of this session that were dropped so far.")
    note: str | None = None

    @staticmethod
    def of(answer: Answer) -> AnswerOut:
        """From an answer."""
        fix = None if answer.fix is None else FixOut.of(answer.fix)
        return AnswerOut(
            time_s=answer.time_s, outcome=answer.outcome, fix=fix, dropped=answer.dropped, note=answer.note
        )


class CountsOut(Out):
    """Frames and fixes of a session so far."""

    frames: int
    fixes: int
    tracking: int
    dropped: int
    late: int
    bad: int
    searches: int


class SessionOut(Out):
    """A session."""

    id: str
    name: str
    state: Literal["open", "ended"]
    created: float = Field(description="Seconds since 1970.")
    odometry: OdometryFrom
    prior: Near | Box | None
    source: str | None = Field(description="Without user and password.")
    source_state: str | None
    counts: CountsOut
    latest: FixOut | None

    @staticmethod
    def of(session: Session) -> SessionOut:
        """From a session."""
        o, c = session.options, session.counts
        return SessionOut(
            id=session.id, name=session.name, state="open" if session.is_open else "ended", created=session.created,
            odometry=o.odometry, prior=o.prior, source=None if o.source is None else redacted(o.source),
            source_state=session.source_state,
            counts=CountsOut(
                frames=c.frames, fixes=c.fixes, tracking=c.tracking, dropped=c.dropped, late=c.late, bad=c.bad,
                searches=c.searches,
            ),
            latest=None if session.latest is None else FixOut.of(session.latest),
        )  # fmt: skip


class SampleIn(Settings):
    """What a sensor says at one time; speed or yaw rate or both."""

    time_s: float = Field(ge=-LATEST_S, le=LATEST_S, description=TIME)
    speed_m_s: float | None = Field(None, ge=-MAX_SPEED_M_S, le=MAX_SPEED_M_S, description="Forward is positive.")
    yaw_rate_deg_s: float | None = Field(
        None, ge=-MAX_YAW_RATE_DEG_S, le=MAX_YAW_RATE_DEG_S, description="Clockwise is positive."
    )

    @property
    def sample(self) -> Sample:
        """The sample."""
        return Sample(self.time_s, self.speed_m_s, self.yaw_rate_deg_s)


class OdometryIn(Settings):
    """Samples in order of time."""

    samples: list[SampleIn] = Field(min_length=1)


class PriorIn(Settings):
    """Where the camera is: a circle, a box, or null for anywhere."""

    prior: Near | Box | None


class HeatOut(Out):
    """Where the belief of a session lies: probabilities by cell, rows from the north-west."""

    west: float
    south: float
    east: float
    north: float
    values: list[list[float]]
    on_map: float

    @staticmethod
    def of(grid: HeatGrid) -> HeatOut:
        """From a grid."""
        values = [[round(float(v), 6) for v in row] for row in grid.values]
        return HeatOut(
            west=grid.west, south=grid.south, east=grid.east, north=grid.north, values=values, on_map=grid.on_map
        )


class JobOut(Out):
    """A whole video that is localized."""

    id: str
    name: str
    state: JobState
    created: float = Field(description="Seconds since 1970.")
    done_s: float = Field(description="Seconds of video that are done.")
    total_s: float | None
    summary: dict[str, Any] | None
    files: list[str]
    note: str | None
    error: str | None
    remedy: str | None

    @staticmethod
    def of(job: Job) -> JobOut:
        """From a job."""
        return JobOut(
            id=job.id, name=job.name, state=job.state, created=job.created, done_s=job.done_s, total_s=job.total_s,
            summary=job.summary, files=job.files, note=job.note, error=job.error, remedy=job.remedy,
        )  # fmt: skip
