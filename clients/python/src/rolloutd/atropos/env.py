"""The base class of environments."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from .._calls import new_id
from ..aio import AsyncClient
from ..errors import InvalidError, RolloutdError
from ..types import Sequence
from .config import AgentConfig, AgentEnvConfig, APIServerConfig, ignored
from .journal import Work
from .records import AgentResult, ScoredGroup, ToolCall, ToolResult, logprobs_of, masks_of
from .scores import Scores
from .workspace import prepared, tools_of

log = logging.getLogger("rolloutd.atropos")

# Seconds by which a sandbox is kept longer than the time limit of the hook.
_SLACK_S = 60.0

Item = Any
ExecTool = Callable[[ToolCall], Awaitable[ToolResult]]


@dataclass
class Counts:
    """Counts of the groups of an environment, by result."""

    delivered: int = 0
    same_scores: int = 0
    too_long: int = 0
    incomplete: int = 0  # a sibling was lost, has nothing to train on, or its hook failed
    undelivered: int = 0  # the trainer refused the group, or was unreachable for too long


@dataclass
class _Trajectory:
    """A scored sibling."""

    sequence: Sequence
    score: float
    result: AgentResult
    task: str
    metadata: dict[str, Any]


class AgentEnv(ABC):
    """An environment: subclasses define the items, the task of each item, and the score.

    The hooks run in this process and may be plain functions, which run in a thread, or coroutines; each call has `worker_timeout` seconds.
    The agent, its tools and its sandboxes are rollouts of rolloutd's agent `react`. If a hook fails, only its own group is lost.
    """

    name: ClassVar[str] = "agent_env"
    env_config_cls: ClassVar[type[AgentEnvConfig]] = AgentEnvConfig

    def __init__(self, config: AgentEnvConfig, server_configs: list[APIServerConfig] | None = None) -> None:
        self.config = config
        self.server_configs = server_configs or []
        self.counts = Counts()
        self.client = AsyncClient(config.rolloutd_server, token=config.rolloutd_token)
        self._next_server = 0
        changed = ignored(config)
        if changed:
            log.warning("settings without effect, since rolloutd runs the sandboxes: %s", ", ".join(changed))

    # Hooks of an environment.

    @abstractmethod
    def setup_agent_env(self) -> Any:
        """Loads the data. Runs once, before the first item."""

    @abstractmethod
    def get_next_item(self) -> Any:
        """The next item; None if there is no item at present."""

    @abstractmethod
    def build_task(self, item: Item) -> Any:
        """The instruction for the agent."""

    @abstractmethod
    def score_trajectory(self, item: Item, final_response: str) -> Any:
        """The score of a trajectory."""

    def verify_and_score_trajectory(
        self, item: Item, final_response: str, *, trajectory_id: str, exec_tool: ExecTool, agent_result: AgentResult
    ) -> Any:
        """The score and metadata of a trajectory; by default those of `score_trajectory`. `exec_tool` runs tools in its sandbox."""
        return self.score_trajectory(item, final_response)

    def build_agent_config(self, item: Item) -> AgentConfig:
        """The configuration of the agent for an item."""
        c = self.config
        return AgentConfig(
            max_steps=c.agent_max_steps, temperature=c.agent_temperature, max_tokens=c.agent_max_tokens, tool_delay_s=c.agent_tool_delay_s
        )

    def build_rollout(self, item: Item) -> dict[str, Any]:
        """Further arguments of the item's rollouts, such as `sandbox`, `setup` and `upload_files`."""
        return {}

    def evaluate(self) -> Any:
        """Evaluates the policy; returns metrics by name."""
        return {}

    @classmethod
    def config_init(cls) -> tuple[AgentEnvConfig, list[APIServerConfig]]:
        """The settings that the command line changes."""
        return cls.env_config_cls(), [APIServerConfig()]

    # Methods of the base class, which call the hooks.

    async def setup(self) -> None:
        """Prepares the environment."""
        await self._hook(self.setup_agent_env)

    async def close(self) -> None:
        """Closes the connections."""
        await self.client.close()

    async def run_agent(self, item: Item, **arguments: Any) -> AgentResult:
        """Runs the agent once, without a score."""
        task = await self._arguments(item)
        rollout_id = await self.client.rollouts.submit({**task, **arguments})
        state = await self.client.rollouts.wait(rollout_id)
        return await self._result(rollout_id, state.error)

    async def collect_trajectories(self, item: Item) -> ScoredGroup | None:
        """The scored group of an item; None if it is not training data. `counts` and the log have the reason."""
        return await self.collect(Work(new_id(), item))

    async def collect(self, work: Work) -> ScoredGroup | None:
        """The scored group of new work, or of work that a killed process began. In the second case the rollouts are the same."""
        group_id = work.group_id
        task = work.task or await self._begin(work)
        scores = Scores(self, work)
        try:
            await self.client.groups.submit(task)
            group = await scores.until_done()
        except BaseException as err:  # its hooks do not run any more
            await asyncio.shield(self._abandon(group_id, err))
            raise
        kept = []
        for member in group.members:
            if member.reward is None:
                log.error("group %s: rollout %s ended as %s: %s", group_id, member.rollout_id, member.outcome, member.error)
                continue
            result = await self._result(member.rollout_id, member.error)
            score = member.reward if result.success and member.outcome == "completed" else self.config.failed_score
            if result.sequence is None:
                log.error("group %s: rollout %s: the endpoint gave no token ids to train on", group_id, member.rollout_id)
            elif score is not None:
                kept.append(_Trajectory(result.sequence, score, result, task["instruction"], work.metadata.get(member.rollout_id, {})))
        return self._group(group_id, kept)

    async def _begin(self, work: Work) -> dict[str, Any]:
        """The arguments of the group's rollouts. They are saved before the rollouts start."""
        task, work.workspace = await self._prepared(work.item, await self._arguments(work.item))
        hold = max(self.config.score_hold_s or 0.0, self.config.worker_timeout + _SLACK_S)
        limits = {"verifier_s": hold, **task.get("limits", {})}
        work.task = {**task, "limits": limits, "verifier": {"external": True}, "group_size": self.config.group_size, "group_id": work.group_id}
        work.save()
        return work.task

    async def _prepared(self, item: Item, task: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """The task with the workspace that setup_trajectory_workspace prepares, and what the hook returned."""
        setup = getattr(self, "setup_trajectory_workspace", None)
        if setup is None:
            return task, None

        async def hook(trajectory_id: str, exec_tool: ExecTool) -> Any:
            return await self._hook(setup, item, trajectory_id=trajectory_id, exec_tool=exec_tool)

        return await prepared(self.client, task, hook, self.config.worker_timeout + _SLACK_S)

    async def _abandon(self, group_id: str, why: BaseException) -> None:
        try:
            await self.client.groups.abort(group_id, f"{type(why).__name__}: {why}"[:500])
        except RolloutdError as err:
            log.warning("group %s is not aborted; it ends by its own bounds: %s", group_id, err)

    def _group(self, group_id: str, kept: list[_Trajectory]) -> ScoredGroup | None:
        c = self.config
        if len(kept) != c.group_size:
            self.counts.incomplete += 1
            log.warning("group %s is left out: %d of %d trajectories have a score and tokens to train on", group_id, len(kept), c.group_size)
            return None
        if c.ensure_scores_are_not_same and len({t.score for t in kept}) == 1:
            self.counts.same_scores += 1
            return None
        longest = max(len(t.sequence.token_ids) for t in kept)
        if 0 < c.max_token_length <= longest:
            self.counts.too_long += 1
            log.warning("group %s is left out: %d tokens, max_token_length is %d", group_id, longest, c.max_token_length)
            return None
        temperatures = [span.temperature for t in kept for span in t.sequence.spans if span.train and span.temperature is not None]
        return ScoredGroup(
            tokens=[t.sequence.token_ids for t in kept],
            masks=[masks_of(t.sequence) for t in kept],
            scores=[t.score for t in kept],
            inference_logprobs=[logprobs_of(t.sequence) for t in kept],
            messages=[_messages(t) for t in kept] if c.include_messages else None,
            generation_params={"temperature": temperatures[0] if temperatures else c.agent_temperature},
            overrides=[{**t.metadata, "rollout_id": t.result.rollout_id} for t in kept],
            group_overrides={"rolloutd_key": group_id},
        )

    async def _arguments(self, item: Item) -> dict[str, Any]:
        agent = self.build_agent_config(item)
        react = {
            "max_steps": agent.max_steps,
            "temperature": agent.temperature,
            "max_tokens": agent.max_tokens or 0,
            "tool_delay_s": agent.tool_delay_s,
            "system_prompt": agent.system_prompt or "",
            "enabled_toolsets": self.config.enabled_toolsets or ["default"],
            "disabled_toolsets": self.config.disabled_toolsets,
        }
        return {
            "instruction": str(await self._hook(self.build_task, item)),
            "agent": "react",
            "react": {name: value for name, value in react.items() if value is not None},
            **self._endpoint(),
            **self.build_rollout(item),
        }

    def _endpoint(self) -> dict[str, Any]:
        """The model endpoint of the next group; groups take the configured endpoints in turn."""
        if self.config.rolloutd_endpoint:
            return {"endpoint": self.config.rolloutd_endpoint}
        if not self.server_configs:
            raise InvalidError("model endpoint: set server configs with base_url and model_name, or rolloutd_endpoint")
        server = self.server_configs[self._next_server % len(self.server_configs)]
        self._next_server += 1
        endpoint = "openai" if server.server_type == "openai" and not server.base_url else "vllm"
        given = {"endpoint": endpoint, "base_url": server.base_url, "api_key": server.api_key, "model": server.model_name}
        return {name: value for name, value in given.items() if value}

    async def _result(self, rollout_id: str, error: str) -> AgentResult:
        transcript = await self.client.rollouts.messages(rollout_id)
        sequences = [s for s in await self.client.rollouts.trajectory(rollout_id) if s.trained]
        best = max(sequences, key=lambda s: s.trained, default=None)
        return AgentResult.of(rollout_id, error, transcript, best)

    async def score(self, item: Item, rollout_id: str, workspace: Any = None) -> tuple[float, dict[str, Any]]:
        """The score and the metadata of a rollout that awaits its score. Its tools can be called until then."""
        result = AgentResult.of(rollout_id, "", await self.client.rollouts.messages(rollout_id), None)
        if not result.success:
            return self.config.failed_score or 0.0, {}

        hook = self.verify_and_score_trajectory
        more = {"workspace_meta": workspace} if "workspace_meta" in inspect.signature(hook).parameters else {}
        scored = await self._hook(
            hook, item, result.final_response, trajectory_id=rollout_id, exec_tool=tools_of(self.client, rollout_id), agent_result=result, **more
        )
        value, metadata = scored if isinstance(scored, tuple) else (scored, {})
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise InvalidError(f"the score must be a finite number, got {value!r}")
        return float(value), dict(metadata or {})

    async def _hook(self, hook: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a hook, with its time limit."""

        async def call() -> Any:
            if inspect.iscoroutinefunction(hook):
                return await hook(*args, **kwargs)
            value = await asyncio.to_thread(hook, *args, **kwargs)
            return await value if inspect.isawaitable(value) else value

        try:
            return await asyncio.wait_for(call(), self.config.worker_timeout)
        except asyncio.TimeoutError as err:
            raise RolloutdError(f"{hook.__name__} took longer than worker_timeout ({self.config.worker_timeout:g} s)") from err

    @classmethod
    def cli(cls, arguments: list[str] | None = None) -> None:
        """Runs `serve`, `process` or `evaluate`, as the command line says."""
        from .cli import main

        main(cls, arguments)


def _messages(t: _Trajectory) -> list[dict[str, str]]:
    messages = [{"role": "user", "content": t.task}]
    for step in t.result.steps:
        messages.append({"role": "assistant", "content": step.assistant_message})
        if step.tool_results:
            messages.append({"role": "user", "content": "\n".join(r.output or r.error for r in step.tool_results)})
    return [*messages, *t.metadata.get("verification_messages", ())]
