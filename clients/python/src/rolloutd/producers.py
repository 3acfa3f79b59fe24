"""Producers and deliveries, for both clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _production as calls
from ._http import POLL_S, check_deadline
from ._production import Delivery, DeliveryPage, ListedProducer, Producer, ProducerChange, ProducerPage, ProducerTask

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .aio import AsyncClient
    from .client import Client


class Producers:
    """The producers of a server. A producer runs groups of a task set as fast as its sink accepts them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def submit(self, arguments: Mapping[str, Any] | None = None, /, **task: Unpack[ProducerTask]) -> Producer:
        """Starts a producer. The same `producer_id` returns the same producer."""
        return self._client.send(calls.submit({**(arguments or {}), **task}))

    def get(self, producer_id: str) -> Producer:
        """The state of a producer."""
        return self._client.send(calls.producer(producer_id))

    def wait(self, producer_id: str, *, timeout_s: float | None = None, poll_s: float = POLL_S) -> Producer:
        """Waits for the end of a producer. DeadlineError after `timeout_s` seconds; the producer continues."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            producer = self.get(producer_id)
            if producer.done:
                return producer
            check_deadline(deadline, f"producer {producer_id}")
            time.sleep(poll_s)

    def change(self, producer_id: str, **change: Unpack[ProducerChange]) -> bool:
        """Pauses, resumes or stops a producer, or changes its bounds. Returns False if it has already ended."""
        return self._client.send(calls.change(producer_id, change))

    def abort(self, producer_id: str, reason: str = "") -> bool:
        """Ends a producer and its groups early. Returns False if it has already ended."""
        return self._client.send(calls.abort(producer_id, reason))

    def page(self, *, status: str = "", limit: int | None = None, cursor: str = "") -> ProducerPage:
        """One page of the caller's producers."""
        return self._client.send(calls.producers(status=status, limit=limit, cursor=cursor))

    def all(self, *, status: str = "") -> Iterator[ListedProducer]:
        """All of the caller's producers, those that run first."""
        cursor = ""
        while True:
            page = self.page(status=status, cursor=cursor)
            yield from page.producers
            cursor = page.next
            if not cursor:
                return


class Deliveries:
    """The deliveries of finished groups to the configured sinks."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def deliver(self, group_id: str, sink: str) -> Delivery:
        """Delivers a finished group; ConflictError while it runs. Repeated calls deliver the group to a sink once."""
        return self._client.send(calls.deliver(group_id, sink))

    def get(self, group_id: str, sink: str) -> Delivery:
        """The state of the delivery of a group to a sink."""
        return self._client.send(calls.delivery(group_id, sink))

    def wait(self, group_id: str, sink: str, *, timeout_s: float | None = None, poll_s: float = POLL_S) -> Delivery:
        """Waits for the end of a delivery. DeadlineError after `timeout_s` seconds; the delivery continues."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            delivery = self.get(group_id, sink)
            if delivery.done:
                return delivery
            check_deadline(deadline, f"delivery of group {group_id} to {sink}")
            time.sleep(poll_s)

    def page(self, *, sink: str = "", state: str = "", limit: int | None = None, cursor: str = "") -> DeliveryPage:
        """One page of the deliveries of the caller's groups."""
        return self._client.send(calls.deliveries(sink=sink, state=state, limit=limit, cursor=cursor))

    def all(self, *, sink: str = "", state: str = "") -> Iterator[Delivery]:
        """All deliveries of the caller's groups: those that have not ended, then the others, oldest group first."""
        cursor = ""
        while True:
            page = self.page(sink=sink, state=state, cursor=cursor)
            yield from page.deliveries
            cursor = page.next
            if not cursor:
                return


class AsyncProducers:
    """The producers of a server. A producer runs groups of a task set as fast as its sink accepts them."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def submit(self, arguments: Mapping[str, Any] | None = None, /, **task: Unpack[ProducerTask]) -> Producer:
        """Starts a producer. The same `producer_id` returns the same producer."""
        return await self._client.send(calls.submit({**(arguments or {}), **task}))

    async def get(self, producer_id: str) -> Producer:
        """The state of a producer."""
        return await self._client.send(calls.producer(producer_id))

    async def wait(self, producer_id: str, *, timeout_s: float | None = None, poll_s: float = POLL_S) -> Producer:
        """Waits for the end of a producer. DeadlineError after `timeout_s` seconds; the producer continues."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            producer = await self.get(producer_id)
            if producer.done:
                return producer
            check_deadline(deadline, f"producer {producer_id}")
            await asyncio.sleep(poll_s)

    async def change(self, producer_id: str, **change: Unpack[ProducerChange]) -> bool:
        """Pauses, resumes or stops a producer, or changes its bounds. Returns False if it has already ended."""
        return await self._client.send(calls.change(producer_id, change))

    async def abort(self, producer_id: str, reason: str = "") -> bool:
        """Ends a producer and its groups early. Returns False if it has already ended."""
        return await self._client.send(calls.abort(producer_id, reason))

    async def page(self, *, status: str = "", limit: int | None = None, cursor: str = "") -> ProducerPage:
        """One page of the caller's producers."""
        return await self._client.send(calls.producers(status=status, limit=limit, cursor=cursor))

    async def all(self, *, status: str = "") -> AsyncIterator[ListedProducer]:
        """All of the caller's producers, those that run first."""
        cursor = ""
        while True:
            page = await self.page(status=status, cursor=cursor)
            for producer in page.producers:
                yield producer
            cursor = page.next
            if not cursor:
                return


class AsyncDeliveries:
    """The deliveries of finished groups to the configured sinks."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def deliver(self, group_id: str, sink: str) -> Delivery:
        """Delivers a finished group; ConflictError while it runs. Repeated calls deliver the group to a sink once."""
        return await self._client.send(calls.deliver(group_id, sink))

    async def get(self, group_id: str, sink: str) -> Delivery:
        """The state of the delivery of a group to a sink."""
        return await self._client.send(calls.delivery(group_id, sink))

    async def wait(self, group_id: str, sink: str, *, timeout_s: float | None = None, poll_s: float = POLL_S) -> Delivery:
        """Waits for the end of a delivery. DeadlineError after `timeout_s` seconds; the delivery continues."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            delivery = await self.get(group_id, sink)
            if delivery.done:
                return delivery
            check_deadline(deadline, f"delivery of group {group_id} to {sink}")
            await asyncio.sleep(poll_s)

    async def page(self, *, sink: str = "", state: str = "", limit: int | None = None, cursor: str = "") -> DeliveryPage:
        """One page of the deliveries of the caller's groups."""
        return await self._client.send(calls.deliveries(sink=sink, state=state, limit=limit, cursor=cursor))

    async def all(self, *, sink: str = "", state: str = "") -> AsyncIterator[Delivery]:
        """All deliveries of the caller's groups: those that have not ended, then the others, oldest group first."""
        cursor = ""
        while True:
            page = await self.page(sink=sink, state=state, cursor=cursor)
            for delivery in page.deliveries:
                yield delivery
            cursor = page.next
            if not cursor:
                return
