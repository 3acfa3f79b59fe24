"""Decoding of server-sent events, as the HTML standard defines them."""

from __future__ import annotations

import json

from .errors import ProtocolError
from .types import Event


class Decoder:
    """Makes events of the lines of a stream. `last` is the id of the last event, for Last-Event-ID."""

    def __init__(self, last: str = "") -> None:
        self.last = last
        self._kind = ""
        self._data: list[str] = []
        self._id = last

    def line(self, text: str) -> Event | None:
        """Takes one line without its end; returns the event that it completes."""
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
        """Forgets the part of an event that came before the connection was lost."""
        self._kind, self._data, self._id = "", [], self.last

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
