"""Encoding parts of an index on many machines, with Ray.

Workers read imagery and encode; they never touch the gallery. The process that was started stores what they return, in
the order of the parts: there is one writer, and a worker that dies takes nothing with it but the part it was working
on, which another one encodes again. Workers need x2localizer in the same version, and the imagery under the same path
or address. The bundle is sent to them.
"""

from __future__ import annotations

import logging
import os
import platform
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from x2localizer import __version__
from x2localizer.encoders import Bundle, Encoder, open_bundle
from x2localizer.errors import ConfigError, GalleryError, ImageryError, UserError
from x2localizer.gallery.parts import Encoded, Part, PartEncoder
from x2localizer.sources.imagery import Access, Imagery, ImageryInfo, open_imagery
from x2localizer.sources.imagery.access import LOCAL

RETRIES = 4
"""How often a part is tried again after its worker died or ran out of memory."""
AHEAD = 3
"""Parts for each core that are under way or wait to be stored."""
LOCAL_STORE_BYTES = 256 << 20
"""Memory that ``--ray local`` sets aside for parts on their way; more goes to disk."""

_opened: dict[Job, PartEncoder] = {}
"""The imagery and the bundle that this worker has open: those of the latest job."""
_bundle_folders: list[tempfile.TemporaryDirectory[str]] = []
"""Bundles of this worker; removed when it ends."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker needs to know to encode parts.

    imagery: its address, or absolute path.
    bounds: of the imagery, as the process that was started sees it.
    bundle: the fingerprint of the bundle.
    access: what the imagery may reach.
    """

    imagery: str
    bounds: tuple[float, float, float, float]
    bundle: str
    zoom: int
    access: Access = LOCAL
    version: str = __version__


class Cluster:
    """A Ray cluster that this process has joined."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._bundles: dict[str, Any] = {}

    @property
    def cores(self) -> int:
        """Cores of all machines that are in the cluster now."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def share(self, seconds: float) -> float:
        """Seconds of work on this machine, when all cores of the cluster share it."""
        return seconds * (os.cpu_count() or 1) / self.cores

    def encode(
        self, parts: Sequence[Part], imagery: str, info: ImageryInfo, encoder: Encoder, zoom: int,
        access: Access = LOCAL,
    ) -> Iterator[Encoded]:  # fmt: skip
        """What comes of the parts, in their order; some are encoded ahead of the one that is waited for."""
        ray = self._ray
        job = Job(_reachable(imagery), info.bounds, encoder.fingerprint, zoom, _absolute(access))
        bundle = self._bundle(encoder)
        remote = ray.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=[MemoryError])(encode_part)
        waiting: deque[Any] = deque()
        todo = iter(parts)
        try:
            while True:
                while len(waiting) < AHEAD * self.cores and (part := next(todo, None)) is not None:
                    # In a list the bundle is only named, not fetched: a worker fetches it once.
                    waiting.append(remote.remote(job, [bundle], part))
                if not waiting:
                    return
                yield self._result(waiting.popleft(), imagery)
        finally:
            for under_way in waiting:
                ray.cancel(under_way, force=False)

    def _result(self, under_way: Any, imagery: str) -> Encoded:
        errors = self._ray.exceptions
        try:
            encoded: Encoded = self._ray.get(under_way)
        except errors.RayTaskError as problem:
            raise _what_failed(problem.cause, imagery) from problem
        except errors.OutOfMemoryError as problem:
            raise _lost(imagery, f"ran out of memory, {RETRIES + 1} times") from problem
        except (errors.RayError, ConnectionError) as problem:
            raise _lost(imagery, f"died ({type(problem).__name__}), {RETRIES + 1} times") from problem
        return encoded

    def _bundle(self, encoder: Encoder) -> Any:
        """The files of a bundle in Ray's store, put there once."""
        if not isinstance(encoder, Bundle):
            raise ConfigError("Only bundles can be sent to a Ray cluster.", "Export the encoder first: x2l export")
        if encoder.fingerprint not in self._bundles:
            files = {path.name: path.read_bytes() for path in sorted(encoder.root.iterdir()) if path.is_file()}
            self._bundles[encoder.fingerprint] = self._ray.put(files)
        return self._bundles[encoder.fingerprint]


@contextmanager
def join_cluster(address: str) -> Iterator[Cluster]:
    """Join a Ray cluster: "auto" for the one that this machine belongs to, its address, or "local" for a new one.

    If Ray is in use in this process already, that cluster is used and left as it is.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise it warns of a future change
    try:
        import ray  # noqa: PLC0415 - an extra, and slow to load
    except ImportError as problem:
        raise UserError(
            "Indexing on many machines needs Ray, which is not installed.", "pip install 'x2localizer[cluster]'"
        ) from problem
    if ray.is_initialized():
        yield Cluster(ray)
        return
    local: dict[str, Any] = {"include_dashboard": False, "object_store_memory": LOCAL_STORE_BYTES}
    try:
        ray.init(
            log_to_driver=False, logging_level=logging.ERROR, **(local if address == "local" else {"address": address})
        )
    except Exception as problem:  # Ray raises plain ones, too
        if address == "local":
            raise UserError(
                f"Ray does not start on this machine: {(str(problem).splitlines() or [''])[0][:200]}",
                "Index without --ray, or try again when the machine is less busy.",
            ) from problem
        raise ConfigError(
            f"There is no Ray cluster to join at '{address}'.",
            "Start one with `ray start --head`, on more machines with `ray start --address=HEAD:6379`, "
            "and check the address; --ray local uses this machine alone.",
        ) from problem
    try:
        yield Cluster(ray)
    finally:
        ray.shutdown()


def encode_part(job: Job, bundle: list[Any], part: Part) -> Encoded:
    """Encode a part; runs on a worker. Imagery and bundle stay open for the next one."""
    if job not in _opened:
        import ray  # noqa: PLC0415

        _opened.clear()
        _opened[job] = PartEncoder(_open_imagery(job), _open_bundle(ray.get(bundle[0])), job.zoom)
    return _opened[job].encode(part)


def _open_imagery(job: Job) -> Imagery:
    here = platform.node()
    if job.version != __version__:
        raise ConfigError(
            f"The machine {here} has x2localizer {__version__}, this is {job.version}.",
            "Install the same version on all machines of the cluster.",
        )
    try:
        imagery = open_imagery(job.imagery, access=job.access)
    except ImageryError as problem:
        raise ImageryError(
            f"The machine {here} cannot open the imagery: {problem.what}",
            "Put it where all machines of the cluster find it: a shared folder, a web server, or an object store.",
        ) from problem
    if imagery.info.bounds != job.bounds:
        raise ImageryError(
            f"The machine {here} has other imagery at {job.imagery}.", "Copy the same file to all machines."
        )
    return imagery


def _open_bundle(files: dict[str, bytes]) -> Bundle:
    folder = tempfile.TemporaryDirectory(prefix="x2l-bundle-")
    _bundle_folders.append(folder)
    for name, data in files.items():
        (Path(folder.name) / name).write_bytes(data)
    return open_bundle(folder.name, threads=1, device="cpu")  # a worker has one core


def _absolute(access: Access) -> Access:
    """What imagery may reach, as workers find it."""
    return replace(access, paths=tuple(path.absolute() for path in access.paths))


def _reachable(imagery: str) -> str:
    """Imagery as workers find it: they run in other folders."""
    return imagery if "://" in imagery or imagery.startswith("/vsi") else str(Path(imagery).absolute())


def _what_failed(cause: BaseException, imagery: str) -> UserError:
    """The error for what a worker raised."""
    if isinstance(cause, UserError):
        return cause
    if isinstance(cause, MemoryError):
        return _lost(imagery, f"ran out of memory, {RETRIES + 1} times")
    if "failed to import on the worker" in str(cause):
        return ConfigError(
            "A machine of the cluster has no x2localizer, or lacks something that it needs.",
            f"Install it on all of them: pip install 'x2localizer[cluster]=={__version__}'",
        )
    return _lost(imagery, f"failed ({type(cause).__name__}: {(str(cause).splitlines() or [''])[0][:200]})")


def _lost(imagery: str, what: str) -> GalleryError:
    return GalleryError(
        f"A part of {imagery} could not be encoded: its worker {what}.",
        "What was encoded before is stored: run the same command again, it resumes. "
        "If memory is short, start workers with fewer cores: ray start --num-cpus=N",
    )
