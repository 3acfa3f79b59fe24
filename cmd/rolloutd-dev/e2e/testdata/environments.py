"""Environments in the style of those for the original AgentEnv: `environments.py NAME serve|process|evaluate …`."""

import asyncio
import os
import secrets
import sys
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from rolloutd.atropos import AgentConfig, AgentEnv, AgentEnvConfig, AgentResult, APIServerConfig, Item, ScoredDataGroup, ToolCall

TRIVIA = [("What is the capital of France?", "Paris"), ("What is two plus two?", "4")]


class SimpleTestEnv(AgentEnv):
    """Questions with one word as the answer; no tools."""

    name = "simple_test_env"

    @classmethod
    def config_init(cls) -> tuple[AgentEnvConfig, list[APIServerConfig]]:
        return AgentEnvConfig(group_size=2, agent_max_steps=5), [APIServerConfig(model_name="toy", server_type="vllm")]

    async def setup_agent_env(self) -> None:
        self.number = 0

    async def get_next_item(self) -> tuple[str, str]:
        self.number += 1
        return TRIVIA[(self.number - 1) % len(TRIVIA)]

    def build_task(self, item: tuple[str, str]) -> str:
        return item[0]

    def build_agent_config(self, item: Any) -> AgentConfig:
        return AgentConfig(max_steps=5, max_tokens=256, system_prompt="Answer in one word.")

    async def score_trajectory(self, item: tuple[str, str], final_response: str) -> float:
        return 1.0 if item[1].lower() in final_response.lower() else 0.0

    async def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        scores = []
        for item in TRIVIA:
            answer, about = await self.run_agent(item[0])
            assert about["success"] and about["tool_calls"] == 0, about
            scores.append(await self.score_trajectory(item, answer))
        return {"eval/accuracy": sum(scores) / len(scores)}


class JudgedConfig(AgentEnvConfig):
    """Settings with a default by Field and a validator."""

    strict: bool = Field(default=False, description="a default that is false, and not an object")
    judge_prompt: str = Field(default="Answer yes or no: is this right? ", description="for the judge")

    @field_validator("judge_prompt")
    @classmethod
    def not_empty(cls, value: str) -> str:
        if not value:
            raise ValueError("judge_prompt must not be empty")
        return value


class JudgedEnv(AgentEnv[JudgedConfig]):
    """Overrides what the base classes let one override; the model judges the answers."""

    name = "judged_env"
    env_config_cls = JudgedConfig

    def __init__(self, config: JudgedConfig, server_configs: list[APIServerConfig], slurm: bool = False, testing: bool = False) -> None:
        super().__init__(config, server_configs, slurm, testing)
        self.seen: list[float] = []

    @classmethod
    def config_init(cls) -> tuple[JudgedConfig, list[APIServerConfig]]:
        base_url, folder = os.environ["MODEL_URL"], os.environ["TOKENIZER"]
        servers = [
            APIServerConfig(model_name=f"toy-{i}", base_url=base_url, api_key="local", server_type="openai", tokenizer_name=folder) for i in range(2)
        ]
        config = JudgedConfig(group_size=2, agent_max_steps=5, steps_per_eval=1, min_items_sent_before_logging=1, include_messages=True)
        return config, servers

    async def setup_agent_env(self) -> None:
        assert self.config.strict is False
        assert self.tokenizer.decode(self.tokenizer.encode("Paris")) == "Paris"
        self.number = 0

    async def get_next_item(self) -> Item:
        self.number += 1
        return {"question": TRIVIA[self.number % 2][0], "answer": TRIVIA[self.number % 2][1]}

    def build_task(self, item: Item) -> str:
        return str(item["question"])

    async def score_trajectory(self, item: Item, final_response: str) -> float:
        return 1.0 if item["answer"] in final_response else 0.0

    async def verify_and_score_trajectory(self, item: Item, final_response: str, **more: Any) -> tuple[Any, dict[str, Any]]:
        score, metadata = await super().verify_and_score_trajectory(item, final_response, **more)
        judged = await self.server.chat_completion(messages=[{"role": "user", "content": self.config.judge_prompt + final_response}], n=1, max_tokens=8)
        assert (judged.choices[0].message.content == "yes") is bool(score), judged
        return bool(score), {**metadata, "verification_messages": [{"role": "user", "content": "judged"}]}

    async def collect_trajectories(self, item: Item) -> tuple[ScoredDataGroup | None, list[Item]]:
        group, backlog = await super().collect_trajectories(item)
        if group is not None:
            group["group_overrides"] = {**(group["group_overrides"] or {}), "question": item["question"]}
        return group, backlog

    async def postprocess_histories(self, trajectories: Any) -> Any:
        self.seen += trajectories["scores"]
        return trajectories

    async def wandb_log(self, wandb_metrics: dict[str, Any] | None = None) -> None:
        print(f"logged: {len(self.seen)} scores", flush=True)
        await super().wandb_log(wandb_metrics)

    async def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        answers = [await self._ask(question) for question, _ in TRIVIA]
        return {"eval/accuracy": sum(right in answer for answer, (_, right) in zip(answers, TRIVIA, strict=True)) / len(TRIVIA)}

    async def _ask(self, question: str) -> str:
        reply = await self.server.chat_completion(messages=[{"role": "user", "content": question}], n=1, max_tokens=8, temperature=0.0, split="eval")
        return reply.choices[0].message.content or ""


class TerminalSmokeEnv(AgentEnv):
    """The policy must run a command, since the answer cannot be guessed."""

    name = "terminal_smoke_env"

    @classmethod
    def config_init(cls) -> tuple[AgentEnvConfig, list[APIServerConfig]]:
        config = AgentEnvConfig(
            group_size=1, agent_max_steps=8, agent_temperature=0.2, max_token_length=32768, ensure_scores_are_not_same=False, enabled_toolsets=["terminal"]
        )
        return config, [APIServerConfig(model_name="toy", server_type="vllm")]

    async def setup_agent_env(self) -> None:
        return None

    async def get_next_item(self) -> dict[str, str]:
        return {"command": 'python3 -c "import secrets; print(secrets.token_hex(16))" | tee token.txt'}

    def build_task(self, item: dict[str, str]) -> str:
        return f"Run this command and repeat the token that it prints, and nothing else: {item['command']}"

    async def setup_trajectory_workspace(self, item: Any, *, trajectory_id: str, exec_tool: Any) -> dict[str, str]:
        salt = secrets.token_hex(16)
        wrote = await exec_tool(ToolCall("write_file", {"path": "deep/salt.txt", "content": salt}))
        assert wrote.success, wrote
        big = await exec_tool(ToolCall("terminal", {"command": "head -c 20000000 /dev/urandom > deep/big.bin"}))  # more than a request may have
        assert big.success, big
        return {"salt": salt}

    async def score_trajectory(self, item: Any, final_response: str) -> float:
        raise NotImplementedError

    async def verify_and_score_trajectory(
        self, item: Any, final_response: str, *, trajectory_id: str, exec_tool: Any, agent_result: AgentResult, workspace_meta: Any
    ) -> tuple[float, dict[str, Any]]:
        results = [r for step in agent_result.steps for r in step.tool_results]
        if not all(r.success for r in results):
            return 0.0, {"error": "a tool failed"}
        outputs = [r.output for r in results if r.output.strip()]
        kept = await exec_tool(ToolCall("read_file", {"path": "token.txt"}))
        salt = await exec_tool(ToolCall("terminal", {"command": "cat deep/salt.txt; echo; ls -A | wc -l; stat -c %s deep/big.bin"}))
        assert salt.output.split() == [workspace_meta["salt"], "2", "20000000"], salt
        right = outputs and final_response.strip() == outputs[-1].splitlines()[-1] == kept.output.strip()
        return (1.0 if right else 0.0), {"trajectory": trajectory_id}


class ToolServerSmokeEnv(AgentEnv):
    """The policy must call a tool of a tool server, and then one of the sandbox."""

    name = "toolserver_smoke_env"

    @classmethod
    def config_init(cls) -> tuple[AgentEnvConfig, list[APIServerConfig]]:
        config = AgentEnvConfig(
            group_size=2, agent_max_steps=10, max_token_length=32768, ensure_scores_are_not_same=False, enabled_toolsets=["terminal", "skills"]
        )
        return config, [APIServerConfig(model_name="toy", server_type="vllm")]

    def setup_agent_env(self) -> None:
        return None

    def get_next_item(self) -> str:
        return "Call skills_list, then run python3 -c \"print('ok')\" in the terminal, and answer ok."

    def build_task(self, item: str) -> str:
        return item

    def score_trajectory(self, item: str, final_response: str) -> float:
        raise NotImplementedError

    def verify_and_score_trajectory(self, item: str, final_response: str, *, agent_result: AgentResult, **more: Any) -> float:
        calls = [call.name for step in agent_result.steps for call in step.tool_calls]
        last = agent_result.steps[-2].tool_results[-1]
        return float(calls == ["skills_list", "terminal"] and last.output.strip() == "ok" and final_response == "ok")


class SourcesEnv(AgentEnv):
    """Each workspace is a clone of a repository, with a package installed beside it."""

    name = "sources_env"

    @classmethod
    def config_init(cls) -> tuple[AgentEnvConfig, list[APIServerConfig]]:
        config = AgentEnvConfig(group_size=2, agent_max_steps=4, ensure_scores_are_not_same=False, enabled_toolsets=["terminal"])
        return config, [APIServerConfig(model_name="toy", server_type="vllm")]

    async def setup_agent_env(self) -> None:
        self.url = os.environ["SOURCES"]

    async def get_next_item(self) -> dict[str, str]:
        return {"command": "cd repo && ../env/bin/python -c 'import word; print(word.VALUE)' | tee answer.txt"}

    def build_task(self, item: dict[str, str]) -> str:
        return f"Run this command and repeat the token that it prints, and nothing else: {item['command']}"

    async def setup_trajectory_workspace(self, item: Any, *, trajectory_id: str, exec_tool: Any) -> dict[str, str]:
        commands = [
            f"git clone -q {self.url}/repo.git repo",
            "python3 -m venv env",
            f"env/bin/pip install -q --disable-pip-version-check --index-url {self.url}/simple/ word",
        ]
        for command in commands:
            done = await exec_tool(ToolCall("terminal", {"command": command, "timeout": 300}))
            assert done.success, done
        return {}

    async def score_trajectory(self, item: Any, final_response: str) -> float:
        raise NotImplementedError

    async def verify_and_score_trajectory(
        self, item: Any, final_response: str, *, trajectory_id: str, exec_tool: Any, agent_result: AgentResult, workspace_meta: Any
    ) -> tuple[float, dict[str, Any]]:
        status = await exec_tool(ToolCall("terminal", {"command": "cd repo && git status --porcelain && git log --format=%s && cat answer.txt"}))
        return float(final_response == "installed" and status.output.split("\n") == ["?? answer.txt", "a repository", "installed"]), {}


class KilledEnv(SimpleTestEnv):
    """Scores one answer. While STOP_AT names a file, the next one makes that file and is never scored."""

    name = "killed_env"
    scored = 0

    async def score_trajectory(self, item: tuple[str, str], final_response: str) -> float:
        self.scored += 1
        if self.scored > 1 and "STOP_AT" in os.environ:
            Path(os.environ["STOP_AT"]).touch()
            await asyncio.Event().wait()
        return await super().score_trajectory(item, final_response)


if __name__ == "__main__":
    named = {e.name: e for e in (SimpleTestEnv, SourcesEnv, TerminalSmokeEnv, ToolServerSmokeEnv, KilledEnv, JudgedEnv)}
    env = named[sys.argv.pop(1)]
    env.cli()
