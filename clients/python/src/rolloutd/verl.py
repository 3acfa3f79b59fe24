"""An agent loop of verl 0.9.1 whose rollouts run in rolloutd.

    # agent_loops.yaml, named by actor_rollout_ref.rollout.agent.agent_loop_config_path
    - name: rolloutd
      _target_: rolloutd.verl.RolloutdAgentLoop
      server: http://127.0.0.1:8000
      task: {endpoint: vllm, agent: react}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register

from .aio import AsyncClient
from .errors import UnscoredError
from .trainers import Limits, Losses, fit, longest, untrained
from .trainers.running import pinned, run_rollout
from .trainers.verl import outputs
from .trl.rollouts import instruction_of

log = logging.getLogger("rolloutd.verl")


@register("rolloutd")
class RolloutdAgentLoop(AgentLoopBase):
    """Runs each sample as a rollout.

    The arguments of the rollout are `task`, then those in the row's `extra_info["rolloutd"]`; the instruction is the last user message of the row.
    With trainer V1 a rollout may have several outputs, or none if it has no reward, and the group trains without it. The older trainer takes one
    output of each sample: the longest, and UnscoredError without one.
    """

    def __init__(self, *args: Any, server: str | None = None, token: str | None = None, task: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Hydra hands the maps and lists of the file over as its own types, which are no JSON.
        self._server, self._token, self._task = server, token, OmegaConf.to_container(OmegaConf.create(dict(task or {})), resolve=True)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput | list[AgentLoopOutput]:
        async with AsyncClient(self._server, token=self._token) as client:
            record = await run_rollout(client, self._arguments(sampling_params, kwargs))

        config = self.rollout_config
        record, losses = fit(record, Limits(prompt=config.prompt_length, response=config.response_length))
        if losses != Losses():
            log.warning("rollout %s: %s exceed the lengths of the trainer", record.rollout_id, losses)

        several = "session_id" in kwargs  # trainer V1
        if not several and (best := longest(record.sequences)) is not None:
            record = type(record)(record.rollout_id, record.group, record.task_id, record.outcome, record.reward, (best,))

        made = [AgentLoopOutput(**_with_steps(output, kwargs)) for output in outputs(record)]
        if several:
            if not made:
                log.warning("left out: %s", untrained(record))
            return made
        if not made:
            raise UnscoredError(untrained(record))
        return made[0]

    def _arguments(self, sampling_params: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
        own = (row.get("extra_info") or {}).get("rolloutd") or {}
        arguments = {"instruction": instruction_of(row["raw_prompt"]), "purpose": "train", **self._task, **own}
        if row.get("uid") is not None:
            arguments.setdefault("group_id", str(row["uid"]))
        return pinned(arguments, sampling_params)


def _with_steps(output: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    """The output with the steps that the trainer needs as numbers: where the endpoint names no version, that of the row."""
    step = int(row.get("global_steps") or 0)
    return {**output, "extra_fields": {"min_global_steps": step, "max_global_steps": step, **output["extra_fields"]}}
