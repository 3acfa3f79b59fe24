"""The Python client of the Model Context Protocol itself: initialize, ping, list, call, and errors that leave the session usable."""

import asyncio
import json
import sys

from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client


async def main(url: str) -> None:
    async with streamable_http_client(url + "/mcp") as (read, write, _), ClientSession(read, write) as session:
        hello = await session.initialize()
        assert hello.serverInfo.name == "opencode_env" and hello.capabilities.tools is not None, hello
        await session.send_ping()
        tools = {tool.name: tool.inputSchema for tool in (await session.list_tools()).tools}
        assert len(tools) == 9 and tools["run_rollout"]["required"] == ["instruction"], tools

        ran = await session.call_tool("run_rollout", {"endpoint": "vllm", "agent": "react", "instruction": "x", "task_id": "m"})
        assert not ran.isError, ran
        result = json.loads(ran.content[0].text)
        assert result["task_id"] == "m" and result["outcome"] == "completed", result
        state = await session.call_tool("get_state", {"rollout_id": result["rollout_id"]})
        assert json.loads(state.content[0].text)["status"] == "done", state

        notes = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            notes.append(message)

        ran = await session.call_tool("run_rollout", {"endpoint": "vllm", "agent": "react", "instruction": "x"}, progress_callback=note)
        assert json.loads(ran.content[0].text)["outcome"] == "completed" and notes[0].startswith("run_rollout"), (ran, notes)

        try:
            await session.call_tool("get_state", {"rollout_id": 5})
        except McpError as e:
            assert e.error.code == -32602 and "rollout_id" in str(e), e
        else:
            raise AssertionError("a rollout_id is a string")
        try:
            await session.call_tool("nope", {})
        except McpError as e:
            assert "nope" in str(e), e
        else:
            raise AssertionError("there is no such tool")
        await session.send_ping()


asyncio.run(main(sys.argv[1]))
print("all checks held")
