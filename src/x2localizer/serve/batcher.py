"""One encoder for all sessions: frames that wait at the same time are encoded together."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from x2localizer.encoders import Encoder
from x2localizer.types import Codes, Image

MOST_FRAMES = 16
"""Frames of one batch; larger ones take longer than the frames in them can wait."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    image: Image
    loop: asyncio.AbstractEventLoop
    code: asyncio.Future[Codes]


class Batcher:
    """A thread that owns the encoder.

    observe: called with the seconds and the frames of each batch.
    """

    def __init__(self, encoder: Encoder, observe: Callable[[float, int], None] = lambda seconds, frames: None) -> None:
        self.encoder, self._observe = encoder, observe
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="encoder", daemon=True)
        self._thread.start()

    async def encode(self, image: Image) -> Codes:
        """The code of a frame of the encoder's size, (d,)."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(image, loop, loop.create_future())
        self._waiting.put(waiting)
        return await waiting.code

    def close(self) -> None:
        """End the thread after the frames that wait."""
        self._waiting.put(None)
        self._thread.join(10.0)

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch, last = [first], False
            while len(batch) < MOST_FRAMES and not self._waiting.empty():
                item = self._waiting.get()
                if item is None:
                    last = True
                    break
                batch.append(item)
            self._encode(batch)
            if last:
                return

    def _encode(self, batch: list[_Waiting]) -> None:
        start = time.perf_counter()
        try:
            codes = self.encoder.encode_frames(np.stack([item.image for item in batch]))
        except Exception as problem:  # the sessions that wait must hear of it, whatever it is
            for item in batch:
                _call(item.loop, _fail, item.code, problem)
            return
        self._observe(time.perf_counter() - start, len(batch))
        for item, code in zip(batch, codes, strict=True):
            _call(item.loop, _resolve, item.code, np.array(code))


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: object) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, *arguments)


def _resolve(future: asyncio.Future[Codes], code: Codes) -> None:
    if not future.done():
        future.set_result(code)


def _fail(future: asyncio.Future[Codes], problem: Exception) -> None:
    if not future.done():
        future.set_exception(problem)
