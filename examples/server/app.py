"""The application: which address answers what."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from counting import Counts
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from hosting import Loaded, Model, models_of
from payloads import NPY, body_of, encoded, feeds_of, kind_of
from problems import Problem, answer, answer_of

from dovetail import DovetailError

_log = logging.getLogger("uvicorn.error")
_DECODED_AT_ONCE = 1 << 16
"""Bytes of a body up to which it is decoded in the event loop: a thread takes longer to wake.

An array is shown where it lies, of whatever size.
"""


class Settings(NamedTuple):
    """What a server allows.

    Attributes:
        largest_body: Bytes of a request.
        most_waiting: Requests that are answered at once; further ones get 503.
        seconds: How long a run may take.
        body_seconds: How long the body of a request may take to come; then it gets 408.
    """

    largest_body: int = 16 << 20
    most_waiting: int = 256
    seconds: float = 10.0
    body_seconds: float = 30.0


def create_app(files: Mapping[str, str], load: Callable[[str], Any], settings: Settings | None = None) -> FastAPI:
    """Return the application that serves models.

    Args:
        files: Files of the models by name.
        load: Loads one; see `hosting.Model`.
        settings: What it allows.
    """
    server = _Server(files, load, settings or Settings())
    app = FastAPI(title="dovetail", lifespan=server.lifespan)
    app.get("/health")(server.health)
    app.get("/metrics")(server.metrics)
    app.get("/models")(server.list_models)
    app.get("/models/{name}")(server.describe)
    app.get("/models/{name}/placement")(server.placement)
    app.post("/models/{name}/run")(server.run)
    app.post("/models/{name}/reload")(server.reload)
    for kind in (Problem, DovetailError, Exception):
        app.exception_handler(kind)(_on_error)
    app.exception_handler(HTTPException)(_on_http_error)
    app.exception_handler(404)(_on_http_error)
    app.exception_handler(405)(_on_http_error)
    return app


async def _on_error(request: Request, error: Exception) -> Response:
    return answer_of(error)


async def _on_http_error(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    return answer(status, "NOT_FOUND" if status == 404 else "REFUSED", f"{request.method} {request.url.path}: {error}")


class _Server:
    def __init__(self, files: Mapping[str, str], load: Callable[[str], Any], settings: Settings) -> None:
        self._files = files
        self._load = load
        self._settings = settings
        self._counts = Counts()
        self._models: dict[str, Model] = {}

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Load all models, serve, and unload them."""
        self._models = models_of(self._files, self._load)
        for model in self._models.values():
            loaded = await model.reload()
            _log.info("model %r loaded from %s in %.2f s", model.name, model.path, loaded.seconds)
        yield
        await asyncio.gather(*(model.close() for model in self._models.values()))

    def _model(self, name: str) -> Model:
        model = self._models.get(name)
        if model is None:
            raise Problem(404, "NO_SUCH_MODEL", f"there is no model {name[:80]!r}", f"the models are {', '.join(self._models)}")
        return model

    # -- what is asked of the server ---------------------------------------------------------------

    async def health(self) -> JSONResponse:
        """Tell whether all models are loaded, and which version of each."""
        return JSONResponse(
            {"status": "ready", "models": {name: model.current.version for name, model in self._models.items()}}
        )

    async def metrics(self) -> PlainTextResponse:
        """Return the counts, for Prometheus."""
        return PlainTextResponse(self._counts.text((name, model.current.version) for name, model in self._models.items()))

    async def list_models(self) -> JSONResponse:
        """Describe all models."""
        return JSONResponse({name: _described(model) for name, model in self._models.items()})

    # -- what is asked of a model ------------------------------------------------------------------

    async def describe(self, name: str) -> JSONResponse:
        """Tell what goes into a model and what comes out."""
        return JSONResponse(_described(self._model(name)))

    async def placement(self, name: str, request: Request) -> Response:
        """Say which backend runs each layer, and why; as text where the client accepts that."""
        async with self._model(name).using() as loaded:
            placement = await asyncio.to_thread(lambda: loaded.net.placement)  # it may read the model again
            if "text/plain" in request.headers.get("accept", ""):
                return PlainTextResponse(placement.explain() + "\n")
            return JSONResponse(_placement(placement))

    async def reload(self, name: str) -> JSONResponse:
        """Load the model's file again beside the one that runs, then give new requests that."""
        model = self._model(name)
        loaded = await model.reload()
        _log.info("model %r loaded again in %.2f s: version %d", name, loaded.seconds, loaded.version)
        return JSONResponse({"version": loaded.version, "seconds": round(loaded.seconds, 4)})

    async def run(self, name: str, request: Request) -> Response:
        """Run a model on what the body holds."""
        model = self._model(name)
        return await self._counted(name, lambda: self._run(model, request))

    async def _run(self, model: Model, request: Request) -> Response:
        largest = self._settings.largest_body
        body = await body_of(request, largest, self._settings.body_seconds)
        async with model.using() as loaded:
            kind = kind_of(request)
            if kind.startswith("image/") or (kind != NPY and len(body) > _DECODED_AT_ONCE):
                feeds = await asyncio.to_thread(feeds_of, body, request, loaded.net, largest)
            else:
                feeds = feeds_of(body, request, loaded.net, largest)
            outputs = await loaded.net.run_async(feeds, timeout=self._settings.seconds)
            reply = encoded(outputs, request.headers.get("accept", ""))
            reply.headers["X-Model-Version"] = str(loaded.version)
            return reply

    async def _counted(self, name: str, work: Callable[[], Awaitable[Response]]) -> Response:
        counts, most = self._counts, self._settings.most_waiting
        begin, status = time.perf_counter(), 500
        counts.in_flight += 1
        try:
            if counts.in_flight > most:
                raise Problem(503, "BUSY", f"{most} requests are being answered already", "ask again a little later")
            reply = await work()
            status = reply.status_code
            return reply
        except Exception as error:
            status = answer_of(error).status_code
            raise
        finally:
            counts.in_flight -= 1
            counts.note(name, status, time.perf_counter() - begin)


def _described(model: Model) -> dict[str, Any]:
    loaded: Loaded = model.current
    ends = {
        side: [{"name": spec.name, "shape": list(spec.shape), "dtype": str(spec.dtype)} for spec in getattr(loaded.net, side)]
        for side in ("inputs", "outputs")
    }
    return {"version": loaded.version, "load_seconds": round(loaded.seconds, 4), **ends}


def _placement(placement: Any) -> dict[str, Any]:
    layers = [
        {
            "name": layer.name,
            "kind": layer.kind,
            "backend": layer.backend,
            "reason": layer.reason,
            "refusals": [{"backend": one.backend, "code": one.code, "reason": one.reason} for one in layer.refusals],
        }
        for layer in placement.layers
    ]
    return {"summary": placement.summary(), "layers": layers}
