"""Rollouts that an adapter runs for a trainer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from conftest import Answer, Server

from rolloutd import AsyncClient, InvalidError
from rolloutd.agentlightning import RolloutdAgent
from rolloutd.trainers.running import arguments_of, pinned, run_group, run_rollout, sampling_of, unscaled

LINE = {"rollout_id": "r", "reward": 1, "token_ids": [1, 2], "loss_mask": [0, 1], "logprobs": [0, -1], "spans": [{"turn": 1, "start": 1, "stop": 2, "train": True}]}


def group(outcome: str, *rewards: float | None) -> dict[str, Any]:
    members = [{"index": i, "rollout_id": f"g-{i}", "outcome": "completed", "reward": reward} for i, reward in enumerate(rewards)]
    return {"group_id": "g", "size": len(rewards), "outcome": outcome, "replaced": 1, "members": members}


async def with_client(server: Server, run: Any) -> Any:
    async with AsyncClient(server.url) as client:
        return await run(client)


@pytest.mark.parametrize(("outcome", "reward", "ids"), [("completed", 1, [[1, 2]]), ("setup_failed", None, [])])
def test_a_rollout_becomes_a_record(server: Server, outcome: str, reward: float | None, ids: list[list[int]]) -> None:
    done = {"rollout_id": "r", "phase": "done", "outcome": outcome, "reward": reward}
    server.on("POST /rollouts", Answer(202, {"rollout_id": "r"}))
    server.on("GET /rollouts/r/events", Answer(200, f"id: 1\nevent: done\ndata: {json.dumps(done)}\n\n".encode(), cut=True))
    server.on("GET /rollouts/r/result", Answer(200, done))
    if ids:  # a rollout whose setup failed has no trace, and its trajectory is a 404
        server.on("GET /rollouts/r/trajectory", Answer(200, json.dumps(LINE).encode()))
    record = asyncio.run(with_client(server, lambda client: run_rollout(client, {"instruction": "i", "rollout_id": "r"})))
    assert (record.rollout_id, record.reward, [s.token_ids for s in record.sequences]) == ("r", reward, ids)


def test_a_task_chooses_which_sequences_are_trained(server: Server) -> None:
    done = {"rollout_id": "r", "phase": "done", "outcome": "completed", "reward": 1}
    server.on("POST /rollouts", Answer(202, {"rollout_id": "r"}))
    server.on("GET /rollouts/r/events", Answer(200, f"id: 1\nevent: done\ndata: {json.dumps(done)}\n\n".encode(), cut=True))
    server.on("GET /rollouts/r/result", Answer(200, done))
    server.on("GET /rollouts/r/trajectory", Answer(200, json.dumps(LINE).encode()))
    server.on("POST /groups", Answer(202, group("")))
    server.on("GET /groups/g", Answer(200, group("completed", 1.0)))
    server.on("GET /rollouts/g-0/trajectory", Answer(200, b""))
    chosen = {"trajectory": {"subagents": "separate", "summaries": "train"}}

    asyncio.run(with_client(server, lambda client: run_rollout(client, {"rollout_id": "r", **chosen})))
    asyncio.run(with_client(server, lambda client: run_group(client, {"group_id": "g", **chosen}, 1)))
    for path in ("/rollouts/r", "/rollouts/g-0"):
        [request] = server.requests(f"GET {path}/trajectory")
        assert "subagents=separate" in request.path and "summaries=train" in request.path
    for path in ("/rollouts", "/groups"):
        assert "trajectory" not in server.requests(f"POST {path}")[0].body

    with pytest.raises(InvalidError, match="got 'subagents': 'keep'"):
        asyncio.run(with_client(server, lambda client: run_rollout(client, {"trajectory": {"subagents": "keep"}})))


def test_a_group_without_rewards_has_records_without_sequences(server: Server) -> None:
    server.on("POST /groups", Answer(202, group("")))
    server.on("GET /groups/g", Answer(200, group("failed", None, None)))
    run = asyncio.run(with_client(server, lambda client: run_group(client, {"group_id": "g"}, 2)))
    assert run.replaced == 1
    assert [(r.rollout_id, r.reward, r.sequences) for r in run.records] == [("g-0", None, ()), ("g-1", None, ())]
    with pytest.raises(InvalidError, match="from 1 to 128, got 129"):
        asyncio.run(with_client(server, lambda client: run_group(client, {}, 129)))


def test_a_group_whose_caller_is_cancelled_is_aborted(server: Server) -> None:
    asked = asyncio.Event()

    async def cancelled(client: AsyncClient) -> None:
        loop = asyncio.get_running_loop()

        def state(_: Server) -> dict[str, Any]:
            loop.call_soon_threadsafe(asked.set)
            return group("", None)

        server.on("POST /groups", Answer(202, group("", None)))
        server.on("GET /groups/g", Answer(200, state))
        server.on("POST /groups/g/abort", Answer(200, {"aborted": True}))
        task = asyncio.create_task(run_group(client, {"group_id": "g"}, 1))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(with_client(server, cancelled))
    assert len(server.requests("POST /groups/g/abort")) == 1


def test_a_field_that_a_row_lacks_overrides_nothing() -> None:
    task = {"agent": "react", "endpoint": "vllm", "upload_files": {"a": "of the task"}}
    # The rows of a column of Arrow: each has the fields of both.
    rows: list[dict[str, Any] | None] = [
        {"agent": None, "base_url": None, "upload_files": {"x": "1", "y": None}, "steps": [{"name": "s", "setup": None}]},
        {"agent": "opencode", "upload_files": None, "limits": {"turns": None, "attempts": 1}},
    ]
    assert [arguments_of(task, row) for row in [*rows, None]] == [
        {**task, "upload_files": {"x": "1"}, "steps": [{"name": "s"}]},
        {**task, "agent": "opencode", "limits": {"attempts": 1}},
        task,
    ]


def test_arguments_of_a_row_that_are_text_are_refused() -> None:
    with pytest.raises(TypeError, match="`rolloutd` of a row must be an object with arguments of a rollout, not str: {"):
        arguments_of({"agent": "react"}, '{"agent": "opencode"}')  # type: ignore[arg-type]


def test_sampling_parameters_of_a_trainer() -> None:
    assert sampling_of({"temperature": 0.0, "top_p": 1.0, "top_k": -1, "logprobs": True, "min_p": None}) == {"temperature": 0.0, "top_p": 1.0}
    assert sampling_of({"top_k": 20}) == {"top_k": 20}


def test_the_sampling_of_the_purpose_is_pinned() -> None:
    task = {"sampling": {"top_p": 0.9}, "eval_sampling": {"seed": 1}}
    assert pinned({**task, "purpose": "train"}, {"temperature": 1.0, "top_p": 1.0}) == {"purpose": "train", "sampling": {"temperature": 1.0, "top_p": 0.9}}
    assert pinned({**task, "purpose": "eval"}, {"temperature": 0.0}) == {"purpose": "eval", "eval_sampling": {"temperature": 0.0, "seed": 1}}


@pytest.mark.parametrize(
    ("arguments", "sampling"),
    [
        ({"purpose": "train"}, {"sampling": {"temperature": 1.0}}),
        ({"purpose": "train", "sampling": {"temperature": 0.7}}, {"sampling": {"temperature": 0.7}}),
        ({"purpose": "train", "temperature": 0.7}, {"temperature": 0.7, "sampling": {}}),
        ({"purpose": "train", "react": {"temperature": 0.7}}, {"react": {"temperature": 0.7}, "sampling": {}}),
        ({"purpose": "eval"}, {"eval_sampling": {}}),
        ({"purpose": "eval", "sampling": {"temperature": 0.7}, "eval_sampling": {"top_p": 0.9}}, {"eval_sampling": {"top_p": 0.9}}),
    ],
)
def test_a_trainer_that_does_not_tell_its_temperature_has_1(arguments: dict[str, Any], sampling: dict[str, Any]) -> None:
    assert unscaled(arguments) == {"purpose": arguments["purpose"], **sampling}


@pytest.mark.parametrize(
    ("mode", "task", "sampling"),
    [
        ("train", {}, {"sampling": {"temperature": 1.0}}),
        ("train", {"endpoint": "vllm"}, {"sampling": {"temperature": 1.0}}),
        ("train", {"endpoint": "vllm", "sampling": {"temperature": 0.7}}, {"sampling": {"temperature": 0.7}}),
        ("val", {"sampling": {"temperature": 1.0}}, {"eval_sampling": {}}),
        ("train", {"purpose": "eval"}, {"eval_sampling": {}}),
    ],
)
def test_the_sampling_of_agentlightning(monkeypatch: pytest.MonkeyPatch, mode: str, task: dict[str, Any], sampling: dict[str, Any]) -> None:
    monkeypatch.setenv("AGL_OPENAI_BASE_URL", f"http://trainer/rollouts/r/attempt/0/mode/{mode}/v1")
    monkeypatch.setenv("ROLLOUTD_TASK", json.dumps(task))
    monkeypatch.setenv("ROLLOUTD_ROW", json.dumps({"instruction": "Say hello."}))

    arguments = RolloutdAgent()._arguments("http://trainer/api/rollouts/r/attempt/0/events")
    assert {name: value for name, value in arguments.items() if name.endswith("sampling")} == sampling
