"""The data of the fixed set in each trainer's own classes. `deploy/suite.sh trainers` runs it with each package; a package that is missing is skipped."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from masked import with_masks
from pictured import png, record_of, with_data
from recorded import KINDS, Conversation, Pairs, pairs_of, recorded
from routed import LAYERS, TOP_K, row_of, with_rows

from rolloutd.trainers import Record, agentlightning, longest, nemo_gym, skyrl, tinker, trained, verifiers, verl
from rolloutd.trainers.experts import Shape

RECORDS = recorded()


def tensor_pairs(ids: Any, mask: Any, logprobs: Any) -> Pairs:
    """The trained tokens of tensors. The log probabilities of the set are exact in 32 bits."""
    return Counter((int(id), float(logprob)) for id, bit, logprob in zip(ids, mask, logprobs, strict=True) if bit)


def of_longest(records: list[Record]) -> Pairs:
    out: Pairs = Counter()
    for s in (longest(trained(record)) for record in records):
        if s is not None:
            out += tensor_pairs(s.token_ids, s.loss_mask, s.logprobs)
    return out


def test_verl_takes_routed_experts() -> None:
    loop = pytest.importorskip("verl.experimental.agent_loop.agent_loop", reason="verl is not installed")
    for record in with_rows(recorded()):
        for fields, sequence in zip(verl.outputs(record, replay=Shape(LAYERS, TOP_K)), trained(record), strict=True):
            tensors = loop.AgentLoopOutput(**fields).as_dict()
            rows = [row_of(sequence.token_ids[: i + 1]) for i in range(len(sequence.token_ids) - 1)]
            assert tensors["routed_experts"].tolist() == [*rows, [[0] * TOP_K] * LAYERS]


def test_verl_takes_images() -> None:
    loop = pytest.importorskip("verl.experimental.agent_loop.agent_loop", reason="verl is not installed")
    red = png((255, 0, 0))
    (fields,) = verl.outputs(record_of(with_data(red, red)))
    assert [image.size for image in loop.AgentLoopOutput(**fields).multi_modal_data["images"]] == [(2, 1), (2, 1)]


def test_areal_normalizes_the_rewards_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pytest.importorskip("areal.utils.data", reason="areal is not installed")
    from areal.api.cli_args import NormConfig

    import rolloutd.areal as module

    def rollout(kind: str, reward: float) -> Record:
        conversation = Conversation(random.Random(kind))
        KINDS[kind][0](conversation)
        return conversation.record("r", "g", reward=reward)

    def rows(**options: Any) -> Any:
        records = iter([rollout("prefix break", 1.0), rollout("one sequence", 0.0), rollout("compacted", 1.0), rollout("subagents", 1.0)])

        async def ended(_: Any, arguments: dict[str, Any]) -> Record:
            assert arguments["sampling"] == {"temperature": 1.0}, "whatever temperature the agent has"
            return next(records)

        async def episodes() -> list[Any]:
            return [await module.RolloutdWorkflow("http://server", **options).arun_episode(None, {"prompt": "p"}) for _ in range(4)]

        monkeypatch.setattr(module, "run_rollout", ended)
        return data.concat_padded_tensors(asyncio.run(episodes()))

    groups = data.Normalization(NormConfig(mean_level="group", std_level=None, group_size=2))
    assert groups(rows()["rewards"]).tolist() == [0.5, -0.5, 0.0, 0.0]
    assert rows(all_sequences=True)["rewards"].tolist() == [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]


def test_areal_evaluates(monkeypatch: pytest.MonkeyPatch) -> None:
    areal = pytest.importorskip("areal", reason="areal is not installed")
    from areal.utils import stats_tracker

    import rolloutd.areal as module

    async def ended(_: Any, arguments: dict[str, Any]) -> Record:
        assert arguments["purpose"] == "eval"
        return Record("r", "", "", "completed", 0.25, ())

    async def evaluated() -> Any:
        areal.workflow_context.set(areal.workflow_context.WorkflowContext(is_eval=True))
        return await module.RolloutdWorkflow("http://server").arun_episode(None, {"prompt": "p"})

    monkeypatch.setattr(module, "run_rollout", ended)
    assert asyncio.run(evaluated()) is None
    assert stats_tracker.get("eval-rollout").export()["eval-rollout/reward"] == 0.25


def test_verl_takes_the_outputs() -> None:
    loop = pytest.importorskip("verl.experimental.agent_loop.agent_loop", reason="verl is not installed")
    pairs: Pairs = Counter()
    for record in RECORDS:
        for fields in verl.outputs(record):
            row = loop.AgentLoopOutput(**fields).as_dict()
            pairs += tensor_pairs(row["responses"], row["response_mask"], row["rollout_log_probs"])
            assert float(row["rm_scores"][-1]) == float(row["rm_scores"].sum()) == record.reward
            assert len(row["prompts"]) + len(row["responses"]) == len(fields["prompt_ids"]) + len(fields["response_ids"])
    assert pairs == pairs_of(RECORDS)


@pytest.mark.parametrize("stepwise", [False, True])
def test_skyrl_validates_routed_experts(stepwise: bool) -> None:
    base = pytest.importorskip("skyrl.train.generators.base", reason="skyrl is not installed")
    from skyrl.train.utils.trainer_utils import validate_generator_output

    rows = (skyrl.stepwise if stepwise else skyrl.linear)(with_rows(RECORDS), replay=Shape(LAYERS, TOP_K))
    output = base.GeneratorOutput(**rows.output([base.TrajectoryID(r.group, i) for i, r in enumerate(RECORDS)], stepwise=stepwise))
    validate_generator_output(len(RECORDS), output, step_wise=stepwise)
    for prompt, response, mask, routes in zip(
        output["prompt_token_ids"], output["response_ids"], output["loss_masks"], output["rollout_expert_indices"], strict=True
    ):
        tokens = prompt + response
        assert not any(mask) or routes.tolist() == [row_of(tokens[: i + 1]) for i in range(len(tokens) - 1)]


@pytest.mark.parametrize("stepwise", [False, True])
def test_skyrl_validates_the_output(stepwise: bool) -> None:
    base = pytest.importorskip("skyrl.train.generators.base", reason="skyrl is not installed")
    from skyrl.train.utils.trainer_utils import validate_generator_output

    rows = skyrl.stepwise(RECORDS) if stepwise else skyrl.linear(RECORDS)
    output = base.GeneratorOutput(**rows.output([base.TrajectoryID(r.group, i) for i, r in enumerate(RECORDS)], stepwise=stepwise))
    validate_generator_output(len(RECORDS), output, step_wise=stepwise)
    pairs: Pairs = Counter()
    for columns in zip(output["response_ids"], output["loss_masks"], output["rollout_logprobs"], strict=True):
        pairs += tensor_pairs(*columns)
    assert pairs == (pairs_of(RECORDS) if stepwise else of_longest(RECORDS))


def test_verifiers_trains_on_the_branches() -> None:
    vf = pytest.importorskip("verifiers.v1", reason="verifiers is not installed")
    from verifiers.v1.configs.agent import WireAgentConfig
    from verifiers.v1.task import WireTaskData
    from verifiers.v1.trace import AgentInfo, TraceTask

    pairs: Pairs = Counter()
    for record in RECORDS:
        task = TraceTask(type="Task", data=WireTaskData(prompt="p"))
        trace = vf.Trace.model_validate({**verifiers.trace(record), "task": task, "agent": AgentInfo(config=WireAgentConfig())})
        assert trace.has_error == (not trained(record))
        assert len(trace.branches) == len(record.sequences)
        for branch, sequence in zip(trace.branches, record.sequences, strict=True):
            assert branch.token_ids == sequence.token_ids
            assert branch.sampled_mask == [bool(bit) for bit in sequence.loss_mask]
            assert branch.logprobs == sequence.logprobs
            if not trace.has_error:
                pairs += tensor_pairs(branch.token_ids, branch.sampled_mask, branch.logprobs)
        if not trace.has_error:
            assert trace.reward == record.reward
    assert pairs == pairs_of(RECORDS)


def test_verifiers_takes_routed_experts() -> None:
    vf = pytest.importorskip("verifiers.v1", reason="verifiers is not installed")
    from verifiers.v1.configs.agent import WireAgentConfig
    from verifiers.v1.task import WireTaskData
    from verifiers.v1.trace import AgentInfo, TraceTask

    for record in with_rows(recorded()):
        shaped = tuple(replace(s, routed_experts=replace(s.routed_experts, layers=LAYERS, top_k=TOP_K)) for s in record.sequences if s.routed_experts)
        task = TraceTask(type="Task", data=WireTaskData(prompt="p"))
        fields = verifiers.trace(replace(record, sequences=shaped))
        trace = vf.Trace.model_validate({**fields, "task": task, "agent": AgentInfo(config=WireAgentConfig())})
        for branch, sequence in zip(trace.branches, shaped, strict=True):
            rows = [row_of(sequence.token_ids[: i + 1]) for i in range(len(sequence.token_ids) - 1)]
            assert branch.routed_experts.tolist() == [*rows, rows[-1]]


def test_nemo_gym_parses_the_answer() -> None:
    server = pytest.importorskip("nemo_gym.base_resources_server", reason="nemo-gym is not installed")
    pairs: Pairs = Counter()
    for record in (r for r in RECORDS if trained(r)):
        answer = server.BaseVerifyResponse.model_validate(nemo_gym.verify_response(record, {"responses_create_params": {"input": []}}))
        assert answer.reward == record.reward
        for item in answer.model_dump()["response"]["output"]:
            assert item["prompt_token_ids"]
            pairs.update(zip(item["generation_token_ids"], item["generation_log_probs"], strict=True))
    assert pairs == of_longest(RECORDS)


def test_nemo_gym_takes_routed_experts() -> None:
    server = pytest.importorskip("nemo_gym.base_resources_server", reason="nemo-gym is not installed")
    for record in with_rows(recorded()):
        if (sequence := longest(trained(record))) is None:
            continue
        assert sequence.routed_experts is not None
        shaped = replace(sequence, routed_experts=replace(sequence.routed_experts, layers=LAYERS, top_k=TOP_K))
        fields = nemo_gym.verify_response(replace(record, sequences=(shaped,)), {"responses_create_params": {"input": []}})
        for item in server.BaseVerifyResponse.model_validate(fields).model_dump()["response"]["output"]:
            ids = [*item["prompt_token_ids"], *item["generation_token_ids"]]
            rows = [row_of(ids[: i + 1]) for i in range(len(ids) - 1)]
            assert item["routed_experts"] == [*rows, rows[-1]]


def test_verifiers_takes_sampling_masks() -> None:
    vf = pytest.importorskip("verifiers.v1.graph", reason="verifiers is not installed")
    for record in with_masks(recorded()):
        for node in verifiers.trace(record)["nodes"]:
            made = vf.MessageNode(**node)
            if not any(made.mask):
                assert made.sampling_mask is None
                continue
            assert len(made.sampling_mask.counts) == sum(made.mask)
            assert made.sampling_mask.ids.tolist()[0] == made.token_ids[0]
            assert made.sampling_mask.counts.sum() == len(made.sampling_mask.ids)


def test_tinker_joins_the_transitions_to_the_sequences() -> None:
    processing = pytest.importorskip("tinker_cookbook.rl.data_processing", reason="tinker-cookbook is not installed")
    import tinker as api
    from tinker_cookbook.completers import TokensWithLogprobs
    from tinker_cookbook.rl.types import Trajectory, Transition

    pairs: Pairs = Counter()
    for record in RECORDS:
        made = [
            Transition(api.ModelInput.from_ints(t["ob"]), TokensWithLogprobs(t["tokens"], t["logprobs"], t["stop_reason"]), 0.0, t["episode_done"])
            for t in tinker.transitions(record)
        ]
        data = processing.trajectory_to_data(Trajectory(made, api.ModelInput.empty()), 1.0)
        assert len(data) == len(trained(record))
        for datum in data:
            inputs = {name: values.to_torch() for name, values in datum.loss_fn_inputs.items()}
            pairs += tensor_pairs(inputs["target_tokens"], inputs["mask"], inputs["logprobs"])
    assert pairs == pairs_of(RECORDS)


def test_art_makes_its_batch_of_the_choices() -> None:
    art = pytest.importorskip("art", reason="openpipe-art is not installed")
    from art.preprocessing.tokenize import tokenize_trajectory_groups

    from rolloutd.art import trajectory

    pairs: Pairs = Counter()
    for record in RECORDS:
        made = trajectory(record)
        assert (made is None) == (not trained(record))
        if made is None:
            continue
        # Without a second rollout of another reward, the trainer has no advantage.
        other = art.Trajectory(messages_and_choices=[], reward=made.reward + 1)
        rows = list(tokenize_trajectory_groups(None, [art.TrajectoryGroup([made, other])], False, True))
        assert sorted(len(row.token_ids) for row in rows) == sorted(s.spans[-1].stop for s in trained(record))
        assert all(row.advantage < 0 for row in rows)
        for row in rows:
            pairs += tensor_pairs(row.token_ids, row.assistant_mask, row.logprobs)
    assert pairs == pairs_of(RECORDS)


def test_rllm_makes_its_data_of_the_steps() -> None:
    transform = pytest.importorskip("rllm.trainer.tinker.transform", reason="rllm or tinker is not installed")
    from rolloutd.rllm import trajectory

    pairs: Pairs = Counter()
    for record in RECORDS:
        made = trajectory(record)
        assert bool(made.steps) == bool(trained(record))
        for step in made.steps:
            step.advantage = 1.0
        for datum in transform.trajectory_to_datums(made):
            inputs = {name: values.to_torch() for name, values in datum.loss_fn_inputs.items()}
            pairs += tensor_pairs(inputs["target_tokens"], inputs["mask"], inputs["logprobs"])
    assert pairs == pairs_of(RECORDS)


def test_verifiers_reads_a_task_from_each_line(tmp_path: Path) -> None:
    pytest.importorskip("verifiers.v1", reason="verifiers is not installed")
    from rolloutd.verifiers import RolloutdTaskset, RolloutdTasksetConfig

    # JSON may have these as they are, and they end no line.
    text = "é\u0085\u2028\u2029"
    lines = "".join(json.dumps({"id": id, "instruction": text}, ensure_ascii=False) + "\n" for id in "ab")
    (tmp_path / "tasks.jsonl").write_text(lines, encoding="utf-8")
    taskset = RolloutdTaskset(RolloutdTasksetConfig(path=tmp_path / "tasks.jsonl"))
    assert [(task.data.id, task.data.prompt) for task in taskset.load()] == [("a", text), ("b", text)]


def test_agentlightning_reads_the_events() -> None:
    schemas = pytest.importorskip("agentlightning.schemas", reason="agentlightning is not installed")
    from agentlightning.server.routes.events import _dedupe_model_requests_by_prompt_token_ids, _to_triplet_format

    pairs: Pairs = Counter()
    for record in RECORDS:
        made = [schemas.Event(**event, rollout_id="r", attempt_id="0", timestamp=0) for event in agentlightning.events(record)]
        read = _dedupe_model_requests_by_prompt_token_ids([_to_triplet_format(event) for event in made])
        assert [event.data["value"] for event in read if event.event_type == "reward"] == ([] if record.reward is None else [record.reward])
        for event in read:
            if event.event_type == "model_request":
                assert event.data["prompt_token_ids"]
                pairs.update(zip(event.data["response_token_ids"], event.data["response_log_probs"], strict=True))
    assert pairs == pairs_of(RECORDS)
