from __future__ import annotations

import asyncio
import gzip
import json
import logging
from base64 import b64encode
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from conftest import Answer, Server

from rolloutd import UnavailableError
from rolloutd.atropos import AgentConfig, AgentEnv, AgentEnvConfig, AgentResult, APIServerConfig, ScoredGroup, ToolCall
from rolloutd.atropos.cli import _one, _room, build, process, serve
from rolloutd.atropos.journal import Journal, _Kept
from rolloutd.atropos.trainer import Trainer


class Config(AgentEnvConfig):
    difficulty: int = 3


class Env(AgentEnv):
    name = "test_env"
    env_config_cls = Config

    def setup_agent_env(self) -> None:
        return None

    def get_next_item(self) -> dict[str, str]:
        return {"prompt": "what"}

    def build_task(self, item: Any) -> str:
        return str(item["prompt"])

    async def score_trajectory(self, item: Any, final_response: str) -> float:
        return float(len(final_response))


def transcript(text: str) -> Answer:
    parts = [{"type": "tool", "tool": "terminal", "callID": "c1", "state": {"status": "completed", "input": {"command": "x"}, "output": "out"}}]
    messages = [{"info": {"role": "user"}, "parts": [{"type": "text", "text": "what"}]}, {"info": {"role": "assistant"}, "parts": parts}]
    return Answer(200, {"messages": [*messages, {"info": {"role": "assistant"}, "parts": [{"type": "text", "text": text}]}]})


def group(server: Server, *members: tuple[str, str]) -> None:
    """A group whose members have these outcomes and answers. Those that completed await a score first."""
    server.seen.clear()
    for i, (outcome, text) in enumerate(members):
        span = {"turn": 1, "start": 1, "stop": 2, "train": True, "temperature": 0.2}
        line = {"rollout_id": f"r{i}", "token_ids": [5, 6], "loss_mask": [0, 1], "logprobs": [0, -1], "trained": 1, "spans": [span]}
        server.on(f"GET /rollouts/r{i}/trajectory", Answer(200, json.dumps(line).encode()))
        server.on(f"GET /rollouts/r{i}/messages", transcript(text))
        phase = "done" if outcome == "infra_failed" else "awaiting_score"
        server.on(f"GET /rollouts/r{i}", Answer(200, {"rollout_id": f"r{i}", "phase": phase, "attempt": 1}))
        server.on(f"POST /rollouts/r{i}/score", Answer(200, {"rollout_id": f"r{i}", "score": 0}))

    def state(s: Server) -> dict[str, Any]:
        """Scored members have their last score; an abort ends the others."""
        listed = []
        aborted = bool(s.requests("POST /groups/g/abort"))
        for i, (outcome, _) in enumerate(members):
            given = s.requests(f"POST /rollouts/r{i}/score")
            ended = outcome if given or outcome == "infra_failed" else "aborted" if aborted else ""
            listed.append({"index": i, "rollout_id": f"r{i}", "outcome": ended, "reward": given[-1].body["score"] if given else None})
        return {"group_id": "g", "outcome": "complete" if all(m["outcome"] for m in listed) else "", "members": listed}

    server.on("POST /groups", Answer(202, {"group_id": "g", "outcome": "", "members": []}))
    server.on("GET /groups/g", Answer(200, state))
    server.on("POST /groups/g/abort", Answer(200, {"group_id": "g", "aborted": True}))


@pytest.fixture(autouse=True)
def fixed_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rolloutd.atropos.env.new_id", lambda: "g")
    monkeypatch.setattr("rolloutd.atropos.cli.new_id", lambda: "g")
    monkeypatch.setattr("rolloutd.atropos.scores.POLL_S", 0.01)


def collect(env: AgentEnv) -> ScoredGroup | None:
    async def main() -> ScoredGroup | None:
        try:
            await env.setup()
            return await env.collect_trajectories({"prompt": "what"})
        finally:
            await env.close()

    return asyncio.run(main())


def make(server: Server, cls: type[AgentEnv] = Env, **config: Any) -> AgentEnv:
    settings = Config(rolloutd_server=server.url, group_size=2, include_messages=True, **config)
    return cls(settings, [APIServerConfig(base_url="http://model/v1", model_name="m")])


def test_a_group_has_the_conventions_of_the_trainer(server: Server) -> None:
    group(server, ("completed", "long answer"), ("agent_failed", ""))
    got = collect(make(server, agent_max_steps=7, enabled_toolsets=["terminal"]))
    assert got is not None
    assert (got["tokens"], got["masks"], got["inference_logprobs"]) == ([[5, 6]] * 2, [[-100, 6]] * 2, [[1.0, -1]] * 2)
    assert got["scores"] == [11.0, 0.0], "a failed agent has failed_score"
    assert got["generation_params"] == {"temperature": 0.2}
    messages = got["messages"]
    assert messages is not None
    assert [m["content"] for m in messages[0]] == ["what", "", "out", "long answer"]
    (sent,) = server.requests("POST /groups")
    assert (sent.body["verifier"], sent.body["limits"]) == ({"external": True}, {"verifier_s": 660.0})
    assert sent.body["react"] | {"system_prompt": ""} == {
        "max_steps": 7, "temperature": 0.7, "max_tokens": 0, "tool_delay_s": 0.0, "system_prompt": "",
        "enabled_toolsets": ["terminal"], "disabled_toolsets": [],
    }
    assert (sent.body["agent"], sent.body["base_url"], sent.body["model"]) == ("react", "http://model/v1", "m")


@pytest.mark.parametrize("fails", [False, True])
def test_the_score_of_a_lost_attempt_counts_for_no_other(server: Server, fails: bool) -> None:
    class Slow(Env):
        """The first attempt of r0 is lost while its hook runs, and the second awaits a score when the hook returns."""

        lost = False

        async def verify_and_score_trajectory(self, item: Any, final_response: str, *, trajectory_id: str, **more: Any) -> tuple[float, dict[str, Any]]:
            if trajectory_id == "r0" and not self.lost:
                self.lost = True
                server.on("GET /rollouts/r0", Answer(200, {"rollout_id": "r0", "phase": "awaiting_score", "attempt": 2}))
                if fails:
                    raise RuntimeError("the sandbox is gone")
                return 0.0, {"attempt": 1}
            return 1.0, {}

    group(server, ("completed", "a"), ("completed", "b"))
    got = collect(make(server, Slow, ensure_scores_are_not_same=False))
    assert got is not None
    assert (got["scores"], got["overrides"][0]) == ([1.0, 1.0], {"rollout_id": "r0"})
    assert len(server.requests("POST /rollouts/r0/score")) == 1


def test_a_score_may_be_any_real_number(server: Server) -> None:
    """As numpy.float32, Fraction is a Real that is no float."""

    class Scored(Env):
        async def score_trajectory(self, item: Any, final_response: str) -> Any:
            return Fraction(len(final_response))

    group(server, ("completed", "longer"), ("completed", "long"))
    got = collect(make(server, Scored))
    assert got is not None
    assert got["scores"] == [6.0, 4.0]


def test_what_is_left_out_is_counted(server: Server) -> None:
    group(server, ("completed", "same"), ("completed", "same"))
    env = make(server)
    assert collect(env) is None
    assert env.counts.same_scores == 1
    env = make(server, ensure_scores_are_not_same=False, max_token_length=2)
    assert collect(env) is None
    assert env.counts.too_long == 1
    group(server, ("completed", "one"), ("infra_failed", ""))
    env = make(server)
    assert collect(env) is None
    assert env.counts.incomplete == 1


class Raises(Env):
    async def score_trajectory(self, item: Any, final_response: str) -> float:
        raise KeyError("expected")


class Hangs(Env):
    def build_task(self, item: Any) -> str:
        self.config.worker_timeout = 0.05  # of the hooks after this one
        return "what"

    async def score_trajectory(self, item: Any, final_response: str) -> float:
        await asyncio.Event().wait()
        return 0.0


class NotANumber(Env):
    async def score_trajectory(self, item: Any, final_response: str) -> float:
        return float("nan")


@pytest.mark.parametrize(("cls", "text"), [(Raises, "KeyError: 'expected'"), (Hangs, "longer than worker_timeout"), (NotANumber, "must be a finite number")])
def test_a_failing_hook_costs_its_group(server: Server, cls: type[AgentEnv], text: str, caplog: pytest.LogCaptureFixture) -> None:
    group(server, ("completed", "one"), ("completed", "two"))
    env = make(server, cls)
    assert collect(env) is None
    assert env.counts.incomplete == 1
    assert "score of rollout r" in caplog.text and text in caplog.text
    assert server.requests("POST /groups/g/abort"), "the others get no score"


class Verifies(Env):
    def verify_and_score_trajectory(self, item: Any, final_response: str, **more: Any) -> tuple[float, dict[str, Any]]:
        result: AgentResult = more["agent_result"]
        (call,) = result.steps[0].tool_calls
        assert (call.name, call.arguments, result.total_tool_calls) == ("terminal", {"command": "x"}, 1)
        return (1.0 if final_response == result.steps[0].tool_results[0].output else 0.0), {"checked": True}


def test_a_hook_sees_the_steps(server: Server) -> None:
    group(server, ("completed", "out"), ("completed", "other"))
    got = collect(make(server, Verifies))
    assert got is not None
    assert got["scores"] == [1.0, 0.0]
    assert got["overrides"] == [{"rollout_id": "r0", "checked": True}, {"rollout_id": "r1", "checked": True}]


class RunsTests(Env):
    async def verify_and_score_trajectory(self, item: Any, final_response: str, **more: Any) -> float:
        ran = await more["exec_tool"](ToolCall("terminal", {"command": "pytest"}, "u1"))
        return 1.0 if ran.success and ran.metadata["exit_code"] == 0 else 0.0


def test_a_hook_runs_tools_in_the_sandbox(server: Server) -> None:
    group(server, ("completed", "out"), ("completed", "other"))
    ran = {"success": True, "output": "1 passed", "error": "", "metadata": {"exit_code": 0}, "uniq_id": "u1"}
    server.on("POST /executor/execute", Answer(200, ran), Answer(200, ran | {"success": False, "metadata": {"exit_code": 1}}))
    got = collect(make(server, RunsTests))
    assert got is not None
    assert sorted(got["scores"]) == [0.0, 1.0]
    sent = server.requests("POST /executor/execute")
    assert {s.body["trajectory_id"] for s in sent} == {"r0", "r1"}
    assert sent[0].body["tool"] == {"name": "terminal", "arguments": {"command": "pytest"}, "uniq_id": "u1"}


class Prepares(Env):
    def build_rollout(self, item: Any) -> dict[str, Any]:
        return {"setup": ["true"], "sandbox": {"image": "python:3.12"}}

    async def setup_trajectory_workspace(self, item: Any, *, trajectory_id: str, exec_tool: Any) -> dict[str, Any]:
        assert (await exec_tool(ToolCall("terminal", {"command": "git clone x"}, "u1"))).success
        return {"commit": "abc"}

    async def verify_and_score_trajectory(self, item: Any, final_response: str, *, workspace_meta: Any = None, **more: Any) -> float:
        assert workspace_meta == {"commit": "abc"}
        return float(len(final_response))


def test_a_hook_prepares_the_workspace(server: Server) -> None:
    group(server, ("completed", "a"), ("completed", "bc"))
    packed = gzip.compress(b"a tar")
    server.on("POST /rollouts", Answer(202, {"rollout_id": "scratch"}))
    server.on("POST /rollouts/scratch/abort", Answer(200, {"aborted": True}))
    server.on("POST /executor/execute", Answer(200, {"success": True}))
    server.on("POST /executor/artifacts/archive", Answer(200, {"success": True, "error": "", "content": b64encode(packed).decode()}))
    digest = sha256(packed).hexdigest()
    server.on(f"PUT /uploads/{digest}", Answer(201, {"sha256": digest}))
    got = collect(make(server, Prepares))
    assert got is not None
    assert got["scores"] == [1.0, 2.0]
    (scratch,) = server.requests("POST /rollouts")
    assert (scratch.body["agent"], scratch.body["sandbox"], scratch.body["setup"]) == ("interactive", {"image": "python:3.12"}, ["true"])
    assert server.requests("POST /rollouts/scratch/abort")
    (sent,) = server.requests("POST /groups")
    assert [stored.body for stored in server.requests(f"PUT /uploads/{digest}")] == [packed]
    ((name, upload),) = sent.body["uploads"].items()
    assert upload == digest
    assert sent.body["setup"][0] == "true" and name in sent.body["setup"][1]


def test_a_workspace_that_cannot_be_used_is_refused(server: Server) -> None:
    group(server, ("completed", "a"), ("completed", "bc"))
    server.on("POST /rollouts", Answer(202, {"rollout_id": "scratch"}))
    server.on("POST /rollouts/scratch/abort", Answer(200, {"aborted": True}))
    server.on("POST /executor/execute", Answer(200, {"success": True}))
    cut = b64encode(gzip.compress(b"a tar")[:-4]).decode()
    server.on("POST /executor/artifacts/archive", Answer(200, {"success": True, "content": cut}))
    with pytest.raises(UnavailableError, match="was cut"):
        collect(make(server, Prepares))
    assert server.requests("POST /rollouts/scratch/abort") and not server.requests("POST /groups")


def test_settings_without_effect_are_named(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        make(server, slots_per_container=3)
    assert "slots_per_container" in caplog.text


def test_command_line() -> None:
    args = ["process", "--env.group_size", "8", "--env.difficulty", "5", "--env.enabled_toolsets", "terminal,files", "--env.use_wandb", "false"]
    command, env = build(Env, [*args, "--openai.model_name", "7", "--env.agent_max_tokens", "64"])
    assert (command, env.config.group_size, env.config.difficulty) == ("process", 8, 5)  # type: ignore[attr-defined]
    assert (env.config.enabled_toolsets, env.config.use_wandb, env.config.agent_max_tokens) == (["terminal", "files"], False, 64)
    assert env.server_configs[0].model_name == "7"
    assert (env.config.include_messages, env.config.ensure_scores_are_not_same, env.config.data_path_to_save_groups) == (True, False, "data/test_env.jsonl")
    assert env.config.open_groups_path == "data/test_env.open"
    asyncio.run(env.close())
    for wrong in (["train"], ["serve", "--env.group_size", "many"], ["serve", "--env.nothing", "1"], ["serve", "--env.use_wandb", "3"]):
        with pytest.raises(SystemExit):
            build(Env, wrong)


def test_process_writes_groups(server: Server, tmp_path: Path) -> None:
    group(server, ("completed", "a"), ("completed", "bc"))
    env = make(server, FailsFirst, total_steps=2, data_path_to_save_groups=str(tmp_path / "deep" / "groups.jsonl"))

    async def main() -> None:
        await process(env)
        await env.close()

    asyncio.run(main())
    lines = (tmp_path / "deep" / "groups.jsonl").read_text().splitlines()
    assert [json.loads(line)["scores"] for line in lines] == [[1.0, 2.0]] * 2


def test_room() -> None:
    config = AgentEnvConfig(group_size=4, max_batches_offpolicy=3)
    assert _room(config, {"queue_size": 2, "unallocated_fraction": 1.0}, 16, 2) == 10
    assert _room(config, {"queue_size": 20, "unallocated_fraction": 1.0}, 16, 2) == 0
    assert _room(AgentEnvConfig(group_size=4, max_num_workers=3), {"queue_size": 0}, 16, 1) == 3


def test_trainer(server: Server) -> None:
    server.on("POST /register-env", Answer(200, {"status": "wait for trainer to start"}), Answer(200, {"status": "success", "env_id": 0}))
    server.on("GET /info", Answer(200, {"batch_size": 16, "max_token_len": 64}))
    server.on("GET /status-env", Answer(500, b"Internal Server Error"), Answer(200, {"current_step": 1, "queue_size": 0}))
    server.on("POST /disconnect-env", Answer(200, {"status": "success"}))

    async def main() -> None:
        async with Trainer(server.url) as trainer:
            assert (await trainer.register("e", AgentEnvConfig(), poll_s=0.001))["batch_size"] == 16
            assert (await trainer.status())["current_step"] == 1

    asyncio.run(main())
    assert server.requests("GET /status-env")[1].body == {"env_id": 0}
    assert len(server.requests("POST /disconnect-env")) == 1


class Until(Trainer):
    """A trainer that has completed its steps after a number of groups."""

    async def status(self) -> dict[str, Any]:
        return {**await super().status(), "current_step": 10_000 if self.env.counts.delivered >= 2 else 1}

    env: AgentEnv


class FailsFirst(Env):
    """The hook of the first item fails."""

    failed = False

    def build_task(self, item: Any) -> str:
        if not self.failed:
            self.failed = True
            raise KeyError("broken item")
        return "what " * 300


def test_serve_feeds_the_trainer(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    group(server, ("completed", "a"), ("completed", "bc"))
    server.on("POST /register-env", Answer(200, {"status": "success", "env_id": 3}))
    server.on("GET /info", Answer(200, {"batch_size": 2, "max_token_len": 64}))
    server.on("GET /status-env", Answer(200, {"queue_size": 0, "unallocated_fraction": 1.0}))
    server.on("POST /scored_data", Answer(silent=True), Answer(200, {"status": "received"}))
    server.on("POST /disconnect-env", Answer(200, {"status": "success"}))
    env = make(server, FailsFirst, max_num_workers=1)

    async def main() -> None:
        async with Until(server.url) as trainer:
            trainer.env = env
            await serve(env, trainer, poll_s=0.01)
        await env.close()

    asyncio.run(main())
    assert "broken item" in caplog.text, "an item that fails is named, and the others go on"
    sent = server.requests("POST /scored_data")
    assert {s.headers["Idempotency-Key"] for s in sent} == {"g"}, "a group keeps its key, whose answer was lost or not"
    assert all((s.body["env_id"], s.body["scores"]) == (3, [1.0, 2.0]) for s in sent)
    assert sent[0].headers["Content-Encoding"] == "gzip"


def test_agent_config_has_the_defaults_of_the_original() -> None:
    assert (AgentConfig().max_steps, AgentConfig().temperature, AgentConfig().max_tokens) == (50, 0.7, None)


def save_group_of_ended_process(folder: Path, **known: Any) -> None:
    """Saves a group that a process has begun which has ended since."""
    work = Journal(str(folder)).begin("g", {"prompt": "what"})
    assert isinstance(work, _Kept)
    for name, value in known.items():
        setattr(work, name, value)
    work.save()
    assert not list(Journal(str(folder)).left()), "the process that has it is there"
    work.release()


def run_process(env: AgentEnv) -> None:
    async def main() -> None:
        await process(env)
        await env.close()

    asyncio.run(main())


def test_process_finishes_the_groups_of_a_killed_one(server: Server, tmp_path: Path) -> None:
    group(server, ("completed", "a"), ("completed", "bc"))
    save_group_of_ended_process(tmp_path / "open", task={"instruction": "what", "group_id": "g", "group_size": 2}, metadata={"r0": {"seen": 1}})
    out = tmp_path / "groups.jsonl"
    out.write_text('{"a":1}\n{"cut')
    run_process(make(server, total_steps=1, data_path_to_save_groups=str(out), open_groups_path=str(tmp_path / "open")))
    (sent,) = server.requests("POST /groups")
    assert sent.body == {"instruction": "what", "group_id": "g", "group_size": 2}, "the same group is asked for"
    first, second = map(json.loads, out.read_text().splitlines())
    assert (first, second["scores"], second["overrides"][0]) == ({"a": 1}, [1.0, 2.0], {"seen": 1, "rollout_id": "r0"})
    assert not list((tmp_path / "open").iterdir())

    save_group_of_ended_process(tmp_path / "open")
    run_process(make(server, total_steps=0, data_path_to_save_groups=str(out), open_groups_path=str(tmp_path / "open")))
    assert len(out.read_text().splitlines()) == 2, "a group that is in the file is not written again"
    assert not list((tmp_path / "open").iterdir())


def test_groups_of_another_process_or_another_class_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(str(tmp_path))
    journal.begin("mine", {"prompt": "what"})
    journal.begin("odd", lambda: None)
    assert "odd" in caplog.text, "an item that cannot be kept is named"
    (tmp_path / "broken.group").write_bytes(b"no pickle")
    assert not list(journal.left())
    assert "broken.group" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.group", "mine.group"]


def test_an_environment_runs_without_a_folder_for_its_groups(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    journal = Journal(str(tmp_path / "file" / "open"))
    journal.begin("g", {"prompt": "what"}).end()
    assert not list(journal.left())
    assert "open_groups_path" in caplog.text


def test_serve_sends_a_group_that_the_trainer_did_not_take(server: Server, tmp_path: Path) -> None:
    group(server, ("completed", "a"), ("completed", "bc"))
    server.on("POST /register-env", Answer(200, {"status": "success", "env_id": 3}))
    server.on("GET /info", Answer(200, {"batch_size": 2, "max_token_len": 64}))
    server.on("GET /status-env", Answer(200, {"queue_size": 0, "unallocated_fraction": 1.0}))
    server.on("POST /disconnect-env", Answer(200, {"status": "success"}))
    server.on("POST /scored_data", Answer(500, b"broken"))
    save_group_of_ended_process(tmp_path)
    env = make(server, total_steps=-1, max_num_workers=1, open_groups_path=str(tmp_path))

    async def run(trainer: Trainer, work: Any) -> None:
        async with trainer:
            await trainer.register("e", env.config)
            await _one(env, trainer, work)

    (work,) = Journal(str(tmp_path)).left()
    asyncio.run(run(Trainer(server.url, retry_s=0.01), work))
    assert env.counts.undelivered == 1
    assert isinstance(work, _Kept) and [path.name for path in tmp_path.iterdir()] == ["g.group"], "it is kept for the next start"
    work.release()
    server.on("POST /scored_data", Answer(200, {"status": "received"}))
    env = make(server, max_num_workers=1, open_groups_path=str(tmp_path))

    async def again() -> None:
        async with Until(server.url) as trainer:
            trainer.env = env
            await serve(env, trainer, poll_s=0.01)
        await env.close()

    asyncio.run(again())
    assert {s.headers["Idempotency-Key"] for s in server.requests("POST /scored_data")} == {"g"}
    assert not list(tmp_path.iterdir())
