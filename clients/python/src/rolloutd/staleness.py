"""A bound on how old the policy of a training sequence may be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from .errors import InvalidError
from .types import Sequence

_NUMBER = re.compile(r"\d+")


def version_number(version: str) -> int | None:
    """The last number in the name of a version, such as 12 for "step-12"; None without one."""
    numbers = _NUMBER.findall(version)
    return int(numbers[-1]) if numbers else None


def oldest(sequence: Sequence) -> int | None:
    """The oldest version of the weights that sampled a token to train on; None if the endpoint reports no version."""
    known = [version_number(v) for span in sequence.spans if span.train for v in span.versions]
    return min((v for v in known if v is not None), default=None)


@dataclass
class Staleness:
    """Drops or marks sequences that were sampled more than `max_version_lag` versions ago, and counts them.

    A sequence without a version is kept and counted in `unknown`.
    """

    max_version_lag: int
    action: Literal["drop", "mark"] = "drop"
    fresh: int = 0
    stale: int = 0
    unknown: int = 0
    lags: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.max_version_lag < 0:
            raise InvalidError(f"max_version_lag: must be 0 or more, got {self.max_version_lag}")

    def is_stale(self, sequence: Sequence, current: int) -> bool:
        """Whether a sequence is too old for a trainer at version `current`; counts it."""
        version = oldest(sequence)
        if version is None:
            self.unknown += 1
            return False
        lag = current - version
        self.lags[lag] = self.lags.get(lag, 0) + 1
        if lag > self.max_version_lag:
            self.stale += 1
            return True
        self.fresh += 1
        return False

    def apply(self, sequences: Iterable[Sequence], current: int) -> list[tuple[Sequence, bool]]:
        """The sequences, each with a flag for stale; with the action drop, without the stale ones."""
        checked = [(sequence, self.is_stale(sequence, current)) for sequence in sequences]
        return [(s, stale) for s, stale in checked if self.action == "mark" or not stale]
