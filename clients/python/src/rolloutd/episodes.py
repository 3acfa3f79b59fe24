"""Interactive episodes and the tool executor, for both clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _episodes as calls
from ._calls import new_id
from ._episodes import Episode, EpisodeTask, EpisodeTool, Execution, Step

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .aio import AsyncClient
    from .client import Client


class Episodes:
    """The interactive episodes of a server: a sandbox that the caller drives by tool calls. An episode is a rollout.

    `environment` names one of the server's environments (docs/episodes.md).
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def reset(self, arguments: Mapping[str, Any] | None = None, /, *, environment: str = "tools", session: str = "", **task: Unpack[EpisodeTask]) -> Episode:
        """Opens an episode. An open episode of the same session is aborted. Without a session, the episode gets a new one."""
        return self._client.send(calls.reset(environment, session or new_id(), {**(arguments or {}), **task}))

    def tools(self, environment: str = "tools") -> list[EpisodeTool]:
        """The tools of an environment."""
        return self._client.send(calls.tools(environment))

    def call(self, episode: Episode, tool: str, arguments: Mapping[str, Any] | None = None, /, *, request_id: str = "") -> Step:
        """Calls a tool. A repeated `request_id` returns the first result and runs nothing."""
        return self._client.send(calls.call(episode, tool, arguments or {}, request_id))

    def submit(self, episode: Episode, answer: str = "") -> Step:
        """Ends an episode and waits for its reward, which is None if the task has no verifier."""
        return self.call(episode, "submit", {"answer": answer} if answer else {})

    def close(self, episode: Episode) -> bool:
        """Ends an episode without a reward. Returns False if it has already ended."""
        return self._client.rollouts.abort(episode.rollout_id, "closed by its client")


class Executor:
    """The tool executor of a server, for agents that run their own loop: the first call of a trajectory opens its sandbox."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def execute(
        self, trajectory_id: str, tool: str, arguments: Mapping[str, Any] | None = None, *, uniq_id: str = "", timeout_s: float | None = None
    ) -> Execution:
        """Runs a tool. The trajectory may be a rollout that awaits its score. A repeated `uniq_id` returns the first answer and runs nothing."""
        return self._client.send(calls.execute(trajectory_id, tool, arguments or {}, uniq_id, timeout_s))

    def archive(self, trajectory_id: str, path: str = "", *, max_bytes: int = 1 << 30) -> bytes:
        """A folder as tar.gz, by default the workspace, with names relative to the workspace. Its files may have `max_bytes` in total."""
        return self._client.send(calls.archive(trajectory_id, path, max_bytes))

    def release(self, trajectory_id: str) -> bool:
        """Closes the sandbox of a trajectory; a later call opens another."""
        return self._client.send(calls.release(trajectory_id))


class AsyncEpisodes:
    """The interactive episodes of a server: a sandbox that the caller drives by tool calls. An episode is a rollout.

    `environment` names one of the server's environments (docs/episodes.md).
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def reset(self, arguments: Mapping[str, Any] | None = None, /, *, environment: str = "tools", session: str = "", **task: Unpack[EpisodeTask]) -> Episode:
        """Opens an episode. An open episode of the same session is aborted. Without a session, the episode gets a new one."""
        return await self._client.send(calls.reset(environment, session or new_id(), {**(arguments or {}), **task}))

    async def tools(self, environment: str = "tools") -> list[EpisodeTool]:
        """The tools of an environment."""
        return await self._client.send(calls.tools(environment))

    async def call(self, episode: Episode, tool: str, arguments: Mapping[str, Any] | None = None, /, *, request_id: str = "") -> Step:
        """Calls a tool. A repeated `request_id` returns the first result and runs nothing."""
        return await self._client.send(calls.call(episode, tool, arguments or {}, request_id))

    async def submit(self, episode: Episode, answer: str = "") -> Step:
        """Ends an episode and waits for its reward, which is None if the task has no verifier."""
        return await self.call(episode, "submit", {"answer": answer} if answer else {})

    async def close(self, episode: Episode) -> bool:
        """Ends an episode without a reward. Returns False if it has already ended."""
        return await self._client.rollouts.abort(episode.rollout_id, "closed by its client")


class AsyncExecutor:
    """The tool executor of a server, for agents that run their own loop: the first call of a trajectory opens its sandbox."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def execute(
        self, trajectory_id: str, tool: str, arguments: Mapping[str, Any] | None = None, *, uniq_id: str = "", timeout_s: float | None = None
    ) -> Execution:
        """Runs a tool. The trajectory may be a rollout that awaits its score. A repeated `uniq_id` returns the first answer and runs nothing."""
        return await self._client.send(calls.execute(trajectory_id, tool, arguments or {}, uniq_id, timeout_s))

    async def archive(self, trajectory_id: str, path: str = "", *, max_bytes: int = 1 << 30) -> bytes:
        """A folder as tar.gz, by default the workspace, with names relative to the workspace. Its files may have `max_bytes` in total."""
        return await self._client.send(calls.archive(trajectory_id, path, max_bytes))

    async def release(self, trajectory_id: str) -> bool:
        """Closes the sandbox of a trajectory; a later call opens another."""
        return await self._client.send(calls.release(trajectory_id))
