"""A workflow of AReaL 1.0.4 whose rollouts run in rolloutd: give it to `PPOTrainer.train(workflow=…)` or `engine.submit`.

    RolloutdWorkflow("http://127.0.0.1:8000", {"endpoint": "vllm", "agent": "react", "verify": ["pytest -q"]})
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from areal import workflow_context
from areal.api.workflow_api import RolloutWorkflow
from areal.utils import stats_tracker

from .aio import AsyncClient
from .errors import RolloutdError
from .trainers import Limits, Losses, fit, longest, trained, untrained
from .trainers.areal import Row, rows
from .trainers.running import arguments_of, run_rollout, unscaled
from .trl.rollouts import instruction_of

log = logging.getLogger("rolloutd.areal")

_TYPES = {
    "input_ids": torch.int32,
    "loss_mask": torch.int32,
    "logprobs": torch.float32,
    "versions": torch.int32,
    "attention_mask": torch.bool,
    "rewards": torch.float32,
}


class RolloutdWorkflow(RolloutWorkflow):
    """Runs each episode as a rollout. Its row is the longest sequence: AReaL's norms of level `group` take `group_size` rows, one after another, as a group, so
    that two of one rollout would shift all groups after it. With `all_sequences`, for norms of level `batch`, each sequence is a row, padded to the longest
    and with the reward of the rollout.

    The arguments of the rollout are `task`, then those in the row's `rolloutd`; the instruction is the last user message of the row's `messages`, or its
    `prompt`. None, which AReaL takes as a rejected episode, without a reward and where rolloutd refuses the rollout or no server answers; the log says
    why. The temperature of training is 1 unless the arguments have another. Replies whose endpoint names no version have that of the engine when the episode
    began. An evaluation gives its reward to the trainer's metrics, and nothing else.
    """

    def __init__(
        self,
        server: str | None = None,
        task: Mapping[str, Any] | None = None,
        *,
        token: str | None = None,
        limits: Limits | None = None,
        all_sequences: bool = False,
    ) -> None:
        self._server, self._token, self._task, self._limits = server, token, dict(task or {}), limits or Limits()
        self._all_sequences = all_sequences

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, Any] | None:
        version = engine.get_version() if engine is not None else -1
        try:
            arguments = self._arguments(data)
            async with AsyncClient(self._server, token=self._token) as client:
                record = await run_rollout(client, arguments)
        except RolloutdError as err:
            log.warning("rejected: %s", err)
            return None

        if record.reward is not None:
            stats_tracker.get(workflow_context.stat_scope()).scalar(reward=record.reward)
            if arguments["purpose"] == "eval":
                return None

        record, losses = fit(record, self._limits)
        if losses != Losses():
            log.warning("rollout %s: %s exceed the lengths of the trainer", record.rollout_id, losses)
        if not self._all_sequences and (best := longest(trained(record))) is not None:
            record = replace(record, sequences=(best,))
        made = rows(record, unknown_version=version)
        if made is None:
            log.warning("rejected: %s", untrained(record))
            return None
        return tensors(made)

    def _arguments(self, data: Mapping[str, Any]) -> dict[str, Any]:
        purpose = "eval" if workflow_context.get().is_eval else "train"
        arguments = arguments_of({"purpose": purpose, **self._task}, data.get("rolloutd"))
        if "instruction" not in arguments:
            arguments["instruction"] = instruction_of(data.get("messages") or data.get("prompt") or "")
        return unscaled(arguments)


def tensors(made: list[Row]) -> dict[str, Any]:
    """The rows as tensors of rows by tokens, and `rewards` of rows. Padding is 0, and -1 in `versions`."""
    length = max(len(row["input_ids"]) for row in made)
    out: dict[str, Any] = {}
    for name, dtype in _TYPES.items():
        values = [row[name] for row in made]  # type: ignore[literal-required]
        if name != "rewards":
            filler = -1 if name == "versions" else 0
            values = [[*value, *[filler] * (length - len(value))] for value in values]
        out[name] = torch.tensor(values, dtype=dtype)
    return out
