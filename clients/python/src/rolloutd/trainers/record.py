"""One rollout's training data, checked."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ..errors import ProtocolError
from ..types import Group, Sequence


class Ended(Protocol):
    """A rollout that has ended: a Result, a State or a Member of a group."""

    @property
    def rollout_id(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def reward(self) -> float | None: ...


@dataclass(frozen=True)
class Record:
    """The training data of one rollout.

    `reward` is None where no reward may be used: the rollout failed for infrastructure, was aborted, or was not graded. `group` is equal for
    the rollouts of a group. `sequences` are in the order of the rollout; there are several after a prefix break or a compaction, and with
    subagents. ProtocolError if a sequence contradicts itself.
    """

    rollout_id: str
    group: str
    task_id: str
    outcome: str
    reward: float | None
    sequences: tuple[Sequence, ...]

    def __post_init__(self) -> None:
        if self.reward is not None and not math.isfinite(self.reward):
            raise ProtocolError(f"rollout {self.rollout_id}: the reward must be finite, got {self.reward}")
        for sequence in self.sequences:
            if flaw := _flaw(sequence):
                raise ProtocolError(f"rollout {self.rollout_id}, sequence {sequence.number}: {flaw}")

    @classmethod
    def of(cls, rollout: Ended, sequences: Iterable[Sequence], *, group: str = "", task_id: str = "") -> Record:
        """The record of a rollout. Of `sequences` it takes those of this rollout."""
        own = tuple(s for s in sequences if s.rollout_id == rollout.rollout_id)
        group = group or next((s.group_key or s.group_id for s in own), "") or getattr(rollout, "group_id", "")
        task_id = task_id or next((s.task_id for s in own), "") or getattr(rollout, "task_id", "")
        return cls(rollout.rollout_id, group, task_id, rollout.outcome, rollout.reward, own)


def records_of(group: Group, sequences: Iterable[Sequence]) -> list[Record]:
    """The records of a group's members, in their order. `sequences` is `client.groups.trajectory(group.group_id)`."""
    of: dict[str, list[Sequence]] = {}
    for sequence in sequences:
        of.setdefault(sequence.rollout_id, []).append(sequence)
    return [Record.of(m, of.get(m.rollout_id, ()), group=group.group_id, task_id=group.task_id) for m in group.members]


def _flaw(sequence: Sequence) -> str:
    """What contradicts itself in a sequence; "" if nothing does."""
    length, mask = len(sequence.token_ids), sequence.loss_mask
    if (len(mask), len(sequence.logprobs)) != (length, length):
        return f"{length} token_ids need as many loss_mask and logprobs, got {len(mask)} and {len(sequence.logprobs)}"
    if any(bit not in (0, 1) for bit in mask):
        return "loss_mask must have only 0 and 1"

    # The tokens to train on are those of the spans that train. A prompt comes before the first.
    expected, end = [0] * length, 1
    for span in sequence.spans:
        if not end <= span.start < span.stop <= length:
            return f"the span of turn {span.turn} has the tokens {span.start} to {span.stop}, which must be from {end} on and within {length}"
        end = span.stop
        if span.train:
            expected[span.start : span.stop] = [1] * (span.stop - span.start)
    if expected != mask:
        return "loss_mask must be 1 for the tokens of the spans that train, and 0 for all others"

    if not all(math.isfinite(logprob) for logprob, bit in zip(sequence.logprobs, mask, strict=True) if bit):
        return "a token to train on must have a finite log probability"
    return ""
