"""The side that decodes, in a process with limits: ``python -m x2localizer.sources.guard.worker imagery``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from x2localizer.errors import UserError
from x2localizer.sources.guard.wire import packed, received

Reply = tuple[dict[str, Any], list[npt.NDArray[np.uint8]]]
"""Plain values, and arrays of bytes."""
Handler = Callable[[dict[str, Any]], Reply]
_MEMORY_SHARE = 0.8
"""Of the machine's memory: more than this is an error here, before it is the end of other programs."""


def main(kind: str) -> None:
    """Answer questions on standard input until it is closed."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what libraries print must not get between the answers
    _limit()
    handler = {"imagery": _imagery, "video": _video}[kind]()
    questions = os.fdopen(0, "rb", buffering=0)
    while True:
        try:
            question, _ = received(lambda count: _exactly(questions, count))
        except EOFError:
            return
        _reply(answers, handler, question)


def _reply(answers: IO[bytes], handler: Handler, question: dict[str, Any]) -> None:
    arrays: list[npt.NDArray[np.uint8]] = []
    try:
        values, arrays = handler(question)
    except UserError as problem:
        values = {"error": type(problem).__name__, "what": problem.what, "remedy": problem.remedy}
    except MemoryError:
        values = {
            "error": "", "what": "There is not enough memory to decode the file.", "remedy": "Close other programs.",
        }  # fmt: skip
    except Exception as problem:  # a bug of ours, to be reported as one over there
        values = {"bug": f"{type(problem).__name__}: {problem}"}
    data = b"".join(array.tobytes() for array in arrays)
    message = memoryview(packed(values, data) + data)
    while message:
        message = message[answers.write(message) :]


def _imagery() -> Handler:
    from x2localizer.sources.imagery.access import Access  # noqa: PLC0415
    from x2localizer.sources.imagery.pixel_source import Box  # noqa: PLC0415
    from x2localizer.sources.imagery.raster_file import RasterFile  # noqa: PLC0415

    opened: list[RasterFile] = []

    def answer(question: dict[str, Any]) -> Reply:
        if question["ask"] == "open":
            access = Access(question["network"], tuple(Path(path) for path in question["paths"]))
            opened.append(RasterFile(question["path"], access))
            info, extent = opened[0].info, opened[0].extent(0)
            names = ("kind", "crs", "bounds", "metres_per_pixel", "bands", "zoom")
            edges = [extent.west, extent.north, extent.east, extent.south]
            return {"info": [getattr(info, name) for name in names], "extent": edges}, []
        box = Box(*question["box"])
        if question["ask"] == "pixels_behind":
            return {"pixels": opened[0].pixels_behind(box, question["size"])}, []
        image, valid = opened[0].read(box, question["size"])
        return {"damaged": opened[0].damaged}, [image, valid.view(np.uint8)]

    return answer


def _video() -> Handler:
    from x2localizer.sources.video.open import open_video  # noqa: PLC0415
    from x2localizer.sources.video.source import VideoSource  # noqa: PLC0415

    opened: list[VideoSource] = []

    def answer(question: dict[str, Any]) -> Reply:
        if question["ask"] == "open":
            size = None if question["size"] is None else (question["size"][0], question["size"][1])
            opened.append(
                open_video(
                    question["path"], size=size, spacing_s=question["spacing_s"], start_s=question["start_s"],
                    end_s=question["end_s"],
                )
            )  # fmt: skip
            i = opened[0].info
            rate = None if i.rate is None else [i.rate.numerator, i.rate.denominator]
            start = None if i.start_time is None else i.start_time.isoformat()
            return {"info": [i.width, i.height, i.duration_s, rate, start, i.focal_35mm]}, []
        frame = next(opened[0], None)
        if frame is None:
            return {"skipped": opened[0].skipped, "time_s": None}, []
        return {"skipped": opened[0].skipped, "time_s": frame.time_s, "shape": list(frame.image.shape)}, [frame.image]

    return answer


def _exactly(pipe: IO[bytes], count: int) -> bytearray:
    data = bytearray()
    while len(data) < count:
        part = pipe.read(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _limit() -> None:
    """No core dumps, and a limit on memory, where the system has such limits."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        most = int(_MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


if __name__ == "__main__":
    main(sys.argv[1])
