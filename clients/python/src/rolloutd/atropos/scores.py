"""Scores the members of a group, each when it awaits its score."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from ..errors import ConflictError, NotFoundError, RolloutdError
from ..types import Group
from .journal import Work

if TYPE_CHECKING:
    from .env import AgentEnv

log = logging.getLogger("rolloutd.atropos")

POLL_S = 1.0

# Seconds within which the server ends an attempt whose sandbox is lost: it looks at one that waits for a score every ten seconds.
LOST_S = 60.0


class Scores:
    """The scores of one group."""

    def __init__(self, env: AgentEnv[Any], work: Work) -> None:
        self._env, self._work, self._group_id = env, work, work.group_id
        self._given: dict[tuple[str, int], asyncio.Task[None]] = {}  # by rollout and attempt

    async def until_done(self) -> Group:
        """Scores until the group has ended."""
        try:
            while True:
                group = await self._env.client.groups.get(self._group_id)
                if group.done:
                    return group
                await self._look(group)
                running = [task for task in self._given.values() if not task.done()]
                if running:
                    await asyncio.wait(running, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(POLL_S)
                for task in self._given.values():
                    if task.done() and not task.cancelled():
                        task.result()
        finally:
            for task in self._given.values():
                task.cancel()
            await asyncio.gather(*self._given.values(), return_exceptions=True)

    async def _look(self, group: Group) -> None:
        """Begins to score the members that await a score."""
        states = await asyncio.gather(
            *(self._env.client.rollouts.get(m.rollout_id) for m in group.members if not m.outcome), return_exceptions=True
        )
        for state in states:
            if isinstance(state, NotFoundError):
                continue  # about to start
            if isinstance(state, BaseException):
                raise state
            key = (state.rollout_id, state.attempt or 0)
            self._end_earlier(*key)
            if state.phase == "awaiting_score" and key not in self._given:
                self._given[key] = asyncio.create_task(self._score(*key))

    def _end_earlier(self, rollout_id: str, attempt: int) -> None:
        """Ends the hooks of earlier attempts, whose sandboxes are lost: their calls would run in that of this one."""
        for (scored, number), task in self._given.items():
            if scored == rollout_id and number < attempt:
                task.cancel()

    async def _score(self, rollout_id: str, attempt: int) -> None:
        try:
            score, metadata = await self._env.score(self._work, rollout_id)
        except Exception as err:  # an exception of a hook affects only its own group
            lost = isinstance(err, RolloutdError) and err.kind == "SandboxLost"
            if not await self._awaits(rollout_id, attempt, within=LOST_S if lost else 0.0):
                return
            why = f"score of rollout {rollout_id}: {type(err).__name__}: {err}"
            log.error("group %s: %s", self._group_id, why)
            await self._env.client.groups.abort(self._group_id, why[:500])
            return
        if not await self._awaits(rollout_id, attempt):
            return
        if metadata:
            self._work.metadata[rollout_id] = metadata
            self._work.save()
        try:
            await self._env.client.rollouts.score(rollout_id, score)
        except ConflictError as err:
            log.warning("rollout %s takes no score: %s", rollout_id, err)  # it ended meanwhile, or begins another attempt

    async def _awaits(self, rollout_id: str, attempt: int, within: float = 0.0) -> bool:
        """Whether the attempt still awaits its score after so many seconds. If its sandbox was lost, another attempt follows, for which the
        hook is called again."""
        end = time.monotonic() + within
        state = await self._env.client.rollouts.get(rollout_id)
        while state.attempt == attempt and state.phase == "awaiting_score":
            if time.monotonic() >= end:
                return True
            await asyncio.sleep(POLL_S)
            state = await self._env.client.rollouts.get(rollout_id)
        log.warning("rollout %s: attempt %d takes no score: attempt %d is in phase %s", rollout_id, attempt, state.attempt, state.phase)
        return False
