"""The health of a batch: what was lost on the way to the trainer, how old its policy is, and how far the trainer's log probabilities are from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ..errors import InvalidError
from ..types import Sequence
from .record import Record
from .rules import Losses, token_versions, trained


@dataclass(frozen=True)
class Drift:
    """How the log probabilities of a trainer differ from those at which tokens were sampled: d = rollout - trainer, for each trained token.

    Sums, so that the drifts of parts can be added. Tokens whose d is not finite are in `not_finite` and in no sum.
    """

    tokens: int = 0
    absolute: float = 0.0  # sum of |d|
    k1_sum: float = 0.0  # sum of d
    k3_sum: float = 0.0  # sum of exp(-d) - 1 + d
    largest: float = 0.0  # the largest |d|
    not_finite: int = 0  # tokens

    def __add__(self, other: Drift) -> Drift:
        return Drift(
            self.tokens + other.tokens,
            self.absolute + other.absolute,
            self.k1_sum + other.k1_sum,
            self.k3_sum + other.k3_sum,
            max(self.largest, other.largest),
            self.not_finite + other.not_finite,
        )

    @property
    def mean_absolute(self) -> float | None:
        """The mean of |d|; None without tokens."""
        return self.absolute / self.tokens if self.tokens else None

    @property
    def k1(self) -> float | None:
        """The mean of d, an unbiased estimate of KL(rollout || trainer) that may be negative; None without tokens."""
        return self.k1_sum / self.tokens if self.tokens else None

    @property
    def k3(self) -> float | None:
        """The mean of exp(-d) - 1 + d, an estimate of the same divergence that is never negative; None without tokens."""
        return self.k3_sum / self.tokens if self.tokens else None


def drift(sequence: Sequence, trainer_logprobs: Iterable[float]) -> dict[int | None, Drift]:
    """The drift of a sequence for each version of the weights that sampled it; None is the version of replies without one.

    `trainer_logprobs` has a value for each token of the sequence, of which those to train on count. InvalidError if the lengths differ.
    """
    values = list(trainer_logprobs)
    if len(values) != len(sequence.token_ids):
        raise InvalidError(f"trainer_logprobs: must have a value for each of {len(sequence.token_ids)} tokens, got {len(values)}")
    out: dict[int | None, Drift] = {}
    for logprob, own, bit, version in zip(sequence.logprobs, values, sequence.loss_mask, token_versions(sequence), strict=True):
        if bit:
            out[version] = out.get(version, Drift()) + _drift_of_token(logprob - own)
    return out


def _drift_of_token(d: float) -> Drift:
    if not math.isfinite(d):
        return Drift(not_finite=1)
    # Beyond 700, exp has no finite value.
    k3 = math.expm1(-d) + d if d > -700 else math.inf
    return Drift(1, abs(d), d, max(k3, 0.0), abs(d))


def merged(drifts: Iterable[Mapping[int | None, Drift]]) -> dict[int | None, Drift]:
    """The drifts of several sequences, added for each version."""
    out: dict[int | None, Drift] = {}
    for one in drifts:
        for version, part in one.items():
            out[version] = out.get(version, Drift()) + part
    return out


@dataclass(frozen=True)
class Health:
    """What became of the rollouts of a batch, and what is trained on. Rollouts count once, sequences and tokens as the trainer gets them.

    The healths of groups add up to that of their batch: `sum(healths, Health())`.
    """

    started: int = 0  # rollouts, with those that rolloutd replaced
    finished: int = 0  # rollouts with a reward
    trained: int = 0  # rollouts with a reward and tokens to train on
    lost: dict[str, int] = field(default_factory=dict)  # rollouts that are not trained on, by outcome; "replaced", and "no_tokens" of those with a reward
    sequences: int = 0
    tokens: int = 0  # all tokens of the sequences
    trained_tokens: int = 0
    losses: Losses = field(default_factory=Losses)  # what the trainer's lengths cost
    versions: dict[int | None, int] = field(default_factory=dict)  # tokens to train on, by the version of the weights that sampled them; None: unknown
    mean_reward: float | None = None  # of the rollouts that are trained on
    lag: float | None = None  # the trainer's version minus that of a trained token: mean over tokens of a known version
    largest_lag: int | None = None
    drift: dict[int | None, Drift] = field(default_factory=dict)

    def __add__(self, other: Health) -> Health:
        """The health of two batches without a rollout in common."""
        both = (self, other)
        return Health(
            started=self.started + other.started,
            finished=self.finished + other.finished,
            trained=self.trained + other.trained,
            lost=_added(self.lost, other.lost),
            sequences=self.sequences + other.sequences,
            tokens=self.tokens + other.tokens,
            trained_tokens=self.trained_tokens + other.trained_tokens,
            losses=self.losses + other.losses,
            versions=_added(self.versions, other.versions),
            mean_reward=_mean((h.mean_reward, h.trained) for h in both),
            lag=_mean((h.lag, h.trained_tokens - h.versions.get(None, 0)) for h in both),
            largest_lag=max((h.largest_lag for h in both if h.largest_lag is not None), default=None),
            drift=merged(h.drift for h in both),
        )

    @property
    def yield_rate(self) -> float | None:
        """Rollouts with a reward over rollouts started; None without rollouts."""
        return self.finished / self.started if self.started else None

    def line(self, prefix: str = "rolloutd/") -> dict[str, float]:
        """Names and numbers, for one step of a log. What is unknown is left out."""
        total = sum(self.drift.values(), Drift())
        values: dict[str, float | None] = {
            "started": self.started,
            "finished": self.finished,
            "trained": self.trained,
            "yield": self.yield_rate,
            **{f"lost/{outcome}": count / self.started for outcome, count in sorted(self.lost.items())},
            "cut_sequences": self.losses.cut,
            "dropped_sequences": self.losses.dropped,
            "dropped_tokens": self.losses.trained_tokens,
            "sequences": self.sequences,
            "sequences_per_rollout": self.sequences / self.trained if self.trained else None,
            "tokens": self.tokens,
            "trained_tokens": self.trained_tokens,
            "mean_reward": self.mean_reward,
            "unknown_version_tokens": self.versions.get(None, 0),
            "oldest_version": min((v for v in self.versions if v is not None), default=None),
            "newest_version": max((v for v in self.versions if v is not None), default=None),
            "lag": self.lag,
            "largest_lag": self.largest_lag,
            **(_drift_line("drift", total) if self.drift else {}),
            **{name: value for version, part in self.drift.items() if version is not None for name, value in _drift_line(f"drift/{version}", part).items()},
        }
        return {prefix + name: float(value) for name, value in values.items() if value is not None}


Key = TypeVar("Key")


def _added(a: Mapping[Key, int], b: Mapping[Key, int]) -> dict[Key, int]:
    return {key: a.get(key, 0) + b.get(key, 0) for key in (*a, *(key for key in b if key not in a))}


def _mean(parts: Iterable[tuple[float | None, int]]) -> float | None:
    """The mean of means with their weights, of those that are known."""
    known = [(value, weight) for value, weight in parts if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _drift_line(name: str, drift: Drift) -> dict[str, float | None]:
    return {
        f"{name}/mean_absolute": drift.mean_absolute,
        f"{name}/k1": drift.k1,
        f"{name}/k3": drift.k3,
        f"{name}/largest": drift.largest,
        f"{name}/not_finite": drift.not_finite,
    }


def batch_health(
    records: Iterable[Record],
    *,
    replaced: int = 0,
    losses: Losses | None = None,
    current_version: int | None = None,
    drift: Mapping[int | None, Drift] | None = None,
) -> Health:
    """The health of a batch of records, after `fit` if the trainer has limits, whose `losses` it then takes.

    `replaced` are the rollouts that rolloutd replaced within the batch's groups (`group.replaced`). `current_version` is the trainer's, for the lag. `drift`
    is `merged` over the batch's sequences, where the trainer hands its own log probabilities back.
    """
    records = list(records)
    lost: Counter[str] = Counter({"replaced": replaced} if replaced else {})
    for record in records:
        if not trained(record):
            lost[(record.outcome or "unknown") if record.reward is None else "no_tokens"] += 1

    sequences = [sequence for record in records for sequence in trained(record)]
    rewards = [record.reward for record in records if record.reward is not None and trained(record)]
    versions = _versions(sequences)
    lags = {} if current_version is None else {current_version - version: count for version, count in versions.items() if version is not None}
    return Health(
        started=len(records) + replaced,
        finished=sum(record.reward is not None for record in records),
        trained=len(rewards),
        lost=dict(lost),
        sequences=len(sequences),
        tokens=sum(len(sequence.token_ids) for sequence in sequences),
        trained_tokens=sum(sum(sequence.loss_mask) for sequence in sequences),
        losses=losses or Losses(),
        versions=versions,
        mean_reward=sum(rewards) / len(rewards) if rewards else None,
        lag=sum(lag * count for lag, count in lags.items()) / sum(lags.values()) if lags else None,
        largest_lag=max(lags, default=None),
        drift=dict(drift or {}),
    )


def _versions(sequences: Iterable[Sequence]) -> dict[int | None, int]:
    """The number of tokens to train on of each version."""
    counts: Counter[int | None] = Counter()
    for sequence in sequences:
        counts.update(version for version, bit in zip(token_versions(sequence), sequence.loss_mask, strict=True) if bit)
    return dict(counts)


@dataclass
class HealthLog:
    """Writes a line for each step of a trainer: `write` gets the step and names with numbers.

        HealthLog(lambda step, line: wandb.log(line, step=step))
        HealthLog(lambda step, line: [writer.add_scalar(name, value, step) for name, value in line.items()])
    """

    write: Callable[[int, dict[str, float]], object]
    prefix: str = "rolloutd/"

    def __call__(self, step: int, health: Health) -> None:
        self.write(step, health.line(self.prefix))
