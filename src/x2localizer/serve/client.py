"""A client of the service: frames in, fixes out.

with Client("http://127.0.0.1:8471") as client:
    session = client.create(odometry="samples")
    session.odometry([{"time_s": 0.0, "speed_m_s": 9.5, "yaw_rate_deg_s": 0.0}])
    answer = session.frame(jpeg, time_s=0.0)
    print(answer["fix"]["status"], answer["fix"]["lat_deg"], answer["fix"]["lon_deg"])
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx

from x2localizer.errors import UserError


class Client:
    """A service at an address; a context manager."""

    def __init__(
        self, address: str = "http://127.0.0.1:8471", token: str | None = None, timeout_s: float = 30.0
    ) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=address, headers=headers, timeout=timeout_s, trust_env=False)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Any request; what the service refuses is a :class:`UserError` with its reason."""
        try:
            answer = self._http.request(method, path, **options)
        except httpx.HTTPError as problem:
            raise UserError(f"The service does not answer: {problem}.", "Check that it runs: x2l serve") from problem
        if answer.is_error:
            said = answer.json() if "json" in answer.headers.get("content-type", "") else {}
            raise UserError(said.get("error", f"HTTP {answer.status_code}."), said.get("remedy", "Try again."))
        return answer

    def create(self, **options: Any) -> ClientSession:
        """A new session; see ``SessionOptions`` for its options."""
        return ClientSession(self, self.request("POST", "/v1/sessions", json=options).json()["id"])

    def sessions(self) -> list[dict[str, Any]]:
        """All sessions."""
        found: list[dict[str, Any]] = self.request("GET", "/v1/sessions").json()
        return found

    def localize(self, video: bytes, **options: Any) -> dict[str, Any]:
        """Send a whole video; the answer is a job."""
        job: dict[str, Any] = self.request("POST", "/v1/jobs", content=video, params=options).json()
        return job

    def stream(self, path: str) -> Iterator[str]:
        """Lines of an endless answer."""
        with self._http.stream("GET", path, timeout=None) as answer:
            yield from answer.iter_lines()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class ClientSession:
    """One camera."""

    client: Client
    id: str

    def _do(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.client.request(method, f"/v1/sessions/{self.id}{path}", **options)

    def frame(self, jpeg: bytes, time_s: float) -> dict[str, Any]:
        """Send a frame; the answer has its outcome and, if one was due, its fix."""
        jpeg_type = {"content-type": "image/jpeg"}
        answer: dict[str, Any] = self._do(
            "POST", "/frames", content=jpeg, params={"time_s": time_s}, headers=jpeg_type
        ).json()
        return answer

    def odometry(self, samples: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
        """Send samples with time_s, and speed_m_s or yaw_rate_deg_s or both."""
        answers: list[dict[str, Any]] = self._do("POST", "/odometry", json={"samples": list(samples)}).json()
        return answers

    def fixes(self, start: int = 0) -> list[dict[str, Any]]:
        """The fixes so far, from a number on."""
        found: list[dict[str, Any]] = self._do("GET", "/fixes", params={"start": start}).json()
        return found

    def events(self) -> Iterator[dict[str, Any]]:
        """Fixes as they come, also those that others send frames for."""
        for line in self.client.stream(f"/v1/sessions/{self.id}/events"):
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))

    def track(self, format: str = "gpx") -> bytes:
        """The track so far: gpx, geojson, kml or csv."""
        return self._do("GET", f"/track.{format}").content

    def end(self) -> None:
        """End the session; its track stays."""
        self._do("POST", "/end")
