"""The side that decodes, in a process with limits: ``python -m x2localizer.sources.guard.worker imagery``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from x2localizer.errors import UserError, lacks_memory
from x2localizer.sources.guard.wire import packed, received

Reply = tuple[dict[str, Any], list[npt.NDArray[Any]]]
"""Plain values, and arrays, whose bytes are sent as they are."""
Handler = Callable[[dict[str, Any]], Reply]
_LONGEST_S = 1800.0
"""Seconds for one answer, after which this process ends by itself: the other gives up earlier, if it is still there."""
_MEMORY_SHARE = 0.8
"""Of the machine's memory: more than this is an error here, before it is the end of other programs."""


def main(kind: str) -> None:
    """Answer questions on standard input until it is closed."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what libraries print must not get between the answers
    _limit()
    kinds = {"imagery": _imagery, "video": _video, "roads": _roads, "motion": _motion, "packets": _packets}
    handler = _at_first(kinds[kind])
    questions = os.fdopen(0, "rb", buffering=0)
    while True:
        try:
            question, _ = received(lambda count: _exactly(questions, count))
        except EOFError:
            return
        _reply(answers, handler, question)


def _reply(answers: IO[bytes], handler: Handler, question: dict[str, Any]) -> None:
    arrays: list[npt.NDArray[Any]] = []
    try:
        with _alarm(question.get("limit_s", _LONGEST_S)):
            values, arrays = handler(question)
    except UserError as problem:
        values = {"error": type(problem).__name__, "what": problem.what, "remedy": problem.remedy}
    except Exception as problem:
        if lacks_memory(problem):
            what = "There is not enough memory to decode the file."
            values = {"error": "", "what": what, "remedy": "Close other programs."}
        else:  # a bug of ours, to be reported as one over there
            values = {"bug": f"{type(problem).__name__}: {problem}"}
    plain = [np.ascontiguousarray(array).data.cast("B") for array in arrays if array.size]
    for part in (memoryview(packed(values, sum(map(len, plain)))), *plain):
        left = part
        while left:  # a pipe takes as much as fits
            left = left[answers.write(left) :]


def _at_first(make: Callable[[], Handler]) -> Handler:
    """A handler that is made for the first question: what goes wrong while libraries are loaded is answered, too."""
    made: list[Handler] = []

    def answer(question: dict[str, Any]) -> Reply:
        if not made:
            made.append(make())
        return made[0](question)

    return answer


def _imagery() -> Handler:
    from x2localizer.sources.imagery.access import Access  # noqa: PLC0415
    from x2localizer.sources.imagery.pixel_source import Box  # noqa: PLC0415
    from x2localizer.sources.imagery.raster_file import RasterFile  # noqa: PLC0415

    opened: list[RasterFile] = []

    def answer(question: dict[str, Any]) -> Reply:
        if question["ask"] == "open":
            access = Access(question["network"], tuple(Path(path) for path in question["paths"]))
            if not access.network:
                _no_way_around_the_proxy()
            opened.append(RasterFile(question["path"], access))
            info, extent = opened[0].info, opened[0].extent(0)
            names = ("kind", "crs", "bounds", "metres_per_pixel", "bands", "zoom")
            edges = [extent.west, extent.north, extent.east, extent.south]
            return {"info": [getattr(info, name) for name in names], "extent": edges}, []
        box = Box(*question["box"])
        if question["ask"] == "pixels_behind":
            return {"pixels": opened[0].pixels_behind(box, question["size"])}, []
        image, valid = opened[0].read(box, question["size"])
        return {"damaged": opened[0].damaged}, [image, valid]

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


def _roads() -> Handler:
    for unused in ("pandas", "geopandas", "shapely"):  # pyogrio imports them if it can, which takes half of its start
        sys.modules.setdefault(unused, None)  # type: ignore[arg-type]
    from x2localizer.sources.roads.read import file_batches  # noqa: PLC0415
    from x2localizer.sources.roads.roads import Roads  # noqa: PLC0415

    _no_way_around_the_proxy()
    opened: list[Iterator[Roads]] = []

    def answer(question: dict[str, Any]) -> Reply:
        if "file" in question:
            path, file = Path(question["path"]), Path(question["file"])
            opened.append(file_batches(path, file, question["layer"], question["lines_at_once"]))
        roads = next(opened[0], None)
        if roads is None:
            return {"roads": None}, []
        sizes = {"roads": len(roads), "points": len(roads.points_deg), "dropped": roads.dropped}
        return sizes, [roads.points_deg, roads.starts, roads.kinds, roads.oneway]

    return answer


def _motion() -> Handler:
    from x2localizer.sources.motion import read_motion  # noqa: PLC0415
    from x2localizer.sources.motion.guarded import as_answer  # noqa: PLC0415

    def answer(question: dict[str, Any]) -> Reply:
        return as_answer(read_motion(question["path"], rate_hz=question["rate_hz"]))

    return answer


def _packets() -> Handler:
    from x2localizer.sources.packets import PROBLEMS, Packet, plain_packets, some_packets  # noqa: PLC0415

    opened: list[Iterator[Packet]] = []

    def answer(question: dict[str, Any]) -> Reply:
        if "path" in question:
            opened.append(plain_packets(Path(question["path"])))
        try:
            packets, more = some_packets(opened[0])
        except PROBLEMS as problem:
            return {"failed": str(problem)}, []
        heads = [[time_s, duration_s, len(data)] for time_s, duration_s, data in packets]
        return {"packets": heads, "more": more}, [np.frombuffer(data, np.uint8) for *_, data in packets]

    return answer


def _no_way_around_the_proxy() -> None:
    """Forget which servers need no proxy: where the network is not allowed, the proxy is one that does not exist."""
    for name in ("no_proxy", "NO_PROXY"):
        os.environ.pop(name, None)


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """End this process if the block takes longer, also inside a library: nobody else may be there to do it."""
    with suppress(AttributeError):  # not on Windows
        signal.setitimer(signal.ITIMER_REAL, 2 * seconds)
    try:
        yield
    finally:
        with suppress(AttributeError):
            signal.setitimer(signal.ITIMER_REAL, 0.0)


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
