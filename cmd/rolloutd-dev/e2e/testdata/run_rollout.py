"""What a trainer does: connect, list the tools, run a rollout, take its turns."""

import asyncio
import json
import sys

from openenv.core.mcp_client import MCPToolClient

VERIFY = "python3 -c 'from binary_search import binary_search as f; assert f([1, 2, 2, 5], 2) == 1 and f([1], 3) == -1'"


async def main(url: str) -> None:
    async with MCPToolClient(base_url=url, message_timeout_s=600.0) as env:
        await env.reset()
        tools = {tool.name for tool in await env.list_tools()}
        assert {"run_rollout", "start_rollout", "get_state", "get_messages", "abort_rollout", "finalize_rollout"} <= tools, tools

        result = json.loads(await env.call_tool(
            "run_rollout", endpoint="scripted", task_id="search",
            instruction="Write binary_search.py with a function binary_search(items, target)", verify=[VERIFY],
        ))
        assert result["outcome"] == "completed" and result["reward"] == 1.0, result
        assert "def binary_search" in result["files"]["/home/user/workdir/binary_search.py"], result["files"]
        for turn in result["proxy_turns"]:
            assert len(turn["completion_token_ids"]) == len(turn["per_token_logps"]) > 0, turn

        messages = json.loads(await env.call_tool("get_messages", rollout_id=result["rollout_id"]))
        assert messages["messages"][0]["info"]["role"] == "user", messages
        again = json.loads(await env.call_tool("finalize_rollout", rollout_id=result["rollout_id"]))
        assert again == result


asyncio.run(main(sys.argv[1]))
print("all checks held")
