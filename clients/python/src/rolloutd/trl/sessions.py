"""Sessions for the loop-owning harness of OpenEnv and TRL: the agent runs its own loop, and its turns are read when it has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from .._calls import new_id
from ..client import Client
from ..errors import UnscoredError
from ..types import SCORED_OUTCOMES, State
from .rollouts import Prompt, instruction_of

if TYPE_CHECKING:
    from openenv.core.harness import Tool, ToolResult, TrainingTrace, VerifyResult


class TrainingTurn(TypedDict):
    """An entry of OpenEnv's training trace."""

    prompt_token_ids: list[int]
    completion_token_ids: list[int]
    per_token_logps: list[float]
    loss_mask: list[int]
    request: Mapping[str, Any]
    response: Mapping[str, Any]
    metadata: dict[str, Any]


def training_entries(trace: list[Mapping[str, Any]]) -> list[TrainingTurn]:
    """The turns of a trace to train on, as OpenEnv's TrainingTrace.from_entries takes them."""
    return [
        TrainingTurn(
            prompt_token_ids=turn["prompt_token_ids"],
            completion_token_ids=turn["completion_token_ids"],
            per_token_logps=[float(logp) for logp in turn["per_token_logps"]],
            loss_mask=turn.get("loss_mask") or [0] * len(turn["prompt_token_ids"]) + [1] * len(turn["completion_token_ids"]),
            request=turn.get("request") or {},
            response=chat_reply(turn.get("response") or {}),
            metadata={
                "node_id": turn.get("node_id") or turn["call_id"],
                "turn": turn["turn"],
                "model_version": turn.get("model_version", ""),
                "sampling_params": turn.get("sampling_params"),
            },
        )
        for turn in trace
        if turn.get("train")
    ]


def chat_reply(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """A reply with a message in each choice, which TRL's worker reads: a reply to a prompt of token ids has only the text."""
    choices = [
        choice if "message" in choice else {**choice, "message": {"role": "assistant", "content": choice.get("text") or ""}}
        for choice in response.get("choices") or []
    ]
    return {**response, "choices": choices} if choices else response


class Session:
    """One rollout, as TRL's HarnessRolloutWorker drives it. Its methods may be called from several threads."""

    def __init__(self, client: Client, arguments: Mapping[str, Any], prompt: Prompt) -> None:
        self._client = client
        self._arguments = arguments
        self._prompt = prompt
        self._state: State | None = None
        self._closed = False
        self.rollout_id: str = arguments["rollout_id"]

    def wait_for_completion(self, timeout_s: float | None = None) -> int:
        """Runs the rollout. Returns 0 if the agent completed, and 1 if it failed or exhausted its budget.

        Raises TimeoutError if the agent reached its time limit; its turns are available and may be trained on. Raises UnscoredError if the
        policy did not cause the outcome, for instance if the sandbox was lost.
        """
        if self._closed:
            raise UnscoredError("the session is closed")
        self._client.rollouts.submit(self._arguments)
        self._state = self._client.rollouts.wait(self.rollout_id, timeout_s=timeout_s)
        if self._state.outcome not in SCORED_OUTCOMES:
            raise UnscoredError(f"rollout {self.rollout_id} ended as {self._state.outcome}: {self._state.error}")
        if self._state.outcome == "agent_timeout":
            raise TimeoutError(f"rollout {self.rollout_id}: {self._state.error}")
        return 0 if self._state.outcome == "completed" else 1

    def fetch_training_trace(self) -> TrainingTrace:
        """The turns to train on, with the engine's own token ids and log probabilities."""
        from openenv.core.harness import TrainingTrace

        return TrainingTrace.from_entries(training_entries(self._client.rollouts.trace(self.rollout_id)))

    def fetch_proxy_trace(self) -> list[TrainingTurn]:
        """The same turns as OpenEnv's trace entries."""
        return training_entries(self._client.rollouts.trace(self.rollout_id))

    def verify(self, transcript: list[dict[str, Any]], final_state: Any = None) -> VerifyResult:
        """The reward that the verifier gave; None if there is none."""
        from openenv.core.harness import VerifyResult

        state = self._state or self._client.rollouts.get(self.rollout_id)
        metrics = {"outcome": state.outcome, "turns": state.turns, "attempt": state.attempt}
        return VerifyResult(env_reward=state.reward, done=state.done, metrics=metrics, artifacts={"rollout_id": self.rollout_id})

    def close(self) -> None:
        """Aborts the rollout if it still runs."""
        if self._closed:
            return
        self._closed = True
        if self._state is None or not self._state.done:
            self._client.rollouts.abort(self.rollout_id, "the trainer closed the session")

    def initial_messages(self) -> list[dict[str, Any]]:
        return [{"role": "user", "content": self._prompt}] if isinstance(self._prompt, str) else list(self._prompt)

    def list_tools(self) -> list[Tool]:
        return []

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        from openenv.core.harness import ToolResult

        return ToolResult(error=f"{name}: the agent calls its tools itself")


class SessionFactory:
    """Makes a session per rollout. Pass `functools.partial(SessionFactory, server, task=...)` as `harness_session_factory`.

    `task` has the arguments that all rollouts share, or is a callable that makes them from the prompt. `sampling` is the trainer's policy, which is
    pinned on every model call.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        task: Mapping[str, Any] | Callable[[Prompt], Mapping[str, Any]],
        sampling: Mapping[str, Any] | None = None,
        token: str | None = None,
    ) -> None:
        self._client = Client(server, token=token)
        self._task = task
        self._sampling = dict(sampling or {})
        self._run = new_id()[:8]

    def create(self, task: Prompt, seed: int | None = None, episode_id: str | None = None) -> Session:
        """Makes the session of one rollout; the rollout starts when it is waited for. `seed` is the number of its group."""
        shared = self._task(task) if callable(self._task) else self._task
        arguments = {"instruction": instruction_of(task), "purpose": "train", **shared, "rollout_id": episode_id or new_id()}
        if self._sampling:
            arguments["sampling"] = {**self._sampling, **(shared.get("sampling") or {})}
        if seed is not None:
            arguments["group_id"] = f"{self._run}-{seed}"
        return Session(self._client, arguments, task)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()
