"""An environment of verifiers 0.4.0 whose rollouts run in rolloutd. verifiers and prime-rl find it by the name `rolloutd-verifiers`.

    # eval.toml, for `vf-eval @ eval.toml`
    [env.taskset]
    id = "rolloutd-verifiers"
    path = "tasks.jsonl"

    [env]
    server = "http://127.0.0.1:8000"
    rollout = {endpoint = "vllm", agent = "react"}
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.configs.agent import resolve_agent
from verifiers.v1.configs.client import resolve_api_key

from .aio import AsyncClient
from .errors import InvalidError, RolloutdError
from .trainers.running import arguments_of, pinned, run_rollout
from .trainers.verifiers import trace as fields_of
from .trl.rollouts import instruction_of


class RolloutdEnvConfig(vf.EnvConfig):
    """`server` is the URL of the server and `token` its token; `rollout` has arguments of each rollout.

    Of the agent, its model, client, sampling and `timeout.rollout` count; rolloutd has the program and the sandbox.
    """

    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    server: str | None = None
    token: str | None = None
    rollout: dict[str, Any] = {}


class RolloutdEnv(vf.Env[RolloutdEnvConfig]):
    """Runs each episode as a rollout, whose sequences are the branches of its one trace.

    The arguments of the rollout are `rollout`, then the task's `rolloutd`; the instruction is the task's prompt, or its last user message. Without
    `endpoint`, `base_url` or `model_key` the rollout calls the model of the run, at the run's address and with its key. A rollout without a
    reward is a trace with an error, and so is one that rolloutd refuses; the reward is rolloutd's, and the taskset's own rewards are not run. If
    the episode is cancelled, so is the rollout.
    """

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        raise NotImplementedError("rolloutd runs the agent: run_episode")

    async def run_episode(
        self,
        task: vf.Task,
        ctx: vf.ModelContext,
        *,
        on_trace: Callable[[vf.Trace], None] | None = None,
        on_discard: Callable[[vf.Trace], None] | None = None,
    ) -> vf.Episode:
        agent = resolve_agent(self.config.agent, model=ctx.model, client=ctx.client, sampling=ctx.sampling, harness=self._default_harness)
        stamp = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        trace = vf.Trace(task=stamp, agent=vf.AgentInfo(config=agent))
        if on_trace is not None:
            on_trace(trace)

        try:
            await asyncio.wait_for(self._fill(trace, task, agent), agent.timeout.rollout)
        except RolloutdError as err:
            trace.record_error(err)
        except asyncio.TimeoutError:
            trace.record_error(TimeoutError(f"the rollout was aborted after {agent.timeout.rollout:g} s (timeout.rollout)"))
            trace.record_timeout("agent")

        trace.notify()
        return vf.Episode(env=vf.EnvInfo(id=self.config.env_id), task=stamp, traces=[trace], ok=trace.ok)

    async def _fill(self, trace: vf.Trace, task: vf.Task, agent: vf.AgentConfig) -> None:
        """Runs the rollout and gives the trace what came of it."""
        async with AsyncClient(self.config.server, token=self.config.token) as client:
            record = await run_rollout(client, self._arguments(task, agent))

        fields = fields_of(record, needs_tokens=agent.client.type == "train")
        made = vf.Trace.model_validate({**fields, "task": trace.task, "agent": trace.agent})
        for name in fields:
            if name != "id":  # that which watchers of the trace know
                setattr(trace, name, getattr(made, name))

    def _arguments(self, task: vf.Task, agent: vf.AgentConfig) -> dict[str, Any]:
        arguments = arguments_of(self.config.rollout, getattr(task.data, "rolloutd", None))
        if "instruction" not in arguments:
            arguments["instruction"] = _instruction(task.data)
        if task.data.id:
            arguments.setdefault("task_id", task.data.id)
        sampling = agent.sampling.model_dump(exclude_none=True)
        if sampling.get("temperature") == 0:  # nothing that is sampled greedily is trained on
            arguments.setdefault("purpose", "eval")
        elif agent.client.type == "train":
            arguments.setdefault("purpose", "train")
        if not arguments.keys() & {"endpoint", "base_url", "model_key"}:
            arguments |= {"base_url": agent.client.base_url, "model": agent.model, "api_key": resolve_api_key(agent.client)}

        if sampling.get("max_tokens") is not None:
            arguments.setdefault("max_tokens_cap", sampling["max_tokens"])
        return pinned(arguments, sampling)


class RolloutdTaskData(vf.TaskData):
    """A row. `rolloutd` has further arguments of its rollout."""

    rolloutd: dict[str, Any] = {}


class RolloutdTasksetConfig(vf.TasksetConfig):
    """`path` is a file of JSON lines: each has the arguments of a rollout, with an `instruction`, and may have an `id`."""

    path: Path | None = None


class RolloutdTask(vf.Task[RolloutdTaskData, vf.State, vf.TaskConfig]):
    """A task that rolloutd grades."""


class RolloutdTaskset(vf.Taskset[RolloutdTask, RolloutdTasksetConfig]):
    """The tasks of a file."""

    def load(self) -> Iterator[RolloutdTask]:
        if self.config.path is None:
            raise InvalidError("env.taskset.path: must name a file of JSON lines with the arguments of a rollout each")
        # In bytes a line ends only where it ends for JSON: a text may have other characters that break lines.
        for number, line in enumerate(self.config.path.read_bytes().splitlines(), 1):
            if line.strip():
                yield RolloutdTask(_task_data(line, f"{self.config.path}, line {number}"), self.config.task)


def _task_data(line: bytes, place: str) -> RolloutdTaskData:
    try:
        row = json.loads(line)
    except ValueError as err:
        raise InvalidError(f"{place}: not JSON: {err}") from err
    if not isinstance(row, dict) or not isinstance(row.get("instruction"), str):
        raise InvalidError(f"{place}: must be an object with an instruction")
    id, instruction = row.pop("id", None), row.pop("instruction")
    return RolloutdTaskData(id=None if id is None else str(id), prompt=instruction, rolloutd=row)


def _instruction(data: vf.TaskData) -> str:
    if data.prompt is None or isinstance(data.prompt, str):
        return instruction_of(data.prompt or "")
    return instruction_of([message.model_dump() for message in data.prompt])
