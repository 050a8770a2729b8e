"""Whole videos over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import FileResponse

from x2localizer.serve.errors import BadInputError
from x2localizer.serve.jobs import Jobs
from x2localizer.serve.problems import problems
from x2localizer.serve.schemas import JobOut
from x2localizer.serve.session_routes import HubOf
from x2localizer.serve.settings import Latitude, Longitude, Near, SessionOptions

router = APIRouter(prefix="/v1/jobs")
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
REPORT_CSP = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; sandbox allow-scripts"
)
"""A report shows its own pictures and runs its own script, apart from everything else of the service."""


def jobs_of(request: Request) -> Jobs:
    """The jobs behind a request."""
    jobs: Jobs = request.app.state.jobs
    return jobs


JobsOf = Annotated[Jobs, Depends(jobs_of)]
JobId = Annotated[str, Path(max_length=40)]


@router.post(
    "",
    status_code=202,
    responses=problems(422, 429),
    openapi_extra={"requestBody": {"required": True, "content": _BYTES}},
)
async def create(
    request: Request, jobs: JobsOf, hub: HubOf,
    name: Annotated[str, Query(min_length=1, max_length=100)] = "video",
    fov_deg: Annotated[float | None, Query(ge=10, le=150, allow_inf_nan=False)] = None,
    height_m: Annotated[float, Query(ge=0.1, le=10, allow_inf_nan=False)] = 1.5,
    lat_deg: Annotated[Latitude | None, Query(allow_inf_nan=False)] = None,
    lon_deg: Annotated[Longitude | None, Query(allow_inf_nan=False)] = None,
    radius_m: Annotated[float | None, Query(gt=0, le=20_000_000, allow_inf_nan=False)] = None,
) -> JobOut:  # fmt: skip
    """Send a whole video as the body; it is localized in the background."""
    near = None
    if lat_deg is not None or lon_deg is not None or radius_m is not None:
        if lat_deg is None or lon_deg is None or radius_m is None:
            raise BadInputError("A place needs three numbers.", "Send lat_deg, lon_deg and radius_m, or none of them.")
        near = Near(lat_deg=lat_deg, lon_deg=lon_deg, radius_m=radius_m)
        await hub.check_options(SessionOptions(prior=near))
    return JobOut.of(await jobs.add(request.stream(), name, fov_deg, height_m, near))


@router.get("", responses=problems())
async def jobs(jobs: JobsOf) -> list[JobOut]:
    """All jobs, oldest first."""
    return [JobOut.of(job) for job in jobs.all()]


@router.get("/{job_id}", responses=problems(404, 422))
async def job(jobs: JobsOf, job_id: JobId) -> JobOut:
    """One job, with its progress."""
    return JobOut.of(jobs.get(job_id))


@router.get(
    "/{job_id}/files/{file}", response_class=FileResponse,
    responses={**problems(404, 422), 200: {"content": {"application/octet-stream": {}}}},
)  # fmt: skip
async def file(jobs: JobsOf, job_id: JobId, file: Annotated[str, Path(max_length=80)]) -> FileResponse:
    """A file of a job that is done: the track in one of its formats, the map, the report."""
    return FileResponse(jobs.file(job_id, file), headers={"content-security-policy": REPORT_CSP})


@router.delete("/{job_id}", status_code=204, responses=problems(404, 422))
async def remove(jobs: JobsOf, job_id: JobId) -> None:
    """Stop a job if it runs, and remove its files."""
    await jobs.remove(job_id)
