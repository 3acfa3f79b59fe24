"""The server is a plain OpenEnv server: its tools are called with OpenEnv's own client."""

from openenv.core.mcp_client import MCPToolClient


class RolloutdEnv(MCPToolClient):
    """Calls the tools of a rolloutd server: run_rollout, start_rollout, get_state and the others that list_tools gives."""
