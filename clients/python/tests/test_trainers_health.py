"""What a batch lost, and how far the trainer's log probabilities are from those of the rollouts."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import random_record, recorded

from rolloutd import InvalidError, Sequence
from rolloutd.trainers import Drift, Health, HealthLog, Limits, Losses, Record, batch_health, drift, fit, merged, trained

RECORDS = st.integers(0, 2**32).map(lambda seed: random_record(random.Random(seed)))
PROPERTY = settings(deadline=None, database=None, derandomize=True, max_examples=40)
DIFFERENCES = st.lists(st.floats(-5, 5), min_size=4, max_size=4)


def sequence(**changes: Any) -> Sequence:
    raw: dict[str, Any] = {
        "rollout_id": "r", "token_ids": [1, 2, 3, 4, 5, 6], "loss_mask": [0, 0, 1, 1, 0, 1], "logprobs": [0, 0, -1, -2, 0, -3],
        "spans": [
            {"turn": 1, "start": 2, "stop": 4, "train": True, "model_version": "step-3"},
            {"turn": 2, "start": 5, "stop": 6, "train": True},
        ],
    }  # fmt: skip
    return Sequence.of(raw | changes)


def record(name: str, outcome: str, reward: float | None, *sequences: Sequence) -> Record:
    return Record(name, "g", "t", outcome, reward, tuple(replace(s, rollout_id=name) for s in sequences))


def test_a_batch_says_what_it_lost_and_why() -> None:
    batch = [
        record("a", "completed", 1.0, sequence(), sequence(sequence=1)),
        record("b", "agent_timeout", 0.0, sequence()),
        record("c", "infra_failed", None, sequence()),
        record("d", "completed", 0.5),
    ]
    health = batch_health(batch, replaced=1, losses=Losses(cut=2, dropped=1, trained_tokens=9), current_version=5)
    assert (health.started, health.finished, health.trained) == (5, 3, 2)
    assert health.lost == {"replaced": 1, "infra_failed": 1, "no_tokens": 1}
    assert health.versions == {3: 6, None: 3}
    assert health.mean_reward == 0.5

    line = health.line()
    assert line["rolloutd/yield"] == pytest.approx(3 / 5)
    assert [line[f"rolloutd/lost/{why}"] for why in ("infra_failed", "no_tokens", "replaced")] == [0.2, 0.2, 0.2]
    assert (line["rolloutd/sequences_per_rollout"], line["rolloutd/trained_tokens"], line["rolloutd/tokens"]) == (1.5, 9, 18)
    assert (line["rolloutd/cut_sequences"], line["rolloutd/dropped_sequences"], line["rolloutd/dropped_tokens"]) == (2, 1, 9)
    assert (line["rolloutd/lag"], line["rolloutd/largest_lag"], line["rolloutd/unknown_version_tokens"]) == (2, 2, 3)


def test_what_is_unknown_is_in_no_line() -> None:
    line = batch_health([record("c", "infra_failed", None)]).line()
    assert not line.keys() & {"rolloutd/mean_reward", "rolloutd/lag", "rolloutd/sequences_per_rollout", "rolloutd/oldest_version", "rolloutd/drift/k1"}
    assert batch_health([]).line().keys().isdisjoint({"rolloutd/yield"})


def test_each_step_is_a_line() -> None:
    lines: list[str] = []
    log = HealthLog(lambda step, line: lines.append(json.dumps({"step": step, **line})), prefix="r/")
    health = batch_health(recorded())
    log(7, health)
    assert json.loads(lines[0]) == {"step": 7, **health.line("r/")}


@PROPERTY
@given(st.lists(RECORDS, max_size=6), st.integers(0, 3))
def test_every_rollout_is_trained_or_lost(batch: list[Record], replaced: int) -> None:
    health = batch_health(batch, replaced=replaced)
    assert health.trained + sum(health.lost.values()) == health.started
    assert health.trained <= health.finished <= health.started
    assert sum(health.versions.values()) == health.trained_tokens <= health.tokens
    assert all(math.isfinite(value) for value in health.line().values())


@PROPERTY
@given(st.lists(RECORDS, max_size=6), st.lists(RECORDS, max_size=6), st.integers(0, 3), st.none() | st.just(9))
def test_the_health_of_groups_adds_up_to_that_of_their_batch(a: list[Record], b: list[Record], replaced: int, current: int | None) -> None:
    def of(batch: list[Record], replaced: int) -> Health:
        losses = Losses(cut=len(batch), dropped=1, trained_tokens=2)
        return batch_health(batch, replaced=replaced, losses=losses, current_version=current)

    whole = batch_health(a + b, replaced=replaced, losses=of(a, 0).losses + of(b, 0).losses, current_version=current)
    assert sum([of(a, replaced), of(b, 0)], Health()).line() == pytest.approx(whole.line())


@PROPERTY
@given(st.lists(RECORDS, max_size=6), st.builds(Limits, st.none() | st.integers(1, 60), st.none() | st.integers(1, 60)))
def test_tokens_of_a_rollout_with_a_reward_are_trained_or_dropped(batch: list[Record], limits: Limits) -> None:
    fitted = [fit(r, limits) for r in batch if r.reward is not None]
    health = batch_health((r for r, _ in fitted), losses=sum((lost for _, lost in fitted), Losses()))
    assert health.trained_tokens + health.losses.trained_tokens == batch_health(r for r in batch if r.reward is not None).trained_tokens


@PROPERTY
@given(RECORDS)
def test_the_policy_itself_has_no_drift(one: Record) -> None:
    total = merged(drift(s, s.logprobs) for s in trained(one))
    assert sum(part.tokens for part in total.values()) == sum(sum(s.loss_mask) for s in trained(one))
    assert all((part.absolute, part.k1_sum, part.k3_sum, part.largest, part.not_finite) == (0, 0, 0, 0, 0) for part in total.values())


@PROPERTY
@given(DIFFERENCES, DIFFERENCES)
def test_estimates_are_means_over_the_trained_tokens(first: list[float], second: list[float]) -> None:
    def trainer(d: list[float]) -> list[float]:
        return [9, 9, -1 - d[0], -2 - d[1], 9, -3 - d[2]]

    total = merged([drift(sequence(), trainer(first)), drift(sequence(), trainer(second))])
    for version, ds in ((3, [*first[:2], *second[:2]]), (None, [first[2], second[2]])):
        part = total[version]
        assert part.tokens == len(ds)
        assert part.k1 == pytest.approx(sum(ds) / len(ds), abs=1e-9)
        assert part.k3 == pytest.approx(sum(math.exp(-d) - 1 + d for d in ds) / len(ds), rel=1e-6, abs=1e-9)
        assert part.k3 is not None
        assert part.k3 >= 0
        assert part.mean_absolute == pytest.approx(sum(map(abs, ds)) / len(ds), abs=1e-9)
        assert part.largest == pytest.approx(max(map(abs, ds)), abs=1e-9)


def test_values_that_are_not_finite_are_counted_apart() -> None:
    found = drift(sequence(), [0, 0, float("nan"), -2, 0, -math.inf])
    assert found == {3: Drift(tokens=1, not_finite=1), None: Drift(not_finite=1)}
    assert found[None].k1 is None
    assert drift(sequence(), [0, 0, 2000, -2, 0, -3])[3].k3 == math.inf
    with pytest.raises(InvalidError, match="each of 6 tokens, got 4"):
        drift(sequence(), [0] * 4)


def test_drift_is_in_the_line_in_all_and_for_each_version() -> None:
    found = drift(sequence(), [0, 0, -1.5, -2.5, 0, -3])
    line = batch_health([record("a", "completed", 1.0, sequence())], drift=found).line("")
    assert (line["drift/3/k1"], line["drift/3/mean_absolute"], line["drift/largest"]) == (0.5, 0.5, 0.5)
    assert line["drift/k1"] == pytest.approx(1 / 3)
