"""An environment for TRL's `environment_factory`: the trainer samples, and the tool calls of its model run in sandboxes of rolloutd."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from .._calls import new_id
from .._episodes import Episode
from ..client import Client
from ..errors import InvalidError, RolloutdError, UnauthorizedError
from .rollouts import instruction_of

log = logging.getLogger("rolloutd.trl")

Row = Mapping[str, Any]  # of the data set


class Environment:
    """A sequence of sandboxes, one for each generation. Pass `functools.partial(Environment, client, task)` as `environment_factory`.

    `task` has the arguments of all episodes, such as `setup` and `verify`, or is a callable that makes them from the row; `environment` names the
    server's environment. For TRL, every public method except `reset` and `get_reward` is a tool: a subclass adds a tool as a method
    that returns `self._call(NAME, …)`. An episode that is lost to an infrastructure failure has the reward None, which TRL leaves out.
    """

    def __init__(self, client: Client, task: Row | Callable[[Row], Row] | None = None, environment: str = "tools") -> None:
        self._client = client
        self._task = task or {}
        self._environment = environment
        self._session = new_id()
        self._episode: Episode | None = None
        self._reward: float | None = None
        self._lost = ""

    def reset(self, **row: Any) -> None:
        """Opens a new sandbox for a row. InvalidError if the task is invalid."""
        task = self._task(row) if callable(self._task) else self._task
        self._episode, self._reward, self._lost = None, None, ""
        instruction = {"instruction": instruction_of(row["prompt"])} if row.get("prompt") else {}
        try:
            self._episode = self._client.episodes.reset({**instruction, **task}, environment=self._environment, session=self._session)
        except (InvalidError, UnauthorizedError):
            raise
        except RolloutdError as err:
            self._lose(f"no sandbox: {err}")

    def terminal(self, command: str) -> str:
        """Runs a command in the sandbox and returns its output.

        Args:
            command: The command to run.
        """
        return self._call("terminal", command=command)

    def read_file(self, path: str) -> str:
        """Reads a file.

        Args:
            path: Path, absolute or relative to the workspace.
        """
        return self._call("read_file", path=path)

    def write_file(self, path: str, content: str) -> str:
        """Writes a file.

        Args:
            path: Path, absolute or relative to the workspace.
            content: The whole content of the file.
        """
        return self._call("write_file", path=path, content=content)

    def get_reward(self) -> float | None:
        """Ends the episode and returns its reward; None if it has none."""
        if self._episode is not None:
            episode, self._episode = self._episode, None
            try:
                self._reward = self._client.episodes.submit(episode).reward
            except RolloutdError as err:
                self._lose(f"rollout {episode.rollout_id}: {err}")
        return self._reward

    def _call(self, tool: str, **arguments: Any) -> str:
        """Calls a tool of the episode. The model gets the error of a tool that cannot run."""
        if self._episode is None:
            return f"error: {self._lost or 'the episode has ended'}"
        try:
            step = self._client.episodes.call(self._episode, tool, arguments)
        except InvalidError as err:  # the call alone: text that JSON cannot have, or that is too long
            return f"error: {err}"
        except RolloutdError as err:
            self._lose(f"rollout {self._episode.rollout_id}: {err}")
            return f"error: {self._lost}"
        return f"error: {step.error}" if step.error else step.text

    def _lose(self, why: str) -> None:
        self._episode, self._reward, self._lost = None, None, why
        log.warning("an episode is lost: %s", why)
