"""The commands of an environment: `python env.py serve | process | evaluate --env.FIELD VALUE --openai.FIELD VALUE`."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from ..errors import InvalidError, RolloutdError
from .config import AgentEnvConfig, APIServerConfig
from .records import ScoredGroup
from .trainer import Trainer

if TYPE_CHECKING:
    from .env import AgentEnv

log = logging.getLogger("rolloutd.atropos")

POLL_S = 1.0
# Groups of `process` in a row that give no data, after which it gives up.
MAX_EMPTY = 20


def main(cls: type[AgentEnv], arguments: list[str] | None = None) -> None:
    """Runs the command that the arguments name."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
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
            raise argparse.ArgumentTypeError(f"want {getattr(hint, '__name__', hint)}, got {text!r}")
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
    """Writes `total_steps` groups to a file, one line each."""
    path = Path(env.config.data_path_to_save_groups or f"data/{env.name}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    empty = 0
    with path.open("a") as out:
        while env.counts.delivered < env.config.total_steps:
            item = await env._hook(env.get_next_item)
            if item is None:
                return
            group = await _collect(env, item)
            empty = 0 if group else empty + 1
            if group:
                out.write(json.dumps(group, allow_nan=False) + "\n")
                out.flush()
                env.counts.delivered += 1
            elif empty >= MAX_EMPTY:
                raise InvalidError(f"{MAX_EMPTY} groups in a row gave no data: {env.counts}")


async def serve(env: AgentEnv, trainer: Trainer, poll_s: float = POLL_S) -> None:
    """Feeds a trainer until it has its steps. When its queue is full no group is started; those that run go on."""
    info = await trainer.register(env.config.wandb_name or env.name, env.config, poll_s)
    batch = env.config.batch_size if env.config.batch_size > 0 else int(info.get("batch_size", -1))
    total = env.config.total_steps if env.config.total_steps >= 0 else int(info.get("num_steps", 0))
    running: set[asyncio.Task[None]] = set()
    try:
        while True:
            status = await trainer.status()
            if int(status["current_step"]) + int(status["queue_size"]) * env.config.group_size / max(batch, 1) > total:
                return
            running = {task for task in running if not task.done()}
            for _ in range(_room(env.config, status, batch, len(env.server_configs)) - len(running)):
                item = await env._hook(env.get_next_item)
                if item is None:
                    break
                running.add(asyncio.create_task(_one(env, trainer, item)))
            await asyncio.wait(running, timeout=poll_s, return_when=asyncio.FIRST_COMPLETED) if running else await asyncio.sleep(poll_s)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _room(config: AgentEnvConfig, status: Any, batch: int, servers: int) -> int:
    """How many groups may run."""
    most = config.max_num_workers if config.max_num_workers > 0 else config.max_num_workers_per_node * max(servers, 1)
    share = float(status.get("unallocated_fraction", 1.0)) + (config.min_batch_allocation or 0.0)
    wanted = config.max_batches_offpolicy * batch * share / config.group_size - int(status["queue_size"])
    return max(0, min(most, int(wanted)))


async def _one(env: AgentEnv, trainer: Trainer, item: Any) -> None:
    """One group, from its item to the trainer."""
    group = await _collect(env, item)
    if not group:
        return
    try:
        await trainer.send(group)
        env.counts.delivered += 1
    except RolloutdError as err:
        env.counts.undelivered += 1
        log.error("group %s is not delivered: %s", group["overrides"], err)


async def _collect(env: AgentEnv, item: Any) -> ScoredGroup | None:
    """The group of an item. Its failure is its own."""
    try:
        return await env.collect_trajectories(item)
    except Exception as err:
        env.counts.incomplete += 1
        log.error("item %.200r: %s: %s", item, type(err).__name__, err)
        return None
