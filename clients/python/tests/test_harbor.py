"""Harbor's own command and its agents in sandboxes of a real server. `deploy/suite.sh trainers` runs it.

It needs ROLLOUTD_TEST_SERVER, and ROLLOUTD_TEST_IMAGE, an image with bash, tar and useradd that the server has.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

SERVER, IMAGE = os.environ.get("ROLLOUTD_TEST_SERVER", ""), os.environ.get("ROLLOUTD_TEST_IMAGE", "")

pytest.importorskip("harbor", reason="harbor is not installed")
pytestmark = pytest.mark.skipif(not SERVER or not IMAGE, reason="ROLLOUTD_TEST_SERVER or ROLLOUTD_TEST_IMAGE is missing")

TASK = {
    "instruction.md": "Write ok into state.txt.\n",
    "solution/solve.sh": "#!/bin/bash\nset -e\ncat seed.txt\nhead -c 400000 /dev/urandom | base64 >/logs/artifacts/big.txt\necho ok >state.txt\n",
    "tests/test.sh": "#!/bin/bash\nif grep -qsx ok state.txt && [ $(pwd) = /srv/app ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n",
    "environment/seed.txt": "a seed\n",
}
TOML = 'schema_version = "1.1"\n[task]\nname = "tests/bridge"\n[verifier]\ntimeout_sec = 60.0\n[environment]\n'


@pytest.mark.parametrize("agent, reward", [("oracle", 1.0), ("nop", 0.0)])
@pytest.mark.parametrize("built", [False, True])
def test_harbor_runs_a_task(tmp_path: Path, built: bool, agent: str, reward: float) -> None:
    task = tmp_path / "bridge"
    for name, text in TASK.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)
    if built:
        (task / "environment/Dockerfile").write_text(f"FROM {IMAGE}\nWORKDIR /srv/app\nCOPY seed.txt .\n")
    (task / "task.toml").write_text(TOML + ("" if built else f'docker_image = "{IMAGE}"\nworkdir = "/srv/app"\n'))

    where = ["-p", str(task), "-o", str(tmp_path / "jobs"), "-e", "rolloutd.harbor:RolloutdEnvironment"]
    command = [str(Path(sys.executable).parent / "harbor"), "run", "-a", agent, "-y", *where]
    env = {name: value for name, value in os.environ.items() if not name.startswith("ROLLOUTD_TEST_")}
    ran = subprocess.run(command, env={**env, "ROLLOUTD_SERVER": SERVER}, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr

    (trial,) = (tmp_path / "jobs").glob("*/bridge__*")
    result = json.loads((trial / "result.json").read_text())
    assert result["exception_info"] is None
    assert result["verifier_result"]["rewards"] == {"reward": reward}
    if agent == "oracle":
        assert "a seed" in (trial / "agent/oracle.txt").read_text()
        assert (trial / "artifacts/logs/artifacts/big.txt").stat().st_size > 500_000


@asynccontextmanager
async def environment(tmp_path: Path, **config: Any) -> AsyncIterator[Any]:
    from harbor.models.task.config import EnvironmentConfig
    from harbor.models.trial.paths import TrialPaths

    from rolloutd.harbor import RolloutdEnvironment

    tmp_path.mkdir(exist_ok=True)
    env = RolloutdEnvironment(tmp_path, "bridge", "session", TrialPaths(tmp_path), EnvironmentConfig(docker_image=IMAGE, **config), server=SERVER)
    await env.start(force_build=False)
    try:
        yield env
    finally:
        await env.stop(delete=True)


def test_harbor_commands(tmp_path: Path) -> None:
    async def run() -> None:
        async with environment(tmp_path, workdir="/srv/app") as env:
            both = await env.exec("echo out; echo err >&2; exit 3")
            assert (both.stdout, both.stderr, both.return_code) == ("out\n", "err\n", 3)

            where = await env.exec("pwd; id -un; echo $HOME; echo $A", env={"A": "it's"})
            assert where.stdout.split("\n")[:4] == ["/srv/app", "root", "/root", "it's"]
            assert (await env.exec("pwd", cwd="/etc")).stdout == "/etc\n"

            await env.exec("useradd -m worker")
            assert (await env.exec("id -un; echo ~", user="worker")).stdout == "worker\n/home/worker\n"

            many = (await env.exec("seq 100000")).stdout
            assert many.count("\n") == 100_000

            with pytest.raises(RuntimeError, match="timed out after 1 s"):
                await env.exec("sleep 97", timeout_sec=1)
            assert (await env.exec("pgrep -x sleep || ps -e | grep -c '[s]leep 97'")).stdout.strip() in ("", "0")

            at_once = await asyncio.gather(*(env.exec(f"sleep 0.2; echo {i}") for i in range(8)))
            assert [one.stdout for one in at_once] == [f"{i}\n" for i in range(8)]

    asyncio.run(run())


@pytest.mark.parametrize("timeout_sec, waits", [(None, [300, 300, 300, 300]), (700, [300, 300, 100])])
def test_harbor_waits_for_a_command(tmp_path: Path, timeout_sec: int | None, waits: list[int]) -> None:
    from harbor.models.task.config import EnvironmentConfig
    from harbor.models.trial.paths import TrialPaths

    from rolloutd.harbor import RolloutdEnvironment

    asked: list[int] = []

    class Slow(RolloutdEnvironment):
        """Its command runs for longer than three waits."""

        async def _call(self, tool: str, command: str) -> str:
            if (wait := re.search(r"date \+%s\) \+ (\d+)\)", command)) is None:
                return ""
            asked.append(int(wait[1]))
            return "runs" if len(asked) < 4 else ""

        async def _packed(self, folder: str, *names: str, links: str = "") -> bytes:
            raise EOFError("the command has ended")

    env = Slow(tmp_path, "bridge", "session", TrialPaths(tmp_path), EnvironmentConfig(docker_image="image"))
    with pytest.raises(EOFError if timeout_sec is None else RuntimeError):
        asyncio.run(env.exec("make", timeout_sec=timeout_sec))
    assert asked == waits


def test_harbor_files(tmp_path: Path) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    (there / "deep").mkdir(parents=True)
    (there / "empty").mkdir()
    (there / "deep/run").write_bytes(os.urandom(6 << 20))
    (there / "deep/run").chmod(0o755)
    (there / "link").symlink_to("deep/run")

    async def run() -> None:
        async with environment(tmp_path / "environment", workdir="/srv/app") as env:
            await env.upload_dir(there, "/opt/a b")
            assert await env.is_dir("/opt/a b/empty")
            await env.download_dir("/opt/a b", back)
            await env.upload_file(there / "deep/run", "/opt/one/renamed")
            await env.download_file("/opt/one/renamed", tmp_path / "renamed")
            with pytest.raises(Exception, match="missing"):
                await env.download_file("/opt/missing", tmp_path / "missing")

    asyncio.run(run())
    assert (back / "deep/run").read_bytes() == (there / "deep/run").read_bytes() == (tmp_path / "renamed").read_bytes()
    assert os.access(back / "deep/run", os.X_OK) and (back / "link").is_symlink() and (back / "empty").is_dir()
