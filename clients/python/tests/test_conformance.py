"""All trainers train on the same tokens with the same log probabilities: those of the record."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from recorded import Pairs, pairs_of, recorded

from rolloutd import UnscoredError
from rolloutd.trainers import Record, longest, trained
from rolloutd.trainers import areal, atropos, nemo_gym, openrlhf, prime_rl, skyrl, slime, tinker, trl, verifiers, verl

RECORDS = recorded()
TRAINED = [record for record in RECORDS if trained(record)]


def groups() -> list[list[Record]]:
    of: dict[str, list[Record]] = {}
    for record in RECORDS:
        of.setdefault(record.group, []).append(record)
    return list(of.values())


def masked(ids: Iterable[int], mask: Iterable[Any], logprobs: Iterable[float]) -> Pairs:
    return Counter((id, logprob) for id, bit, logprob in zip(ids, mask, logprobs, strict=True) if bit)


def total(parts: Iterable[Pairs]) -> Pairs:
    out: Pairs = Counter()
    for part in parts:
        out += part
    return out


# What each trainer trains on, read from its data as the trainer reads it.


def of_atropos() -> Pairs:
    sequences = [s for record in RECORDS for s in trained(record)]
    return total(masked(s.token_ids, [id != -100 for id in atropos.masks_of(s)], atropos.logprobs_of(s)) for s in sequences)


def of_verl() -> Pairs:
    return total(masked(o["response_ids"], o["response_mask"], o["response_logprobs"]) for r in RECORDS for o in verl.outputs(r))


def of_slime() -> Pairs:
    samples = [s for group in groups() for rollout in slime.samples(group, range(len(group))) for s in rollout if not s["remove_sample"]]
    return total(masked(s["tokens"][-s["response_length"] :], s["loss_mask"], s["rollout_log_probs"]) for s in samples)


def of_skyrl_stepwise() -> Pairs:
    rows = skyrl.stepwise(RECORDS)
    return total(map(masked, rows.response_ids, rows.loss_masks, rows.rollout_logprobs))


def of_verifiers() -> Pairs:
    nodes = [node for record in RECORDS if (trace := verifiers.trace(record))["ok"] for node in trace["nodes"]]
    return Counter(
        pair for node in nodes for pair in zip((id for id, bit in zip(node["token_ids"], node["mask"], strict=True) if bit), node["logprobs"], strict=True)
    )


def of_prime_rl() -> Pairs:
    return total(masked(s["token_ids"], s["mask"], s["logprobs"]) for r in RECORDS for s in prime_rl.training_samples(r, "env"))


def of_tinker() -> Pairs:
    rollouts = [rollout for group in groups() for rollout in tinker.group(group)["trajectories"]]
    return Counter(pair for rollout in rollouts for t in rollout for pair in zip(t["tokens"], t["logprobs"], strict=True))


def of_areal() -> Pairs:
    return total(masked(row["input_ids"], row["loss_mask"], row["logprobs"]) for r in RECORDS for row in areal.rows(r) or [])


ALL: dict[str, Callable[[], Pairs]] = {
    "Atropos": of_atropos, "verl": of_verl, "slime": of_slime, "SkyRL, step by step": of_skyrl_stepwise, "verifiers": of_verifiers,
    "prime-rl": of_prime_rl, "Tinker": of_tinker, "AReaL": of_areal,
}  # fmt: skip


@pytest.mark.parametrize("pairs", ALL.values(), ids=ALL)
def test_trainers_of_several_sequences_train_on_the_record(pairs: Callable[[], Pairs]) -> None:
    assert pairs() == pairs_of(RECORDS)


# Trainers of one sequence of each rollout train on the longest.


def of_trl() -> Pairs:
    rows = trl.batch(RECORDS)
    return total(map(masked, rows["completion_ids"], rows["env_mask"], rows["logprobs"]))


def of_skyrl_linear() -> Pairs:
    rows = skyrl.linear(RECORDS)
    return total(map(masked, rows.response_ids, rows.loss_masks, rows.rollout_logprobs))


def of_nemo_gym() -> Pairs:
    answers = [nemo_gym.verify_response(record, {}) for record in TRAINED]
    return Counter(
        pair for a in answers for item in a["response"]["output"] for pair in zip(item["generation_token_ids"], item["generation_log_probs"], strict=True)
    )


def of_openrlhf() -> Pairs:
    out: Pairs = Counter()
    for row in (openrlhf.execution(record, "p") for record in TRAINED):
        for start, stop in row["action_ranges"]:
            out.update(zip(row["observation_tokens"][start:stop], row["rollout_log_probs"][start:stop], strict=True))
    return out


ONE = {"TRL": of_trl, "SkyRL, linear": of_skyrl_linear, "NeMo-Gym": of_nemo_gym, "OpenRLHF": of_openrlhf}


@pytest.mark.parametrize("pairs", ONE.values(), ids=ONE)
def test_trainers_of_one_sequence_train_on_the_longest(pairs: Callable[[], Pairs]) -> None:
    best = [s for record in RECORDS if (s := longest(trained(record))) is not None]
    assert pairs() == total(masked(s.token_ids, s.loss_mask, s.logprobs) for s in best)
    assert pairs() < pairs_of(RECORDS), "some rollouts of the set have several sequences"


# What else a trainer requires of its data.


def test_verl_has_the_reward_and_the_fields_that_its_trainer_reads() -> None:
    for record in RECORDS:
        outputs = verl.outputs(record)
        assert len(outputs) == len(trained(record))
        for output in outputs:
            assert output["reward_score"] == record.reward
            assert len(output["response_ids"]) == len(output["response_mask"]) == len(output["response_logprobs"])
            assert output["response_mask"][0] in (0, 1) and output["extra_fields"]["reward_extra_info"] == {}
        steps = [o["extra_fields"].get("min_global_steps") for o in outputs]
        assert steps == ([3] if record.rollout_id.startswith("two-versions") else [None] * len(outputs))


def test_slime_has_a_sample_for_each_rollout_with_the_mean_in_place_of_a_missing_reward() -> None:
    for group in groups():
        samples = slime.samples(group, range(8, 8 + len(group)))
        known = [record.reward for record in group if record.reward is not None and trained(record)]
        if not known:
            assert samples == []
            continue
        mean = sum(known) / len(known)
        for i, (record, rollout) in enumerate(zip(group, samples, strict=True)):
            assert {s["rollout_id"] for s in rollout} == {8 + i}
            assert {s["reward"] for s in rollout} == {record.reward if trained(record) else mean}
            assert [s["remove_sample"] for s in rollout] == ([False] * len(trained(record)) or [True])
            for s in rollout:
                assert len(s["loss_mask"]) == len(s["rollout_log_probs"]) == s["response_length"] < len(s["tokens"])


def test_skyrl_has_the_reward_on_the_last_step() -> None:
    rows = skyrl.stepwise(RECORDS)
    assert sum(rows.is_last_step) == len(RECORDS)
    assert sorted(rows.records) == rows.records
    for i, last in enumerate(rows.is_last_step):
        record = RECORDS[rows.records[i]]
        assert last == (rows.records[i + 1 : i + 2] != [rows.records[i]])
        assert rows.rewards[i] == 0 if not last else not trained(record) or rows.rewards[i] == record.reward
    assert skyrl.linear(RECORDS).records == list(range(len(RECORDS)))


def test_skyrl_has_the_rewards_of_evaluations_of_which_nothing_is_trained_on() -> None:
    rewards = [1.0, None, 0.0]
    records = [Record(f"r{i}", "g", "t", "completed", reward, ()) for i, reward in enumerate(rewards)]
    assert skyrl.linear(records).rewards == [1.0, 0.5, 0.0]


def test_verifiers_branches_are_the_sequences() -> None:
    for record in RECORDS:
        trace = verifiers.trace(record)
        assert (trace["ok"], bool(trace["errors"])) == (bool(trained(record)), not trained(record))
        if record.reward is None:
            assert trace["rewards"] == {"rolloutd": None}
        leaves = set(range(len(trace["nodes"]))) - {node["parent"] for node in trace["nodes"]}
        assert len(leaves) == len(record.sequences)


def test_nemo_gym_prompts_continue_what_was_seen() -> None:
    for record in TRAINED:
        answer = nemo_gym.verify_response(record, {"responses_create_params": {"input": []}})
        assert (answer["reward"], answer["responses_create_params"]) == (record.reward, {"input": []})
        seen: list[int] = []
        for item in answer["response"]["output"]:
            assert item["prompt_token_ids"][: len(seen)] == seen
            seen = item["prompt_token_ids"] + item["generation_token_ids"]


def test_trainers_without_a_form_for_a_missing_reward_get_an_error() -> None:
    for record in RECORDS:
        if trained(record):
            continue
        with pytest.raises(UnscoredError, match=record.rollout_id):
            nemo_gym.verify_response(record, {})
        with pytest.raises(UnscoredError, match=record.rollout_id):
            openrlhf.execution(record, "p")
        assert areal.rows(record) is None


def test_nemo_gym_masks_what_is_not_trained_on() -> None:
    for record in (r for r in RECORDS if not trained(r)):
        answer = nemo_gym.masked_response(record, {"_ng_task_index": 3})
        assert (answer["_ng_task_index"], answer["mask_sample"], answer["response"]["output"]) == (3, True, [])
        assert answer["reward"] == (record.reward or 0.0)
        assert ("_ng_failure_class" in answer) == (record.reward is None), "a reward of 0 is a result, a missing one a failure"


def test_tinker_leaves_rollouts_out_with_a_reason() -> None:
    for group in groups():
        made = tinker.group(group)
        assert made["final_rewards"] == [record.reward for record in group if trained(record)]
        assert len(made["rollout_errors"]) == sum(not trained(record) for record in group)
        for rollout in made["trajectories"]:
            assert [t["episode_done"] for t in rollout] == [False] * (len(rollout) - 1) + [True]


def test_areal_has_a_version_for_each_sampled_token() -> None:
    for record in RECORDS:
        for row, s in zip(areal.rows(record, unknown_version=7) or [], trained(record), strict=True):
            sampled = {i for span in s.spans for i in range(span.start, span.stop)}
            assert all((version == -1) == (i not in sampled) for i, version in enumerate(row["versions"]))


def test_converters_import_no_trainer() -> None:
    names = "areal atropos nemo_gym openrlhf prime_rl skyrl slime tinker trl verifiers verl".split()
    code = "import sys\n" + "".join(f"import rolloutd.trainers.{name}\n" for name in names)
    code += f"assert not {set(names) | {'torch', 'atroposlib', 'numpy'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
