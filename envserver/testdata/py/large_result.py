"""The result of a rollout of 200 model calls that grows to 30,000 tokens arrives at a client with its default settings."""

import asyncio
import json
import sys

from openenv.core.mcp_client import MCPToolClient


async def main(url: str) -> None:
    async with MCPToolClient(base_url=url) as env:
        await env.reset()
        result = json.loads(await env.call_tool("run_rollout", endpoint="vllm", instruction="much to do"))
        turns = result["proxy_turns"]
        assert len(turns) == 200, len(turns)
        assert len(turns[-1]["prompt_token_ids"]) == 30_000, len(turns[-1]["prompt_token_ids"])
        assert len(turns[-1]["per_token_logps"]) == 100


asyncio.run(main(sys.argv[1]))
print("all checks held")
