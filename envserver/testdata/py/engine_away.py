"""A rollout that cannot be started is an error that says why, and the session goes on."""

import asyncio
import sys

from openenv.core.mcp_client import MCPToolClient


async def main(url: str) -> None:
    async with MCPToolClient(base_url=url) as env:
        try:
            await env.call_tool("run_rollout", instruction="fail", endpoint="vllm")
        except RuntimeError as e:
            assert "does not answer" in str(e), e
        else:
            raise AssertionError("it must fail")
        assert await env.has_tool("run_rollout")


asyncio.run(main(sys.argv[1]))
print("all checks held")
