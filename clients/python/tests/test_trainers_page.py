"""The examples of docs/trainers.md, as they stand, in the packages of the trainers. `deploy/suite.sh trainers` runs it; it needs ROLLOUTD_TEST_SERVER."""

from __future__ import annotations

import asyncio
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_trainers_adapters import SERVER, word_tokenizer

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(not SERVER, reason="ROLLOUTD_TEST_SERVER names no server")


def blocks(section: str, language: str) -> list[str]:
    """The code of a section in a language, with the address of the test's server."""
    page = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")
    [text] = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
    assert found, f"{section} has no {language}"
    return [block.replace("http://127.0.0.1:8000", SERVER) for block in found]


def echoed(section: str, file: str) -> str:
    """What an `echo` of a section writes into a file."""
    for block in blocks(section, "sh"):
        for line in block.splitlines():
            match shlex.split(line, comments=True):
                case ["echo", text, ">", name] if name == file:
                    return text + "\n"
    raise AssertionError(f"{section} does not write {file}")


def example(name: str, *args: str) -> None:
    """Runs a file of examples/trainers as a program."""
    runpy.run_path(str(ROOT / "examples" / "trainers" / name))["main"](*args)


def test_page_verl(tmp_path: Path) -> None:
    pytest.importorskip("verl.experimental.agent_loop.agent_loop", reason="verl is not installed")
    from transformers import LlamaConfig

    [loops] = blocks("verl", "yaml")
    (tmp_path / "agent_loops.yaml").write_text(loops)
    word_tokenizer().save_pretrained(tmp_path)
    LlamaConfig(architectures=["LlamaForCausalLM"], vocab_size=100, num_hidden_layers=1).save_pretrained(tmp_path)

    # In a process of its own, where verl reads the file before it imports rolloutd.verl.
    command = [sys.executable, str(ROOT / "examples" / "trainers" / "verl_batch.py"), "agent_loops.yaml", str(tmp_path)]
    out = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=True, capture_output=True, text=True).stdout
    assert "rewards [1.0, 1.0, 1.0, 1.0]" in out
    [counts] = re.findall(r"tokens to train on \[(.*)\]", out)
    assert all(int(count) > 100 for count in counts.split(", "))


def test_page_skyrl(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("skyrl.train.generators.base", reason="skyrl is not installed")
    example("skyrl_batch.py", SERVER)
    out = capsys.readouterr().out
    assert re.search(r"^24 rows", out)
    [rewards] = re.findall(r"^rewards (.*)$", out, re.M)
    assert sum(json.loads(rewards)) == 4


def test_page_nemo_gym(tmp_path: Path) -> None:
    pytest.importorskip("nemo_gym.base_responses_api_agent", reason="nemo-gym is not installed")
    from unittest.mock import MagicMock

    from fastapi.testclient import TestClient
    from nemo_gym.server_utils import ServerClient
    from omegaconf import OmegaConf

    from rolloutd.nemo_gym import RolloutdAgentConfig

    [app] = blocks("NeMo-Gym", "python")
    (tmp_path / "app.py").write_text(app)
    agent_class = runpy.run_path(str(tmp_path / "app.py"))["RolloutdAgent"]
    [text] = blocks("NeMo-Gym", "yaml")
    config = OmegaConf.to_container(OmegaConf.create(text))["rolloutd"]["responses_api_agents"]["rolloutd"]
    row = json.loads(echoed("NeMo-Gym", "rows.jsonl"))

    agent = agent_class(config=RolloutdAgentConfig(name="rolloutd", host="127.0.0.1", port=1, **config), server_client=MagicMock(spec=ServerClient))
    with TestClient(agent.setup_webserver()) as gym:
        answer = gym.post("/run", json=row).raise_for_status().json()
    assert answer["reward"] == 1.0
    assert answer["response"]["output"][-1]["generation_token_ids"]


def test_page_verifiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("verifiers.v1", reason="verifiers is not installed")
    tomllib = pytest.importorskip("tomllib")
    from verifiers.v1.cli.eval.runner import run_eval
    from verifiers.v1.configs.cli.eval import EvalConfig

    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.jsonl").write_text(echoed("verifiers and prime-rl", "tasks.jsonl"))
    [text] = blocks("verifiers and prime-rl", "toml")
    config = EvalConfig.model_validate({**tomllib.loads(text), "num_rollouts": 2, "push": False, "rich": None, "output_dir": tmp_path / "out"})
    episodes = asyncio.run(run_eval(config))
    assert [episode.traces[0].reward for episode in episodes] == [1.0, 1.0]

    [served] = blocks("verifiers and prime-rl", "python")
    names: dict[str, Any] = {"__name__": "served"}
    exec(compile(served, "docs/trainers.md", "exec"), names)
    assert names["resolve_env_config"](names["env"]).server == SERVER


def test_page_openrlhf_executes(tmp_path: Path) -> None:
    pytest.importorskip("openrlhf.utils.agent", reason="openrlhf is not installed")
    [text] = blocks("OpenRLHF", "python")
    (tmp_path / "agent.py").write_text(text)
    executor = runpy.run_path(str(tmp_path / "agent.py"))["AgentExecutor"]
    assert (executor.server, executor.task["agent"]) == (SERVER, "react")


def test_page_areal() -> None:
    pytest.importorskip("areal.infra.workflow_executor", reason="areal is not installed")
    names: dict[str, Any] = {}
    for text in blocks("AReaL", "python"):
        exec(compile(text, "docs/trainers.md", "exec"), names)
    row = asyncio.run(names["workflow"].arun_episode(None, {"prompt": "Write binary_search.py"}))
    assert row["rewards"].tolist() == [1.0]
    assert not names["complete"](row), "one row of a group of eight"


def test_page_art_collects() -> None:
    pytest.importorskip("art", reason="openpipe-art is not installed")
    [text] = blocks("ART", "python")
    collect, _, _ = text.partition("await backend.train")
    lines = "".join(f"    {line}\n" for line in collect.replace(", 8,", ", 2,").splitlines())
    names: dict[str, Any] = {}
    exec(compile(f"async def main():\n{lines}    return group\n", "docs/trainers.md", "exec"), names)
    assert [trajectory.reward for trajectory in asyncio.run(names["main"]())] == [1.0, 1.0]


def test_page_tinker() -> None:
    pytest.importorskip("tinker_cookbook.rl.rollouts", reason="tinker-cookbook is not installed")
    [text] = blocks("Tinker cookbook", "python")
    names: dict[str, Any] = {}
    exec(compile(text.replace('"policy"', '"scripted"'), "docs/trainers.md", "exec"), names)
    group, strategy = names["batch"][0], names["strategy"]
    assert group.size == 8
    made = asyncio.run(strategy.execute(type(group)(group.task, 1), None))
    assert [env.reward for env in made.envs] == [1.0]


def test_page_skyrl_has_names_of_the_package() -> None:
    """The entry point needs a GPU: that its imports exist is seen in the sources."""
    base = pytest.importorskip("skyrl", reason="skyrl is not installed")
    package = Path(base.__path__[0]).parent
    [text] = blocks("SkyRL", "python")
    for module, names in re.findall(r"^from (skyrl[\w.]*) import (.*)$", text, re.M):
        path = package / module.replace(".", "/")
        source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
        for name in names.split(", "):
            assert re.search(rf"\b{name}\b", source), f"{module} has no {name}"
    assert "trainer.override_entrypoint=" in (package / "skyrl/train/entrypoints/main_base.py").read_text()
