"""The commands of an environment: `python env.py serve | process | evaluate --env.FIELD VALUE --openai.FIELD VALUE`."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from .._calls import new_id
from ..errors import InvalidError, RolloutdError, ServerError, UnavailableError
from .config import AgentEnvConfig, APIServerConfig
from .journal import Journal, Work
from .records import ScoredGroup
from .trainer import Trainer

if TYPE_CHECKING:
    from .env import AgentEnv

log = logging.getLogger("rolloutd.atropos")

POLL_S = 1.0
# Successive groups without data after which `process` fails.
MAX_EMPTY = 20


def main(cls: type[AgentEnv], arguments: list[str] | None = None) -> None:
    """Runs the command of the arguments."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request
    try:
        command, env = build(cls, sys.argv[1:] if arguments is None else arguments)
        asyncio.run(_run(command, env))
    except RolloutdError as err:
        raise SystemExit(f"{cls.name}: {err}") from err
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def build(cls: type[AgentEnv], arguments: list[str]) -> tuple[str, AgentEnv]:
    """The command and the environment of a command line."""
    config, servers = cls.config_init()
    parser = argparse.ArgumentParser(prog=cls.name, allow_abbrev=False)
    parser.add_argument("command", choices=["serve", "process", "evaluate"])
    server = servers[0] if servers else APIServerConfig()
    for prefix, settings in (("env", config), ("openai", server)):
        hints = get_type_hints(type(settings))
        for f in fields(settings):
            parser.add_argument(f"--{prefix}.{f.name}", dest=f"{prefix}.{f.name}", type=_parser(hints[f.name], f.name), default=argparse.SUPPRESS)
    given = vars(parser.parse_args(arguments))
    command = given.pop("command")
    for name, value in given.items():
        prefix, _, member = name.partition(".")
        setattr(config if prefix == "env" else server, member, value)
    if any(name.startswith("openai.") for name in given) and not servers:
        servers = [server]
    if command == "process":
        _for_process(config, cls.name)
    if command != "evaluate" and config.open_groups_path is None:
        config.open_groups_path = f"data/{cls.name}.open"
    return command, cls(config, servers)


def _for_process(config: AgentEnvConfig, name: str) -> None:
    """Keeps every group with its messages, as the original does in this mode."""
    config.ensure_scores_are_not_same = False
    config.include_messages = True
    config.data_path_to_save_groups = config.data_path_to_save_groups or f"data/{name}.jsonl"


def _parser(hint: Any, name: str) -> Any:
    def parse(text: str) -> Any:
        if "str" in str(hint) and "list" not in str(hint):
            return text
        try:
            value = json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
        except ValueError:
            value = text
        if "list" in str(hint) and isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        if ("bool" in str(hint)) != isinstance(value, bool) or (isinstance(value, str) and ("int" in str(hint) or "float" in str(hint))):
            raise argparse.ArgumentTypeError(f"must be {getattr(hint, '__name__', hint)}, got {text!r}")
        return value

    parse.__name__ = name
    return parse


async def _run(command: str, env: AgentEnv) -> None:
    try:
        await env.setup()
        if command == "evaluate":
            print(json.dumps(await env._hook(env.evaluate)))
        elif command == "process":
            await process(env)
        else:
            async with Trainer(env.config.rollout_server_url) as trainer:
                await serve(env, trainer)
    finally:
        log.info("groups: %s", env.counts)
        await env.close()


async def process(env: AgentEnv) -> None:
    """Writes `total_steps` groups to a file, one line each. Unfinished groups of a killed process come first."""
    path = Path(env.config.data_path_to_save_groups or f"data/{env.name}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = Journal(env.config.open_groups_path)
    left = deque(_unwritten(path, journal))
    empty = 0
    with path.open("a") as out:
        while left or env.counts.delivered < env.config.total_steps:
            work = left.popleft() if left else await _next(env, journal)
            if work is None:
                return
            group = await _collect(env, work)
            empty = 0 if group else empty + 1
            if group:
                out.write(json.dumps(group, allow_nan=False) + "\n")
                out.flush()
                os.fsync(out.fileno())
                env.counts.delivered += 1
            work.end()
            if empty >= MAX_EMPTY:
                raise InvalidError(f"{MAX_EMPTY} groups in a row gave no data: {env.counts}")


def _unwritten(path: Path, journal: Journal) -> Iterator[Work]:
    """The groups of a killed process that are not in its file. An incomplete last line is removed."""
    text = path.read_bytes() if path.exists() else b""
    if not text.endswith(b"\n") and text:
        os.truncate(path, text.rfind(b"\n") + 1)
    for work in journal.left():
        if f'"rolloutd_key": "{work.group_id}"'.encode() in text[: text.rfind(b"\n") + 1]:
            work.end()
        else:
            yield work


async def _next(env: AgentEnv, journal: Journal) -> Work | None:
    """The work of the next item; None if there is no item at present."""
    item = await env._hook(env.get_next_item)
    return None if item is None else journal.begin(new_id(), item)


async def serve(env: AgentEnv, trainer: Trainer, poll_s: float = POLL_S) -> None:
    """Sends groups to a trainer until its last step. While its queue is full, no group is started; running groups and those of a killed process continue."""
    journal = Journal(env.config.open_groups_path)
    running = {asyncio.create_task(_one(env, trainer, work)) for work in journal.left()}
    try:
        await _feed(env, trainer, journal, running, poll_s)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _feed(env: AgentEnv, trainer: Trainer, journal: Journal, running: set[asyncio.Task[None]], poll_s: float) -> None:
    info = await trainer.register(env.config.wandb_name or env.name, env.config, poll_s)
    batch = env.config.batch_size if env.config.batch_size > 0 else int(info.get("batch_size", -1))
    total = env.config.total_steps if env.config.total_steps >= 0 else int(info.get("num_steps", 0))
    while True:
        status = await trainer.status()
        if int(status["current_step"]) + int(status["queue_size"]) * env.config.group_size / max(batch, 1) > total:
            return
        running -= {task for task in running if task.done()}
        for _ in range(_room(env.config, status, batch, len(env.server_configs)) - len(running)):
            work = await _next(env, journal)
            if work is None:
                break
            running.add(asyncio.create_task(_one(env, trainer, work)))
        await asyncio.wait(running, timeout=poll_s, return_when=asyncio.FIRST_COMPLETED) if running else await asyncio.sleep(poll_s)


def _room(config: AgentEnvConfig, status: Any, batch: int, servers: int) -> int:
    """How many groups may run."""
    most = config.max_num_workers if config.max_num_workers > 0 else config.max_num_workers_per_node * max(servers, 1)
    share = float(status.get("unallocated_fraction", 1.0)) + (config.min_batch_allocation or 0.0)
    wanted = config.max_batches_offpolicy * batch * share / config.group_size - int(status["queue_size"])
    return max(0, min(most, int(wanted)))


async def _one(env: AgentEnv, trainer: Trainer, work: Work) -> None:
    """One group, from its item to the trainer. If the trainer is unreachable for too long, the next start of the environment sends the group."""
    ended = True
    try:
        group = await _collect(env, work)
        if group:
            await trainer.send(group, work.group_id)
            env.counts.delivered += 1
    except RolloutdError as err:
        ended = not isinstance(err, (UnavailableError, ServerError))
        env.counts.undelivered += 1
        log.error("group %s is not delivered: %s", work.group_id, err)
    finally:
        if ended:
            work.end()


async def _collect(env: AgentEnv, work: Work) -> ScoredGroup | None:
    """The group of an item. Its failure does not affect other groups."""
    try:
        return await env.collect(work)
    except Exception as err:
        env.counts.incomplete += 1
        log.error("item %.200r: %s: %s", work.item, type(err).__name__, err)
        return None
