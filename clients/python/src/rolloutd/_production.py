"""The requests about producers and deliveries, and the types of the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from ._calls import Call, known, new_id, object_of, one
from .types import JSON


@dataclass(frozen=True)
class Producer:
    """The state of a producer. `outcome` is "" while it runs, then completed, stopped, aborted or failed.

    `counts` are sums since its start: groups started, delivered, skipped, refused, filtered by reason, failed, aborted and run again.
    """

    producer_id: str
    sink: str
    group_size: int
    phase: str
    outcome: str
    error: str
    waiting: str  # why no group starts
    step: int  # the training step
    counts: JSON
    broken: tuple[str, ...]  # tasks that were left out at the start, and why
    raw: JSON = field(repr=False)

    @property
    def done(self) -> bool:
        return self.phase == "done"

    @classmethod
    def of(cls, raw: JSON) -> Producer:
        return cls(
            producer_id=raw["producer_id"],
            sink=raw.get("sink", ""),
            group_size=raw.get("group_size", 0),
            phase=raw.get("phase", ""),
            outcome=raw.get("outcome", ""),
            error=raw.get("error", ""),
            waiting=raw.get("waiting", ""),
            step=raw.get("step", 0),
            counts=raw.get("counts") or {},
            broken=tuple(raw.get("broken") or ()),
            raw=raw,
        )


@dataclass(frozen=True)
class ListedProducer:
    """A producer in a list. What the list does not know is None; `producers.get` has the whole state."""

    producer_id: str
    name: str  # of the task set
    phase: str
    outcome: str
    sink: str | None
    group_size: int | None
    step: int | None
    counts: JSON | None
    raw: JSON = field(repr=False)

    @property
    def done(self) -> bool:
        return self.phase == "done"

    @classmethod
    def of(cls, raw: JSON) -> ListedProducer:
        return cls(
            producer_id=raw["producer_id"],
            name=raw.get("name", ""),
            phase=raw.get("phase", ""),
            outcome=raw.get("outcome", ""),
            sink=raw.get("sink"),
            group_size=raw.get("group_size"),
            step=raw.get("step"),
            counts=raw.get("counts"),
            raw=raw,
        )


@dataclass(frozen=True)
class Delivery:
    """The delivery of a group to a sink. `state` is pending, delivered, refused or skipped; `reason` is the reason, or the error of the last attempt."""

    group_id: str
    sink: str
    state: str
    reason: str
    tries: int  # failed attempts
    rollouts: int
    raw: JSON = field(repr=False)

    @property
    def done(self) -> bool:
        return self.state not in ("", "pending")

    @classmethod
    def of(cls, raw: JSON) -> Delivery:
        return cls(
            group_id=raw["group_id"],
            sink=raw["sink"],
            state=raw.get("state", ""),
            reason=raw.get("reason", ""),
            tries=raw.get("tries", 0),
            rollouts=raw.get("rollouts", 0),
            raw=raw,
        )


@dataclass(frozen=True)
class ProducerPage:
    """A part of a list of producers. `next` is the next page's cursor, "" on the last one."""

    producers: tuple[ListedProducer, ...]
    next: str


@dataclass(frozen=True)
class DeliveryPage:
    """A part of a list of deliveries. `next` is the next page's cursor, "" on the last one."""

    deliveries: tuple[Delivery, ...]
    next: str


class ProducerTask(TypedDict, total=False):
    """The arguments of a producer; /openapi.json explains each. `tasks` replaces `task_set`; `rollout` applies to each rollout."""

    producer_id: str
    task_set: str
    tasks: list[dict[str, Any]]
    rollout: dict[str, Any]
    select: dict[str, Any]
    shuffle: int
    skip_broken: bool
    require_checked: bool
    sink: str
    group_size: int
    max_replacements: int
    group_deadline_s: float
    concurrency: int
    max_batches_offpolicy: int
    total_steps: int
    epochs: int
    batch_size: int
    filter: dict[str, Any]
    eval: dict[str, Any]


class ProducerChange(TypedDict, total=False):
    """A change of a running producer."""

    paused: bool
    stop: bool
    concurrency: int
    max_batches_offpolicy: int
    total_steps: int


def submit(task: Mapping[str, Any]) -> Call[Producer]:
    return Call("POST", "/producers", object_of(Producer.of), body={"producer_id": new_id(), **task})


def producer(id: str) -> Call[Producer]:
    return Call("GET", one("producers", id), object_of(Producer.of))


def change(id: str, change: Mapping[str, Any]) -> Call[bool]:
    return Call("POST", one("producers", id, "change"), object_of(_running), body=change)


def abort(id: str, reason: str) -> Call[bool]:
    return Call("POST", one("producers", id, "abort"), object_of(_running), body={"reason": reason})


def _running(raw: JSON) -> bool:
    return not raw["done"]


def producers(**params: str | int | None) -> Call[ProducerPage]:
    def of(raw: JSON) -> ProducerPage:
        return ProducerPage(tuple(ListedProducer.of(p) for p in raw["producers"] or ()), raw.get("next", ""))

    return Call("GET", "/producers", object_of(of), known(params))


def deliver(group_id: str, sink: str) -> Call[Delivery]:
    return Call("POST", one("groups", group_id, "deliver"), object_of(Delivery.of), body={"sink": sink})


def delivery(group_id: str, sink: str) -> Call[Delivery]:
    return Call("GET", f"{one('groups', group_id)}{one('deliveries', sink)}", object_of(Delivery.of))


def deliveries(**params: str | int | None) -> Call[DeliveryPage]:
    def of(raw: JSON) -> DeliveryPage:
        return DeliveryPage(tuple(Delivery.of(d) for d in raw["deliveries"] or ()), raw.get("next", ""))

    return Call("GET", "/deliveries", object_of(of), known(params))
