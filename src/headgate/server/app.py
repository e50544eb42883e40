"""The application: routes, the files of the page, and the checks before each request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from headgate.server.access import Access, Refusal
from headgate.server.api import Api, RequestError, answer
from headgate.server.service import Service

PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/favicon.svg": ("favicon.svg", "image/svg+xml"),
    **{
        f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
        for name in ("page", "calls", "charts", "graph", "editor", "tables")
    },
}
"""The files of the page by path: the same for everyone, and served without a token."""

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class RequestGuard:
    """Checks requests before the application sees them: host, origin, token and size of the body."""

    def __init__(self, app: Starlette, access: Access, body: int) -> None:
        self._app = app
        self._access = access
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in Headers(scope=scope).items()}
        public = scope["path"] in PAGE or scope["path"] == "/healthz"
        refusal = self._access.refusal(headers, public)
        length = headers.get("content-length", "0")
        if refusal is None and (not length.isdigit() or int(length[:20]) > self._body):
            refusal = self._too_large
        if refusal is not None:
            await self._refuse(refusal, scope, receive, send)
            return
        taken = 0
        started = False

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._body:
                raise RequestError(413, self._too_large.message)
            return message

        async def headed(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                known = {name for name, _ in message["headers"]}
                message["headers"] += [
                    (name.encode(), value.encode()) for name, value in _HEADERS.items() if name.encode() not in known
                ]
            await send(message)

        try:
            await self._app(scope, limited, headed)
        except RequestError as error:
            if started:
                raise
            await self._refuse(Refusal(error.status, str(error)), scope, receive, send)

    def end_streams(self) -> None:
        """Ends all streams of events, which a stopping server would wait for. Any thread may call it."""
        api: Api | None = getattr(self._app.state, "api", None)
        if api is not None:
            api.end_soon()

    @property
    def _too_large(self) -> Refusal:
        return Refusal(413, f"the body is larger than {self._body:,} bytes")

    @staticmethod
    async def _refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        response = answer({"message": refusal.message}, refusal.status)
        for name, value in _HEADERS.items():
            response.headers[name] = value
        if refusal.status == 401:
            response.headers["www-authenticate"] = "Bearer"
        await response(scope, receive, send)


def application(service: Service, access: Access) -> RequestGuard:
    """The application over a service, which its owner starts and stops."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        api = app.state.api = Api(service, access.needs_token)
        # Routes are made here: the API belongs to the event loop that serves it.
        app.router.routes.extend(api.routes())
        yield

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = {404: "there is nothing here; /openapi.json names what there is", 405: "this path has other methods"}
        response = answer({"message": words.get(error.status_code, error.detail)}, error.status_code)
        response.headers.update(error.headers or {})
        if error.status_code == 405:
            # Starlette names the methods of one route; a path may have several.
            partial = [r for r in request.app.router.routes if r.matches(request.scope)[0] is Match.PARTIAL]
            methods = {method for route in partial if isinstance(route, Route) for method in route.methods or ()}
            response.headers["allow"] = ", ".join(sorted(methods))
        return response

    app = Starlette(
        routes=[Route(path, _file(*named)) for path, named in PAGE.items()],
        lifespan=lifespan,
        exception_handlers={HTTPException: unknown},
    )
    # A path with an extra slash is refused, not redirected.
    app.router.redirect_slashes = False
    return RequestGuard(app, access, service.limits.body)


def _file(name: str, media: str):  # type: ignore[no-untyped-def]
    async def served(request: Request) -> Response:
        data = files("headgate.server").joinpath("page", name).read_bytes()
        return Response(data, media_type=media, headers={"cache-control": "no-cache"})

    return served
