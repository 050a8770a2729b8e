"""Sessions over HTTP: create, frames, odometry, fixes, tracks."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response

from x2localizer import __version__
from x2localizer.serve.answers import LATEST_S
from x2localizer.serve.errors import BadInputError, NotThereError, TooLargeError
from x2localizer.serve.export import MEDIA_TYPES, TrackFormat, track_file
from x2localizer.serve.hub import Hub
from x2localizer.serve.problems import problems
from x2localizer.serve.schemas import (
    TIME,
    AnswerOut,
    FixOut,
    HeatOut,
    InfoOut,
    LimitsOut,
    OdometryIn,
    PriorIn,
    SessionOut,
)
from x2localizer.serve.session import Session
from x2localizer.serve.settings import SessionOptions

router = APIRouter(prefix="/v1")
TimeQuery = Annotated[float, Query(ge=-LATEST_S, le=LATEST_S, allow_inf_nan=False, description=TIME)]
_JPEG = {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}


def hub_of(request: Request) -> Hub:
    """The hub behind a request."""
    hub: Hub = request.app.state.hub
    return hub


def session_of(request: Request, session_id: Annotated[str, Path(max_length=40)]) -> Session:
    """The session of a path."""
    return hub_of(request).session(session_id)


HubOf = Annotated[Hub, Depends(hub_of)]
SessionOf = Annotated[Session, Depends(session_of)]


@router.get("/info", responses=problems())
async def info(hub: HubOf) -> InfoOut:
    """Version, map and limits of the service."""
    s = hub.settings
    limits = LimitsOut(
        frame_bytes=s.frame_bytes, frame_pixels=s.frame_pixels, batch_frames=s.batch_frames,
        batch_samples=s.batch_samples, queue_frames=s.queue_frames, answer_within_s=s.answer_within_s,
    )  # fmt: skip
    tiles = hub.map.tiles is not None and hub.encoder is not None
    return InfoOut(version=__version__, tiles=tiles, roads=hub.map.roads is not None, limits=limits)


@router.post("/sessions", status_code=201, responses=problems(403, 422, 429))
async def create(hub: HubOf, options: SessionOptions) -> SessionOut:
    """Create a session for one camera."""
    return SessionOut.of(await hub.create(options))


@router.get("/sessions", responses=problems())
async def sessions(hub: HubOf) -> list[SessionOut]:
    """All sessions, oldest first."""
    return [SessionOut.of(session) for session in hub.sessions()]


@router.get("/sessions/{session_id}", responses=problems(404, 422))
async def session(session: SessionOf) -> SessionOut:
    """One session, with its latest fix."""
    return SessionOut.of(session)


@router.post("/sessions/{session_id}/end", responses=problems(404, 422))
async def end(session: SessionOf) -> SessionOut:
    """End a session: it takes no more frames, and its track stays for a while."""
    await session.end()
    return SessionOut.of(session)


@router.delete("/sessions/{session_id}", status_code=204, responses=problems(404, 422))
async def remove(hub: HubOf, session: SessionOf) -> None:
    """Remove a session with its track."""
    await hub.remove(session.id)


@router.post(
    "/sessions/{session_id}/frames", responses=problems(404, 409, 415, 422, 429, 503),
    openapi_extra={"requestBody": {"required": True, "content": _JPEG}},
)  # fmt: skip
async def frame(request: Request, session: SessionOf, time_s: TimeQuery) -> AnswerOut:
    """Send one frame, a JPEG, and get its answer."""
    kind = request.headers.get("content-type", "image/jpeg").partition(";")[0].strip().lower()
    if kind not in ("image/jpeg", "image/jpg", "application/octet-stream"):
        raise NotJpegError(f"A frame is not '{kind[:60]}'.", "Send image/jpeg.")
    return AnswerOut.of(await session.push(await request.body(), time_s))


class NotJpegError(BadInputError):
    """A body of another kind."""

    status = 415


@router.post(
    "/sessions/{session_id}/frames/batch", responses=problems(404, 409, 415, 422, 429, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object", "required": ["frames"],
                        "properties": {
                            "frames": {
                                "type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"},
                                "description": "JPEGs; the name of each file is its time in seconds, such as 12.5.jpg.",
                            }
                        },
                    }
                }
            },
        }
    },
)  # fmt: skip
async def batch(request: Request, hub: HubOf, session: SessionOf) -> list[AnswerOut]:
    """Send several frames in order of time; none of them is dropped. The name of each file is its time, as 12.5.jpg."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise NotJpegError("A batch is a multipart form.", "Send multipart/form-data with files named frames.")
    frames = [(time_of(name), data) for name, data in await _files(request, hub.settings.batch_frames)]
    return [AnswerOut.of(await session.push(data, time_s)) for time_s, data in frames]


async def _files(request: Request, most: int) -> list[tuple[str, bytes]]:
    """Names and contents of the files of a form."""
    found: list[tuple[str, bytes]] = []
    async with request.form(max_files=most + 1, max_fields=8) as form:
        for part in form.getlist("frames"):
            if isinstance(part, str):
                raise BadInputError("A frame of the batch is no file.", "Send each as a file, named as 12.5.jpg.")
            found.append((part.filename or "", await part.read()))
    if not found:
        raise BadInputError("The batch has no frames.", "Send files named frames.")
    if len(found) > most:
        raise TooLargeError(f"The batch has more than {most} frames.", "Send fewer at once.")
    return found


def time_of(name: str) -> float:
    """The time in the name of a file, such as 12.5.jpg."""
    match = re.fullmatch(r"(-?\d{1,12}(?:\.\d{1,9})?)(?:\.jpe?g)?", name.strip(), re.IGNORECASE)
    if match is None:
        raise BadInputError(f"The file name '{name[:40]}' is not a time.", "Name each by its seconds, as 12.5.jpg.")
    return float(match[1])


@router.post("/sessions/{session_id}/odometry", responses=problems(404, 409, 422, 429))
async def odometry(hub: HubOf, session: SessionOf, odometry: OdometryIn) -> list[AnswerOut]:
    """Send odometry samples; a session without frames answers with the fixes that became due."""
    if len(odometry.samples) > hub.settings.batch_samples:
        raise TooLargeError(f"There are more than {hub.settings.batch_samples:,} samples.", "Send fewer at once.")
    answers = await session.add_odometry([sample.sample for sample in odometry.samples])
    return [AnswerOut.of(answer) for answer in answers]


@router.put("/sessions/{session_id}/prior", responses=problems(404, 409, 422))
async def prior(session: SessionOf, prior: Annotated[PriorIn, Body()]) -> SessionOut:
    """Say where the camera is; its belief starts again there."""
    await session.set_prior(prior.prior)
    return SessionOut.of(session)


@router.get("/sessions/{session_id}/fixes", responses=problems(404, 422))
async def fixes(
    session: SessionOf, start: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
    most: Annotated[int, Query(ge=1, le=100_000)] = 10_000,
) -> list[FixOut]:  # fmt: skip
    """The fixes so far, from a number on."""
    return [FixOut.of(fix) for fix in await session.fixes(start, most)]


@router.get("/sessions/{session_id}/belief", responses=problems(404, 422))
async def belief(session: SessionOf, cells: Annotated[int, Query(ge=4, le=200)] = 48) -> HeatOut:
    """Where the belief lies, as a small grid; not found while there is none."""
    grid = await session.belief_grid(cells)
    if grid is None:
        raise NotThereError("The session has no belief in memory.", "Send a frame.")
    return HeatOut.of(grid)


@router.get(
    "/sessions/{session_id}/frame.jpg", response_class=Response,
    responses={**problems(404, 422), 200: {"content": _JPEG}},
)  # fmt: skip
async def last_frame(session: SessionOf) -> Response:
    """The last frame, made small."""
    jpeg = await session.frame_jpeg()
    if jpeg is None:
        raise NotThereError("The session has no frame yet.", "Send one.")
    return Response(jpeg, media_type="image/jpeg")


@router.get(
    "/sessions/{session_id}/track.{format}", response_class=Response,
    responses={
        **problems(404, 422),
        200: {"content": {kind: {"schema": {"type": "string"}} for kind in MEDIA_TYPES.values()}},
    },
)  # fmt: skip
async def track(hub: HubOf, session: SessionOf, format: TrackFormat) -> Response:
    """The track so far as a file: gpx, geojson, kml or csv."""
    data = await hub.compute("export", track_file, await session.fixes(), format, session.name, session.created)
    headers = {"content-disposition": f'attachment; filename="track-{session.id}.{format}"'}
    return Response(data, media_type=MEDIA_TYPES[format], headers=headers)
