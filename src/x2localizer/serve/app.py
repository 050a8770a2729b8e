"""The application: routes, errors and the guard around a hub."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import Field

from x2localizer import __version__
from x2localizer.config import RELEASED, Settings
from x2localizer.serve import event_routes, job_routes, session_routes, socket_route
from x2localizer.serve.errors import ServeError
from x2localizer.serve.guard import COOKIE, Guard, Logins
from x2localizer.serve.hub import Hub
from x2localizer.serve.jobs import Jobs
from x2localizer.serve.problems import add_handlers, problems
from x2localizer.serve.schemas import StateOut


class LoginIn(Settings):
    """The token, shown once by a browser."""

    token: str = Field(min_length=1, max_length=1000)


class WrongTokenError(ServeError):
    """Not the token."""

    status = 401


def create_app(hub: Hub, *, token: str | None = None, bundle: str = RELEASED) -> FastAPI:
    """The service around a hub that was not started yet.

    token: that every request must carry; None on a machine that nobody else can reach.
    bundle: that jobs run with.

    Pages may be added to it; the guard covers them, too.
    """
    app = FastAPI(
        title="X²Localizer", version=__version__, lifespan=_lifespan, docs_url=None, redoc_url=None,
        openapi_url="/v1/openapi.json", description="Where is the camera? Frames in, positions out.",
    )  # fmt: skip
    app.state.hub, app.state.bundle, app.state.logins = hub, bundle, Logins()
    for routes in (session_routes, socket_route, event_routes, job_routes):
        app.include_router(routes.router)
    _add_plain_routes(app, hub)
    _add_login(app, token)
    add_handlers(app)
    app.add_middleware(Guard, token=token, limits=hub.settings, metrics=hub.metrics, logins=app.state.logins)
    app.openapi = lambda: _described(app, token)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    hub: Hub = app.state.hub
    await hub.start()
    jobs = Jobs(hub.store, hub.gallery.address, app.state.bundle, hub.settings)
    app.state.jobs = hub.jobs = jobs
    await jobs.start()
    try:
        yield
    finally:
        await jobs.close()
        await hub.close()


def _add_plain_routes(app: FastAPI, hub: Hub) -> None:
    @app.get("/healthz")
    async def healthz() -> StateOut:
        """Whether the process answers."""
        return StateOut(status="ok")

    @app.get("/readyz", responses={503: {"model": StateOut, "description": "It is starting."}})
    async def readyz(response: Response) -> StateOut:
        """Whether the gallery is open and frames are taken."""
        response.status_code = 200 if hub.ready else 503
        return StateOut(status="ok" if hub.ready else "starting")

    @app.get(
        "/metrics", response_class=Response,
        responses={**problems(), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )  # fmt: skip
    async def metrics() -> Response:
        """What Prometheus reads."""
        return Response(hub.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_login(app: FastAPI, token: str | None) -> None:
    @app.post("/v1/login", status_code=204, responses=problems(401, 422))
    async def login(request: Request, given: LoginIn) -> Response:
        """Show the token once, and get a cookie for the pages of the service."""
        if token is not None and not hmac.compare_digest(given.token.encode(), token.encode()):
            raise WrongTokenError("The token is wrong.", "Look into the file that the service was started with.")
        answer = Response(status_code=204)
        cookie, secure = app.state.logins.add(), request.url.scheme == "https"
        answer.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=secure, max_age=7 * 86_400)
        return answer


def _described(app: FastAPI, token: str | None) -> dict[str, Any]:
    """The OpenAPI description, with the token where one is needed."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes,
            openapi_version=app.openapi_version,
        )  # fmt: skip
        if token is not None:
            schema.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"token": []}]
        app.openapi_schema = schema
    return app.openapi_schema
