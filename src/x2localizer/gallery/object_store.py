"""Galleries in object stores: how to reach them, and a local copy to search in.

Writing goes to the store. Reading goes through a copy on this machine, which is brought up to date whenever the gallery
is opened and is used as it is when the store cannot be reached. LanceDB never changes a file, so only new files are
fetched. Credentials, region and endpoint come from the usual variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_REGION, AWS_ENDPOINT_URL, ...), for LanceDB and for the copy alike.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from x2localizer.errors import GalleryError, UserError
from x2localizer.files import atomic_path, only_writer, write_text

log = logging.getLogger(__name__)

SYNCED = "synced.json"
"""The file of a copy that says it is whole: when it was made, and which files have gone from the store since when."""
KEEP_GONE_S = 3600.0
"""Seconds for which a file that has gone from the store stays in the copy: others may be reading it."""
WAIT_S = 600.0
"""Seconds to wait for another process that brings the same copy up to date."""
_REMEDY = (
    "Check the address, the connection and the AWS_* variables (AWS_ENDPOINT_URL for a store of your own), "
    "and run the same command again; it resumes."
)

_OF_A_STORE = r"S3|AWS|GCS|Azure|LanceError|namespace|ended early"
"""Words in errors of the libraries that speak to object stores."""


class _NotDeliveredError(Exception):
    """A file of the store that does not come."""


def is_object_store(address: str) -> bool:
    """Whether a gallery is in an object store."""
    return "://" in address


def storage_options(address: str) -> dict[str, str]:
    """What LanceDB has to be told; it reads the other AWS variables by itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "") if address.startswith("s3://") else ""
    return {"endpoint": endpoint, "allow_http": str(endpoint.startswith("http://")).lower()} if endpoint else {}


@contextmanager
def store_errors(address: str) -> Iterator[None]:
    """Turn what a failing object store causes into one error that says so; other galleries are not concerned."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, GalleryError) as problem:
        cause = problem.__cause__ if isinstance(problem, GalleryError) else problem
        if cause is None or not is_object_store(address) or not re.search(_OF_A_STORE, str(cause)):
            raise
        raise _failed(address, cause) from cause


def cache_folder() -> Path:
    """Where copies of galleries are kept: X2L_CACHE, or ``x2localizer`` in the user's folder of caches."""
    own = os.environ.get("X2L_CACHE")
    root = Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "x2localizer"
    return root / "galleries"


def copy_folder(address: str) -> Path:
    """The folder of the copy of a gallery."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", address.partition("://")[2]).strip("-")[-40:]
    return cache_folder() / f"{name}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"


def local_copy(address: str) -> Path:
    """The folder of an up-to-date copy of a gallery; of an older one, with a warning, if the store does not answer."""
    folder = copy_folder(address)
    with when_free(folder):
        try:
            _bring_up_to_date(address, folder)
        except (_NotDeliveredError, OSError, ValueError) as problem:
            if not (folder / SYNCED).is_file():
                raise _failed(address, problem) from problem
            made = datetime.fromtimestamp((folder / SYNCED).stat().st_mtime, UTC)
            log.warning(
                "%s cannot be reached; using the copy of %s", address, made.isoformat(" ", timespec="minutes")[:16]
            )
    return folder


def _bring_up_to_date(address: str, folder: Path) -> None:
    """Fetch what is new: first what versions refer to, then the versions, so that after a kill older ones are whole."""
    files, root = _file_system(address)
    there = _listing(files, root)
    if not any(name.startswith("about.lance/") for name in there):
        raise GalleryError(f"There is no gallery at {address}.", f"Make one: x2l index IMAGERY --out {address}")
    missing = [name for name, size in there.items() if _size(folder / name) != size]
    for name in sorted(missing, key=_is_version):
        if _is_version(name):
            (folder / SYNCED).unlink(missing_ok=True)
        _fetch(files, f"{root}/{name}", folder / name, there[name])
    _tidy(folder, there)


def _listing(files: Any, root: str) -> dict[str, int]:
    """The files of a gallery by their path below it, with their sizes."""
    from pyarrow.fs import FileSelector  # noqa: PLC0415

    infos = files.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    names = {info.path[len(root) + 1 :]: info.size for info in infos if info.is_file}
    # A store may hold any name; one that leads out of the folder is none of a gallery.
    return {name: size for name, size in names.items() if ".lance/" in name and ".." not in name.split("/")}


def _fetch(files: Any, source: str, target: Path, size: int) -> None:
    with atomic_path(target) as path, path.open("wb") as out:
        for chunk in _chunks(files, source):
            out.write(chunk)
        if out.tell() != size:
            raise _NotDeliveredError(f"{source} ended early")


def _chunks(files: Any, source: str) -> Iterator[bytes]:
    """A file of the store in pieces; its errors are not those of the disk that the pieces go to."""
    try:
        with files.open_input_stream(source) as stream:
            while chunk := stream.read(1 << 20):
                yield chunk
    except OSError as problem:
        raise _NotDeliveredError(str(problem)) from problem


def _tidy(folder: Path, there: Mapping[str, int]) -> None:
    """Remove what has gone from the store for a while, and note that the copy is whole."""
    known = _gone(folder)
    here = [path.relative_to(folder).as_posix() for path in folder.glob("*.lance/**/*") if path.is_file()]
    now = time.time()
    gone = {name: known.get(name, now) for name in here if name not in there}
    for name in [name for name, since in gone.items() if now - since > KEEP_GONE_S]:
        (folder / name).unlink(missing_ok=True)
        del gone[name]
    write_text(folder / SYNCED, json.dumps({"gone": gone}) + "\n")


def _gone(folder: Path) -> dict[str, float]:
    """Files that had gone from the store when the copy was last made, and since when."""
    try:
        return {str(name): float(since) for name, since in json.loads((folder / SYNCED).read_text())["gone"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _is_version(name: str) -> bool:
    """Whether a file is a version of a table: what makes other files count."""
    return "/_versions/" in name


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def _file_system(address: str) -> tuple[Any, str]:
    """A file system for a gallery's store, and the path of the gallery in it."""
    from pyarrow import fs  # noqa: PLC0415

    if address.startswith("s3://"):
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or None
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        retry = fs.AwsStandardS3RetryStrategy(max_attempts=4)
        store = fs.S3FileSystem(
            endpoint_override=endpoint, region=region, retry_strategy=retry, connect_timeout=10, request_timeout=30
        )
        return store, address.removeprefix("s3://").rstrip("/")
    found, path = fs.FileSystem.from_uri(address)
    return found, path.rstrip("/")


@contextmanager
def when_free(folder: Path) -> Iterator[None]:
    """Lock a copy, once no other process holds it."""
    end = time.monotonic() + WAIT_S
    while True:
        lock = only_writer(folder)
        try:
            lock.__enter__()
            break
        except UserError as problem:
            if "Another process" not in problem.what or time.monotonic() > end:
                raise
            time.sleep(0.2)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def _failed(address: str, problem: BaseException) -> GalleryError:
    """The error for a store that fails; the words of the libraries run to hundreds of characters."""
    words = str(problem)
    status = re.search(r"[Ss]tatus\D{0,12}(\d{3})", words)
    if re.search(r"NO_SUCH_BUCKET|NoSuchBucket", words):
        said = "there is no such bucket"
    elif re.search(r"ACCESS_DENIED|AccessDenied", words) or (status and status[1] in ("401", "403")):
        said = "it denies access"
    elif status:
        said = f"it answers with status {status[1]}"
    elif re.search(r"NETWORK_CONNECTION|error sending request|ended early", words):
        said = "it does not answer"
    else:
        said = re.sub(r"\s+", " ", words)[:160]
    return GalleryError(f"The object store of {address} failed: {said}.", _REMEDY)
