"""The reference server with an environment that has a few of our tools by name, and says on which port it listens."""

import socket
import uuid

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import EnvironmentMetadata, Observation, State


class Reference(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        mcp = FastMCP("reference")

        @mcp.tool
        def get_state(rollout_id: str) -> str:
            """Tell where a rollout stands."""
            return '{"rollout_id":"%s","status":"unknown"}' % rollout_id

        @mcp.tool
        def abort_rollout(rollout_id: str) -> str:
            """End a rollout early."""
            return '{"rollout_id":"%s","aborted":false,"reason":"unknown"}' % rollout_id

        super().__init__(mcp)
        self._state = State(episode_id=str(uuid.uuid4()), step_count=0)

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._state = State(episode_id=str(episode_id or uuid.uuid4()), step_count=0)
        return Observation(done=False, reward=None)

    def step(self, action, **kwargs):
        self._state.step_count += 1
        return super().step(action, **kwargs)

    async def step_async(self, action, **kwargs):
        self._state.step_count += 1
        return await super().step_async(action, **kwargs)

    def _step_impl(self, action, timeout_s=None, **kwargs):
        return Observation(done=False, reward=None)

    def get_metadata(self):
        return EnvironmentMetadata(name="opencode_env", description="The reference.", version="1.0.0")

    @property
    def state(self):
        return self._state


app = create_fastapi_app(Reference, CallToolAction, CallToolObservation, max_concurrent_envs=100)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])
