"""Decoding of server-sent events, as the HTML standard defines them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .errors import ProtocolError
from .types import Event


class Decoder:
    """Decodes the bytes of a stream into events. `last` is the id of the last event, for Last-Event-ID."""

    def __init__(self, last: str = "") -> None:
        self.last = last
        self._kind = ""
        self._data: list[str] = []
        self._id = last
        self._rest = b""  # an incomplete line

    def feed(self, data: bytes) -> Iterator[Event]:
        """Reads the next bytes and yields the events that they complete."""
        # splitlines of bytes follows the standard. That of str, and httpx, also split at characters that the data may contain, such as U+0085.
        lines = (self._rest + data).splitlines(keepends=True)
        self._rest = b"" if not lines or lines[-1].endswith(b"\n") else lines.pop()
        for line in lines:
            event = self._line(line.rstrip(b"\r\n").decode(errors="replace"))
            if event is not None:
                yield event

    def _line(self, text: str) -> Event | None:
        if not text:
            return self._dispatch()
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        return None

    def restart(self) -> None:
        """Drops the incomplete event of a lost connection."""
        self._kind, self._data, self._id, self._rest = "", [], self.last, b""

    def _dispatch(self) -> Event | None:
        kind, data = self._kind, "\n".join(self._data)
        self.last = self._id
        self._kind, self._data = "", []
        if not data:
            return None
        try:
            return Event(self.last, kind or "message", json.loads(data))
        except ValueError as err:
            raise ProtocolError(f"the data of event {self.last} is not JSON: {data[:200]!r}") from err
