"""SkyRL 0.4.0: the output of a generator (`skyrl.train.generators.base.GeneratorOutput`), linear and step by step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .experts import Shape, expert_rows
from .record import Record
from .rules import filled_rewards, longest, split, token_rewards, trained, turns


@dataclass
class Rows:
    """The lists of a GeneratorOutput, one element for each row. `records` has the index of each row's record."""

    prompt_token_ids: list[list[int]] = field(default_factory=list)
    response_ids: list[list[int]] = field(default_factory=list)
    loss_masks: list[list[int]] = field(default_factory=list)
    rollout_logprobs: list[list[float]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    turn_rewards: list[list[float]] = field(default_factory=list)  # for each token of the response
    stop_reasons: list[str] = field(default_factory=list)
    is_last_step: list[bool] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    routes: list[Any] = field(default_factory=list)  # arrays of routed experts; None for a row without them

    def add(
        self, record: int, prompt: list[int], response: list[int], mask: list[int], logprobs: list[float], turn_rewards: list[float], reason: str, routes: Any = None
    ) -> None:
        """Adds a row that is not its record's last, without the reward of the rollout."""
        self.routes.append(routes)
        self.prompt_token_ids.append(prompt)
        self.response_ids.append(response)
        self.loss_masks.append(mask)
        self.rollout_logprobs.append(logprobs)
        self.stop_reasons.append(reason)
        self.rewards.append(0.0)
        self.turn_rewards.append(turn_rewards)
        self.is_last_step.append(False)
        self.records.append(record)

    def end(self, record: int, reward: float) -> None:
        """Ends a record: its last row has the reward. A record without rows gets one that is not trained on."""
        if not self.records or self.records[-1] != record:
            self.add(record, [0], [0], [0], [0.0], [0.0], "error")
        self.rewards[-1] = reward
        self.is_last_step[-1] = True

    def output(self, trajectory_ids: list[Any] | None, *, stepwise: bool) -> dict[str, Any]:
        """The GeneratorOutput. `trajectory_ids` are those of the input, one for each record.

        `rewards` has a number for each row or, where any turn has a reward, a list for each: those of turns at their last tokens, and that of the
        rollout at the last token of its last row.
        """
        return {
            "prompt_token_ids": self.prompt_token_ids,
            "response_ids": self.response_ids,
            "rewards": self._by_token() if any(map(any, self.turn_rewards)) else self.rewards,
            "loss_masks": self.loss_masks,
            "stop_reasons": self.stop_reasons,
            "rollout_logprobs": self.rollout_logprobs,
            "trajectory_ids": [trajectory_ids[record] for record in self.records] if trajectory_ids else None,
            "rollout_metrics": None,
            "is_last_step": self.is_last_step if stepwise else None,
            **({"rollout_expert_indices": self._routes()} if any(routes is not None for routes in self.routes) else {}),
        }

    def _routes(self) -> list[Any]:
        """The routed experts of each row. A row that is not trained on has some row of experts: the trainer wants one from each."""
        layers, top_k = next(routes.shape[1:] for routes in self.routes if routes is not None)
        return [Shape(layers, top_k).any_row() if routes is None else routes for routes in self.routes]

    def _by_token(self) -> list[list[float]]:
        return [[*of[:-1], of[-1] + reward] for of, reward in zip(self.turn_rewards, self.rewards, strict=True)]


def linear(records: Iterable[Record], *, replay: Shape | None = None) -> Rows:
    """One row for each record, in their order, with its longest sequence. With `replay` the rows have routed experts."""
    records = list(records)
    rows, rewards = Rows(), _rewards(records)
    for i, record in enumerate(records):
        if (sequence := longest(trained(record))) is not None:
            parts = split(sequence)
            rewarded = token_rewards(sequence)[sequence.prompt_length :]
            reason = sequence.spans[-1].finish_reason or "stop"
            rows.add(i, parts.prompt_ids, parts.response_ids, parts.mask, parts.logprobs, rewarded, reason, None if replay is None else expert_rows(sequence, replay))
        rows.end(i, rewards[i])
    return rows


def stepwise(records: Iterable[Record], *, replay: Shape | None = None) -> Rows:
    """One row for each reply that is trained on, for `generator.step_wise_trajectories`. Those of a record are adjacent. With `replay` the rows have
    routed experts."""
    records = list(records)
    rows, rewards = Rows(), _rewards(records)
    for i, record in enumerate(records):
        for sequence in trained(record):
            experts = None if replay is None else expert_rows(sequence, replay)
            for turn in turns(sequence):
                mask = [1] * len(turn.completion_ids)
                rewarded = [*[0.0] * (len(mask) - 1), turn.reward]
                routes = None if experts is None else experts[: turn.span.stop - 1]
                rows.add(i, turn.prompt_ids, turn.completion_ids, mask, turn.logprobs, rewarded, turn.span.finish_reason or "stop", routes)
        rows.end(i, rewards[i])
    return rows


def _rewards(records: list[Record]) -> list[float]:
    """The reward of each record: within its group, a record without training data has the mean of the others.

    A group that is masked as a whole, as in evaluations, has its own rewards, and their mean where one is missing.
    """
    groups: dict[str, list[int]] = {}
    for i, record in enumerate(records):
        groups.setdefault(record.group, []).append(i)

    rewards = [0.0] * len(records)
    for members in groups.values():
        group = [records[i] for i in members]
        known = [record.reward for record in group if record.reward is not None]
        mean = sum(known) / len(known) if known else 0.0
        own = [mean if record.reward is None else record.reward for record in group]
        for i, reward in zip(members, filled_rewards(group) or own, strict=True):
            rewards[i] = reward
    return rewards
