"""A manager of verl 0.9.1 (trainer V1) that runs each prompt as a group of rolloutd, which replaces members that fail for infrastructure.

    actor_rollout_ref.rollout.agent.agent_loop_manager_class=rolloutd.verl_groups.RolloutdManager
    # and the agent loop of rolloutd.verl, with its file
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import hydra
import ray
import transfer_queue as tq
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap, _agent_loop_registry
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ, apply_greedy_sampling_params

from .trainers import Health
from .verl import RolloutdAgentLoop

log = logging.getLogger("rolloutd.verl")

# What the trainer says of a row besides its fields.
_OF_THE_TRAINER = ("agent_name", "__rollout_n__", "__do_sample__")


class RolloutdWorker(AgentLoopWorkerTQ.__ray_metadata__.modified_class):
    """Runs the prompts whose agent loop is a RolloutdAgentLoop as groups, and all others as the trainer's own worker."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ended: dict[int, Health] = {}  # by the trainer's step

    async def ended(self) -> dict[int, Health]:
        """The health of the groups that have ended since the last call, by the trainer's step."""
        ended, self._ended = self._ended, {}
        return ended

    async def _run_prompt(self, prompt: dict[str, Any], sampling_params: dict[str, Any], trajectory: dict[str, Any], trace: bool = False) -> None:
        uid, partition = prompt["uid"], "val" if trajectory["validate"] else "train"
        await tq.async_kv_put(key=uid, partition_id=partition, tag={"status": "running"})
        try:
            loop = self._agent_loop(prompt["agent_name"])
            if not isinstance(loop, RolloutdAgentLoop):
                await super()._run_prompt(prompt, sampling_params, trajectory, trace)
                return
            trained = await self._run_group(loop, prompt, sampling_params, trajectory["validate"])
        except Exception:
            log.exception("group %s", uid)
            trained = 0
        # Without an end the trainer would wait for the group for ever. A failed one it may refill.
        await tq.async_kv_put(key=uid, partition_id=partition, tag={"status": "finished" if trained else "failure"})

    async def _run_group(self, loop: RolloutdAgentLoop, prompt: Mapping[str, Any], sampling_params: Mapping[str, Any], validate: bool) -> int:
        """Puts the outputs of a group into the queue. Returns the number of members that have any."""
        config, params = self.config.actor_rollout_ref.rollout, dict(sampling_params)
        if not validate and not prompt.get("__do_sample__", True):
            apply_greedy_sampling_params(params)
        size = prompt.get("__rollout_n__", config.val_kwargs.n if validate else config.n)
        row = {name: value for name, value in prompt.items() if name not in _OF_THE_TRAINER}

        group = await loop.run_group(params, size, row, "eval" if validate else "train")
        if not validate:
            step = int(row["global_steps"])
            self._ended[step] = self._ended.get(step, Health()) + group.health
        for session_id, outputs in enumerate(group.members):
            if outputs:
                await self._agent_loop_postprocess(outputs, validate, session_id=session_id, **row)
        return sum(map(bool, group.members))

    def _agent_loop(self, name: str) -> Any:
        return hydra.utils.instantiate(
            config=_agent_loop_registry[name],
            trainer_config=DictConfigWrap(config=self.config),
            server_manager=self.llm_client,
            tokenizer=self.tokenizer,
            processor=self.processor,
            hf_model_type=self.hf_model_type,
            dataset_cls=self.dataset_cls,
            data_config=DictConfigWrap(self.config.data),
            tools=ToolListWrap(self.tools),
        )


class RolloutdManager(AgentLoopManagerTQ):
    """The trainer's manager with workers that run groups. When a batch begins, it logs the health of the groups that have ended since the one before."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(RolloutdWorker)

    def generate_sequences(self, prompts: Any) -> None:
        for step, health in sorted(self.ended().items()):
            self.log_health(step, health)
        super().generate_sequences(prompts)

    def ended(self) -> dict[int, Health]:
        """The health of the groups that have ended since the last call, by the trainer's step; without evaluations."""
        found: dict[int, Health] = {}
        for part in ray.get([worker.ended.remote() for worker in self.agent_loop_workers]):
            for step, health in part.items():
                found[step] = found.get(step, Health()) + health
        return found

    def log_health(self, step: int, health: Health) -> None:
        """A line of JSON in the log. Override it for another place, such as wandb.log(health.line(), step=step)."""
        log.warning("%s", json.dumps({"step": step, **health.line()}))
