"""A client of Atropos' trainer API, for environments. rolloutd's own trainer API has the same protocol."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping
from typing import Any

import httpx

from .._calls import decode
from .._connections import Connections, process_and_loop
from .._retry import Retry, lost, passing, refused
from ..errors import ExhaustedError, NotFoundError, RolloutdError, ServerError, UnavailableError
from .config import AgentEnvConfig
from .records import ScoredDataGroup

_GZIP_FROM = 1024  # bytes

# Errors of a group that the trainer may take later.
PASSING = (ServerError, UnavailableError, ExhaustedError)


class Trainer:
    """One environment's registration. Requests are repeated for `retry_s` seconds.

    The original API keeps everything in memory: after its restart, or a reset, it does not know the environment, and a group that it gets before
    its trainer registers makes it unusable. So nothing is sent before the environment is registered again.

    It cannot detect a repeated group either. If the answer to a group is lost, the group is looked for in the newest one of its queue. rolloutd's
    trainer API accepts a group once, by its Idempotency-Key.
    """

    def __init__(self, url: str, retry_s: float = 120.0) -> None:
        self._url = url.rstrip("/")
        self._http = Connections(lambda: httpx.AsyncClient(timeout=httpx.Timeout(60.0, connect=10.0)), process_and_loop)
        self._retry_s = retry_s
        self._step = 0  # the highest one seen
        self.env_id = -1
        self._registered = asyncio.Event()
        # One request after the other: an older answer must not look like that of another run, and the newest group of the queue is usually ours.
        self._turn = asyncio.Lock()

    async def register(self, name: str, config: AgentEnvConfig) -> Mapping[str, Any]:
        """Registers the environment. The answer's status is another one than "success" while the trainer has not started."""
        body = {
            "max_token_length": config.max_token_length,
            "desired_name": name,
            "weight": config.inference_weight,
            "group_size": config.group_size,
            "min_batch_allocation": config.min_batch_allocation,
        }
        answer = await self._ask("POST", "/register-env", body)
        if answer.get("status") == "success":
            self.env_id, self._step = int(answer["env_id"]), int(answer.get("starting_step", 0))
            self._registered.set()
        return answer

    async def info(self) -> Mapping[str, Any]:
        """batch_size and max_token_len; −1 before the trainer has registered."""
        return await self._ask("GET", "/info", None)

    async def status(self) -> Mapping[str, Any] | None:
        """current_step, queue_size (in groups of this environment) and unallocated_fraction. None: the API does not know this environment."""
        async with self._turn:
            return await self._status()

    async def _status(self) -> Mapping[str, Any] | None:
        info = await self.info()
        if self.env_id < 0 or int(info["batch_size"]) <= 0:
            self._forget()
            return None
        try:
            status = await self._ask("GET", "/status-env", {"env_id": self.env_id}, retry_s=0.0)
        except (ServerError, NotFoundError):  # Atropos answers 500 for an unknown environment
            self._forget()
            return None
        if int(status["current_step"]) < self._step:  # of another run
            self._forget()
            return None
        self._step = int(status["current_step"])
        return status

    def _forget(self) -> None:
        self.env_id = -1
        self._registered.clear()

    async def send(self, group: ScoredDataGroup, key: str) -> None:
        """Sends a group, once the environment is registered. `key` is the same whenever this group is sent, by this process or by another."""
        retry, sent = Retry(self._retry_s), False
        while True:
            if not self._registered.is_set():
                await self._registered.wait()
                retry.renew()
            try:
                async with self._turn:
                    if sent and await self._has(key) or await self._post(group, key):
                        return
            except PASSING as err:
                sent = True
                await asyncio.sleep(retry.pause(err))

    async def _post(self, group: ScoredDataGroup, key: str) -> bool:
        """Sends the group once. False: the API does not know this environment, and got nothing."""
        if await self._status() is None:
            return False
        await self._ask("POST", "/scored_data", {**group, "env_id": self.env_id}, key=key, retry_s=0.0)
        return True

    async def _has(self, key: str) -> bool:
        """Whether the group is the newest one of the queue."""
        try:
            newest = await self._ask("GET", "/latest_example", None, retry_s=0.0)
        except RolloutdError:
            return False
        return (newest.get("group_overrides") or {}).get("rolloutd_key") == key

    async def disconnect(self) -> None:
        """Tells the trainer that no further groups come."""
        if self.env_id < 0:
            return
        try:
            await self._http.mine().post(f"{self._url}/disconnect-env", json={"env_id": self.env_id})
        except httpx.RequestError:
            return  # the trainer is unreachable; after a restart it does not know this environment

    async def close(self) -> None:
        """Closes the connections."""
        if (http := self._http.close()) is not None:
            await http.aclose()

    async def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None, key: str = "", retry_s: float | None = None
    ) -> Mapping[str, Any]:
        content = b"" if body is None else json.dumps(body, allow_nan=False).encode()
        headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
        if len(content) >= _GZIP_FROM:
            content, headers["Content-Encoding"] = gzip.compress(content), "gzip"
        retry = Retry(self._retry_s if retry_s is None else retry_s)
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
