"""A `rollout_func` for TRL's GRPOTrainer and its reward."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from .._calls import new_id
from .._http import POLL_S
from ..client import Client
from ..errors import InvalidError, RolloutdError
from ..staleness import Staleness
from ..trainers import Record, records_of, trained
from ..trainers.running import pinned
from ..trainers.trl import Batch, batch
from ..types import Group, Sequence

log = logging.getLogger("rolloutd.trl")

Prompt = Any  # a string, or a list of messages with role and content

# Largest group of a server.
_LARGEST_GROUP = 128

# Seconds for which an aborted group may still need to end, and for which a batch that ends early waits for the answers to its aborts.
_ABORT_S = 60.0
_LEAVE_S = 10.0


def instruction_of(prompt: Prompt) -> str:
    """The text of the last user message of a prompt."""
    if isinstance(prompt, str):
        return prompt
    for message in reversed(prompt):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            return "".join(part.get("text", "") for part in content or () if part.get("type") in ("text", "input_text"))
    raise InvalidError("prompt: must be a text, or messages with one of the user")


@dataclass
class Counts:
    """Counts of the rollouts of a RolloutFunc, by result. A row is one prompt of a batch."""

    rows: int = 0
    lost: int = 0  # rows without a reward or without tokens to train on: masked, reward None
    stale: int = 0  # rows masked by the bound on staleness
    dropped_sequences: int = 0  # further sequences of a rollout; TRL takes one per prompt


class _Groups:
    """The groups of one batch. `abort` ends all that run, and those that start later."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._running: set[str] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self, arguments: Mapping[str, Any], timeout_s: float | None) -> Group:
        """Starts a group and waits for its end. After `timeout_s` it is aborted: its rollouts that have ended keep their rewards."""
        id = arguments["group_id"]
        with self._lock:
            if self._stopped.is_set():
                raise CancelledError
            self._running.add(id)
        try:
            group = self._client.groups.submit(arguments)
            if self._stopped.is_set():  # the abort may have come before the start
                self._client.groups.abort(id, "the batch has ended early")
                raise CancelledError
            return self._ended(group, timeout_s)
        finally:
            with self._lock:
                self._running.discard(id)

    def _ended(self, group: Group, timeout_s: float | None) -> Group:
        deadline, aborted = None if timeout_s is None else time.monotonic() + timeout_s, False
        while not (group := self._client.groups.get(group.group_id)).done:
            if deadline is not None and time.monotonic() > deadline:
                if aborted:
                    log.warning("group %s has not ended %g s after its abort", group.group_id, _ABORT_S)
                    return group
                log.warning("group %s is aborted after %s s; its rollouts that have ended count", group.group_id, timeout_s)
                self._client.groups.abort(group.group_id, f"timeout_s of {timeout_s} s")
                deadline, aborted = time.monotonic() + _ABORT_S, True
                continue
            if self._stopped.wait(POLL_S):
                raise CancelledError
        return group

    def abort(self) -> None:
        """Aborts all groups, and waits for the answers for a few seconds."""
        with self._lock:
            self._stopped.set()
            ids = list(self._running)
        threads = [threading.Thread(target=self._abort, args=(id,), daemon=True) for id in ids]
        for thread in threads:
            thread.start()
        until = time.monotonic() + _LEAVE_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _abort(self, id: str) -> None:
        try:
            self._client.groups.abort(id, "the batch has ended early")
        except RolloutdError as err:
            log.warning("group %s is not aborted: %s", id, err)


@dataclass
class RolloutFunc:
    """A `rollout_func` of GRPOTrainer: runs each prompt of a batch as a rollout, consecutive equal prompts as one group.

    `task` has the arguments that all rollouts share, or is a callable that makes them from the prompt. The sampling parameters of the trainer are
    pinned on every model call; those of `task` override them. A row whose rollout has no reward gets the
    reward None, which TRL leaves out of the group's mean, and a mask of zeros; so does a row without a prompt, or that rolloutd refuses.
    `current_version` is the trainer's version for `staleness`. A group that has not ended after `timeout_s` is aborted; its rollouts that have ended
    count. An exception, or Ctrl-C, aborts all groups of the batch.
    """

    client: Client
    task: Mapping[str, Any] | Callable[[Prompt], Mapping[str, Any]]
    staleness: Staleness | None = None
    current_version: Callable[[], int] | None = None
    timeout_s: float | None = None
    concurrency: int = 32
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        if self.staleness is not None and self.current_version is None:
            raise InvalidError("current_version: required with staleness: a callable that returns the trainer's version")

    def __call__(self, prompts: list[Prompt], trainer: Any = None) -> Batch:
        runs = [list(run) for _, run in groupby(prompts)]
        parts = [(run[0], len(run[at : at + _LARGEST_GROUP])) for run in runs for at in range(0, len(run), _LARGEST_GROUP)]
        running, sampling = _Groups(self.client), _sampling(trainer)
        pool = ThreadPoolExecutor(min(len(parts), self.concurrency) or 1)
        futures = [pool.submit(self._group, running, prompt, size, sampling) for prompt, size in parts]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            running.abort()
            raise
        pool.shutdown()
        records = [record for future in futures for record in future.result()]
        rows = batch(records, self._stale)
        self._count(records)
        return rows

    def _group(self, running: _Groups, prompt: Prompt, size: int, sampling: Mapping[str, Any]) -> list[Record]:
        """The records of the members of a group."""
        task = self.task(prompt) if callable(self.task) else self.task
        id = new_id()
        try:
            args = {"instruction": instruction_of(prompt), "purpose": "train", **task, "group_size": size, "group_id": id}
            group = running.run(pinned(args, sampling), self.timeout_s)
        except InvalidError as err:
            log.warning("the rows of a prompt are masked: %s", err)
            return [Record(f"{id}-{i}", id, "", f"InvalidError: {err}", None, ()) for i in range(size)]
        rewarded = [member.rollout_id for member in group.members if member.reward is not None] if group.done else []
        # One after the other: all their sequences may be more than one answer of the server has.
        return records_of(group, [sequence for id in rewarded for sequence in self.client.rollouts.trajectory(id)])

    def _count(self, records: list[Record]) -> None:
        sequences = [len(trained(record)) for record in records]
        self.counts.rows += len(records)
        self.counts.lost += sequences.count(0)
        self.counts.dropped_sequences += sum(n - 1 for n in sequences if n)

    def _stale(self, sequence: Sequence) -> bool:
        if self.staleness is None or self.current_version is None:
            return False
        stale = self.staleness.is_stale(sequence, self.current_version())
        self.counts.stale += stale
        return stale and self.staleness.action == "drop"


def _sampling(trainer: Any) -> dict[str, Any]:
    """The sampling parameters with which a trainer computes; none without a trainer."""
    if trainer is None:
        return {}
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    return {name: getattr(trainer.args, name) for name in names} | (trainer.args.generation_kwargs or {})


def reward(completions: list[Any], rewards: list[float | None], **_: Any) -> list[float | None]:
    """The reward function of GRPOTrainer for a RolloutFunc: the rewards that the verifiers gave."""
    return rewards
