"""A rollout that outlasts the server's limit: the call ends with its id, the stream stays in step, the rollout goes on."""

import asyncio
import json
import sys

from openenv.core.mcp_client import MCPToolClient


async def main(url: str) -> None:
    async with MCPToolClient(base_url=url, message_timeout_s=300.0) as env:
        await env.reset()
        try:
            await env.call_tool("run_rollout", endpoint="vllm", instruction="wait", rollout_id="long")
        except RuntimeError as e:
            assert "finalize_rollout" in str(e) and "long" in str(e), e
        else:
            raise AssertionError("the call must end before the rollout")
        state = json.loads(await env.call_tool("get_state", rollout_id="long"))
        assert state["status"] == "running", state
        early = json.loads(await env.call_tool("finalize_rollout", rollout_id="long", wait_s=0.1))
        assert early["exit_code"] == -1 and early["error"] == "timeout waiting for rollout_id=long", early
        assert json.loads(await env.call_tool("abort_rollout", rollout_id="long"))["aborted"] is True
        final = json.loads(await env.call_tool("finalize_rollout", rollout_id="long"))
        assert final["outcome"] == "aborted" and final["reward"] is None, final


asyncio.run(main(sys.argv[1]))
print("all checks held")
