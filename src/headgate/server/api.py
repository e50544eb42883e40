"""The HTTP API: the handlers of all operations."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import anyio.to_thread
import pyarrow as pa
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headgate.control.query_control import EngineError
from headgate.scheduling import SchedulingError
from headgate.scheduling.live import live_policies
from headgate.server import openapi
from headgate.server.feeds import Follower, Followers, ResultFeeds, event, rows_of
from headgate.server.masking import secrets_in
from headgate.server.operations import ARROW, EVENTS, JSON, operations
from headgate.server.prometheus import TYPE as PROMETHEUS
from headgate.server.prometheus import exposition
from headgate.server.rows import dumps
from headgate.server.service import LimitError, Service
from headgate.spark.checkpoint import CheckpointError
from headgate.spark.results import SinkError
from headgate.spark.source_rows import SourceError
from headgate.sql import SqlError

_START_PATIENCE = 60.0
"""Seconds that a request waits for an engine that is starting."""

log = logging.getLogger("headgate.server")


class RequestError(ValueError):
    """A request is refused: its status and the values of the answer."""

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.values = {"message": message, **more}


def answer(value: Any, status: int = 200) -> Response:
    return Response(dumps(value), status, media_type=JSON)


class Api:
    """The handlers of a service. Must be created on the event loop that serves them."""

    def __init__(self, service: Service, needs_token: bool) -> None:
        self._service = service
        self._needs_token = needs_token
        self._operations = operations(service.limits.rows)
        self._loop = asyncio.get_running_loop()
        self._metrics_followers = Followers()
        self.feeds = ResultFeeds(service.engine, self._loop, service.limits.rows)
        service.listeners.append(self._send_events)
        service.dropped.append(lambda query: self._soon(partial(self.feeds.end, query)))

    @property
    def followers(self) -> int:
        """Clients that follow something."""
        return len(self.feeds) + len(self._metrics_followers)

    def end_soon(self) -> None:
        """Ends all streams of events. Any thread may call it."""
        self._soon(self.feeds.end)
        self._soon(self._metrics_followers.end)

    def _soon(self, action: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)

    def _send_events(self, events: list[tuple[str, Any]]) -> None:
        """Called on any thread: sends events of the service to the clients that follow the metrics."""
        if len(self._metrics_followers):
            data = b"".join(event(kind, value) for kind, value in events)
            self._soon(partial(self._metrics_followers.send, data))

    def routes(self) -> list[Route]:
        return [Route(each.path, self._handled(each.name), methods=[each.method]) for each in self._operations]

    # Handlers ---------------------------------------------------------------------------------------------

    def _handled(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        """The handler of this name; an error becomes a response that shows only a message."""
        handler: Callable[[Request], Awaitable[Response]] = getattr(self, name)

        async def handled(request: Request) -> Response:
            try:
                return await handler(request)
            except RequestError as error:
                return answer(error.values, error.status)
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception:
                log.exception("%s failed", name)
                return answer({"message": "the server failed to answer this request; its log says why"}, 500)

        return handled

    async def _call(self, function: Callable[..., Any], *arguments: Any, secrets: set[str] | None = None) -> Any:
        """Calls the service on a worker thread, once the engine has started."""
        service = self._service
        if service.state == "starting" and not await anyio.to_thread.run_sync(service.await_engine, _START_PATIENCE):
            raise RequestError(503, "the engine is starting; try again in a moment")
        hidden = secrets or set()
        try:
            return await anyio.to_thread.run_sync(partial(function, *arguments))
        except SqlError as error:
            message = service.secrets.masked(error.message, hidden)
            raise RequestError(400, message, line=error.line, column=error.column) from error
        except LimitError as error:
            raise RequestError(429, str(error)) from error
        except (SchedulingError, SinkError, SourceError) as error:
            raise RequestError(400, service.secrets.masked(_line(error), hidden)) from error
        except EngineError as error:
            status = 404 if str(error).startswith("there is no query") else 409
            raise RequestError(status, service.secrets.masked(_line(error), hidden)) from error
        except (CheckpointError, RuntimeError) as error:
            log.exception("the engine could not do it")
            raise RequestError(503, service.secrets.masked(_line(error), hidden)) from error

    async def status(self, request: Request) -> Response:
        return answer(self._service.status())

    async def health(self, request: Request) -> Response:
        status = self._service.status()
        found = {key: status[key] for key in ("state", "policy")} | {
            "error": "" if self._needs_token else status["error"]
        }
        if status["state"] != "running":
            raise RequestError(503, f"the engine is {status['state']}", **found)
        return answer(found)

    async def execute(self, request: Request) -> Response:
        sql = await self._text(request, "sql")
        done = await self._call(self._service.execute, sql, secrets=secrets_in(sql))
        return answer({"statements": done})

    async def check(self, request: Request) -> Response:
        sql = await self._text(request, "sql")
        done = await self._call(self._service.check, sql, secrets=secrets_in(sql))
        return answer({"statements": done})

    async def streams(self, request: Request) -> Response:
        return answer({"streams": await self._call(self._service.view.streams)})

    async def queries(self, request: Request) -> Response:
        return answer({"queries": await self._call(self._service.view.queries)})

    async def query(self, request: Request) -> Response:
        return answer(await self._call(self._service.view.query, request.path_params["name"]))

    async def drop(self, request: Request) -> Response:
        name = request.path_params["name"]
        await self._call(self._service.drop, name)
        return answer({"name": name})

    async def pause(self, request: Request) -> Response:
        name = request.path_params["name"]
        await self._call(self._service.pause, name)
        return answer({"name": name})

    async def resume(self, request: Request) -> Response:
        name = request.path_params["name"]
        await self._call(self._service.resume, name)
        return answer({"name": name})

    async def retry(self, request: Request) -> Response:
        name = request.path_params["name"]
        await self._call(self._service.retry, name)
        return answer({"name": name})

    async def results(self, request: Request) -> Response:
        limit = self._limit(request)
        table: pa.Table = await self._call(self._service.view.results, request.path_params["name"], limit)
        if _accepts(request, ARROW, only=True):
            return Response(await anyio.to_thread.run_sync(_arrow, table), media_type=ARROW)
        if not _accepts(request, JSON):
            raise RequestError(406, f"results are {JSON} or {ARROW}; accept one of them")
        return answer(await anyio.to_thread.run_sync(rows_of, table))

    async def follow(self, request: Request) -> Response:
        self._check_follower_limit()
        name = (await self._call(self._service.view.query, request.path_params["name"]))["name"]
        follower = self.feeds.add(name)
        first = event("columns", {"query": name})
        return _streamed(follower, lambda: self.feeds.remove(name, follower), first)

    async def follow_metrics(self, request: Request) -> Response:
        self._check_follower_limit()
        follower = self._metrics_followers.add()
        first = event("status", self._service.status())
        return _streamed(follower, lambda: self._metrics_followers.remove(follower), first)

    async def classes(self, request: Request) -> Response:
        return answer({"classes": await self._call(self._service.view.classes)})

    async def graph(self, request: Request) -> Response:
        return answer(await self._call(self._service.view.graph))

    async def metrics(self, request: Request) -> Response:
        return answer(await self._call(self._service.view.metrics))

    async def decisions(self, request: Request) -> Response:
        return answer({"decisions": await self._call(self._service.view.decisions, self._limit(request))})

    async def history(self, request: Request) -> Response:
        return answer(self._service.history.recent())

    async def dead_letters(self, request: Request) -> Response:
        return answer(await self._call(self._service.view.dead_letters, self._limit(request)))

    async def policies(self, request: Request) -> Response:
        known = [{"name": name, "about": about} for name, about in live_policies().items()]
        return answer({"policy": self._service.engine.policy, "policies": known})

    async def set_policy(self, request: Request) -> Response:
        policy = await self._text(request, "policy")
        await self._call(self._service.set_policy, policy)
        return answer({"policy": self._service.engine.policy})

    async def objectives(self, request: Request) -> Response:
        return answer({"objectives": self._service.engine.objectives})

    async def set_objectives(self, request: Request) -> Response:
        weights = (await self._body(request, "objectives"))["objectives"]
        numbers = isinstance(weights, dict) and all(
            isinstance(each, int | float) and not isinstance(each, bool) for each in weights.values()
        )
        if not numbers:
            raise RequestError(
                400, 'objectives are an object of numbers: {"objectives": {"delay": 0.7, "output": 0.3}}'
            )
        return answer({"objectives": await self._call(self._service.set_objectives, weights)})

    async def prometheus(self, request: Request) -> Response:
        service = self._service
        up = service.state == "running"
        metrics = {} if service.state == "starting" else await self._call(service.view.metrics)
        recent = {"recent": service.history.newest.get("classes", {})}
        return Response(exposition({**metrics, **recent}, up, self.followers), media_type=PROMETHEUS)

    async def document(self, request: Request) -> Response:
        return answer(openapi.document(self._operations, self._needs_token))

    # Requests ---------------------------------------------------------------------------------------------

    def _check_follower_limit(self) -> None:
        if self.followers >= self._service.limits.followers:
            most = self._service.limits.followers
            raise RequestError(429, f"{most:,} clients follow this server already, which is the limit")

    def _limit(self, request: Request) -> int:
        most = self._service.limits.rows
        text = request.query_params.get("limit", str(min(100, most)))
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
            raise RequestError(400, f"limit is {text[:40]!r}; give a number of rows from 1 to {most:,}")
        return int(text)

    async def _text(self, request: Request, member: str) -> str:
        value = (await self._body(request, member))[member]
        if not isinstance(value, str) or not value.strip():
            raise RequestError(400, f'"{member}" must be a text that is not empty')
        return value

    async def _body(self, request: Request, member: str) -> dict[str, Any]:
        """The JSON object of a request, with one member. Only JSON is accepted: forms of other sites cannot send it."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise RequestError(415, f"send the header Content-Type: {JSON}")
        data = await request.body()
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            raise RequestError(400, "the body is not JSON") from None
        if not isinstance(found, dict) or set(found) != {member}:
            raise RequestError(400, f'the body must be an object with one member, "{member}"')
        return found


def _streamed(follower: Follower, gone: Callable[[], None], first: bytes) -> Response:
    async def events() -> AsyncIterator[bytes]:
        try:
            yield first
            async for data in follower.events():
                yield data
        finally:
            gone()

    # Proxies must not buffer events.
    return StreamingResponse(events(), media_type=EVENTS, headers={"X-Accel-Buffering": "no"})


def _accepts(request: Request, media: str, only: bool = False) -> bool:
    """Whether a request accepts a media type; `only`: by name, not by a wildcard."""
    accepted = [each.partition(";")[0].strip().lower() for each in request.headers.get("accept", "*/*").split(",")]
    return media in accepted or (not only and any(each in ("*/*", f"{media.partition('/')[0]}/*") for each in accepted))


def _arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
