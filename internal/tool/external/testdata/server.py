"""An MCP server of the official SDK: `server.py stdio`, or `server.py http` on the listening socket that is file descriptor 3."""

import os
import socket
import sys

import uvicorn
from mcp.server.fastmcp import Context, FastMCP, Image

server = FastMCP("test")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("out of cheese")


@server.tool()
def picture() -> Image:
    """Return an image."""
    return Image(data=b"png", format="png")


@server.tool()
def key(context: Context) -> str:
    """Return the idempotency key of the call."""
    return context.request_context.meta.model_dump()["rolloutd/idempotency_key"]


@server.tool()
def environment() -> str:
    """Return a secret of the server, which must not have any other variable."""
    assert "ROLLOUTD_CANARY" not in os.environ
    return os.environ.get("TOKEN", "")


@server.tool()
def quit() -> str:
    """End the server."""
    os._exit(1)


@server.tool()
def big() -> str:
    """Return more than any client should take."""
    return "x" * (20 << 20)


if sys.argv[1] == "http":
    listener = socket.socket(fileno=3)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listener])
else:
    server.run()
