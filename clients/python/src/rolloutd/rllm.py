"""An agent flow of rLLM whose rollouts run in rolloutd, and the evaluator that goes with it.

    flow = RolloutdFlow({"agent": "react", "verify": ["pytest -q"]})
    AgentTrainer(backend="verl", agent_flow=flow, evaluator=RolloutdEvaluator(), config=config, train_dataset=dataset).train()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rllm.engine.rollout import ModelOutput
from rllm.eval.types import EvalOutput, Signal
from rllm.types import AgentConfig, Episode, Step, Task, Trajectory

from .aio import AsyncClient
from .errors import UnscoredError
from .trainers import Record, named_rewards
from .trainers.rllm import steps
from .trainers.running import arguments_of, pinned, run_rollout
from .trl.rollouts import instruction_of


class RolloutdFlow:
    """Runs each task as a rollout.

    The arguments of the rollout are `task`, then those in the row's `rolloutd`; the instruction is the task's, of messages the last of the user.
    Without `endpoint`, `base_url` or `model_key` the rollout calls the trainer's model gateway, which the server of rolloutd must reach. The gateway records
    the tokens, and hides them from rolloutd, for which the rollout is one of purpose eval. With one of the three, the steps have the tokens that rolloutd
    recorded. UnscoredError without a reward: then rLLM runs the task again.
    """

    name = "rolloutd"
    # Not this process but the server of rolloutd calls the model: it gets the address of the gateway's tunnel, if there is one.
    llm_inside_env = True

    def __init__(self, task: Mapping[str, Any] | None = None, *, server: str | None = None, token: str | None = None) -> None:
        self._task, self._server, self._token = dict(task or {}), server, token

    async def arun(self, task: Task, config: AgentConfig) -> Episode:
        arguments = arguments_of({"instruction": instruction_of(task.instruction), **self._task}, task.metadata.get("rolloutd"))
        own = bool(arguments.keys() & {"endpoint", "base_url", "model_key"})
        arguments.setdefault("purpose", "train" if own and not config.is_validation else "eval")
        if not own:
            # The gateway takes each call as a step: no probes of a template may be among them.
            arguments |= {"base_url": config.base_url, "model": config.model, "api_key": "EMPTY", "continuation": "messages"}
            if arguments.get("agent") == "react":
                arguments["react"] = {"continuation": "messages", **arguments.get("react", {})}
        async with AsyncClient(self._server, token=self._token) as client:
            record = await run_rollout(client, pinned(arguments, config.sampling_params))

        if record.reward is None:
            raise UnscoredError(f"rollout {record.rollout_id} has no reward: it ended as {record.outcome or 'unknown'}")
        made = trajectory(record) if own else Trajectory(name=self.name, reward=record.reward)
        return Episode(trajectories=[made], artifacts=_artifacts(record))


class RolloutdEvaluator:
    """Hands the reward of the rollout on, and its named rewards as signals."""

    def evaluate(self, task: Any, episode: Episode) -> EvalOutput:
        reward = episode.artifacts["reward"]
        signals = [Signal(name=name, value=value) for name, value in episode.artifacts["rewards"].items()]
        return EvalOutput(reward=reward, is_correct=reward >= 1, signals=signals)


def trajectory(record: Record) -> Trajectory:
    """The trajectory of a record, without steps if there is no training data."""
    made = [Step(**{**step, "model_output": ModelOutput(**step["model_output"])}) for step in steps(record)]
    return Trajectory(name=RolloutdFlow.name, steps=made, reward=record.reward)


def _artifacts(record: Record) -> dict[str, Any]:
    return {"rollout": record.rollout_id, "outcome": record.outcome, "reward": record.reward, "rewards": named_rewards(record)}
