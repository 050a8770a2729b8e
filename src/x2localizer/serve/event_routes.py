"""News as server-sent events: of one session, or of all."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse

from x2localizer.serve.errors import BusyError
from x2localizer.serve.events import Event, Subscription
from x2localizer.serve.hub import Hub
from x2localizer.serve.problems import problems
from x2localizer.serve.schemas import FixOut
from x2localizer.serve.session import Session
from x2localizer.serve.session_routes import HubOf, SessionOf

router = APIRouter(prefix="/v1")
BEAT_S = 15.0
"""A comment is sent after so long without news: proxies keep the connection, and a client that is gone is noticed."""
_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}
LastId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=20, pattern=r"^\d{1,15}$")]


@router.get(
    "/sessions/{session_id}/events", response_class=StreamingResponse, responses={**problems(404, 422), **_STREAM}
)
async def events(hub: HubOf, session: SessionOf, last_event_id: LastId = None) -> StreamingResponse:
    """Fixes of a session as they come. With ``Last-Event-ID``, first those that were missed."""
    _check_room(hub)
    start = None if last_event_id is None else int(last_event_id) + 1
    return _stream(_session_news(session, start))


@router.get("/events", response_class=StreamingResponse, responses={**problems(), **_STREAM})
async def all_events(hub: HubOf) -> StreamingResponse:
    """News of all sessions as they come."""
    _check_room(hub)
    return _stream(_all_news(hub))


def _check_room(hub: Hub) -> None:
    if hub.listeners >= hub.settings.listeners:
        raise BusyError(f"There are {hub.settings.listeners} listeners already.", "Try again later.")


def _stream(lines: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(lines, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _session_news(session: Session, start: int | None) -> AsyncIterator[str]:
    with session.subscribe() as news:
        sent = -1
        if start is not None:
            for fix in await session.fixes(start):
                sent = fix.index
                yield _line(Event("fix", session.id, fix, session.counts.dropped))
        if not session.is_open:
            yield _line(Event("session", session.id, state=session.state))
            return
        async for line in _lines(news, sent, to_the_end=True):
            yield line


async def _all_news(hub: Hub) -> AsyncIterator[str]:
    with hub.subscribe() as news:
        async for line in _lines(news):
            yield line


async def _lines(news: Subscription, sent: int = -1, *, to_the_end: bool = False) -> AsyncIterator[str]:
    """Lines of a stream, without the fixes up to the last that was sent."""
    yield ": listening\n\n"
    missed = 0
    while True:
        event = await news.next(BEAT_S)
        if event is None:
            if news.closed:
                return
            yield ": nothing new\n\n"
            continue
        if news.missed > missed:
            yield f"event: missed\ndata: {json.dumps({'events': news.missed - missed})}\n\n"
            missed = news.missed
        if event.fix is None or event.fix.index > sent:
            yield _line(event)
        if to_the_end and event.kind == "session" and event.state != "open":
            return


def _line(event: Event) -> str:
    values: dict[str, object] = {"session": event.session, "dropped": event.dropped}
    if event.fix is not None:
        values["fix"] = FixOut.of(event.fix).model_dump(mode="json")
    else:
        values["state"] = event.state
    number = "" if event.fix is None else f"id: {event.fix.index}\n"
    return f"{number}event: {event.kind}\ndata: {json.dumps(values)}\n\n"
