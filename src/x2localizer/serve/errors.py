"""Errors of the service: what happened, what to do next, and which HTTP status says so."""

from __future__ import annotations

from typing import ClassVar

from x2localizer.errors import UserError


class ServeError(UserError):
    """A request that cannot be answered."""

    status: ClassVar[int] = 422


class BadInputError(ServeError):
    """A frame, a sample or a video that is not one, or too large."""


class TooLargeError(ServeError):
    """More bytes, pixels or items than the service takes."""

    status = 413


class NotThereError(ServeError):
    """A session, a job or a file that does not exist."""

    status = 404


class ConflictError(ServeError):
    """Something that does not fit what came before: a clock that runs backwards, an ended session."""

    status = 409


class ForbiddenError(ServeError):
    """An address that is not on the list of allowed ones."""

    status = 403


class BusyError(ServeError):
    """Too many sessions, jobs or requests at once."""

    status = 429


class StoreError(ServeError):
    """The store cannot be written: what was sent is not acknowledged."""

    status = 507
