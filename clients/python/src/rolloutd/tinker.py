"""Groups of the Tinker cookbook 0.6.1 whose rollouts run in rolloutd.

    config = train.Config(..., rollout_error_tolerance=RolloutdStrategy("http://127.0.0.1:8000"))
    # and a dataset whose get_batch returns
    [RolloutdGroup({"instruction": "Fix the bug.", "endpoint": "tinker", "verify": ["pytest -q"]}, size=8), ...]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tinker
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.exceptions import AllTrajectoriesFailedError
from tinker_cookbook.rl.rollout_strategy import RolloutResult, RolloutStrategy
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Metrics, RolloutError, Trajectory, Transition

from .aio import AsyncClient
from .errors import InvalidError
from .trainers import Health, Limits, Losses, Record, batch_health, fit, trained, untrained
from .trainers.running import pinned, run_group
from .trainers.tinker import transitions


@dataclass(frozen=True)
class RolloutdGroup(EnvGroupBuilder):
    """One task of a dataset, run `size` times. `task` has the arguments of its rollouts; `tags` name it in the trainer's log."""

    task: Mapping[str, Any]
    size: int
    tags: tuple[str, ...] = ()

    async def make_envs(self) -> Sequence[Env]:
        raise InvalidError("rollout_error_tolerance: a RolloutdGroup needs a RolloutdStrategy, which runs its rollouts")

    async def compute_group_rewards(self, trajectory_group: list[Trajectory], env_group: Sequence[Env]) -> list[tuple[float, Metrics]]:
        return [(env.reward, env.metrics) for env in env_group if isinstance(env, GradedRollout)]

    def logging_tags(self) -> list[str]:
        return list(self.tags)


@dataclass(frozen=True)
class GradedRollout(Env):
    """A rollout that has ended, with its reward."""

    reward: float
    metrics: Metrics = field(default_factory=dict)

    async def initial_observation(self) -> Any:
        raise NotImplementedError("the rollout has ended")

    async def step(self, action: Any, *, extra: Any = None) -> Any:
        raise NotImplementedError("the rollout has ended")


@dataclass(frozen=True)
class RolloutdStrategy(RolloutStrategy):
    """Runs each RolloutdGroup as a group of rolloutd, which replaces members that fail for infrastructure.

    `task` has arguments that all groups share; those of the group override them. The model is called at the endpoint of the arguments, and not through
    the trainer's sampling client. Members without a reward are left out, as errors of the group. A group without any is skipped, and so is one that
    rolloutd refuses or whose server is away: the trainer's log says why. `on_group` gets the health of each group that has ended.
    """

    server: str | None = None
    task: Mapping[str, Any] = field(default_factory=dict)
    token: str | None = field(default=None, repr=False)
    limits: Limits = field(default_factory=Limits)
    on_group: Callable[[Health], object] | None = None

    @property
    def catches_group_errors(self) -> bool:
        return True

    async def execute(self, env_group_builder: EnvGroupBuilder, policy: TokenCompleter) -> RolloutResult:
        if not isinstance(env_group_builder, RolloutdGroup):
            raise InvalidError(f"dataset: must have groups of RolloutdGroup, got {type(env_group_builder).__name__}")
        # Log probabilities are those at the trainer's temperature.
        sampling = {"temperature": getattr(policy, "temperature", 1.0)}
        arguments = pinned({"purpose": "train", **self.task, **env_group_builder.task}, sampling)
        async with AsyncClient(self.server, token=self.token) as client:
            run = await run_group(client, arguments, env_group_builder.size)

        fitted = [fit(record, self.limits) for record in run.records]
        if self.on_group is not None:
            losses = sum((lost for _, lost in fitted), Losses())
            self.on_group(batch_health([record for record, _ in fitted], replaced=run.replaced, losses=losses))
        kept = [(record, losses) for record, losses in fitted if trained(record)]
        errors = [RolloutError(record.outcome or "unknown", untrained(record)) for record, _ in fitted if not trained(record)]
        if not kept:
            raise AllTrajectoriesFailedError("; ".join(error.error_message for error in errors))
        return RolloutResult(
            trajectories=[trajectory(record) for record, _ in kept],
            envs=[_graded(record, losses) for record, losses in kept],
            errors=errors,
        )


def trajectory(record: Record) -> Trajectory:
    """A transition for each reply that is trained on. The cookbook joins those whose observation continues the one before."""
    made = [
        Transition(
            ob=tinker.ModelInput.from_ints(row["ob"]),
            ac=TokensWithLogprobs(row["tokens"], row["logprobs"], "length" if row["stop_reason"] == "length" else "stop"),
            reward=row["reward"],
            episode_done=row["episode_done"],
        )
        for row in transitions(record)
    ]
    return Trajectory(made, tinker.ModelInput.empty())


def _graded(record: Record, losses: Losses) -> GradedRollout:
    assert record.reward is not None  # of a record to train on
    metrics = {
        "rolloutd/sequences": len(record.sequences),
        "rolloutd/cut_sequences": losses.cut,
        "rolloutd/dropped_sequences": losses.dropped,
        f"rolloutd/outcome/{record.outcome}": 1,
    }
    return GradedRollout(record.reward, metrics)
