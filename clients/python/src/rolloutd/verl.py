"""An agent loop of verl 0.9.1 whose rollouts run in rolloutd.

    # agent_loops.yaml, named by actor_rollout_ref.rollout.agent.agent_loop_config_path
    - name: rolloutd
      _target_: rolloutd.verl.RolloutdAgentLoop
      server: http://127.0.0.1:8000
      task: {agent: react, verify: ["pytest -q"]}
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, _agent_loop_registry

from .aio import AsyncClient
from .engine import Call, Engine, Reply
from .errors import UnscoredError
from .trainers import Health, Limits, Losses, Record, batch_health, fit, longest, trained, untrained
from .trainers.experts import Shape, routed
from .trainers.images import pictured
from .trainers.running import arguments_of, pinned, run_group, run_rollout
from .trainers.verl import evaluated, outputs, version_of
from .trl.rollouts import instruction_of

log = logging.getLogger("rolloutd.verl")

# The endpoint over each of the trainer's clients: a worker has one client, and makes an agent loop for each sample.
_engines: WeakKeyDictionary[Any, Engine] = WeakKeyDictionary()


@dataclass(frozen=True)
class GroupOutputs:
    """The outputs of each member of a group, none of a member without training data, and what became of its rollouts."""

    members: list[list[AgentLoopOutput]]
    health: Health


class RolloutdAgentLoop(AgentLoopBase):
    """Runs each sample as a rollout.

    The arguments of the rollout are `task`, then those in the row's `extra_info["rolloutd"]`; the instruction is the last user message of the row.
    Without `endpoint`, `base_url` or `model_key` the rollout calls the trainer's own engines through its client, which listens on `engine_host` for it: the
    server of rolloutd must reach that. With trainer V1 a rollout may have several outputs, or none if it has no reward, and the group trains without it. The
    older trainer takes one output of each sample: the longest, and UnscoredError without one. A greedy sample is evaluated: the trainer does not say of a
    sample whether it validates, and samples validation greedily unless it is set otherwise. One that is evaluated has one output, of which nothing is trained
    on.
    """

    def __init__(
        self,
        *args: Any,
        server: str | None = None,
        token: str | None = None,
        task: Mapping[str, Any] | None = None,
        engine_host: str = "127.0.0.1",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._engine_host = engine_host
        # Hydra hands the maps and lists of the file over as its own types, which are no JSON.
        self._server, self._token, self._task = server, token, OmegaConf.to_container(OmegaConf.create(dict(task or {})), resolve=True)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput | list[AgentLoopOutput]:
        arguments = self._arguments(sampling_params, kwargs, "train")
        evaluation = arguments["purpose"] == "eval"
        async with AsyncClient(self._server, token=self._token) as client:
            record = await run_rollout(client, arguments, images=self._sees() and not evaluation)

        several = "session_id" in kwargs  # trainer V1
        if not evaluation:
            record, _ = self._fitted(record)
        if not several and (best := longest(trained(record))) is not None:
            record = replace(record, sequences=(best,))

        made = self._outputs(record, kwargs, evaluation)
        if several:
            if not made:
                log.warning("left out: %s", untrained(record))
            return made
        if not made:
            raise UnscoredError(untrained(record))
        return made[0]

    async def run_group(self, sampling_params: Mapping[str, Any], size: int, row: Mapping[str, Any], purpose: str) -> GroupOutputs:
        """Runs a prompt as a group, whose id is the `uid` of the row. rolloutd replaces members that fail for infrastructure."""
        arguments = self._arguments(sampling_params, row, purpose)
        evaluation = arguments["purpose"] == "eval"
        async with AsyncClient(self._server, token=self._token) as client:
            run = await run_group(client, arguments, size, images=self._sees() and not evaluation)

        fitted = [(record, Losses()) if evaluation else self._fitted(record) for record in run.records]
        records = [record for record, _ in fitted]
        members = [self._outputs(record, row, evaluation) for record in records]
        for record, made in zip(records, members, strict=True):
            if not made:
                log.warning("left out: %s", untrained(record))
        losses = sum((lost for _, lost in fitted), Losses())
        health = batch_health(records, replaced=run.replaced, losses=losses, current_version=int(row.get("global_steps") or 0))
        return GroupOutputs(members, health)

    def _fitted(self, record: Record) -> tuple[Record, Losses]:
        """What the trainer can take of a record, and what its lengths and unreadable images cost."""
        record, losses = fit(record, self._limits())
        if losses != Losses():
            log.warning("rollout %s: %s exceed the lengths of the trainer", record.rollout_id, losses)
        if self._sees():
            record, lost, lacks = pictured(record)
            losses += lost
            for lack in lacks:
                log.warning("left out: %s", lack)
        if self._replays():
            record, lacks = routed(record)
            for lack in lacks:
                log.warning("left out: %s", lack)
        return record, losses

    def _limits(self) -> Limits:
        return Limits(prompt=self.rollout_config.prompt_length, response=self.rollout_config.response_length)

    def _outputs(self, record: Record, row: Mapping[str, Any], evaluation: bool) -> list[AgentLoopOutput]:
        made = evaluated(record, self._limits()) if evaluation else outputs(record, replay=Shape() if self._replays() else None)
        return [AgentLoopOutput(**_with_steps(output, row)) for output in made]

    def _arguments(self, sampling_params: Mapping[str, Any], row: Mapping[str, Any], purpose: str) -> dict[str, Any]:
        # of validation, or a baseline of ReMax: nothing that is sampled greedily is trained on
        purpose = "eval" if sampling_params.get("temperature") == 0 else purpose
        own = (row.get("extra_info") or {}).get("rolloutd")
        arguments = arguments_of({"instruction": instruction_of(row["raw_prompt"]), "purpose": purpose, **self._task}, own)
        if row.get("uid") is not None:
            arguments.setdefault("group_id", str(row["uid"]))
        if not arguments.keys() & {"endpoint", "base_url", "model_key"}:
            engine = self._engine()
            arguments |= {"base_url": engine.url, "model": engine.model}
        if self._replays() and arguments["purpose"] != "eval":
            arguments.setdefault("routed_experts", True)
        return pinned(arguments, sampling_params)

    def _sees(self) -> bool:
        """Whether the trainer gives images to the model."""
        return self.processor is not None

    def _replays(self) -> bool:
        return bool(self.rollout_config.get("enable_rollout_routing_replay"))

    def _engine(self) -> Engine:
        if (engine := _engines.get(self.server_manager)) is None:
            config = self.rollout_config
            length = config.get("max_model_len") or config.prompt_length + config.response_length
            engine = _engines[self.server_manager] = Engine(_generate(self.server_manager), self.tokenizer, max_length=length, host=self._engine_host)
        return engine


# verl imports this module when it makes the first agent loop, and has read the file with the arguments of all before: that entry stays.
_agent_loop_registry.setdefault("rolloutd", {"_target_": "rolloutd.verl.RolloutdAgentLoop"})


def _generate(server_manager: Any) -> Callable[[Call], Awaitable[Reply]]:
    """Samples a reply by the trainer's engines. The version of its weights is the trainer's step."""

    async def generate(call: Call) -> Reply:
        params = {"max_tokens": call.max_tokens, "temperature": call.temperature, "logprobs": True, **call.sampling}
        output = await server_manager.generate(uuid.uuid4().hex, prompt_ids=call.prompt_ids, sampling_params=params)
        if output.stop_reason in ("aborted", "abort"):  # of vLLM, of SGLang
            raise RuntimeError("the trainer aborted the call")
        reason = "length" if output.stop_reason == "length" or len(output.token_ids) >= call.max_tokens else "stop"
        return Reply(list(output.token_ids), output.log_probs or [], reason, version_of(output.extra_fields), output.routed_experts)

    return generate


def _with_steps(output: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    """The output with the steps that the trainer needs as numbers: where the endpoint names no version, that of the row."""
    step = int(row.get("global_steps") or 0)
    return {**output, "extra_fields": {"min_global_steps": step, "max_global_steps": step, **output["extra_fields"]}}
