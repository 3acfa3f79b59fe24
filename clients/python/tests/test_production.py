from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import Answer, Server

from rolloutd import AsyncClient, Client, DeadlineError, InvalidError, UnavailableError

RUNNING: dict[str, Any] = {"producer_id": "p", "sink": "disk", "group_size": 2, "phase": "running", "waiting": "", "step": 3, "counts": {"delivered": 4}}
DELIVERED = {"group_id": "g/1", "sink": "disk", "state": "delivered", "tries": 1, "rollouts": 2}


def test_a_producer_is_started_once_and_steered(server: Server) -> None:
    server.on("POST /producers", Answer(silent=True), Answer(202, RUNNING | {"broken": ["t7: no instruction"]}))
    server.on("POST /producers/p/change", Answer(200, {"producer_id": "p", "done": False}))
    server.on("GET /producers/p", Answer(200, RUNNING), Answer(200, RUNNING | {"phase": "done", "outcome": "stopped"}))
    server.on("POST /producers/p/abort", Answer(200, {"producer_id": "p", "done": True}))
    server.on("GET /producers", Answer(200, {"producers": [RUNNING], "next": "c"}), Answer(200, {"producers": [RUNNING]}))
    with Client(server.url) as c:
        started = c.producers.submit({"task_set": "math"}, sink="disk", group_size=2)
        assert (started.counts["delivered"], started.broken, started.done) == (4, ("t7: no instruction",), False)
        assert c.producers.change("p", paused=True, concurrency=8)
        assert c.producers.wait("p", poll_s=0.01).outcome == "stopped"
        assert c.producers.abort("p") is False, "it had ended before"
        assert len(list(c.producers.all(status="running"))) == 2
    sent = server.requests("POST /producers")
    assert len({s.body["producer_id"] for s in sent}) == 1 and len(sent) == 2
    assert server.requests("POST /producers/p/change")[0].body == {"paused": True, "concurrency": 8}


def test_deliveries_of_a_group(server: Server) -> None:
    server.on("POST /groups/g%2F1/deliver", Answer(202, DELIVERED | {"state": "pending"}))
    server.on("GET /groups/g%2F1/deliveries/disk", Answer(200, DELIVERED | {"state": "pending"}), Answer(200, DELIVERED))
    server.on("GET /groups/g%2F1/deliveries/slow", Answer(200, DELIVERED | {"state": "pending"}))
    server.on("GET /deliveries", Answer(200, {"deliveries": [DELIVERED]}))
    with Client(server.url) as c:
        assert not c.deliveries.deliver("g/1", "disk").done
        assert c.deliveries.wait("g/1", "disk", poll_s=0.01).state == "delivered"
        assert [d.rollouts for d in c.deliveries.all(state="delivered")] == [2]
        with pytest.raises(DeadlineError, match="g/1 to slow"):
            c.deliveries.wait("g/1", "slow", timeout_s=0, poll_s=0.01)


def step(**members: Any) -> Answer:
    return Answer(200, {"observation": {"tool_name": "terminal", "result": None, "error": None, **members}, "done": False, "reward": None})


def test_an_episode_is_driven_by_calls(server: Server) -> None:
    begun = {"episode_id": "e", "rollout_id": "r", "task_id": "t", "instruction": "write"}
    server.on("POST /env/tools/reset", Answer(200, {"observation": begun, "done": False, "reward": None}))
    end = step(result={"data": "The episode has ended.", "is_error": False}).body | {"done": True, "reward": 0.5}
    ran = step(result={"data": "x", "is_error": True, "structured_content": {"exit_code": 3}})
    refused = step(error={"error_type": "tool_not_found", "message": "no tool nope"})
    server.on("POST /env/tools/step", Answer(silent=True), ran, refused, Answer(200, end))
    server.on("POST /rollouts/r/abort", Answer(200, {"rollout_id": "r", "aborted": True}))

    async def main() -> None:
        async with AsyncClient(server.url) as c:
            episode = await c.episodes.reset(instruction="write", verify=["true"])
            assert (episode.rollout_id, episode.instruction) == ("r", "write")
            step = await c.episodes.call(episode, "terminal", {"command": "exit 3"})
            assert (step.text, step.failed, step.data["exit_code"], step.done) == ("x", True, 3, False)
            assert (await c.episodes.call(episode, "nope")).error == "no tool nope"
            assert (await c.episodes.submit(episode)).reward == 0.5
            assert await c.episodes.close(episode)

    asyncio.run(main())
    (reset,) = server.requests("POST /env/tools/reset")
    steps = server.requests("POST /env/tools/step")
    assert {s.body["session_id"] for s in steps} == {reset.body["session_id"]}
    assert steps[0].body == steps[1].body, "a step whose answer was lost is made again under its id"
    assert len({s.body["request_id"] for s in steps}) == 3


def test_a_score_and_the_executor(server: Server) -> None:
    server.on("POST /rollouts/r/score", Answer(200, {"rollout_id": "r", "score": 0.5}), Answer(422, {"detail": "score: must be a finite number"}))
    answer = {"success": False, "output": "x", "error": "Exit code: 3", "metadata": {"exit_code": 3}, "uniq_id": "u"}
    server.on("POST /executor/execute", Answer(200, answer))
    server.on("POST /executor/release", Answer(200, {"status": "ok"}))
    with Client(server.url) as c:
        c.rollouts.score("r", 0.5)
        with pytest.raises(InvalidError, match="finite"):
            c.rollouts.score("r", 5)
        ran = c.executor.execute("r", "terminal", {"command": "exit 3"}, uniq_id="u", timeout_s=5)
        assert (ran.success, ran.output, ran.metadata) == (False, "x", {"exit_code": 3})
        assert c.executor.release("r")
        server.on("POST /executor/execute", Answer(200, answer | {"error": "no tools", "metadata": {"fault": "Unavailable"}}))
        with pytest.raises(UnavailableError, match="no tools"):
            c.executor.execute("r", "terminal", {"command": "exit 3"})
    sent, _ = server.requests("POST /executor/execute")
    assert sent.body == {
        "trajectory_id": "r", "timeout_s": 5, "tool": {"name": "terminal", "arguments": {"command": "exit 3"}, "uniq_id": "u"},
    }
