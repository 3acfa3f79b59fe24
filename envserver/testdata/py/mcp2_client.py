"""The second generation of the Python client of the Model Context Protocol, in its own version of the protocol and by the handshake of the first:
list, call, progress, errors that leave the connection usable, and a call that is cancelled, with its rollout."""

import asyncio
import json
import sys

from mcp import Client
from mcp.shared.exceptions import MCPError

TASK = {"endpoint": "vllm", "instruction": "x"}


async def main(url: str, mode: str, version: str) -> None:
    async with Client(url + "/mcp", mode=mode) as client:
        assert client.protocol_version == version and client.server_info.name == "opencode_env", (mode, client.protocol_version)
        tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        assert len(tools) == 9 and tools["run_rollout"]["required"] == ["instruction"], tools

        notes = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            notes.append(message)

        ran = await client.call_tool("run_rollout", {**TASK, "task_id": "m"}, progress_callback=note)
        result = json.loads(ran.content[0].text)
        assert not ran.is_error and result["task_id"] == "m" and result["outcome"] == "completed", ran
        assert notes and notes[0].startswith("run_rollout"), notes
        state = await client.call_tool("get_state", {"rollout_id": result["rollout_id"]})
        assert json.loads(state.content[0].text)["status"] == "done", state

        try:
            await client.call_tool("get_state", {"rollout_id": 5})
        except MCPError as e:
            assert "rollout_id" in str(e), e
        else:
            raise AssertionError("a rollout_id is a string")
        try:
            await client.call_tool("nope", {})
        except MCPError as e:
            assert "nope" in str(e), e
        else:
            raise AssertionError("there is no such tool")

        rollout = f"cancelled-{version}"
        call = asyncio.create_task(client.call_tool("run_rollout", {**TASK, "instruction": "wait", "rollout_id": rollout, "on_disconnect": "abort"}))

        async def current() -> dict:
            return json.loads((await client.call_tool("get_state", {"rollout_id": rollout})).content[0].text)

        while (await current())["status"] == "unknown":  # a call that is cancelled earlier starts none
            await asyncio.sleep(0.05)
        call.cancel()
        while (await current()).get("outcome") != "aborted":
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)  # the client fails if the answer to a canceled call arrives while it closes


asyncio.run(asyncio.wait_for(main(sys.argv[1], "auto", "2026-07-28"), 120))
asyncio.run(asyncio.wait_for(main(sys.argv[1], "legacy", "2025-11-25"), 120))
print("all checks held")
