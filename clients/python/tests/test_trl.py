from __future__ import annotations

import json
import os
import pickle
import signal
import threading
from functools import partial
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Answer, Server

from rolloutd import Client, InvalidError, Staleness, UnscoredError
from rolloutd.trl import Environment, RolloutFunc, SessionFactory, instruction_of, reward
from rolloutd.trl.sessions import training_entries

CHAT = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "do"}, {"type": "text", "text": " it"}]}]


def line(rollout: str, tokens: list[int], mask: list[int], reward: float | None = 1.0, version: str = "") -> bytes:
    """A sequence whose replies are the runs of ones of the mask."""
    runs = [(bit, len(list(run))) for bit, run in groupby(mask)]
    ends = [sum(n for _, n in runs[: i + 1]) for i in range(len(runs))]
    spans = [{"turn": i, "start": end - n, "stop": end, "train": True, "model_version": version} for i, ((bit, n), end) in enumerate(zip(runs, ends, strict=True)) if bit]
    raw = {"rollout_id": rollout, "reward": reward, "token_ids": tokens, "loss_mask": mask, "trained": sum(mask), "spans": spans, "end": "end"}
    return json.dumps(raw | {"logprobs": [-0.5 * m for m in mask]}).encode() + b"\n"


def group(server: Server, lines: list[bytes], *members: float | None) -> None:
    state = {"group_id": "g", "size": len(members), "outcome": "complete"}
    state["members"] = [{"index": i, "rollout_id": f"r{i}", "outcome": "completed", "reward": r} for i, r in enumerate(members)]
    server.on("POST /groups", Answer(202, state | {"group_id": "g", "outcome": ""}))
    server.on("GET /groups/g", Answer(200, state))
    for i in range(len(members)):
        own = [text for text in lines if json.loads(text)["rollout_id"] == f"r{i}"]
        server.on(f"GET /rollouts/r{i}/trajectory", Answer(200, b"".join(own)))


def test_a_batch_has_a_row_for_each_prompt(server: Server) -> None:
    group(server, [line("r0", [1, 2, 3, 4, 5], [0, 0, 1, 0, 1]), line("r0", [1, 9], [0, 1]), line("r1", [1, 2, 6], [0, 0, 1], 0.0)], 1.0, 0.0, None)
    with Client(server.url) as client:
        func = RolloutFunc(client, {"endpoint": "vllm"})
        batch = func(["p", "p", "p"])
    assert batch["prompt_ids"] == [[1, 2], [1, 2], [1, 2]]
    assert batch["completion_ids"] == [[3, 4, 5], [6], [3]]
    assert batch["logprobs"] == [[-0.5, 0, -0.5], [-0.5], [-0.5]]
    assert batch["env_mask"] == [[1, 0, 1], [1], [0]]
    assert batch["rewards"] == [1.0, 0.0, None]
    assert reward([], batch["rewards"]) == [1.0, 0.0, None]
    assert (func.counts.rows, func.counts.lost, func.counts.dropped_sequences) == (3, 1, 1)
    (sent,) = server.requests("POST /groups")
    said = {"instruction": "p", "purpose": "train", "endpoint": "vllm", "group_size": 3, "group_id": "", "sampling": {}}
    assert sent.body | {"group_id": ""} == said


@pytest.mark.parametrize(
    ("task", "want"),
    [
        ({}, {"sampling": {"temperature": 0.7, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.0}}),
        ({"sampling": {"temperature": 1.0}}, {"sampling": {"temperature": 1.0, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.0}}),
        ({"top_p": 1.0}, {"top_p": 1.0, "sampling": {"temperature": 0.7, "min_p": 0.1, "repetition_penalty": 1.0}}),
    ],
)
def test_the_sampling_of_the_trainer_is_pinned(server: Server, task: dict[str, Any], want: dict[str, Any]) -> None:
    group(server, [line("r0", [1, 2], [0, 1])], 1.0)
    config = {"temperature": 0.7, "top_p": 0.9, "top_k": 0, "min_p": None, "repetition_penalty": 1.0, "generation_kwargs": {"min_p": 0.1}}
    with Client(server.url) as client:
        RolloutFunc(client, task)(["p"], SimpleNamespace(args=SimpleNamespace(**config)))
    (sent,) = server.requests("POST /groups")
    assert {name: value for name, value in sent.body.items() if name in ("sampling", "top_p")} == want


def test_stale_rows_are_masked(server: Server) -> None:
    group(server, [line("r0", [1, 2], [0, 1], version="3"), line("r1", [1, 2], [0, 1], 0.0, "7..8")], 1.0, 0.0)
    with Client(server.url) as client:
        func = RolloutFunc(client, {}, staleness=Staleness(2), current_version=lambda: 9)
        batch = func(["p", "p"])
        assert batch["rewards"] == [None, 0.0]
        assert batch["env_mask"] == [[0], [1]]
        assert func.counts.stale == 1
        with pytest.raises(InvalidError, match="current_version"):
            RolloutFunc(client, {}, staleness=Staleness(2))


def test_a_batch_without_data_is_an_error(server: Server) -> None:
    group(server, [], None, None)
    with Client(server.url) as client, pytest.raises(UnscoredError, match="no rollout of this batch"):
        RolloutFunc(client, {})(["p", "p"])


def test_a_row_that_is_refused_costs_only_itself(server: Server) -> None:
    group(server, [line("r0", [1, 2], [0, 1])], 1.0)
    with Client(server.url) as client:
        func = RolloutFunc(client, {})
        batch = func(["p", CHAT[:1]])
        assert (batch["rewards"], batch["env_mask"], func.counts.lost) == ([1.0, None], [[1], [0]], 1)

        server.on("POST /groups", Answer(400, {"kind": "Invalid", "detail": "agent: there is no none-such"}))
        with pytest.raises(UnscoredError, match="there is no none-such"):
            func(["p", "p"])


def test_instructions() -> None:
    assert instruction_of("text") == "text"
    assert instruction_of(CHAT) == "do it"
    assert instruction_of([{"role": "user", "content": [{"type": "input_text", "text": "do it"}]}]) == "do it"
    with pytest.raises(InvalidError):
        instruction_of([{"role": "system", "content": "s"}])


def events(**state: Any) -> Answer:
    done = {"rollout_id": "e", "phase": "done", "reward": None, **state}
    return Answer(200, f"id: 1\nevent: done\ndata: {json.dumps(done)}\n\n".encode(), cut=True)


@pytest.mark.parametrize(
    ("outcome", "want"), [("completed", 0), ("agent_failed", 1), ("agent_timeout", TimeoutError), ("infra_failed", UnscoredError), ("aborted", UnscoredError)]
)
def test_sessions_end_as_trl_expects(server: Server, outcome: str, want: int | type[Exception]) -> None:
    server.on("POST /rollouts", Answer(202, {"rollout_id": "e"}))
    server.on("GET /rollouts/e/events", events(outcome=outcome))
    factory = pickle.loads(pickle.dumps(partial(SessionFactory, server.url, task={"endpoint": "vllm"})))(sampling={"temperature": 0.7})
    session = factory.create(CHAT, seed=3, episode_id="e")
    if isinstance(want, int):
        assert session.wait_for_completion() == want
    else:
        with pytest.raises(want) as caught:
            session.wait_for_completion()
        # These would stop TRL's worker as a broken capture.
        assert not isinstance(caught.value, (ValueError, TypeError, KeyError))
    (sent,) = server.requests("POST /rollouts")
    assert sent.body["instruction"] == "do it"
    assert sent.body["sampling"] == {"temperature": 0.7}
    assert sent.body["group_id"].endswith("-3")
    session.close()
    assert not server.requests("POST /rollouts/e/abort")
    factory.close()


def test_a_reply_to_token_ids_is_a_message() -> None:
    ids = {"prompt_token_ids": [1], "completion_token_ids": [2], "per_token_logps": [-0.5], "train": True, "call_id": "c", "turn": 1}
    said = {"finish_reason": "stop", "text": "done"}
    chat = {"choices": [{"message": {"role": "assistant", "content": "done"}}]}
    entries = training_entries([{**ids, "response": {"choices": [said]}}, {**ids, "response": chat}, {**ids, "response": {"output": []}}])
    assert entries[0]["response"] == {"choices": [{**said, "message": {"role": "assistant", "content": "done"}}]}
    assert entries[1]["response"] == chat
    assert entries[2]["response"] == {"output": []}


def test_closing_a_session_aborts_its_rollout(server: Server) -> None:
    server.on("POST /rollouts/e/abort", Answer(200, {"rollout_id": "e", "aborted": True}))
    factory = SessionFactory(server.url, task={})
    session = factory.create("p", episode_id="e")
    session.close()
    session.close()
    assert len(server.requests("POST /rollouts/e/abort")) == 1
    with pytest.raises(UnscoredError, match="closed"):
        session.wait_for_completion()
    factory.close()


def test_an_environment_has_a_sandbox_per_generation(server: Server) -> None:
    def begun(rollout: str) -> Answer:
        return Answer(200, {"observation": {"episode_id": "e", "rollout_id": rollout}, "done": False, "reward": None})

    def step(reward: float | None = None, **seen: Any) -> Answer:
        return Answer(200, {"observation": seen, "done": reward is not None, "reward": reward})

    server.on("POST /env/coding/reset", begun("r1"), begun("r2"), Answer(400, {"detail": "setup failed", "kind": "SetupFailed"}))
    server.on(
        "POST /env/coding/step", step(result={"data": "out", "is_error": True}), step(error={"message": "no tool nope"}), step(0.5),
        Answer(409, {"detail": "another client has the episode", "kind": "Conflict"}),
    )
    with Client(server.url) as client:
        env = Environment(client, lambda row: {"task_id": row["name"], "verify": ["true"]}, environment="coding")
        env.reset(prompt=[{"role": "user", "content": "fix it"}], name="t1")
        assert env.terminal("false") == "out"
        assert env._call("nope") == "error: no tool nope"
        assert env.get_reward() == 0.5
        env.reset(prompt="fix it", name="t2")
        assert "another client" in env.read_file("x"), "a lost episode has no reward"
        assert env.get_reward() is None
        env.reset(prompt="fix it", name="t3")
        assert "setup failed" in env.write_file("x", "y")
        assert env.get_reward() is None
    first = server.requests("POST /env/coding/reset")[0].body
    assert first | {"session_id": ""} == {"instruction": "fix it", "task_id": "t1", "verify": ["true"], "session_id": ""}


def test_a_call_that_is_refused_costs_only_itself(server: Server) -> None:
    server.on("POST /env/tools/reset", Answer(200, {"observation": {"episode_id": "e", "rollout_id": "r"}}))
    server.on(
        "POST /env/tools/step", Answer(413, {"detail": "the body is too large"}), Answer(200, {"observation": {"result": {"data": "out"}}}),
        Answer(200, {"observation": {}, "done": True, "reward": 0.5}),
    )  # fmt: skip
    with Client(server.url) as client:
        env = Environment(client)
        env.reset(prompt="fix it")
        assert "surrogate" in env.terminal("echo \ud800")
        assert env.write_file("x", "y") == "error: the body is too large"
        assert env.terminal("ls") == "out"
        assert env.get_reward() == 0.5


def test_a_group_that_is_late_costs_only_its_own_rows(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rolloutd.trl.rollouts.POLL_S", 0.01)
    monkeypatch.setattr("rolloutd.trl.rollouts.new_id", lambda: "g")
    members = [{"index": 0, "rollout_id": "r0", "outcome": "completed", "reward": 1.0}, {"index": 1, "rollout_id": "r1", "outcome": "", "reward": None}]
    running: dict[str, Any] = {"group_id": "g", "size": 2, "outcome": "", "members": members}
    ended = running | {"outcome": "aborted", "members": [members[0], members[1] | {"outcome": "aborted"}]}

    def state(server: Server) -> dict[str, Any]:
        return ended if server.requests("POST /groups/g/abort") else running

    server.on("POST /groups", Answer(202, running))
    server.on("GET /groups/g", Answer(200, state))
    server.on("POST /groups/g/abort", Answer(200, {"aborted": True}))
    server.on("GET /rollouts/r0/trajectory", Answer(200, line("r0", [1, 2], [0, 1])))
    with Client(server.url) as client:
        batch = RolloutFunc(client, {}, timeout_s=0.05)(["p", "p"])
    assert (batch["rewards"], batch["rollout_ids"]) == ([1.0, None], ["r0", "r1"])
    assert len(server.requests("POST /groups/g/abort")) == 1


@pytest.mark.parametrize("interrupted", [True, False], ids=["Ctrl-C", "an error"])
def test_a_batch_that_ends_early_aborts_its_rollouts(server: Server, monkeypatch: pytest.MonkeyPatch, interrupted: bool) -> None:
    monkeypatch.setattr("rolloutd.trl.rollouts.POLL_S", 0.01)
    monkeypatch.setattr("rolloutd.trl.rollouts.new_id", lambda: "g")
    asked = threading.Semaphore(0)

    def state(server: Server) -> dict[str, Any]:
        asked.release()
        return {"group_id": "g", "size": 1, "outcome": "aborted" if server.requests("POST /groups/g/abort") else "", "members": []}

    server.on("POST /groups", Answer(202, {"group_id": "g", "size": 1}))
    server.on("GET /groups/g", Answer(200, state))
    server.on("POST /groups/g/abort", Answer(200, {"aborted": True}))

    def task(prompt: str) -> dict[str, Any]:
        if prompt == "broken":
            asked.acquire(timeout=20)  # the other group runs
            raise InvalidError("task: broken")
        return {}

    def interrupt() -> None:
        asked.acquire(timeout=20)
        os.kill(os.getpid(), signal.SIGINT)

    with Client(server.url) as client:
        if interrupted:
            threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt if interrupted else InvalidError):
            RolloutFunc(client, task)(["p"] if interrupted else ["p", "broken"])
        assert len(server.requests("POST /groups/g/abort")) == 1
