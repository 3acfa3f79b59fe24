"""MCPToolClient in production mode: sessions, tools and calls by JSON-RPC over HTTP."""

import asyncio
import json
import sys

from openenv.core.mcp_client import MCPToolClient


async def main(url: str) -> None:
    env = MCPToolClient(base_url=url, message_timeout_s=600.0)
    env.use_production_mode = True
    tools = await env.list_tools()
    assert len(tools) == 9 and all(isinstance(t.description, str) for t in tools), tools
    assert await env.has_tool("run_rollout")
    result = json.loads(await env.call_tool("run_rollout", endpoint="vllm", agent="react", instruction="x", task_id="p"))
    assert result["task_id"] == "p" and result["outcome"] == "completed", result
    for name, args, word in [("nope", {}, "Unknown tool"), ("get_state", {"rollout_id": 5}, "rollout_id")]:
        try:
            await env.call_tool(name, **args)
        except RuntimeError as e:
            assert word in str(e), e
        else:
            raise AssertionError(f"{name} must fail")
    await env.close()


asyncio.run(main(sys.argv[1]))
print("all checks held")
