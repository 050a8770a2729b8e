"""What Prometheus reads at /metrics."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from x2localizer.types import Fix

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """Counters, gauges and histograms of one service; each service has a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._fixes = Counter("x2l_fixes", "Fixes by status.", ["status"], registry=self.registry)
        for status in ("locating", "tracking", "lost"):
            self._fixes.labels(status)
        self._searches = Counter("x2l_searches", "Searches of the whole map.", registry=self.registry)
        self.dropped = Counter("x2l_dropped_frames", "Frames that newer ones pushed out.", registry=self.registry)
        self.late = Counter("x2l_late_answers", "Frames without an answer in time.", registry=self.registry)
        self.refused = Counter(
            "x2l_refused_requests", "Requests that were refused.", ["status"], registry=self.registry
        )
        self.latency = Histogram(
            "x2l_answer_seconds", "From the arrival of a frame to its answer.", buckets=_SECONDS, registry=self.registry
        )
        self._stages = Histogram(
            "x2l_stage_seconds", "Time of one stage of a frame, waiting included.", ["stage"], buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.batch = Histogram(
            "x2l_encoder_batch_frames", "Frames encoded together.", buckets=(1, 2, 4, 8, 16), registry=self.registry
        )
        self._lost_share = Gauge(
            "x2l_lost_share", "Share of the last fixes of all sessions that are lost.", registry=self.registry
        )

    def gauge(self, name: str, what: str, value: Callable[[], float]) -> None:
        """Add a value that is asked for when the metrics are read."""
        Gauge(name, what, registry=self.registry).set_function(value)

    def lost_share(self, value: Callable[[], float]) -> None:
        """How the share of lost sessions is found."""
        self._lost_share.set_function(value)

    def stage(self, name: str, seconds: float) -> None:
        """Note the time of a stage."""
        self._stages.labels(name).observe(seconds)

    def fix(self, fix: Fix) -> None:
        """Count a fix."""
        self._fixes.labels(fix.status).inc()
        if fix.refreshed:
            self._searches.inc()

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self.registry)
