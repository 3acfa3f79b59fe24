"""The real OpenEnv and MCP clients in episodes of /env/tools."""

import asyncio
import sys

from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

url = sys.argv[1] + "/env/tools"
task = {
    "task_id": "count",
    "instruction": "write 3 into n.txt",
    "setup": ["echo 1 > n.txt"],
    "verify": ["test $(cat n.txt) = 3", "test -e other.txt"],
}


async def tool_client():
    async with MCPToolClient(base_url=url) as env:
        begun = await env.reset(**task)
        assert not begun.done, begun
        names = [t.name for t in await env.list_tools()]
        assert names[-1] == "submit" and "terminal" in names, names
        assert (await env.call_tool("terminal", command="cat n.txt")).strip() == "1"
        await env.call_tool("terminal", command="echo 3 > n.txt")
        assert "Exit code: 7" in await env.call_tool("terminal", command="exit 7")
        state = await env.state()
        assert state.step_count == 3, state
        step = await env.step(CallToolAction(tool_name="nonsense", arguments={}))
        assert step.observation.error.error_type.value == "tool_not_found", step
        step = await env.step(CallToolAction(tool_name="submit", arguments={}))
        assert step.done and step.reward == 0.5, step
        step = await env.step(CallToolAction(tool_name="terminal", arguments={"command": "true"}))
        assert step.done and step.reward == 0.5 and "has ended" in step.observation.error.message, step
        await env.reset(**task)
        assert (await env.call_tool("terminal", command="cat n.txt")).strip() == "1"


async def generic_client():
    async with GenericEnvClient(base_url=url) as env:
        begun = await env.reset(**task, episode={"max_steps": 2}, difficulty="hard")
        assert begun.observation["instruction"] == "write 3 into n.txt", begun
        call = {"type": "call_tool", "tool_name": "terminal", "metadata": {"request_id": "a"}}
        first = await env.step({**call, "arguments": {"command": "echo x >> other.txt"}})
        again = await env.step({**call, "arguments": {"command": "echo x >> other.txt"}})
        assert first.observation["result"] == again.observation["result"] and not again.done
        state = await env.state()
        assert state["step_count"] == 1 and state["steps_running"] == 0, state
        assert state["tools_used"] == ["terminal"] and state["sandbox_id"] and not state["done"], state
        assert state["episode_id"] == begun.observation["episode_id"], state
        call["metadata"] = {"request_id": "b"}
        last = await env.step({**call, "arguments": {"command": "cat other.txt; exit 3"}})
        assert last.observation["result"]["data"] == "x\nExit code: 3", last
        assert last.observation["result"]["is_error"] and last.observation["result"]["structured_content"]["exit_code"] == 3
        assert last.done and last.reward == 0.5, last
        state = await env.state()
        assert state["step_count"] == 2, state
        assert state["done"] and state["reward"] == 0.5 and "maximum of 2 steps" in state["outcome"], state


class TRLEnvironment:
    """As TRL's environment_factory has it: reset takes the row of the data set, public methods are the tools."""

    def __init__(self):
        self.client = MCPToolClient(base_url=url).sync()
        self.client.__enter__()
        self.reward = None

    def reset(self, **row):
        self.reward = None
        return self.client.reset(**row).observation

    def terminal(self, command: str) -> str:
        """Run a command.

        Args:
            command: The command.
        """
        return self.client.call_tool("terminal", command=command)

    def submit(self):
        self.reward = self.client.step(CallToolAction(tool_name="submit", arguments={})).reward


def environment_factory():
    envs = [TRLEnvironment() for _ in range(3)]
    for e in envs:
        e.reset(prompt="solve", **task)
    for i, e in enumerate(envs):
        e.terminal(f"echo {i + 2} > n.txt; touch other.txt")
    for e in envs:
        e.submit()
    assert [e.reward for e in envs] == [0.5, 1.0, 0.5], [e.reward for e in envs]
    for e in envs:
        e.client.close()


async def mcp_client():
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with streamable_http_client(url + "/mcp") as (read, write, _):
        async with ClientSession(read, write) as mcp:
            await mcp.initialize()
            names = [t.name for t in (await mcp.list_tools()).tools]
            assert sorted(names) == ["read_file", "submit", "terminal", "write_file"], names
            wrote = await mcp.call_tool("terminal", {"command": "pwd; echo 5 > n.txt"})
            assert wrote.content[0].text.strip() == "/home/user/workdir", wrote
            read_ = await mcp.call_tool("terminal", {"command": "cat n.txt"})
            assert read_.content[0].text.strip() == "5" and not read_.isError, read_
            done = await mcp.call_tool("submit", {})
            assert done.meta["done"], done
            over = await mcp.call_tool("terminal", {"command": "true"})
            assert over.isError and "has ended" in over.content[0].text, over


asyncio.run(tool_client())
asyncio.run(generic_client())
environment_factory()
asyncio.run(mcp_client())
print("all checks held")
