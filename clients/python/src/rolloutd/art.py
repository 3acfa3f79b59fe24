"""Groups of ART 0.5 whose rollouts run in rolloutd.

    group = await trajectory_group({"agent": "react", "instruction": "Fix the bug.", "verify": ["pytest -q"]}, 8, model=model)
    await backend.train(model, [group])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import art
from art.trajectories import LegacyHistory
from openai.types.chat.chat_completion import Choice

from .aio import AsyncClient
from .errors import UnscoredError
from .trainers import Limits, Losses, Record, batch_health, fit, untrained
from .trainers.art import trajectory as fields_of
from .trainers.running import run_group, unscaled


async def trajectory_group(
    task: Mapping[str, Any],
    size: int,
    *,
    model: Any = None,
    server: str | None = None,
    token: str | None = None,
    limits: Limits | None = None,
) -> art.TrajectoryGroup:
    """Runs a task `size` times, as a group of rolloutd, which replaces members that fail for infrastructure.

    `task` has the arguments of the rollouts. Without `endpoint`, `base_url` or `model_key` they call `model`, a registered `art.TrainableModel`. The
    temperature is 1 unless the arguments have another. Members without training data are exceptions of the group and in no mean; `metrics` of the group
    has the health of its rollouts.
    """
    arguments = {"purpose": "train", **task}
    if model is not None and not arguments.keys() & {"endpoint", "base_url", "model_key"}:
        arguments |= {"base_url": model.inference_base_url, "model": model.get_inference_name(), "api_key": model.inference_api_key}
    async with AsyncClient(server, token=token) as client:
        run = await run_group(client, unscaled(arguments), size)

    fitted = [fit(record, limits or Limits()) for record in run.records]
    records = [record for record, _ in fitted]
    health = batch_health(records, replaced=run.replaced, losses=sum((lost for _, lost in fitted), Losses()))
    return art.TrajectoryGroup(
        [made for made in map(trajectory, records) if made is not None],
        exceptions=[UnscoredError(why) for why in map(untrained, records) if why],
        metrics=health.line(),
    )


def trajectory(record: Record) -> art.Trajectory | None:
    """The trajectory of a record; None without training data."""
    if (fields := fields_of(record)) is None:
        return None
    first, *further = [[Choice.model_validate(choice) for choice in choices] for choices in fields.pop("histories")]
    return art.Trajectory(messages_and_choices=first, additional_histories=[LegacyHistory(messages_and_choices=choices) for choices in further], **fields)
