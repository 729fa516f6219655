"""Prefect's server for this machine alone: what a stranger's page in the user's browser asks for is refused.

Prefect answers every origin and every host name, so that any page could create flows on it. Whoever asks must name
the server by a loopback name (a name that was pointed here is a stranger's), and a page must be the server's own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost")
REFUSED = b"this server answers only its own pages and programs, by a loopback name"
#: The websocket's "policy violation".
POLICY_VIOLATION = 1008


def own_hosts(port: int) -> tuple[str, ...]:
    """What a server of this machine may be called, with its port."""
    return tuple(f"{name}:{port}" for name in LOOPBACK)


def create_app() -> Application:
    """Prefect's application, closed to strangers; a factory for uvicorn."""
    from prefect.server.api.server import create_app as create_open_app

    return closed(create_open_app())


def closed(application: Application) -> Application:
    """The application, answering only its own origin under a loopback name."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or is_own(scope["headers"]):
            await application(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(REFUSED)).encode())]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": REFUSED})

    return answer


def is_own(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request names the server by a loopback name and, if a page sent it, comes from the server's own."""
    given: dict[bytes, list[str]] = {}
    for name, value in headers:
        given.setdefault(name.lower(), []).append(value.decode("latin-1"))
    hosts = given.get(b"host", [])
    if len(hosts) != 1 or (own := _port(f"http://{hosts[0]}")) is None:
        return False
    return all(_port(origin) == own for origin in given.get(b"origin", []))


def _port(address: str) -> int | None:
    """The port of a loopback address (80 where it names none), or None for any other."""
    try:
        parts = urlsplit(address)
        own = parts.scheme == "http" and parts.hostname in LOOPBACK and parts.username is None
        return (parts.port or 80) if own else None
    except ValueError:
        return None
