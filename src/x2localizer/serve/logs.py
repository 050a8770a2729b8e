"""Logs as lines of JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """One object per line: time, level, what, and whatever was given beside it."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        values = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(), "what": record.getMessage(), "logger": record.name,
        }  # fmt: skip
        values |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info:
            values["trace"] = self.formatException(record.exc_info)
        return json.dumps(values, default=str)


def log_config(level: str = "info") -> dict[str, object]:
    """The logging of the service and of uvicorn. Requests are logged by the service itself, without query strings."""
    quiet = {"level": "WARNING", "handlers": ["stderr"], "propagate": False}
    return {
        "version": 1, "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonLines}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": sys.stderr}},
        "loggers": {
            "x2localizer": {"level": level.upper(), "handlers": ["stderr"], "propagate": False},
            "uvicorn": {"level": "WARNING", "handlers": ["stderr"], "propagate": False},
            "uvicorn.access": {**quiet, "level": "CRITICAL"},
        },
    }  # fmt: skip
