"""Calls that outlast what a client waits: over WebSockets a client that gave up stays in step, over POST /mcp it need not give up."""

import asyncio
import json
import sys
from functools import partial

from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

URL, QUICK = sys.argv[1:]  # of a server, and of one that sends signs of life every 200 ms: no client could always answer pings as fast
LONG = {"endpoint": "vllm", "instruction": "wait"}


async def times_out(call) -> None:
    try:
        await call
    except (asyncio.TimeoutError, TimeoutError):
        return
    raise AssertionError("the client must give up")


async def gives_up(url: str) -> None:
    """The next calls get their own answers and never the late one; the rollout is found by its id."""
    async with GenericEnvClient(base_url=url, message_timeout_s=15.0) as env:
        await env.reset(episode_id="ep")
        await times_out(env.step({"tool_name": "run_rollout", "arguments": {**LONG, "rollout_id": "late"}}))
        for _ in range(2):
            step = await env.step({"tool_name": "get_state", "arguments": {"rollout_id": "late"}})
            assert json.loads(step.observation["result"]["data"])["status"] == "running", step
        step = await env.step({"tool_name": "abort_rollout", "arguments": {"rollout_id": "late"}})
        assert json.loads(step.observation["result"]["data"])["aborted"] is True, step
        step = await env.step({"tool_name": "finalize_rollout", "arguments": {"rollout_id": "late"}})
        assert json.loads(step.observation["result"]["data"])["outcome"] == "aborted", step


async def waits(url: str) -> None:
    """A client with the patience of 1800 s gets the answer when the rollout ends."""
    async with GenericEnvClient(base_url=url, message_timeout_s=1800) as env, GenericEnvClient(base_url=url) as other:
        answer = asyncio.create_task(env.step({"tool_name": "run_rollout", "arguments": {**LONG, "rollout_id": "long"}}))
        await ends(partial(abort_by_step, other), "long")
        assert json.loads((await answer).observation["result"]["data"])["outcome"] == "aborted"


async def abort_by_step(env, rollout: str) -> dict:
    step = await env.step({"tool_name": "abort_rollout", "arguments": {"rollout_id": rollout}})
    return json.loads(step.observation["result"]["data"])


async def abort_by_call(env, rollout: str) -> dict:
    return json.loads(await env.call_tool("abort_rollout", rollout_id=rollout))


async def ends(abort, rollout: str) -> None:
    """Ends a rollout as soon as it has begun, after longer than the impatient clients of this script wait in silence."""
    await times_out(GenericEnvClient(base_url=URL, message_timeout_s=16.0).step({"tool_name": "run_rollout", "arguments": {**LONG, "rollout_id": "other"}}))
    while not (await abort(rollout))["aborted"]:
        pass


async def is_kept_waiting(url: str) -> None:
    """Over POST /mcp the server is never silent for as long as the client waits, so that the call takes as long as its rollout."""
    env, other = MCPToolClient(base_url=url, message_timeout_s=15.0), MCPToolClient(base_url=url, message_timeout_s=600)
    env.use_production_mode = other.use_production_mode = True
    answer = asyncio.create_task(env.call_tool("run_rollout", **LONG, rollout_id="kept"))
    await ends(partial(abort_by_call, other), "kept")
    assert json.loads(await answer)["outcome"] == "aborted"
    await env.close()
    await other.close()


async def main(url: str) -> None:
    await gives_up(url)
    await waits(url)
    await is_kept_waiting(QUICK)


asyncio.run(main(URL))
print("all checks held")
