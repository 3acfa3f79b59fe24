"""A generator of SkyRL 0.4.0 whose rollouts run in rolloutd: return it from `get_generator` of a subclass of the trainer's entry point."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from skyrl.train.generators.base import GeneratorInput, GeneratorInterface, GeneratorOutput

from .aio import AsyncClient
from .errors import RolloutdError
from .trainers import Limits, Losses, Record, batch_health, fit
from .trainers.experts import Shape, routed
from .trainers.running import GroupRun, arguments_of, pinned, run_group
from .trainers.skyrl import linear, stepwise
from .trl.rollouts import instruction_of

log = logging.getLogger("rolloutd.skyrl")


class RolloutdGenerator(GeneratorInterface):
    """Runs the trajectories of each instance as a group.

    The arguments of a rollout are `task`, then those in the prompt's `env_extras["rolloutd"]`; the instruction is the last user message.
    Without `endpoint`, `base_url` or `model_key` the rollout calls the inference servers of `engine`, which is the trainer's client. With
    `step_wise` (`generator.step_wise_trajectories`) each reply is a row, which loses nothing; otherwise a rollout is one row, its longest sequence.
    A rollout without a reward is masked, and has the mean reward of its group. A group that rolloutd refuses, or whose server is away, is masked as a
    whole; where this is all of a batch, the error is raised. With `replay` (`generator.inference_engine.enable_return_routed_experts`)
    the rows have routed experts, and a sequence without all of them is left out.
    """

    def __init__(
        self,
        server: str | None = None,
        task: Mapping[str, Any] | None = None,
        *,
        engine: Any = None,
        token: str | None = None,
        step_wise: bool = False,
        limits: Limits | None = None,
        replay: bool = False,
    ) -> None:
        self._server, self._token, self._task, self._engine = server, token, dict(task or {}), engine
        self._step_wise, self._limits, self._replay = step_wise, limits or Limits(), Shape() if replay else None

    async def generate(self, input_batch: GeneratorInput) -> GeneratorOutput:
        groups = _groups(input_batch)
        replay = self._replay if _purpose(input_batch) == "train" else None
        async with AsyncClient(self._server, token=self._token) as client:
            ended = await asyncio.gather(*(self._run(client, input_batch, members) for members in groups))
        runs = _with_refused(groups, ended)

        # Back in the order of the input.
        records: dict[int, Record] = {}
        losses = Losses()
        for members, group in zip(groups, runs, strict=True):
            for i, record in zip(members, group.records, strict=True):
                records[i], lost = fit(record, self._limits)
                losses += lost
                if replay is not None:
                    records[i], lacks = routed(records[i])
                    for lack in lacks:
                        log.warning("left out: %s", lack)

        rows = (stepwise if self._step_wise else linear)((records[i] for i in range(len(records))), replay=replay)
        output = rows.output(input_batch.get("trajectory_ids"), stepwise=self._step_wise)
        output["rollout_metrics"] = batch_health(records.values(), replaced=sum(group.replaced for group in runs), losses=losses).line()
        return GeneratorOutput(**output)

    async def _run(self, client: AsyncClient, batch: GeneratorInput, members: list[int]) -> GroupRun | RolloutdError:
        """The group of an instance, or why it did not run: an exception here would end the trainer's run."""
        try:
            return await run_group(client, self._arguments(batch, members[0]), len(members))
        except RolloutdError as err:
            log.warning("a group is masked: %s", err)
            return err

    def _arguments(self, batch: GeneratorInput, index: int) -> dict[str, Any]:
        extras = (batch.get("env_extras") or [])[index : index + 1]
        purpose = _purpose(batch)
        shared = {"instruction": instruction_of(batch["prompts"][index]), "purpose": purpose, **self._task}
        arguments = arguments_of(shared, extras[0].get("rolloutd") if extras else None)
        if self._engine is not None and not arguments.keys() & {"endpoint", "base_url", "model_key"}:
            arguments |= {"base_url": self._engine.get_endpoint_url() + "/v1", "model": self._engine.model_name}
        if self._replay is not None and purpose == "train":
            arguments.setdefault("routed_experts", True)
        return pinned(arguments, batch.get("sampling_params") or {})


def _purpose(batch: GeneratorInput) -> str:
    metadata = batch.get("batch_metadata")
    return "eval" if metadata is not None and metadata.training_phase == "eval" else "train"


def _with_refused(groups: list[list[int]], ended: list[GroupRun | RolloutdError]) -> list[GroupRun]:
    """The groups, where one that did not run has records without a reward. Raises the first error if none has run."""
    errors = [end for end in ended if isinstance(end, RolloutdError)]
    if errors and len(errors) == len(ended):
        raise errors[0]

    runs = []
    for members, end in zip(groups, ended, strict=True):
        if isinstance(end, RolloutdError):
            end = GroupRun([Record(f"of prompt {i}", f"of prompt {members[0]}", "", type(end).__name__, None, ()) for i in members], 0)
        runs.append(end)
    return runs


def _groups(batch: GeneratorInput) -> list[list[int]]:
    """The indices of the prompts of each instance; without trajectory ids each prompt is its own."""
    ids = batch.get("trajectory_ids")
    of: dict[Any, list[int]] = {}
    for i in range(len(batch["prompts"])):
        of.setdefault(ids[i].instance_id if ids else i, []).append(i)
    return list(of.values())
