"""A session over a WebSocket: frames in, answers out, on one connection."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from x2localizer.errors import UserError
from x2localizer.serve.answers import Answer
from x2localizer.serve.errors import TooLargeError
from x2localizer.serve.guard import PROTOCOL
from x2localizer.serve.hub import Hub
from x2localizer.serve.schemas import AnswerOut, FixOut, SessionOut
from x2localizer.serve.session import Session
from x2localizer.serve.wire import to_text, unpack_frame, unpack_odometry

router = APIRouter(prefix="/v1")
MOST_BAD = 20
"""Messages in a row that are no frames, after which the connection is closed."""
SEND_WITHIN_S = 30.0
"""A client that reads nothing for longer is let go."""
_log = logging.getLogger("x2localizer.serve")


@router.websocket("/sessions/{session_id}/socket")
async def socket(socket: WebSocket, session_id: str) -> None:
    """Frames in binary messages, odometry in text messages, answers as text."""
    hub: Hub = socket.app.state.hub
    offered = [word.strip() for word in socket.headers.get("sec-websocket-protocol", "").split(",")]
    try:
        session = hub.session(session_id)
    except UserError:
        await socket.close(1008)
        return
    if hub.listeners >= hub.settings.listeners:
        await socket.close(1013)
        return
    await socket.accept(PROTOCOL if PROTOCOL in offered else None)
    await _Talk(socket, hub, session).run()


class _Talk:
    """One connection. Answers wait in a queue; a client that does not read them misses the oldest."""

    def __init__(self, socket: WebSocket, hub: Hub, session: Session) -> None:
        self._socket, self._hub, self._session = socket, hub, session
        self._out: deque[str] = deque()
        self._missed = 0
        self._news = asyncio.Event()
        self._late: set[float] = set()
        self._bad = 0

    async def run(self) -> None:
        self._say("hello", SessionOut.of(self._session).model_dump(mode="json"))
        tasks = {asyncio.create_task(part()) for part in (self._read, self._write, self._listen)}
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.wait(tasks)
        for task in done:
            problem = None if task.cancelled() else task.exception()
            if problem is not None and not isinstance(problem, WebSocketDisconnect | RuntimeError | TimeoutError):
                _log.error("a socket failed", exc_info=problem, extra={"session": self._session.id})

    async def _read(self) -> None:
        while self._bad < MOST_BAD:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            try:
                if message.get("bytes") is not None:
                    self._take_frame(message["bytes"])
                else:
                    await self._take_odometry(message.get("text") or "")
                self._bad = 0
            except UserError as problem:
                self._refuse(problem)
        await self._socket.close(1008)

    def _take_frame(self, message: bytes) -> None:
        header, jpeg = unpack_frame(message)
        self._session.submit(jpeg, header.time_s).add_done_callback(self._answered)

    async def _take_odometry(self, text: str) -> None:
        samples = unpack_odometry(text).samples
        if len(samples) > self._hub.settings.batch_samples:
            raise TooLargeError("There are too many samples.", "Send fewer at once.")
        for answer in await self._session.add_odometry([sample.sample for sample in samples]):
            self._say("answer", AnswerOut.of(answer).model_dump(mode="json"))

    def _answered(self, future: asyncio.Future[Answer]) -> None:
        if future.cancelled():
            return
        problem = future.exception()
        if isinstance(problem, UserError):
            self._refuse(problem)
        elif problem is not None:
            self._say("error", {"error": "Something went wrong inside the service.", "remedy": "Tell its owner."})
        else:
            answer = future.result()
            if answer.outcome == "late":
                self._late.add(answer.time_s)
            self._say("answer", AnswerOut.of(answer).model_dump(mode="json"))

    def _refuse(self, problem: UserError) -> None:
        self._bad += 1
        self._say("error", {"error": problem.what, "remedy": problem.remedy})

    def _say(self, kind: str, values: dict[str, object]) -> None:
        if len(self._out) >= self._hub.settings.events_waiting:
            self._out.popleft()
            self._missed += 1
        self._out.append(to_text(kind, values))
        self._news.set()

    async def _write(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._out:
                if self._missed:
                    missed, self._missed = self._missed, 0
                    self._out.appendleft(to_text("missed", {"messages": missed}))
                await asyncio.wait_for(self._socket.send_text(self._out.popleft()), SEND_WITHIN_S)

    async def _listen(self) -> None:
        """Fixes whose answer was late, and the end of the session."""
        with self._session.subscribe() as news:
            async for event in news:
                if event.fix is not None and event.fix.time_s in self._late:
                    self._late.discard(event.fix.time_s)
                    self._say("fix", FixOut.of(event.fix).model_dump(mode="json"))
                if event.kind == "session" and event.state != "open":
                    self._say("end", {"state": event.state})
                    await asyncio.sleep(0.1)
                    break
        await self._socket.close(1000)
