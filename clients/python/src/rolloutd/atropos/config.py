"""The settings of an environment, with the names and defaults of the original."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda cls: cls


@dataclass_transform(kw_only_default=True)
class _Settings:
    """Makes each subclass a dataclass whose fields are given by name."""

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True)(cls)


class AgentEnvConfig(_Settings):
    """Settings of an environment. A subclass adds its own fields.

    The settings of the original's container pool are accepted and have no effect; see `IGNORED`.
    """

    group_size: int = 4
    max_num_workers: int = -1
    max_num_workers_per_node: int = 8
    max_eval_workers: int = 16
    steps_per_eval: int = 100
    max_token_length: int = 2048
    batch_size: int = -1
    max_batches_offpolicy: int = 3
    total_steps: int = 1000
    rollout_server_url: str = "http://localhost:8000"
    tokenizer_name: str = ""
    use_wandb: bool = True
    wandb_name: str | None = None
    ensure_scores_are_not_same: bool = True
    data_path_to_save_groups: str | None = None
    include_messages: bool = False
    min_batch_allocation: float | None = None
    inference_weight: float = 1.0
    worker_timeout: float = 600.0
    eval_handling: str = "STOP_TRAIN"
    eval_limit_ratio: float = 0.5

    agent_max_steps: int = 50
    agent_temperature: float = 0.7
    agent_max_tokens: int | None = None
    agent_tool_delay_s: float = 0.0
    enabled_toolsets: list[str] = field(default_factory=lambda: ["default"])
    disabled_toolsets: list[str] = field(default_factory=list)

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
    tool_server_url: str | None = None
    tool_server_token: str | None = None

    # Settings of rolloutd: the server (default: ROLLOUTD_SERVER), its token (default: ROLLOUTD_TOKEN), and the name of a model endpoint.
    rolloutd_server: str | None = None
    rolloutd_token: str | None = None
    rolloutd_endpoint: str | None = None
    # Seconds for which a rollout keeps its sandbox until it is scored. The minimum, and the default, is worker_timeout plus a minute. A killed
    # environment must be restarted within this time.
    score_hold_s: float | None = None
    # Folder of the groups that have begun. A restarted `serve` or `process` finishes the groups of a killed one. The command line sets it to
    # data/NAME.open; "" saves no groups.
    open_groups_path: str | None = None
    # Score of a trajectory whose agent failed, for instance by reaching agent_max_steps. With None, its group is not delivered.
    failed_score: float | None = 0.0


# Settings that rolloutd has in its own configuration or does not need.
IGNORED = frozenset(
    {
        "allow_network",
        "require_sandbox",
        "require_stateful_sandbox",
        "tool_pool_mode",
        "tool_batch_window_ms",
        "tool_max_batch_size",
        "nomad_address",
        "sandbox_job_id",
        "sandbox_image",
        "slots_per_container",
        "min_containers",
        "max_containers",
        "privileged",
        "acquire_timeout_s",
        "purge_job_on_start",
        "purge_job_on_shutdown",
        "tool_server_url",
        "tool_server_token",
        "tokenizer_name",
        "use_wandb",
        "eval_handling",
        "eval_limit_ratio",
        "max_eval_workers",
    }
)


def ignored(config: AgentEnvConfig) -> list[str]:
    """The changed settings that have no effect here."""
    return [f.name for f in fields(config) if f.name in IGNORED and getattr(config, f.name) != _default(f)]


def _default(f: Any) -> Any:
    return f.default if f.default is not MISSING else f.default_factory()


class APIServerConfig(_Settings):
    """A model endpoint. `base_url` ends in /v1."""

    model_name: str = ""
    base_url: str | None = None
    api_key: str | None = None
    server_type: str = "openai"
    timeout: float = 1200.0
    num_max_requests_at_once: int = 512
    num_requests_for_eval: int = 64
    health_check: bool = True
    n_kwarg_is_ignored: bool = False
    tokenizer_name: str = "none"


class AgentConfig(_Settings):
    """The configuration of the agent for one item."""

    max_steps: int = 50
    temperature: float | None = 0.7
    max_tokens: int | None = None
    tool_delay_s: float = 0.0
    system_prompt: str | None = None
