"""Errors as answers: always the same JSON, never a stack trace."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from x2localizer.errors import UserError
from x2localizer.serve.errors import ServeError
from x2localizer.serve.schemas import ProblemOut

_WHY = {
    400: "The request is malformed.", 401: "The token is missing or wrong.", 403: "That is not allowed.",
    404: "There is no such thing.", 405: "The method is not allowed.", 408: "The request did not arrive in time.",
    409: "It does not fit what came before.", 413: "It is too large.", 415: "It is of another kind.",
    422: "It is not valid.", 429: "There are too many.", 503: "The service is not ready.",
    507: "The store cannot be written.",
}  # fmt: skip
_log = logging.getLogger("x2localizer.serve")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The description of the errors that a request may get, those that every request may get included."""
    return {
        status: {"model": ProblemOut, "description": _WHY[status]}
        for status in sorted({400, 401, 403, 408, 413, 429, 503, 507, *statuses})
    }


def add_handlers(app: FastAPI) -> None:
    """Turn every error into JSON."""
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _bug)


def _answer(status: int, error: str, remedy: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": error, "remedy": remedy}, status, headers)


async def _user_error(request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, UserError)
    status = problem.status if isinstance(problem, ServeError) else 422
    return _answer(status, problem.what, problem.remedy, {"retry-after": "1"} if status == 429 else None)


async def _invalid(request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, RequestValidationError)
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first["loc"])[:200]
    what = str(first["msg"]).removeprefix("Value error, ")[:200]
    return _answer(422, f"{where}: {what}.", "See /v1/openapi.json for what is expected.")


async def _http_error(request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, HTTPException)
    remedy = "See /v1/openapi.json for what there is."
    return _answer(
        problem.status_code, _WHY.get(problem.status_code, "The request failed."), remedy, dict(problem.headers or {})
    )


async def _bug(request: Request, problem: Exception) -> JSONResponse:
    _log.error("unexpected error", exc_info=problem, extra={"path": request.url.path[:200]})
    return _answer(500, "Something went wrong inside the service.", "Tell its owner, who has the log.")
