"""The second generation of the Python client of the Model Context Protocol, with its default settings, on a rollout whose model answers after a long
time. Arguments: the server, the wait of the model in seconds."""

import asyncio
import json
import sys
import time

from mcp import Client

server, wait = sys.argv[1], float(sys.argv[2])
TASK = {
    "endpoint": "scripted", "agent": "react", "instruction": "Take your time.", "verify": ["true"],
    "agent_timeout_s": wait + 900, "limits": {"call_s": wait + 600},
}


async def run(mode: str) -> None:
    began = time.monotonic()
    async with Client(server + "/mcp", mode=mode) as client:
        result = json.loads((await client.call_tool("run_rollout", TASK)).content[0].text)
    assert result["outcome"] == "completed" and result["reward"] == 1.0, (mode, result)
    assert time.monotonic() - began >= wait, mode


async def main() -> None:
    await asyncio.gather(run("legacy"), run("auto"))


asyncio.run(main())
print("all checks held")
