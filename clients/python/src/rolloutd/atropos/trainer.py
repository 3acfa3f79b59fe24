"""A client of Atropos' trainer API, for environments. rolloutd's own trainer API has the same protocol."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from .._calls import decode
from .._connections import Connections, process_and_loop
from .._retry import Retry, lost, passing, refused
from ..errors import ServerError
from .config import AgentEnvConfig
from .records import ScoredGroup

if TYPE_CHECKING:
    from typing_extensions import Self

_GZIP_FROM = 1024  # bytes


class Trainer:
    """One environment's registration. Requests are repeated for `retry_s` seconds.

    The original API cannot detect a repeated group: if an answer to `send` is lost, the group may be in its queue twice. rolloutd's
    trainer API accepts it once, by its Idempotency-Key.
    """

    def __init__(self, url: str, retry_s: float = 120.0) -> None:
        self._url = url.rstrip("/")
        self._http = Connections(lambda: httpx.AsyncClient(timeout=httpx.Timeout(60.0, connect=10.0)), process_and_loop)
        self._retry_s = retry_s
        self.env_id = -1
        self._registered = asyncio.Event()

    async def register(self, name: str, config: AgentEnvConfig, poll_s: float = 1.0) -> Mapping[str, Any]:
        """Waits for the trainer to start, and registers. The answer has the trainer's step and settings."""
        body = {
            "max_token_length": config.max_token_length,
            "desired_name": name,
            "weight": config.inference_weight,
            "group_size": config.group_size,
            "min_batch_allocation": config.min_batch_allocation,
        }
        while True:
            answer = await self._ask("POST", "/register-env", body)
            if answer.get("status") == "success":
                self.env_id = int(answer["env_id"])
                self._registered.set()
                return {**answer, **await self._ask("GET", "/info", None)}
            await asyncio.sleep(poll_s)

    async def status(self) -> Mapping[str, Any]:
        """current_step, queue_size (in groups of this environment) and unallocated_fraction."""
        return await self._ask("GET", "/status-env", {"env_id": self.env_id})

    async def send(self, group: ScoredGroup, key: str) -> None:
        """Sends a group, after the registration. `key` is the same whenever this group is sent, by this process or by another."""
        await self._registered.wait()
        await self._ask("POST", "/scored_data", {**group, "env_id": self.env_id}, key=key)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.env_id >= 0:
            await self._leave()
        if (http := self._http.close()) is not None:
            await http.aclose()

    async def _leave(self) -> None:
        try:
            await self._http.mine().post(f"{self._url}/disconnect-env", json={"env_id": self.env_id})
        except httpx.RequestError:
            return  # the trainer is unreachable; after a restart it does not know this environment

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, key: str = "") -> Mapping[str, Any]:
        content = b"" if body is None else json.dumps(body, allow_nan=False).encode()
        headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
        if len(content) >= _GZIP_FROM:
            content, headers["Content-Encoding"] = gzip.compress(content), "gzip"
        retry = Retry(self._retry_s)
        while True:
            try:
                response = await self._http.mine().request(method, self._url + path, content=content or None, headers=headers)
            except httpx.RequestError as err:
                await asyncio.sleep(retry.pause(lost(self._url, err)))
                continue
            error = refused(response)
            if error is None:
                answer: Mapping[str, Any] = decode(response.content)
                return answer
            if not passing(response) and not isinstance(error, ServerError):
                raise error
            await asyncio.sleep(retry.pause(error))
