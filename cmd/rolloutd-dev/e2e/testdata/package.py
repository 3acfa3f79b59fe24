"""Our own package for Python against a real server.

Arguments: the server, the gateway's trainer API and its token, the folder with trl_harness.py, the folder of the sink "disk".
"""

import asyncio
import json
import sys
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from rolloutd import AsyncClient, Client, ConflictError, InvalidError, NotFoundError, UnauthorizedError, WeightSync
from rolloutd.trl import Environment, RolloutFunc, SessionFactory, reward

server, trainer_api, token = sys.argv[1:4]
sys.path.insert(0, sys.argv[4])
TASK = {"endpoint": "scripted", "verify": ["test -s binary_search.py"]}
REACT = {**TASK, "agent": "react"}
WRITE = "Write binary_search.py with a function binary_search(items, target)"


def rollouts(client: Client) -> None:
    result = client.rollouts.run(TASK, instruction=WRITE, task_id="search", rollout_id="first")
    assert (result.outcome, result.reward) == ("completed", 1.0), result
    assert client.rollouts.submit(TASK, instruction="another", rollout_id="first") == "first"
    assert client.rollouts.result("first").raw == result.raw, "the same id is the same rollout"
    assert [s.rollout_id for s in client.rollouts.all(task_id="search")] == ["first"]

    events = list(client.rollouts.events("first"))
    assert events[-1].kind == "done"
    assert list(client.rollouts.events("first", after=events[2].id)) == events[3:]

    sequences = client.rollouts.trajectory("first")
    turns = {turn["turn"]: turn for turn in client.rollouts.trace("first")}
    for sequence in sequences:
        for span in sequence.spans:
            assert sequence.token_ids[span.start : span.stop] == turns[span.turn]["completion_token_ids"]
    assert sum(s.trained for s in sequences) > 0
    assert client.rollouts.shaped("first", "atropos")["scores"] == [1.0], "one row of the rollout"
    assert client.rollouts.shaped("first", "atropos", sequences="all")["scores"] == [1.0] * len(sequences)

    running = client.groups.submit(TASK, instruction=WRITE, group_size=1, setup=["sleep 600"]).group_id
    for kind, ask in {
        NotFoundError: lambda: client.rollouts.get("nothing"),
        InvalidError: lambda: client.rollouts.submit(TASK, instruction=WRITE, agent="nothing"),
        ConflictError: lambda: client.groups.trajectory(running),
    }.items():
        try:
            ask()
        except kind:
            continue
        raise AssertionError(f"want {kind}")

    assert client.groups.abort(running, "enough")
    assert client.groups.wait(running).outcome == "aborted"


async def many() -> None:
    async with AsyncClient(server) as client:
        results = await asyncio.gather(*(client.rollouts.run(REACT, instruction=WRITE) for _ in range(2)))
        assert [r.outcome for r in results] == ["completed"] * 2
        running = await client.rollouts.submit(TASK, instruction=WRITE, setup=["sleep 600"])
        assert await client.rollouts.abort(running, "enough")
        assert (await client.rollouts.wait(running)).outcome == "aborted"


def produces(client: Client) -> None:
    """Two tasks become two groups in the files of a sink."""
    tasks = [{"task_id": name, "instruction": WRITE} for name in ("one", "two")]
    started = client.producers.submit(
        {"tasks": tasks, "rollout": REACT, "filter": {"equal_scores": False}}, sink="disk", group_size=2, epochs=1, concurrency=2
    )
    ended = client.producers.wait(started.producer_id)
    assert (ended.outcome, ended.counts["delivered"], ended.counts["rollouts"]) == ("completed", 2, 4), ended.raw
    delivered = list(client.deliveries.all(sink="disk", state="delivered"))
    assert len(delivered) == 2 and client.deliveries.get(delivered[0].group_id, "disk").rollouts == 2
    assert not client.producers.change(started.producer_id, paused=True), "it has ended"
    assert [p.producer_id for p in client.producers.all(status="done")] == [started.producer_id]
    lines = [json.loads(line) for path in Path(sys.argv[5]).glob("*.jsonl") for line in path.read_text().splitlines()]
    assert sorted({line["task_id"] for line in lines}) == ["one", "two"] and len(lines) == 4


def episode(client: Client) -> None:
    """A sandbox that is driven from here, and a rollout that is graded from here."""
    assert [tool.name for tool in client.episodes.tools()][-1] == "submit"
    begun = client.episodes.reset(instruction="write 3 into n.txt", verify=["test $(cat n.txt) = 3"])
    assert client.episodes.call(begun, "terminal", {"command": "echo 3 > n.txt; exit 7"}).failed
    end = client.episodes.submit(begun)
    assert (end.done, end.reward) == (True, 1.0), end
    assert not client.episodes.close(begun)

    env = Environment(client, {"setup": ["echo 1 > n.txt"], "verify": ["test $(cat n.txt) = 4"]})
    env.reset(prompt=[{"role": "user", "content": "write 4"}], difficulty="hard")
    assert env.read_file("n.txt").strip().endswith("1")
    env.write_file("n.txt", "4")
    assert env.terminal("cat n.txt").strip() == "4"
    assert (env.get_reward(), env.get_reward()) == (1.0, 1.0)
    assert "has ended" in env.terminal("true")
    env.reset(prompt="write 4")
    assert env.terminal("cat n.txt").strip() == "1", "each reset is a fresh sandbox"
    assert env.get_reward() == 0.0


def grpo(client: Client) -> None:
    """A batch of two prompts with two generations each."""
    func = RolloutFunc(client, REACT)
    batch = func([[{"role": "user", "content": text}] for text in (WRITE, WRITE, "say hello", "say hello")])
    assert reward([], batch["rewards"]) == [1.0, 1.0, 0.0, 0.0], batch["rewards"]
    for prompt, completion, logprobs, mask in zip(*(batch[k] for k in ("prompt_ids", "completion_ids", "logprobs", "env_mask")), strict=True):
        assert prompt and completion and len(completion) == len(logprobs) == len(mask)
        assert [logp < 0 for logp in logprobs] == [bit == 1 for bit in mask]
    assert (func.counts.rows, func.counts.lost) == (4, 0)


def harness() -> None:
    """TRL's own loop-owning worker drives a session."""
    import trl_harness

    trl, _ = trl_harness.load()
    factory = partial(SessionFactory, server, task=TASK)(sampling={"temperature": 1.0})
    loop = SimpleNamespace(
        _factory=factory, _live_sessions=set(), _stop_event=threading.Event(), _adapter=None, _rollout_reward_fn=None,
        _fork_threshold_tokens=0, _EMPTY_ROLLOUT=trl._HarnessRolloutLoop._EMPTY_ROLLOUT,
    )
    row, metrics = trl._HarnessRolloutLoop._run_session(loop, [{"role": "user", "content": WRITE}], 7)
    completion, ids, sequences, calls, _, scored = row
    assert scored == 1.0 and metrics["turns"] > 1 and calls > 0 and completion[-1]["role"] == "assistant"
    assert sum(sum(s.completion_mask) for s in sequences) == len(ids) > 0
    by_ids = SessionFactory(server, task=REACT)  # its prompts are token ids, so that its replies are no chat completions
    row, _ = trl._HarnessRolloutLoop._run_session(SimpleNamespace(**(vars(loop) | {"_factory": by_ids})), [{"role": "user", "content": WRITE}], 9)
    completion, ids, sequences, _, _, scored = row
    assert scored == 1.0 and completion[-1]["content"], row
    assert sum(sum(s.completion_mask) for s in sequences) == len(ids) > 0
    lost = SessionFactory(server, task={**TASK, "setup": ["false"]})
    row, metrics = trl._HarnessRolloutLoop._run_session(SimpleNamespace(**(vars(loop) | {"_factory": lost})), "say hello", 8)
    assert row == loop._EMPTY_ROLLOUT and metrics is None, "a rollout that failed in setup is left out of its group"


def weights() -> None:
    sync = WeightSync("scripted", trainer_api, token=token)
    assert not sync.status()[0].paused
    assert sync.update(lambda: [s.paused for s in sync.status()]) == [True]
    assert not sync.status()[0].paused
    try:
        WeightSync("scripted", trainer_api, token="another").status()
    except UnauthorizedError:
        return
    raise AssertionError("a wrong token was taken")


with Client(server) as client:
    rollouts(client)
    asyncio.run(many())
    grpo(client)
    produces(client)
    episode(client)
harness()
weights()
print("all checks held")
