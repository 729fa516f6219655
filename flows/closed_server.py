"""Prefect's and MLflow's servers for this machine only: requests from foreign pages in the browser are refused.

By default Prefect answers every origin and host name, and MLflow every origin of this machine: any page could write to
them. Starlette refuses requests that name the server otherwise than by a loopback name (a foreign name may
have been pointed here); `OwnPagesOnly` refuses requests that a page of another origin sent.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost")
#: What `mlflow server --app-name` calls the application below; pyproject.toml names it as MLflow's plugin.
MLFLOW_APP = "tdrop-closed"


class OwnPagesOnly:
    """Refuses requests and websockets whose origin is not the server itself; programs send none."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            port = scope["server"][1]
            own = {f"http://{name}" + (f":{port}" if port != 80 else "") for name in LOOPBACK}
            headers = Headers(scope=scope)
            # A link may lead here; a frame or a picture on a foreign page may not, and names no origin.
            embedded = headers.get("sec-fetch-dest", "document") != "document"
            foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site") and embedded
            if foreign or not own.issuperset(headers.getlist("origin")):
                refusal = PlainTextResponse("this server answers only its own pages and programs", status_code=403)
                await refusal(scope, receive, send)
                return
        await self.app(scope, receive, send)


def closed(application: ASGIApp) -> ASGIApp:
    """The application, answering only its own origin under a loopback name."""
    return TrustedHostMiddleware(OwnPagesOnly(application), LOOPBACK)


def create_app() -> ASGIApp:
    """Prefect's application, closed to foreign pages; a factory for uvicorn."""
    from prefect.server.api.server import create_app as create_open_app

    return closed(create_open_app())


def create_mlflow_app() -> ASGIApp:
    """MLflow's application, closed to foreign pages; a factory for `mlflow server --app-name`."""
    from mlflow.server.fastapi_app import create_fastapi_app

    return closed(create_fastapi_app())
