"""An S3-compatible server on loopback that can be told to fail, in a process of its own: GDAL holds Python's lock.

Run as a script it serves; the folder that it is given holds the orders.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECRET = "a-secret-that-nobody-may-print"


@dataclass(frozen=True)
class ObjectStore:
    """A running server with one bucket, ``bucket``."""

    folder: Path
    process: subprocess.Popen[str]
    url: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead to it."""
        return {
            "AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
        }  # fmt: skip

    def fail_after(self, requests: int) -> None:
        """Answer with 503 from then on."""
        (self.folder / "fail-after").write_text(str(requests))

    def fail_next(self, requests: int) -> None:
        """Answer so many requests with 503, and then as usual."""
        (self.folder / "fail-next").write_text(str(requests))

    def recover(self) -> None:
        """Answer again."""
        (self.folder / "fail-after").unlink(missing_ok=True)

    def make_bucket(self) -> None:
        """Make the bucket; the server starts without one."""
        self._files().create_dir("bucket")

    def upload(self, path: Path) -> str:
        """Put a file into the bucket; returns its address."""
        with self._files().open_output_stream(f"bucket/{path.name}") as out:
            out.write(path.read_bytes())
        return f"s3://bucket/{path.name}"

    def _files(self) -> Any:
        from pyarrow import fs

        return fs.S3FileSystem(
            endpoint_override=self.url, access_key="tester", secret_key=SECRET, region="us-east-1",
            allow_bucket_creation=True,
        )  # fmt: skip


@contextmanager
def serve_objects(folder: Path) -> Iterator[ObjectStore]:
    """Run a server until the block ends."""
    process = subprocess.Popen([sys.executable, __file__, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        store = ObjectStore(folder, process, f"http://127.0.0.1:{port}")
        store.make_bucket()
        yield store
    finally:
        process.kill()
        process.wait()


def _failing(app: Callable[..., Any], folder: Path) -> Callable[..., Iterable[bytes]]:
    def serve(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if _counted_down(folder / "fail-next") or _counted_down(folder / "fail-after") is False:
            start("503 Slow Down", [("Content-Length", "0")])
            return [b""]
        answer: Iterable[bytes] = app(environ, start)
        return answer

    return serve


def _counted_down(order: Path) -> bool | None:
    """Whether a count is not at its end yet; it is one less then. None without such an order."""
    try:
        left = int(order.read_text())
    except (FileNotFoundError, ValueError):
        return None
    if left > 0:
        order.write_text(str(left - 1))
    return left > 0


def _serve(folder: Path) -> None:
    import logging

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = _failing(DomainDispatcherApplication(create_backend_app), folder)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
