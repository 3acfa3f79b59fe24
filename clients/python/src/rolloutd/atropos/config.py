"""The settings of an environment: those of the original, each of which is honored or has no effect here, and those of rolloutd."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from atroposlib.envs.base import BaseEnvConfig
from pydantic import Field, field_validator, model_validator

from ..errors import InvalidError

log = logging.getLogger("rolloutd.atropos")


class AgentEnvConfig(BaseEnvConfig):
    """Settings of an environment. A subclass adds its own fields."""

    tool_pool_mode: str = "nomad"
    allow_network: bool = True
    require_sandbox: bool = False
    require_stateful_sandbox: bool = False
    tool_batch_window_ms: int = 20
    tool_max_batch_size: int = 200
    nomad_address: str = "http://localhost:4646"
    sandbox_job_id: str = "atropos-sandbox-agent-env"
    sandbox_image: str = "atropos-sandbox:local"
    slots_per_container: int = 10
    min_containers: int = 1
    max_containers: int = 10
    privileged: bool = False
    acquire_timeout_s: float = 30.0
    purge_job_on_start: bool = False
    purge_job_on_shutdown: bool = True

    agent_max_steps: int = 50
    agent_temperature: float = 0.7
    agent_max_tokens: int | None = None
    agent_tool_delay_s: float = 0.0
    enabled_toolsets: list[str] = Field(default_factory=lambda: ["default"])
    disabled_toolsets: list[str] = Field(default_factory=list)
    tool_server_url: str | None = None
    tool_server_token: str | None = None

    rolloutd_server: str | None = Field(default=None, description="URL of rolloutd's server; default: ROLLOUTD_SERVER")
    rolloutd_token: str | None = Field(default=None, description="its bearer token; default: ROLLOUTD_TOKEN")
    rolloutd_endpoint: str | None = Field(default=None, description="name of a model endpoint of the server, instead of the server configs")
    score_hold_s: float | None = Field(
        default=None,
        description="seconds for which a rollout keeps its sandbox until it is scored, and within which a killed environment must be "
        "started again; default, and minimum: worker_timeout and a minute",
    )
    open_groups_path: str | None = Field(
        default=None,
        description='folder of the groups that have begun, from which a restarted environment finishes them; default: data/NAME.open, "": none',
    )
    failed_score: float | None = Field(
        default=0.0, description="score of a trajectory whose agent failed, for instance by reaching agent_max_steps; None: no score, so no group"
    )

    @field_validator("enabled_toolsets", "disabled_toolsets", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """The command line gives a list as names with commas between them."""
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _name_unknown(cls, given: Any) -> Any:
        """Names settings that do not exist, which pydantic leaves out without a word."""
        known = {*cls.model_fields, *(field.alias for field in cls.model_fields.values())}
        for name in given if isinstance(given, dict) else ():
            if name not in known:
                log.warning("%s has no effect: %s has no such setting", name, cls.__name__)
        return given


_SANDBOXES = "rolloutd's server decides how sandboxes are run: docs/backends.md"
_SIZES = "rolloutd's workers have slots: worker.capacity of its configuration"

# Settings of the original that have no effect here, and what takes their place.
WITHOUT_EFFECT = {
    "tool_pool_mode": _SANDBOXES,
    "nomad_address": _SANDBOXES,
    "sandbox_job_id": _SANDBOXES,
    "sandbox_image": "build_rollout names an image: {'sandbox': {'image': ...}}",
    "privileged": "no sandbox of rolloutd is privileged",
    "slots_per_container": _SIZES,
    "min_containers": _SIZES,
    "max_containers": _SIZES,
    "acquire_timeout_s": "limits.queue_s of build_rollout bounds the wait for a slot",
    "purge_job_on_start": "rolloutd's worker removes the sandboxes of a worker that was killed",
    "purge_job_on_shutdown": "a sandbox ends with its rollout",
    "tool_batch_window_ms": "a call runs at once, without a batch",
    "tool_max_batch_size": "a call runs at once, without a batch",
    "require_sandbox": "each rollout runs in a sandbox, and a host that cannot isolate is refused",
    "require_stateful_sandbox": "each rollout runs in a sandbox, and a host that cannot isolate is refused",
    "reasoning_effort": "it applies to self.server; for the agent, build_rollout gives the arguments of the model",
    "max_reasoning_tokens": "it applies to self.server; for the agent, build_rollout gives the arguments of the model",
    "custom_thinking_prompt": "build_agent_config gives the agent's system prompt",
}


def without_effect(config: AgentEnvConfig) -> list[str]:
    """A line for each setting that was changed and has no effect here."""
    fields = AgentEnvConfig.model_fields
    return [
        f"{name} has no effect: {instead}"
        for name, instead in WITHOUT_EFFECT.items()
        if getattr(config, name) != fields[name].get_default(call_default_factory=True)
    ]


def check(config: Any) -> None:
    """Raises InvalidError for settings that rolloutd cannot honor."""
    if not isinstance(config, AgentEnvConfig):
        raise InvalidError(f"config: must be an AgentEnvConfig of rolloutd.atropos, got {type(config).__module__}.{type(config).__qualname__}")
    if config.tool_server_url:
        raise InvalidError(
            f"tool_server_url: rolloutd's server calls the tool servers, not the environment: remove tool_server_url ({config.tool_server_url}) "
            "and add the tool server to the server's configuration (docs/tools.md)"
        )
    if config.group_size < 1:
        raise InvalidError(f"group_size: must be at least 1, got {config.group_size}")


@dataclass
class AgentConfig:
    """The configuration of the agent for one item."""

    temperature: float | None = 0.7
    max_tokens: int | None = None
    max_steps: int = 50
    system_prompt: str | None = None
    tool_delay_s: float = 0.0
    working_dir: str | None = None
