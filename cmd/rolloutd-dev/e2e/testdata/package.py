"""Our own package for Python against a real server.

Arguments: the server, the gateway's trainer API and its token, the folder with trl_harness.py.
"""

import asyncio
import sys
import threading
from functools import partial
from types import SimpleNamespace

from rolloutd import AsyncClient, Client, ConflictError, InvalidError, NotFoundError, UnauthorizedError, WeightSync
from rolloutd.trl import RolloutFunc, SessionFactory, reward

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
    assert client.rollouts.shaped("first", "atropos")["scores"] == [1.0] * len(sequences)

    for kind, ask in {
        NotFoundError: lambda: client.rollouts.get("nothing"),
        InvalidError: lambda: client.rollouts.submit(TASK, instruction=WRITE, agent="nothing"),
        ConflictError: lambda: client.groups.trajectory(waiting(client)),
    }.items():
        try:
            ask()
        except kind:
            continue
        raise AssertionError(f"want {kind}")


def waiting(client: Client) -> str:
    """A group that runs; its abort is left to the end of the server."""
    return client.groups.submit(TASK, instruction=WRITE, group_size=1, setup=["sleep 600"]).group_id


async def many() -> None:
    async with AsyncClient(server) as client:
        results = await asyncio.gather(*(client.rollouts.run(REACT, instruction=WRITE) for _ in range(2)))
        assert [r.outcome for r in results] == ["completed"] * 2
        running = await client.rollouts.submit(TASK, instruction=WRITE, setup=["sleep 600"])
        assert await client.rollouts.abort(running, "enough")
        assert (await client.rollouts.wait(running)).outcome == "aborted"


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
harness()
weights()
print("all checks held")
