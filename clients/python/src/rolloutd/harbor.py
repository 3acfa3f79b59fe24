"""An environment of Harbor 0.26 whose sandboxes are rolloutd's.

    harbor run -p tasks -a terminus-2 -e rolloutd.harbor:RolloutdEnvironment

An environment is an interactive episode: it is listed, shown and recorded as a rollout. Harbor runs its agent and grades in it.
"""

from __future__ import annotations

import asyncio
import io
import shlex
import subprocess
import tarfile
from base64 import b64decode, b64encode
from pathlib import Path, PurePosixPath
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.definition import require_agent_environment_definition
from harbor.environments.options import EnvironmentOptions
from harbor.environments.tar_transfer import extract_dir_from_bytes, pack_dir_to_bytes
from harbor.models.task.config import NetworkMode

from ._calls import new_id
from ._episodes import Episode
from .aio import AsyncClient
from .errors import InvalidError, RolloutdError, UnavailableError

# Where the commands of an environment have their files, one folder each.
_JOBS = "/tmp/.rolloutd-harbor"

# Seconds for which one tool call waits for a command. A tool ends its call after 600 s; a command has no such limit.
_WAIT_S = 300

# Characters of one write_file, whose arguments may have 8 MiB, and bytes of each output of a command that are returned.
_PIECE = 4 << 20
_OUTPUT = 16 << 20

# Lines of base64 that a command and a read_file return whole.
_FIRST, _LINES = 300, 1200

# Prints the image's WORKDIR. A sandbox has this folder at another path too, where commands begin.
_WORKDIR = """
while read -r _ _ _ folder point _; do
    [ "$point" = "$PWD" ] && [ "$folder" -ef "$PWD" ] && echo "$folder"
done </proc/self/mountinfo
true"""


class RolloutdOptions(EnvironmentOptions):
    """`server` and `token` default to ROLLOUTD_SERVER and ROLLOUTD_TOKEN; `life_s` bounds an environment, `idle_s` the time between two commands.

    `program` builds the image of a task with a Dockerfile, on the machine of the server.
    """

    server: str | None = None
    token: str | None = None
    life_s: float = 24 * 3600.0
    idle_s: float = 3600.0
    program: str = "rolloutd"


class RolloutdEnvironment(BaseEnvironment):
    """A sandbox of rolloutd as an environment of Harbor.

    Commands run as root of the image unless Harbor names a user. Their variables are in the record of the episode, like everything that a
    client of an episode sends.
    """

    options_model = RolloutdOptions
    options: RolloutdOptions

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._client: AsyncClient | None = None
        self._episode: Episode | None = None
        self._workdir = self.task_env_config.workdir
        self._done: list[str] = []  # folders of commands that have ended

    @staticmethod
    def type() -> str:
        return "rolloutd"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(
            disable_internet=True, network_allowlist=True, network_allowlist_hostnames=True, network_allowlist_wildcard_hostnames=True
        )

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True)

    def _validate_definition(self) -> None:
        require_agent_environment_definition(self.environment_dir, docker_image=self.task_env_config.docker_image)
        if not self.task_env_config.docker_image and not (self.environment_dir / "Dockerfile").exists():
            raise ValueError(f"{self.environment_dir}: rolloutd runs no compose files: give a docker_image or a Dockerfile")

    async def start(self, force_build: bool) -> None:
        image = self.task_env_config.docker_image
        if not image or force_build and (self.environment_dir / "Dockerfile").exists():
            image = await self._build()

        self._client = AsyncClient(self.options.server, token=self.options.token)
        self._episode = await self._reset(self._client, self._arguments(image))
        self._workdir = self._workdir or await self._call("terminal", _WORKDIR)
        await self.ensure_dirs(self._mount_targets(writable_only=True))
        await self._upload_environment_dir_after_start()

    async def _build(self) -> str:
        image = f"localhost/harbor-environment-{self.environment_id[:32]}"
        command = [self.options.program, "image", "build", str(self.environment_dir), image]
        built = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        if built.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {built.stderr[-4000:]}")
        return image

    def _arguments(self, image: str) -> dict[str, Any]:
        """The arguments of the episode."""
        config, network = self.task_env_config, self._network_policy
        sandbox: dict[str, Any] = {"image": image, "user": "root", "workdir": config.workdir or "image", "image_env": True}
        if self._effective_memory_mb is not None:
            sandbox["memory_mib"] = self._effective_memory_mb
        if self._effective_cpus is not None:
            sandbox["cpu"] = self._effective_cpus

        arguments: dict[str, Any] = {
            "instruction": f"An environment of Harbor for the session {self.session_id}.",
            "task_id": self.environment_name,
            "sandbox": sandbox,
            "episode": {"idle_s": self.options.idle_s},
            "agent_timeout_s": self.options.life_s,
        }
        if network.network_mode == NetworkMode.PUBLIC:
            arguments["allow_network"] = True
        elif network.network_mode == NetworkMode.ALLOWLIST:
            arguments["network"] = {"allow": list(network.allowed_hosts)}
        return arguments

    async def _reset(self, client: AsyncClient, arguments: dict[str, Any]) -> Episode:
        """Opens the episode. Nearly every task of Harbor may reach all hosts; without network where the operator lets no task reach one."""
        try:
            return await client.episodes.reset(arguments)
        except InvalidError as err:
            if "allow_network" not in arguments or not str(err).startswith("allow_network:"):
                raise
            self.logger.warning("%s: the environment of %s has no network: %s", self.environment_name, self.session_id, err)
            del arguments["allow_network"]
            return await client.episodes.reset(arguments)

    async def stop(self, delete: bool) -> None:
        client, episode = self._client, self._episode
        self._client = self._episode = None
        if client is None:
            return
        try:
            if episode is not None:
                await client.episodes.submit(episode)
        except RolloutdError as err:
            self.logger.warning("the episode of %s is not ended; it ends by its own limits: %s", self.session_id, err)
        finally:
            await client.close()

    async def exec(
        self, command: str, cwd: str | None = None, env: dict[str, str] | None = None, timeout_sec: int | None = None, user: str | int | None = None
    ) -> ExecResult:
        job, seconds = self._job(), 0.0
        variables = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in (self._merge_env(env) or {}).items())
        text = f"{variables}cd {shlex.quote(cwd or self._workdir or '/')} || exit\n{command}"
        await self._call(
            "terminal",
            f"rm -rf {' '.join(self._swept())}; mkdir -p {job} && chmod 711 {_JOBS}\n"
            f"(setsid {_as_user(self._resolve_user(user), text)} >{job}/out 2>{job}/err </dev/null & echo $! >{job}/pid; wait $!; echo $? >{job}/end) "
            "</dev/null >/dev/null 2>&1 &",
        )

        while await self._call("terminal", _wait(job, wait := _next_wait(timeout_sec, seconds))) == "runs":
            seconds += wait
            if timeout_sec is not None and seconds >= timeout_sec:
                await self._call("terminal", f"kill -KILL -- -$(cat {job}/pid); true")
                self._done.append(job)
                raise RuntimeError(f"the command timed out after {timeout_sec} s: {command[:200]}")

        await self._call("terminal", f"cd {job} && for f in out err; do tail -c {_OUTPUT} $f >$f.end; done")
        with tarfile.open(fileobj=io.BytesIO(await self._packed(job, "out.end", "err.end", "end"))) as tar:
            out, err, end = (tar.extractfile(name).read().decode(errors="replace") for name in ("out.end", "err.end", "end"))  # type: ignore[union-attr]
        self._done.append(job)
        return ExecResult(stdout=out, stderr=err, return_code=int(end))

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        target = PurePosixPath(target_path)
        with io.BytesIO() as packed:
            with tarfile.open(fileobj=packed, mode="w:gz") as tar:
                tar.add(source_path, arcname=target.name)
            await self._unpack(packed.getvalue(), str(target.parent))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        packed = await asyncio.to_thread(pack_dir_to_bytes, source_dir, compress=True, include_root=False)
        await self._unpack(packed.getvalue(), target_dir)

    async def _unpack(self, packed: bytes, target: str) -> None:
        job, text = self._job(), b64encode(packed).decode()
        pieces = [f"{job}/{start:012d}" for start in range(0, len(text), _PIECE)]
        for i, piece in enumerate(pieces):
            await self._tool("write_file", {"path": piece, "content": text[i * _PIECE : (i + 1) * _PIECE]})
        target = shlex.quote(target)
        await self._call("terminal", f"mkdir -p {target} && cat {' '.join(pieces)} | base64 -d | tar -xzf - --no-same-owner -C {target} && rm -rf {job}")

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        source, target = PurePosixPath(source_path), Path(target_path)
        with tarfile.open(fileobj=io.BytesIO(await self._packed(str(source.parent), source.name, links="h"))) as tar:
            content = tar.extractfile(source.name)
            if content is None:
                raise FileNotFoundError(f"{source_path} is not a file")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        extract_dir_from_bytes(await self._packed(source_dir, "."), target_dir)

    async def _packed(self, folder: str, *names: str, links: str = "") -> bytes:
        """Files and folders as tar.gz. The tools give text alone: base64, of which a call returns the beginning and others the rest."""
        job, chosen = self._job(), " ".join(map(shlex.quote, names))
        pack = f"mkdir -p {job} && tar -cz{links}f {job}/packed -C {shlex.quote(folder)} -- {chosen} && base64 -w 76 {job}/packed >{job}/text"
        count, _, text = (await self._call("terminal", f"{pack} && wc -l <{job}/text && head -n {_FIRST} {job}/text")).partition("\n")
        for line in range(_FIRST + 1, int(count) + 1, _LINES):
            text += "\n" + await self._tool("read_file", {"path": f"{job}/text", "offset": line, "limit": _LINES})
        self._done.append(job)
        return b64decode(text)

    async def _call(self, tool: str, command: str) -> str:
        return await self._tool(tool, {"command": command, "timeout": 600})

    async def _tool(self, tool: str, arguments: dict[str, Any]) -> str:
        client, episode = self._open()
        step = await client.episodes.call(episode, tool, arguments)
        if step.error or step.failed:
            raise UnavailableError(f"rollout {episode.rollout_id}: {tool}: {step.error or step.text}")
        return step.text.strip()

    def _open(self) -> tuple[AsyncClient, Episode]:
        if self._client is None or self._episode is None:
            raise RuntimeError("the environment is not started")
        return self._client, self._episode

    def _job(self) -> str:
        return f"{_JOBS}/{new_id()}"

    def _swept(self) -> list[str]:
        done, self._done = self._done, []
        return done


def _next_wait(timeout_sec: int | None, seconds: float) -> float:
    """Seconds of the next wait for a command, of which `seconds` have passed."""
    return _WAIT_S if timeout_sec is None else min(_WAIT_S, timeout_sec - seconds)


def _wait(job: str, seconds: float) -> str:
    """A command that waits for the end of another one, and prints "runs" if it has not ended."""
    return (
        f"until=$(($(date +%s) + {max(int(seconds), 1)})); pause=0.02; "
        f"while [ ! -s {job}/end ]; do [ $(date +%s) -lt $until ] || {{ echo runs; break; }}; sleep $pause; pause=0.2; done"
    )


def _as_user(user: str | int | None, text: str) -> str:
    """A command of the shell that runs a text as a user."""
    if user is None or str(user) in ("root", "0"):
        return f"env HOME=/root bash -c {shlex.quote(text)}"
    name = shlex.quote(user) if isinstance(user, str) and not user.isdigit() else f'"$(awk -F: \'$3 == {int(user)} {{print $1; exit}}\' /etc/passwd)"'
    return f"su -s /bin/bash {name} -c {shlex.quote(text)}"
