"""Every snippet of docs/python.md runs, one after the other, against a real server. The libraries that train are stand-ins that call what a trainer calls.

Arguments: the server, the page, the gateway's trainer API and its token. The server has the endpoint "vllm", the task set "math" and the sinks "trainer" and "disk".
"""

import os
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

server, page, trainer_api, token = sys.argv[1:]
os.environ["ROLLOUTD_SERVER"] = server

PROMPT = "Write add.py with a function add(a, b)."


class GRPOTrainer:
    """Takes one step: a batch of rollouts, or one generation in an environment."""

    # what GRPOConfig has by default
    args = SimpleNamespace(temperature=1.0, top_p=1.0, top_k=0, min_p=None, repetition_penalty=1.0, generation_kwargs=None)

    def __init__(self, rollout_func: Any = None, environment_factory: Any = None, **_: Any) -> None:
        self.rollout_func, self.environment_factory = rollout_func, environment_factory

    def train(self) -> None:
        if self.rollout_func:
            batch = self.rollout_func([PROMPT, PROMPT], trainer=self)
            assert len(batch["rewards"]) == 2, batch
        if self.environment_factory:
            environment = self.environment_factory()
            environment.reset(prompt=PROMPT)
            assert "x" in environment.terminal("echo x")
            assert environment.get_reward() is not None


class Worker:
    """Runs one session."""

    def __init__(self, harness_session_factory: Any) -> None:
        session = harness_session_factory().create(PROMPT)
        session.wait_for_completion()
        assert session.fetch_proxy_trace()
        session.close()


class Any_:
    accelerator, state = SimpleNamespace(is_main_process=True), SimpleNamespace(global_step=7)

    def __init__(self, **_: Any) -> None:
        self.loads = 0
        self.vllm_generation = SimpleNamespace(sync_weights=self.load)

    def load(self) -> None:
        self.loads += 1


def module(name: str, **members: Any) -> None:
    made = ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made


module("trl", GRPOConfig=Any_, GRPOTrainer=GRPOTrainer)
module("trl.experimental")
module("trl.experimental.async_grpo", AsyncGRPOTrainer=Any_)
module("trl.experimental.async_grpo.openenv_harness", HarnessRolloutWorker=Worker)

names: dict[str, Any] = {
    "__name__": "snippet", "model": None, "tokenizer": None, "dataset": [PROMPT], "worker_arguments": {}, "trainer_arguments": {},
    "load_into_vllm": lambda model: None, "trainer_step": 3,
}
places = {
    "http://127.0.0.1:8000": server, "http://gateway:7071": trainer_api, '"secret"': repr(token),
    '{"endpoint": "vllm"': '{"endpoint": "vllm", "agent": "react"', "group_size=8": "group_size=2",  # the machine is small
}

text = Path(page).read_text(encoding="utf-8")
snippets = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
assert len(snippets) == text.count("```python") > 8
for snippet in snippets:
    if "rolloutd.atropos" in snippet:
        continue  # atropos.py runs it, with Atropos' package
    for place, real in places.items():
        snippet = snippet.replace(place, real)
    print(snippet)
    exec(compile(snippet, page, "exec"), names)

names["trainer"].vllm_generation.sync_weights()
assert names["trainer"].loads == 1, "the trainer's own step loads the weights, in an update"
assert names["group"].done and names["done"].outcome == "completed", names["done"]
print("all checks held")
