"""The real clients with their default settings, all at once, on rollouts whose model answers after a long time.

Arguments: the server, the wait of the model in seconds, the folder with trl_harness.py.
"""

import asyncio
import json
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient
from openenv.harbor.client import HarborEnv
from rolloutd import Client
from rolloutd.trl import RolloutFunc, SessionFactory

server, wait = sys.argv[1], float(sys.argv[2])
sys.path.insert(0, sys.argv[3])
TASK = {"endpoint": "scripted", "verify": ["true"], "agent_timeout_s": wait + 900, "limits": {"call_s": wait + 600}}
REACT = {**TASK, "agent": "react"}
ASKED = "Take your time."


def graded(result: dict) -> None:
    assert result["outcome"] == "completed" and result["reward"] == 1.0, result


async def opencode_env() -> None:
    """OpenEnv's tool client as opencode_env makes it: 1800 s over a WebSocket."""
    async with MCPToolClient(base_url=server, message_timeout_s=1800) as env:
        result = await env.call_tool("run_rollout", **TASK, instruction=ASKED)
        graded(json.loads(result) if isinstance(result, str) else result)


async def impatient() -> None:
    """A client of 60 s gives up, and finds its rollout by the id."""
    async with GenericEnvClient(base_url=server) as env:
        await env.reset()
        try:
            await env.step({"tool_name": "run_rollout", "arguments": {**REACT, "instruction": ASKED, "rollout_id": "impatient"}})
            assert wait < 60, "the client must give up"
        except (asyncio.TimeoutError, TimeoutError):
            assert wait > 50
        while True:
            step = await env.step({"tool_name": "finalize_rollout", "arguments": {"rollout_id": "impatient", "wait_s": 30}})
            said = step.observation["result"]
            result = json.loads(said["data"] if isinstance(said, dict) else said)
            if "outcome" in result and result["outcome"]:
                return graded(result)


async def mcp_python() -> None:
    """The Python client of the Model Context Protocol, which gives no bound."""
    async with streamable_http_client(server + "/mcp") as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        ran = await session.call_tool("run_rollout", {**REACT, "instruction": ASKED})
        graded(json.loads(ran.content[0].text))


def harbor() -> None:
    with HarborEnv(base_url=server + "/env/harbor") as env:
        result = env.run_rollout(task_index=0, sampling={"temperature": 1.0}, agent_timeout_sec=wait + 900)
        assert result.ok and result.reward == 1.0 and result.rollout_type == "train", result


def grpo() -> None:
    """What GRPOTrainer calls for a batch."""
    with Client(server) as client:
        batch = RolloutFunc(client, REACT)([[{"role": "user", "content": ASKED}]] * 2)
        assert batch["rewards"] == [1.0, 1.0], batch["rewards"]


def harness() -> None:
    """TRL's loop-owning worker."""
    import trl_harness

    trl, _ = trl_harness.load()
    loop = SimpleNamespace(
        _factory=partial(SessionFactory, server, task=TASK)(sampling={"temperature": 1.0}), _live_sessions=set(),
        _stop_event=threading.Event(), _adapter=None, _rollout_reward_fn=None, _fork_threshold_tokens=0,
        _EMPTY_ROLLOUT=trl._HarnessRolloutLoop._EMPTY_ROLLOUT,
    )
    row, _ = trl._HarnessRolloutLoop._run_session(loop, [{"role": "user", "content": ASKED}], 7)
    assert row[-1] == 1.0, row


def timed(name, run) -> str:
    began = time.monotonic()
    try:
        run()
    except BaseException:  # noqa: BLE001: each client is reported
        return f"{name} failed after {time.monotonic() - began:.0f} s:\n{traceback.format_exc()}"
    print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    assert time.monotonic() - began >= wait, name
    return ""


clients = {
    "opencode_env": lambda: asyncio.run(opencode_env()), "client of 60 s": lambda: asyncio.run(impatient()),
    "MCP in Python": lambda: asyncio.run(mcp_python()), "HarborEnv": harbor, "rollout_func": grpo, "harness worker": harness,
}
with ThreadPoolExecutor(len(clients)) as pool:
    failures = [text for text in pool.map(lambda item: timed(*item), clients.items()) if text]
assert not failures, "\n".join(failures)
print("all checks held")
