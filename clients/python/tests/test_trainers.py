"""The rules by which rollouts become training data, for all records."""

from __future__ import annotations

import random
from dataclasses import replace
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import KINDS, pairs_of, random_record, recorded

from rolloutd import Group, InvalidError, ProtocolError, Sequence, UnscoredError
from rolloutd.trainers import (
    Limits,
    Losses,
    Record,
    Turn,
    fit,
    longest,
    named_rewards,
    openrlhf,
    records_of,
    split,
    token_rewards,
    token_versions,
    trained,
    turns,
    untrained,
)
from rolloutd.trainers.atropos import logprobs_of, masks_of
from rolloutd.trainers.nemo_gym import verify_response
from rolloutd.trainers.rules import version_range
from rolloutd.trainers.skyrl import linear, stepwise
from rolloutd.trainers.slime import samples
from rolloutd.trainers.tinker import transitions
from rolloutd.trainers.trl import batch
from rolloutd.trainers.verifiers import trace
from rolloutd.trainers.verl import Output, evaluated, outputs, version_of

REWARDED = st.integers(0, 2**32).map(lambda seed: random_record(random.Random(seed), turn_rewards=True))
RECORDS = st.integers(0, 2**32).map(lambda seed: random_record(random.Random(seed)))
LIMIT = st.none() | st.integers(1, 60)
LIMITS = st.builds(Limits, LIMIT, LIMIT, LIMIT)

PROPERTY = settings(deadline=None, database=None, derandomize=True, max_examples=40)


def sequence(**changes: Any) -> Sequence:
    raw: dict[str, Any] = {
        "rollout_id": "r", "group_id": "g", "token_ids": [1, 2, 3, 4, 5, 6], "loss_mask": [0, 0, 1, 1, 0, 1], "logprobs": [0, 0, -1, -2, 0, -3],
        "spans": [
            {"turn": 1, "start": 2, "stop": 4, "train": True, "model_version": "step-3..step-4"},
            {"turn": 2, "start": 5, "stop": 6, "train": True},
        ],
    }  # fmt: skip
    return Sequence.of(raw | changes)


def record(*sequences: Sequence, reward: float | None = 1.0) -> Record:
    return Record("r", "g", "t", "completed", reward, sequences)


def test_the_records_of_a_group_are_its_members_in_order() -> None:
    members = [{"index": i, "rollout_id": id, "outcome": "completed", "reward": reward} for i, (id, reward) in enumerate([("a", 1.0), ("b", None), ("c", 0.0)])]
    group = Group.of({"group_id": "g", "task_id": "t", "size": 3, "outcome": "partial", "members": members})
    made = records_of(group, [sequence(rollout_id="c"), sequence(rollout_id="a"), sequence(rollout_id="c", sequence=1)])
    assert [(r.rollout_id, r.group, r.reward, [s.number for s in r.sequences]) for r in made] == [("a", "g", 1.0, [0]), ("b", "g", None, []), ("c", "g", 0.0, [0, 1])]
    assert [untrained(r) for r in made] == ["", "rollout b has no reward: it ended as completed", ""]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"logprobs": [0]}, "6 token_ids need as many loss_mask and logprobs, got 6 and 1"),
        ({"loss_mask": [0, 0, 2, 1, 0, 1]}, "only 0 and 1"),
        ({"loss_mask": [0, 1, 1, 1, 0, 1]}, "the tokens of the spans that train"),
        ({"logprobs": [0, 0, -1, float("nan"), 0, -3]}, "finite log probability"),
        ({"spans": [{"turn": 3, "start": 0, "stop": 7, "train": True}]}, "the span of turn 3 has the tokens 0 to 7, which must be from 1 on"),
        ({"spans": [{"turn": 4, "start": 5, "stop": 7, "train": True}]}, "the span of turn 4 has the tokens 5 to 7"),
    ],
)
def test_a_sequence_that_contradicts_itself_is_refused(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(ProtocolError, match=f"rollout r, sequence 0: .*{error}"):
        record(sequence(**changes))


def test_a_reward_is_finite() -> None:
    with pytest.raises(ProtocolError, match="finite"):
        record(sequence(), reward=float("nan"))


def test_a_missing_reward_is_not_zero() -> None:
    assert trained(record(sequence(), reward=None)) == ()
    assert len(trained(record(sequence(), reward=0.0))) == 1
    with pytest.raises(UnscoredError, match="no reward"):
        batch([record(sequence(), reward=None)])


@PROPERTY
@given(RECORDS)
def test_a_sequence_is_split_at_the_first_sampled_token(record: Record) -> None:
    for s in record.sequences:
        parts = split(s)
        assert parts.prompt_ids + parts.response_ids == s.token_ids
        assert len(parts.response_ids) == len(parts.mask) == len(parts.logprobs) == len(parts.versions)
        assert sum(parts.mask) == s.trained, "no token of the prompt is trained on"
        assert not any(logprob for logprob, bit in zip(parts.logprobs, parts.mask, strict=True) if not bit)
        assert len(parts.prompt_ids) == s.spans[0].start


@PROPERTY
@given(RECORDS)
def test_turns_are_the_trained_replies_after_all_they_saw(record: Record) -> None:
    for s in record.sequences:
        pairs = [(id, logprob) for turn in turns(s) for id, logprob in zip(turn.completion_ids, turn.logprobs, strict=True)]
        assert pairs == [(id, logprob) for id, logprob, bit in zip(s.token_ids, s.logprobs, s.loss_mask, strict=True) if bit]
        for turn in turns(s):
            seen = turn.prompt_ids + turn.completion_ids
            assert seen == s.token_ids[: len(seen)]


@PROPERTY
@given(RECORDS, LIMITS)
def test_a_cut_sequence_is_a_prefix_and_its_losses_are_counted(record: Record, limits: Limits) -> None:
    before = [s for s in record.sequences if s.trained]
    fitted, losses = fit(record, limits)
    remaining = iter(before)
    for s in fitted.sequences:
        whole = next(w for w in remaining if w.number == s.number)
        n = len(s.token_ids)
        assert (s.token_ids, s.loss_mask, s.logprobs) == (whole.token_ids[:n], whole.loss_mask[:n], whole.logprobs[:n])
        assert limits.total is None or n <= limits.total
        assert limits.prompt is None or s.prompt_length <= limits.prompt
        assert limits.response is None or n - s.prompt_length <= limits.response
        assert s.trained == sum(s.loss_mask) > 0
        assert (s == whole) == (n == len(whole.token_ids))
    assert losses.dropped == len(before) - len(fitted.sequences)
    assert losses.trained_tokens == sum(s.trained for s in before) - sum(s.trained for s in fitted.sequences)
    assert fitted.reward == record.reward
    assert fit(fitted, limits) == (fitted, Losses())


def test_a_reply_that_is_cut_is_truncated() -> None:
    fitted, losses = fit(record(sequence()), Limits(response=1))
    (cut,) = fitted.sequences
    assert losses == Losses(cut=1, trained_tokens=2)
    assert (cut.token_ids, cut.spans[0].stop, cut.spans[0].truncated, len(cut.spans), cut.end) == ([1, 2, 3], 3, True, 1, "cut")
    with pytest.raises(InvalidError, match="prompt"):
        Limits(prompt=0)


def test_versions_are_per_token_and_the_older_one_within_a_reply() -> None:
    assert token_versions(sequence()) == [None, None, 3, 3, None, None]

    # as the engine names them by spans
    first, *others = sequence().spans
    exact = replace(sequence(), spans=(replace(first, version_spans=(("step-3", first.start, first.start + 1), ("step-4", first.start + 1, first.stop))), *others))
    assert token_versions(exact)[: first.stop] == [None, None, 3, 4]
    assert token_versions(fit(Record("r", "g", "t", "completed", 1.0, (exact,)), Limits(total=3))[0].sequences[0]) == [None, None, 3]
    assert version_range([sequence()]) == (3, 4)
    assert version_range([]) is None


@PROPERTY
@given(st.lists(RECORDS, min_size=1, max_size=5))
def test_trl_has_one_row_for_each_record(records: list[Record]) -> None:
    if not any(trained(r) for r in records):
        with pytest.raises(UnscoredError):
            batch(records)
        return
    rows = batch(records)
    assert {len(column) for column in rows.values()} == {len(records)}  # type: ignore[arg-type]
    for i, r in enumerate(records):
        best = longest(trained(r))
        assert rows["rewards"][i] == (r.reward if best else None)
        assert sum(rows["env_mask"][i]) == (best.trained if best else 0)
        assert len(rows["completion_ids"][i]) == len(rows["env_mask"][i]) == len(rows["logprobs"][i]) >= 1


@PROPERTY
@given(RECORDS)
def test_atropos_has_one_value_for_each_token(record: Record) -> None:
    for s in record.sequences:
        rows = list(zip(masks_of(s), logprobs_of(s), strict=True))
        assert [(id, logprob) for id, logprob in rows if id != -100] == [(id, p) for id, p, bit in zip(s.token_ids, s.logprobs, s.loss_mask, strict=True) if bit]
        assert {logprob for id, logprob in rows if id == -100} <= {1.0}


def rewarded_turns(record: Record) -> list[tuple[int, float]]:
    """The id of the last token of each turn that is trained on, and the turn's reward."""
    return [(s.token_ids[span.stop - 1], span.reward or 0.0) for s in trained(record) for span in s.spans if span.train]


@PROPERTY
@given(REWARDED, LIMITS)
def test_the_reward_of_a_turn_is_at_its_last_trained_token(record: Record, limits: Limits) -> None:
    record, _ = fit(record, limits)
    expected = rewarded_turns(record)
    for s in record.sequences:
        of = token_rewards(s)
        assert [of[span.stop - 1] for span in s.spans if span.train] == [span.reward or 0.0 for span in s.spans if span.train]
        assert not any(reward for reward, bit in zip(of, s.loss_mask, strict=True) if not bit)
        assert sum(of) == sum(turn.reward for turn in turns(s)), "nothing is added and nothing lost"

    made = transitions(record)
    assert [(row["tokens"][-1], row["reward"]) for row in made] == expected
    scores = [score for output in outputs(record) for score in output["extra_fields"].get("turn_scores") or [0.0] * len(turns_of(record, output))]
    assert scores == [reward for _, reward in expected]
    for sample, s in zip(samples([record], [0])[0] if made else [], trained(record), strict=True):
        of = sample["metadata"].get("token_rewards") or [0.0] * sample["response_length"]
        assert (len(of), of) == (sample["response_length"], token_rewards(s)[s.prompt_length :])
    of_nodes = trace(record)["info"]["turn_rewards"]
    assert sum(of_nodes.values()) == sum(span.reward or 0.0 for s in record.sequences for span in s.spans if span.train)


def turns_of(record: Record, output: Output) -> list[Turn]:
    """The turns of an output's sequence."""
    (sequence,) = [s for s in trained(record) if s.token_ids == output["prompt_ids"] + output["response_ids"]][:1]
    return turns(sequence)


@PROPERTY
@given(st.lists(REWARDED, min_size=1, max_size=4))
def test_skyrl_has_rewards_of_turns_beside_those_of_rollouts(records: list[Record]) -> None:
    for rows, one in ((stepwise(records), False), (linear(records), True)):
        rewards = rows.output(None, stepwise=not one)["rewards"]
        if not any(map(any, rows.turn_rewards)):
            assert rewards == rows.rewards
            continue
        assert [len(row) for row in rewards] == [len(response) for response in rows.response_ids]
        for i, record in enumerate(records):
            own = [row for row, of in zip(rewards, rows.records, strict=True) if of == i]
            whole = sum(reward for reward, of in zip(rows.rewards, rows.records, strict=True) if of == i)
            kept = [longest(trained(record))] if one else trained(record)
            turned = sum(turn.reward for s in kept if s is not None for turn in turns(s))
            assert sum(map(sum, own)) == pytest.approx(whole + turned)


def test_an_evaluation_of_verl_has_a_reward_and_nothing_to_train_on() -> None:
    spans = [{"turn": 1, "start": 2, "stop": 4}, {"turn": 2, "start": 5, "stop": 6}]
    whole = sequence(loss_mask=[0] * 6, spans=spans)
    others = sequence(token_ids=[7, 8], loss_mask=[0, 0], logprobs=[0, 0], spans=[{"turn": 3, "start": 1, "stop": 2}]), sequence(
        token_ids=[0] * 7, loss_mask=[0] * 7, logprobs=[0] * 7, spans=[{"turn": 4, "start": 1, "stop": 7, "images": 1}]
    )
    seen = record(others[0], whole, others[1], reward=0.5)
    assert outputs(seen) == []

    for of, limits, prompt, response, turns in [
        (seen, Limits(), [1, 2], [3, 4, 5, 6], 2),
        (seen, Limits(prompt=1, response=3), [2], [3, 4, 5], 2),
        (record(reward=0.5), Limits(), [0], [0], 0),
    ]:
        (output,) = evaluated(of, limits)
        assert (output["prompt_ids"], output["response_ids"], output["num_turns"], output["reward_score"]) == (prompt, response, turns, 0.5)
        assert (output["response_mask"], output["response_logprobs"]) == ([0] * len(response), [0.0] * len(response))
        assert output["extra_fields"] == {"reward_extra_info": {}, "rollout_id": "r"}
    assert evaluated(record(whole, reward=None), Limits()) == []


def test_an_evaluation_of_openrlhf_has_a_reward_and_nothing_to_train_on() -> None:
    whole = sequence(loss_mask=[0] * 6, spans=[{"turn": 1, "start": 2, "stop": 6}])
    for of, ids in [(record(whole, reward=0.5), [1, 2, 3, 4, 5, 6]), (record(reward=0.5), [0, 0])]:
        made = openrlhf.evaluated(of, "p", "l")
        assert (made["reward"], made["scores"], made["action_ranges"]) == (0.5, 0.5, [])
        assert (made["observation_tokens"], made["rollout_log_probs"]) == (ids, [0.0] * len(ids))
    with pytest.raises(UnscoredError, match="no reward"):
        openrlhf.evaluated(record(whole, reward=None), "p")


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ({}, ""),
        ({"global_steps": 5}, "step-5"),
        ({"global_steps": 5, "min_global_steps": 5, "max_global_steps": 5}, "step-5"),
        ({"global_steps": 5, "min_global_steps": 3, "max_global_steps": 5}, "step-3..step-5"),
        ({"global_steps": None, "min_global_steps": None, "max_global_steps": None}, ""),
    ],
)
def test_a_reply_of_verl_names_the_steps_of_its_weights(fields: dict[str, Any], version: str) -> None:
    assert version_of(fields) == version


def test_rewards_by_name() -> None:
    named = record(sequence(rewards={"style": 0.5}))
    assert named_rewards(named) == {"style": 0.5}
    assert samples([named], [0])[0][0]["metadata"]["rewards"] == {"style": 0.5}
    assert trace(named)["info"]["rewards"] == {"style": 0.5}
    assert verify_response(named, {})["reward_components"] == {"style": 0.5}
    assert "reward_components" not in verify_response(record(sequence()), {})


def test_the_recorded_set_has_each_kind() -> None:
    records = recorded()
    assert len(records) == 64
    assert Counter(r.rollout_id.rpartition("-")[0].replace("-", " ") for r in records).keys() == KINDS.keys()
    assert {bool(untrained(r)) for r in records} == {True, False}
    assert records == recorded(), "it is the same each time"
    assert pairs_of(records).total() > 500
