"""Many sessions at once keep apart; one of them dying leaves the others alone."""

import asyncio
import json
import sys

from openenv.core.generic_client import GenericEnvClient


async def one(url: str, n: int) -> None:
    async with GenericEnvClient(base_url=url) as env:
        await env.reset(episode_id=f"ep-{n}")
        for i in range(n):
            args = {"endpoint": "vllm", "instruction": "x", "rollout_id": f"r{n}-{i}", "task_id": f"t{n}"}
            step = await env.step({"tool_name": "run_rollout", "arguments": args})
            assert json.loads(step.observation["result"]["data"])["rollout_id"] == f"r{n}-{i}", step
        state = await env.state()
        assert state["episode_id"] == f"ep-{n}" and state["step_count"] == n, state


async def main(url: str) -> None:
    dying = GenericEnvClient(base_url=url)
    await dying.connect()
    await dying.reset()
    dying._ws.transport.abort()
    await asyncio.gather(*(one(url, n) for n in range(1, 9)))


asyncio.run(main(sys.argv[1]))
print("all checks held")
