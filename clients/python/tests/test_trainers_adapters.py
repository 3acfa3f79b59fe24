"""Adapters in their trainer's own classes, with rollouts on a real server. `deploy/suite.sh trainers` runs it; it needs ROLLOUTD_TEST_SERVER."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from typing import Any

import pytest
from test_engine import CALL, END, Bytes, reply_to

from rolloutd.engine import Call
from rolloutd.trainers import Health

SERVER = os.environ.get("ROLLOUTD_TEST_SERVER", "")
MODEL = os.environ.get("ROLLOUTD_TEST_MODEL", "")  # the address of the server's scripted model
# The server's scripted model has replies for each of its example tasks; `verify` decides the reward.
TASK = {"endpoint": "scripted", "agent": "react", "verify": ["true"]}
PROMPT = [{"role": "user", "content": "Say hello."}]

pytestmark = pytest.mark.skipif(not SERVER, reason="ROLLOUTD_TEST_SERVER names no server")


def loop_of(module: Any, response_length: int = 4096, *, server_manager: Any = None, tokenizer: Any = None, task: Any = None, **more: Any) -> Any:
    """The agent loop as verl's worker makes it."""
    import hydra
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap, _agent_loop_registry

    assert _agent_loop_registry["rolloutd"] == {"_target_": "rolloutd.verl.RolloutdAgentLoop"}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"prompt_length": 16_384, "response_length": response_length}}, "data": {}})
    return hydra.utils.instantiate(
        {**_agent_loop_registry["rolloutd"], "server": SERVER, "task": {**(task or TASK), **more}},
        trainer_config=DictConfigWrap(config), server_manager=server_manager, tokenizer=tokenizer or word_tokenizer(), processor=None, dataset_cls=None,
        data_config=DictConfigWrap(config.data), hf_model_type=None, tools=None,
    )  # fmt: skip


def word_tokenizer() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({str(i): i for i in range(100)}, unk_token="0"))
    made = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="1", pad_token="0", unk_token="0")
    made.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    return made


def test_verl_runs_a_rollout_for_each_session() -> None:
    pytest.importorskip("verl.experimental.agent_loop.agent_loop", reason="verl is not installed")
    import rolloutd.verl as module

    row = {"raw_prompt": PROMPT, "uid": "u", "session_id": 0, "global_steps": 7, "extra_info": {}}
    sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}

    async def sessions() -> Any:
        passed = await loop_of(module).run(dict(sampling), **row)
        failed = await loop_of(module).run(dict(sampling), **{**row, "extra_info": {"rolloutd": {"verify": ["false"]}}})
        ungraded = await loop_of(module, setup=["false"]).run(dict(sampling), **row)
        cut = await loop_of(module, response_length=3).run(dict(sampling), **row)
        old = await loop_of(module).run(dict(sampling), raw_prompt=PROMPT)
        greedy = await loop_of(module).run({**sampling, "temperature": 0}, **row)
        baseline = await loop_of(module).run_group({**sampling, "temperature": 0}, 1, {**row, "uid": "baseline"}, "train")
        return passed, failed, ungraded, cut, old, [*greedy, *baseline.members[0]]

    passed, failed, ungraded, cut, old, greedy = asyncio.run(sessions())
    for (output,), reward in ((passed, 1.0), (failed, 0.0), (cut, 1.0)):
        fields = output.as_dict()
        assert float(fields["rm_scores"].sum()) == reward
        assert fields["response_mask"].sum() > 0
        assert len(fields["rollout_log_probs"]) == len(fields["responses"])
        assert isinstance(output.extra_fields["min_global_steps"], int)
    assert ungraded == [], "a rollout without a reward is left out"
    assert len(cut[0].response_ids) == 3
    assert old.reward_score == 1.0
    for output in greedy:
        assert output.reward_score == 1.0
        assert not any(output.response_mask), "a greedy sample is evaluated"
    assert len(greedy) == 2


def test_verl_samples_by_its_own_engines() -> None:
    pytest.importorskip("verl.experimental.agent_loop.agent_loop", reason="verl is not installed")
    from verl.workers.rollout.replica import TokenOutput

    import rolloutd.verl as module

    class Servers:
        """The trainer's client, in whose place the replies are scripted. The first two are aborted, as vLLM and SGLang say it."""

        aborts = ["aborted", "abort"]

        async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
            assert sampling_params["logprobs"] and sampling_params["temperature"] == 1.0
            reply = reply_to(Call(prompt_ids, sampling_params["max_tokens"], 1.0))
            if self.aborts:
                return TokenOutput(token_ids=reply.token_ids[:2], log_probs=reply.logprobs[:2], stop_reason=self.aborts.pop(), extra_fields={"global_steps": 4})
            steps = {"global_steps": 5, "min_global_steps": 4, "max_global_steps": 5}
            return TokenOutput(token_ids=reply.token_ids, log_probs=reply.logprobs, stop_reason="completed", extra_fields=steps)

    servers = Servers()
    row = {"raw_prompt": [{"role": "user", "content": "Write 3 into n.txt"}], "uid": "u2", "session_id": 0, "global_steps": 7, "extra_info": {}}

    async def sessions() -> Any:
        loop = loop_of(module, server_manager=servers, tokenizer=Bytes(), task={"agent": "react", "verify": ['test "$(cat n.txt)" = 3']})
        return [await loop.run({"temperature": 1.0, "top_p": 1.0, "top_k": -1}, **row) for _ in range(2)]

    for (output,) in asyncio.run(sessions()):
        assert output.reward_score == 1.0
        assert (output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"]) == (4, 5)
        sampled = [id for id, bit in zip(output.response_ids, output.response_mask, strict=True) if bit]
        assert sampled == [*(CALL % 3).encode(), END, *b"Done.", END]
    assert len(module._engines) == 1


def test_verl_leaves_groups_to_rolloutd(tmp_path: Any) -> None:
    pytest.importorskip("verl.experimental.agent_loop.agent_loop", reason="verl is not installed")
    import ray
    import torch
    import transfer_queue as tq
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf
    from transformers import LlamaConfig
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
    from verl.utils.tensordict_utils import get_tensordict

    from rolloutd.verl_groups import RolloutdManager

    word_tokenizer().save_pretrained(tmp_path)
    LlamaConfig(architectures=["LlamaForCausalLM"], vocab_size=100, num_hidden_layers=1).save_pretrained(tmp_path)
    loops = [{"name": "rolloutd", "_target_": "rolloutd.verl.RolloutdAgentLoop", "server": SERVER, "task": TASK}]
    OmegaConf.save(OmegaConf.create(loops), tmp_path / "loops.yaml")
    of_rollout = {"prompt_length": 16_384, "response_length": 4096, "n": 2}
    of_agent = {"num_workers": 1, "default_agent_loop": "rolloutd", "agent_loop_config_path": tmp_path / "loops.yaml"}
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", [
            "actor_rollout_ref.rollout.name=vllm", f"actor_rollout_ref.model.path={tmp_path}",
            "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
            *(f"actor_rollout_ref.rollout.{name}={value}" for name, value in of_rollout.items()),
            *(f"actor_rollout_ref.rollout.agent.{name}={value}" for name, value in of_agent.items()),
        ])  # fmt: skip

    extra = [{}, {"rolloutd": {"setup": ["false"], "max_replacements": 0, "limits": {"attempts": 1}}}, {"rolloutd": {"agent": "none such"}}]
    uids = ["passes", "lost", "refused"]
    batch = get_tensordict({"uid": uids, "index": torch.arange(3), "raw_prompt": [PROMPT] * 3, "extra_info": extra}, {"global_steps": 7})
    lines: dict[int, dict[str, float]] = {}

    class Manager(RolloutdManager):
        def log_health(self, step: int, health: Any) -> None:
            lines[step] = health.line()

    # TransferQueue's processes and the worker want a CPU each.
    ray.init(num_cpus=4, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}})
    try:
        tq.init(config.transfer_queue)
        manager = Manager.create(config=config, llm_client=None)
        tq.kv_batch_put(keys=uids, partition_id="train", tags=[{"is_prompt": True, "status": "pending", "global_steps": 7}] * 3)
        manager.generate_sequences(batch)
        buffer = ReplayBuffer("sync", config.trainer, None, "drop", OmegaConf.create({}), poll_interval=0.1)
        ends, _ = buffer.sample(global_steps=7, partition_id="train", batch_size=3)
        assert {uid for uid in buffer.failure_keys["train"]} == {"lost", "refused"}
        assert sorted(ends.keys) == ["passes_0_0", "passes_1_0"]
        rows = tq.kv_batch_get(ends.keys, "train", select_fields=["rm_scores", "response_mask", "rollout_log_probs"])

        validation = get_tensordict({"uid": ["v"], "index": torch.arange(1), "raw_prompt": [PROMPT], "extra_info": [{}]}, {"global_steps": 7, "validate": True})
        tq.kv_batch_put(keys=["v"], partition_id="val", tags=[{"is_prompt": True, "status": "pending", "global_steps": 7}])
        manager.generate_sequences(validation)
        evaluated, _ = buffer.sample(global_steps=7, partition_id="val", batch_size=1)
        scores = tq.kv_batch_get(evaluated.keys, "val", select_fields=["rm_scores"])["rm_scores"]
        assert (evaluated.keys, float(scores.to_padded_tensor(padding=0).sum())) == (["v_0_0"], 1.0)
    finally:
        tq.close()
        ray.shutdown()

    for scores, mask, logprobs in zip(rows["rm_scores"], rows["response_mask"], rows["rollout_log_probs"], strict=True):
        assert float(scores.sum()) == 1.0
        assert len(mask) == len(logprobs) >= int(mask.sum()) > 0
    assert (lines[7]["rolloutd/started"], lines[7]["rolloutd/trained"], lines[7]["rolloutd/lost/setup_failed"]) == (4, 2, 0.5)


@pytest.mark.parametrize("step_wise", [False, True])
def test_skyrl_generates_a_batch(step_wise: bool) -> None:
    pytest.importorskip("skyrl.train.generators.base", reason="skyrl is not installed")
    from skyrl.train.utils.trainer_utils import validate_generator_output

    from rolloutd.skyrl import RolloutdGenerator

    ungraded, refused = {"rolloutd": {"setup": ["false"]}}, {"rolloutd": {"agent": "none such"}}
    batch = skyrl_batch([PROMPT] * 6, [{}, {}, ungraded, ungraded, refused, refused])
    output = asyncio.run(RolloutdGenerator(SERVER, TASK, step_wise=step_wise).generate(batch))
    validate_generator_output(6, output, step_wise=step_wise)
    last = [i for i, id in enumerate(output["trajectory_ids"]) if output["trajectory_ids"][i + 1 : i + 2] != [id]]
    assert [output["rewards"][i] for i in last] == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert [any(output["loss_masks"][i]) for i in last] == [True] * 2 + [False] * 4, "groups without rewards are masked"
    assert output["rollout_metrics"]["rolloutd/trained"] == 2
    assert output["rollout_metrics"]["rolloutd/lost/setup_failed"] == output["rollout_metrics"]["rolloutd/lost/InvalidError"] == 2 / 6


def skyrl_batch(prompts: list[Any], extras: list[dict[str, Any]]) -> Any:
    """A batch with groups of two."""
    base = pytest.importorskip("skyrl.train.generators.base", reason="skyrl is not installed")
    return base.GeneratorInput(
        prompts=prompts,
        env_classes=["rolloutd"] * len(prompts),
        env_extras=extras,
        sampling_params={"temperature": 1.0, "top_k": -1},
        trajectory_ids=[base.TrajectoryID(f"instance {i // 2}", i % 2) for i in range(len(prompts))],
        batch_metadata=base.BatchMetadata(global_step=1, training_phase="train"),
    )


def test_skyrl_masks_a_row_without_a_prompt_and_raises_where_no_group_runs() -> None:
    pytest.importorskip("skyrl.train.generators.base", reason="skyrl is not installed")

    from rolloutd import InvalidError
    from rolloutd.skyrl import RolloutdGenerator

    nothing = [{"role": "system", "content": "Be brief."}]
    output = asyncio.run(RolloutdGenerator(SERVER, TASK).generate(skyrl_batch([PROMPT] * 2 + [nothing] * 2, [{}] * 4)))
    assert [any(mask) for mask in output["loss_masks"]] == [True, True, False, False]
    assert output["rewards"] == [1.0, 1.0, 0.0, 0.0]
    with pytest.raises(InvalidError, match="one of the user"):
        asyncio.run(RolloutdGenerator(SERVER, TASK).generate(skyrl_batch([nothing] * 2, [{}] * 2)))


def test_skyrl_evaluates() -> None:
    base = pytest.importorskip("skyrl.train.generators.base", reason="skyrl is not installed")

    from rolloutd.skyrl import RolloutdGenerator

    class Servers:
        """What is used of the trainer's client of its inference servers."""

        model_name = "scripted"

        def get_endpoint_url(self) -> str:
            return MODEL.removesuffix("/v1")

    batch = base.GeneratorInput(
        prompts=[PROMPT], env_classes=["rolloutd"], env_extras=[{}], sampling_params={"temperature": 0.0}, trajectory_ids=None,
        batch_metadata=base.BatchMetadata(global_step=1, training_phase="eval"),
    )  # fmt: skip
    task = {name: value for name, value in TASK.items() if name != "endpoint"} | {"sampling": {"temperature": 1.0}}
    output = asyncio.run(RolloutdGenerator(SERVER, task, engine=Servers()).generate(batch))
    assert output["rewards"] == [1.0]


def test_nemo_gym_runs_a_row() -> None:
    pytest.importorskip("nemo_gym.base_responses_api_agent", reason="nemo-gym is not installed")
    from unittest.mock import MagicMock

    from fastapi.testclient import TestClient
    from nemo_gym.server_utils import ServerClient

    from rolloutd.nemo_gym import RolloutdAgent, RolloutdAgentConfig

    config = RolloutdAgentConfig(name="rolloutd", host="127.0.0.1", port=1, entrypoint="app.py", rolloutd_server=SERVER, task=TASK)
    agent = RolloutdAgent(config=config, server_client=MagicMock(spec=ServerClient))
    row = {"responses_create_params": {"input": PROMPT, "temperature": 1.0}, "agent_ref": {"name": "rolloutd"}, "_ng_task_index": 3}

    with TestClient(agent.setup_webserver()) as gym:
        passed, failed, ungraded = (
            gym.post("/run", json={**row, "rolloutd": more}).raise_for_status().json()
            for more in ({}, {"verify": ["false"]}, {"setup": ["false"], "limits": {"attempts": 1}})
        )
        greedy = gym.post("/run", json={**row, "responses_create_params": {"input": PROMPT, "temperature": 0}}).raise_for_status().json()
        refused = gym.post("/run", json={**row, "responses_create_params": {"input": []}}).raise_for_status().json()
        agent.config.rolloutd_server = "http://127.0.0.1:9"
        away = gym.post("/run", json=row).raise_for_status().json()
        metrics = gym.post("/aggregate_metrics", json={"verify_responses": [{**a, "_ng_rollout_index": i} for i, a in enumerate((passed, failed, ungraded))]})

    for answer, reward in ((passed, 1.0), (failed, 0.0)):
        assert answer["reward"] == reward
        assert answer["_ng_task_index"] == 3
        assert "_ng_failure_class" not in answer
        seen: list[int] = []
        for item in answer["response"]["output"]:
            assert item["prompt_token_ids"][: len(seen)] == seen, "NeMo-RL wants one sequence"
            assert len(item["generation_token_ids"]) == len(item["generation_log_probs"]) > 0
            seen = item["prompt_token_ids"] + item["generation_token_ids"]
        assert seen
    assert (greedy["reward"], greedy["mask_sample"], "_ng_failure_class" in greedy) == (1.0, True, False), "what is sampled greedily is evaluated"
    assert (ungraded["_ng_failure_class"], ungraded["mask_sample"]) == ("setup_failed", True)
    assert (refused["_ng_failure_class"], refused["mask_sample"]) == ("InvalidError", True), "an HTTP error would end the collection"
    assert "one of the user" in refused["error"]
    assert (away["_ng_failure_class"], away["_ng_task_index"]) == ("UnavailableError", 3)
    assert metrics.raise_for_status().json()["agent_metrics"]["mean/reward"] == 0.5, "the rollout without a reward is in no mean"


def verifiers_config(tmp_path: Any, **client: Any) -> dict[str, Any]:
    lines = [
        {"id": "passes", "instruction": "Say hello.", "verify": ["true"]},
        {"id": "fails", "instruction": "Say hello.", "verify": ["false"]},
        {"id": "ungraded", "instruction": "Say hello.", "setup": ["false"], "limits": {"attempts": 1}},
        {"id": "refused", "instruction": "Say hello.", "agent": "none such"},
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    taskset = {"id": "rolloutd-verifiers", "path": str(tmp_path / "tasks.jsonl")}
    return {"taskset": taskset, "server": SERVER, "rollout": {"endpoint": "scripted", "agent": "react"}, **client}


def test_verifiers_evaluates_a_taskset(tmp_path: Any) -> None:
    pytest.importorskip("verifiers.v1", reason="verifiers is not installed")
    from verifiers.v1.cli.eval.runner import run_eval
    from verifiers.v1.configs.cli.eval import EvalConfig

    config = EvalConfig.model_validate({"env": verifiers_config(tmp_path), "push": False, "rich": None, "output_dir": tmp_path / "out", "num_rollouts": 2, "model": "m"})
    episodes = asyncio.run(run_eval(config))
    of: dict[str, list[Any]] = {}
    for episode in episodes:
        of.setdefault(episode.task.data.id, []).append(episode)

    for name, reward in (("passes", 1.0), ("fails", 0.0)):
        for episode in of[name]:
            (trace,) = episode.traces
            assert episode.ok
            assert trace.rewards["rolloutd"].score == trace.reward == reward
            assert trace.num_output_tokens == sum(len(call.token_ids) for branch in trace.branches for call in branch.nodes if call.sampled) > 0
    for name, error in (("ungraded", "UnscoredError"), ("refused", "InvalidError")):
        for episode in of[name]:
            assert not episode.ok
            assert [e.type for e in episode.traces[0].errors] == [error]
            assert not any(episode.traces[0].rewards.values()), "no reward is not 0"


def test_verifiers_serves_a_trainer(tmp_path: Any) -> None:
    pytest.importorskip("verifiers.v1", reason="verifiers is not installed")
    from verifiers.v1.clients import TrainClientConfig
    from verifiers.v1.configs.client import EvalClientConfig
    from verifiers.v1.serve import EnvClient, EnvServer
    from verifiers.v1.types import SamplingConfig
    from verifiers.v1.utils.loaders import resolve_env_config

    async def served() -> Any:
        server = EnvServer(resolve_env_config(verifiers_config(tmp_path)), address="tcp://127.0.0.1:0")
        serving = asyncio.create_task(server.run())
        client = EnvClient(server.address)
        try:
            row = {"id": "t", "prompt": [{"role": "user", "content": "Say hello."}], "rolloutd": {"verify": ["true"]}}
            sampling = SamplingConfig(temperature=1.0, top_k=-1)
            trained = await client.run(TrainClientConfig(base_url="http://127.0.0.1:9/v1"), "m", sampling, row)
            # Without an endpoint in the arguments, the rollout calls the model at the address of the run.
            server.env.config.rollout.pop("endpoint")
            model = EvalClientConfig(base_url=MODEL, api_key_var="NONE")
            own = await client.run(model, "scripted", sampling, row)
            greedy = await client.run(model, "scripted", SamplingConfig(temperature=0.0), row)
            return greedy, trained, own
        finally:
            await client.close()
            serving.cancel()
            await serving

    greedy, *sampled = asyncio.run(served())
    assert (greedy.ok, greedy.traces[0].reward) == (True, 1.0)
    assert not any(any(node.mask) for node in greedy.traces[0].nodes), "what is sampled greedily is evaluated"
    for episode in sampled:
        (trace,) = episode.traces
        assert (episode.ok, trace.reward, trace.errors) == (True, 1.0, [])
        assert sum(sum(branch.sampled_mask) for branch in trace.branches) > 0
        assert all(len(branch.logprobs) == len(branch.token_ids) for branch in trace.branches)


def test_tinker_collects_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tinker_cookbook.rl.rollouts", reason="tinker-cookbook is not installed")
    from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages
    from tinker_cookbook.rl.rollouts import RolloutErrorCounter, do_group_rollout_and_filter_constant_reward

    from rolloutd.tinker import RolloutdGroup, RolloutdStrategy
    from rolloutd.trainers.running import run_group

    ended: list[Health] = []
    asked: list[Any] = []

    def spied(client: Any, task: Any, size: int) -> Any:
        asked.append(task)
        return run_group(client, task, size)

    monkeypatch.setattr("rolloutd.tinker.run_group", spied)

    async def collect(constant: bool = False, **more: Any) -> Any:
        strategy = RolloutdStrategy(more.pop("server", SERVER), TASK, on_group=ended.append)
        group = RolloutdGroup({"instruction": "Say hello.", **more}, 2)
        return await do_group_rollout_and_filter_constant_reward(None, group, 64, 1.0, constant, strategy=strategy)

    async def groups() -> Any:
        return [
            await collect(),
            await collect(constant=True),
            await collect(setup=["false"], max_replacements=0, limits={"attempts": 1}),
            await collect(agent="none such"),
            await collect(server="http://127.0.0.1:9"),
        ]

    passed, *skipped = asyncio.run(groups())
    assert all(task["sampling"] == {"temperature": 1.0} for task in asked)
    assert skipped == [None] * 4, "equal rewards, no reward, refused, and no server: none ends the run"
    assert passed.get_total_rewards() == [1.0, 1.0]
    assert passed.rollout_errors == []
    health = sum(ended, Health())
    assert (health.started, health.trained, health.lost) == (6, 4, {"setup_failed": 2}), "a skipped group counts"
    data, _ = assemble_training_data([passed], compute_advantages([passed]))
    assert len(data) == 2
    assert all(float(datum.loss_fn_inputs["mask"].to_torch().sum()) > 0 for datum in data)
    counter = RolloutErrorCounter()
    counter.ingest(passed)
    assert counter.get_metrics() == {}


def test_openrlhf_executes_a_prompt(tmp_path: Any) -> None:
    agent = pytest.importorskip("openrlhf.utils.agent", reason="openrlhf is not installed")
    import importlib.util
    from types import SimpleNamespace

    from rolloutd import UnscoredError

    # As OpenRLHF loads the file of --train.agent_func_path.
    path = tmp_path / "agent.py"
    path.write_text(f"from rolloutd.openrlhf import RolloutdExecutor\nclass AgentExecutor(RolloutdExecutor):\n    server, task = {SERVER!r}, {TASK!r}\n")
    spec = importlib.util.spec_from_file_location("agent_module", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert issubclass(module.AgentExecutor, agent.AgentExecutorBase)

    sampling = SimpleNamespace(temperature=1.0, top_p=1.0, top_k=-1, min_p=0.0, logprobs=1, max_tokens=64)
    labels: list[Any] = [None, json.dumps({"rolloutd": {"verify": ["false"]}}), "a label of another kind"]

    async def executions() -> Any:
        executor = module.AgentExecutor()
        made = [await executor.execute("Say hello.", label, sampling, 16_384, None, None) for label in labels]
        with pytest.raises(UnscoredError, match="no reward"):
            await executor.execute("Say hello.", {"rolloutd": {"setup": ["false"], "limits": {"attempts": 1}}}, sampling, 16_384, None, None)
        greedy = SimpleNamespace(**{**vars(sampling), "temperature": 0.0})
        return made, await executor.execute("Say hello.", None, greedy, 16_384, None, None)

    made, evaluated = asyncio.run(executions())
    assert (evaluated["reward"], evaluated["action_ranges"]) == (1.0, []), "what is sampled greedily is evaluated"
    assert evaluated["extra_logs"].keys() == made[0]["extra_logs"].keys()
    assert len(evaluated["observation_tokens"]) == len(evaluated["rollout_log_probs"])
    assert [execution["reward"] for execution in made] == [1.0, 0.0, 1.0]
    for execution in made:
        ids, logprobs = execution["observation_tokens"], execution["rollout_log_probs"]
        assert len(ids) == len(logprobs)
        actions = {i for start, stop in execution["action_ranges"] for i in range(start, stop)}
        assert actions
        assert all(logprobs[i] == 0 for i in range(len(ids)) if i not in actions)
        assert {"images", "mm_train_inputs", "truncated"} <= execution.keys()


def test_openrlhf_samples_by_its_own_engine() -> None:
    pytest.importorskip("openrlhf.utils.agent", reason="openrlhf is not installed")
    from types import SimpleNamespace

    from rolloutd.openrlhf import RolloutdExecutor

    class Executor(RolloutdExecutor):
        server = SERVER
        task = {"agent": "react", "verify": ['test "$(cat n.txt)" = 3']}

    class Actor:
        """The actor of vLLM's engine, in whose place the replies are scripted."""

        async def generate(self, ids: list[int], params: Any, multi_modal_data: Any = None) -> Any:
            reply = reply_to(Call(ids, params.max_tokens, params.temperature))
            logprobs = [{id: SimpleNamespace(logprob=logprob)} for id, logprob in zip(reply.token_ids, reply.logprobs, strict=True)]
            return SimpleNamespace(outputs=[SimpleNamespace(token_ids=reply.token_ids, logprobs=logprobs, finish_reason="stop")])

    sampling = SimpleNamespace(temperature=1.0, top_p=1.0, top_k=-1, min_p=0.0, logprobs=None, max_tokens=64)

    async def executed() -> Any:
        executor, actor = Executor(), Actor()
        return [await executor.execute("Write 3 into n.txt", None, sampling, 16_384, Bytes(), actor) for _ in range(2)]

    for execution in asyncio.run(executed()):
        assert execution["reward"] == 1.0
        sampled = [id for start, stop in execution["action_ranges"] for id in execution["observation_tokens"][start:stop]]
        assert sampled == [*(CALL % 3).encode(), END, *b"Done.", END]
    assert sampling.logprobs is None


def test_areal_runs_an_episode() -> None:
    executor = pytest.importorskip("areal.infra.workflow_executor", reason="areal is not installed")

    from rolloutd.areal import RolloutdWorkflow
    from rolloutd.trainers import Limits

    class Engine:
        def get_version(self) -> int:
            return 5

    async def episodes() -> Any:
        run = RolloutdWorkflow(SERVER, TASK).arun_episode
        return [
            await run(Engine(), {"messages": PROMPT}),
            await run(Engine(), {"prompt": "Say hello.", "rolloutd": {"verify": ["false"]}}),
            await RolloutdWorkflow(SERVER, TASK, limits=Limits(response=3)).arun_episode(Engine(), {"messages": PROMPT}),
            await run(Engine(), {"messages": PROMPT, "rolloutd": {"setup": ["false"], "limits": {"attempts": 1}}}),
            await run(Engine(), {"messages": PROMPT, "rolloutd": {"agent": "none such"}}),
        ]

    passed, failed, cut, ungraded, refused = asyncio.run(episodes())
    assert ungraded is None
    assert refused is None
    for trajectory, reward in ((passed, 1.0), (failed, 0.0), (cut, 1.0)):
        assert executor.check_trajectory_format(trajectory, expected_keys=set(passed))
        assert trajectory["rewards"].tolist() == [reward]
        sampled = trajectory["loss_mask"].bool()
        assert sampled.any()
        assert (trajectory["versions"][sampled] >= 0).all()
        assert (trajectory["versions"][:, 0] == -1).all()
        assert (trajectory["logprobs"][~sampled] == 0).all()


def test_art_collects_a_group() -> None:
    art = pytest.importorskip("art", reason="openpipe-art is not installed")
    from rolloutd.art import trajectory_group

    model = art.TrainableModel(name="policy", run_name="r", project="p", base_model="m")
    model.inference_base_url, model.inference_api_key, model.inference_model_name = MODEL, "none", "scripted"
    task = {"agent": "react", "verify": ["true"], "instruction": "Say hello."}

    async def groups() -> Any:
        return [
            await trajectory_group(task, 2, model=model, server=SERVER),
            await trajectory_group({**task, "endpoint": "scripted", "setup": ["false"], "max_replacements": 0, "limits": {"attempts": 1}}, 2, server=SERVER),
        ]

    passed, lost = asyncio.run(groups())
    assert [trajectory.reward for trajectory in passed] == [1.0, 1.0]
    assert passed.exceptions == []
    for trajectory in passed:
        (choice,) = trajectory.messages_and_choices
        assert len(choice.token_ids) == len(choice.logprobs.content) > 0
        assert choice.prompt_token_ids
    assert len(lost) == 0
    assert [error.message.partition(":")[2] for error in lost.exceptions] == [" it ended as setup_failed"] * 2
    assert (passed.metrics["rolloutd/yield"], lost.metrics["rolloutd/lost/setup_failed"]) == (1.0, 1.0)


def test_agentlightning_runs_what_its_controller_starts() -> None:
    manager = pytest.importorskip("agentlightning.verl.agl_rollout_manager", reason="agentlightning is not installed")
    import uvicorn
    from agentlightning.client import AgentLightningAsyncClient
    from agentlightning.controller.local_reconciler import LocalReconciler
    from agentlightning.server.app import create_app
    from omegaconf import OmegaConf

    proxy = {"model_name": "scripted", "include_log_probs": False, "train": {"temperature": 1.0}, "val": {"temperature": 0.0}}
    data = {
        "instruction": ["Say hello."] * 4,
        "rolloutd": [{}, {"verify": ["false"]}, {"setup": ["false"], "limits": {"attempts": 1}}, {"endpoint": "scripted"}],
    }
    # The scripted model has another vocabulary for prompts of token ids.
    task = {"agent": "react", "react": {"continuation": "messages"}, "verify": ["true"]}
    env_map = {"ROLLOUTD_SERVER": SERVER, "ROLLOUTD_TASK": json.dumps(task), "ROLLOUTD_ROW": "input"}

    async def completed() -> Any:
        served = uvicorn.Server(uvicorn.Config(create_app({"key": "secret", "default_proxy": proxy}), port=0, log_level="warning"))
        serving = asyncio.create_task(served.serve())
        while not served.started:
            await asyncio.sleep(0.05)
        url = f"http://127.0.0.1:{served.servers[0].sockets[0].getsockname()[1]}"
        config = {"runner_type": "local", "local_runner": {"maximum_size": 4, "poll_interval": 0.2}, "agl_server": {"url": url, "key": "secret"}}
        trainer = manager.AglRolloutManager(
            agl_base_url=url, agl_key="secret", model="scripted", step=0, poll_interval_seconds=0.2,
            local_agent_class="rolloutd.agentlightning.RolloutdAgent", local_env_map=env_map,
        )  # fmt: skip
        async with AgentLightningAsyncClient(base_url=url, key="secret") as api:
            controller = LocalReconciler(api, OmegaConf.create(config))
            controlling = asyncio.create_task(controller.run())
            try:
                await asyncio.to_thread(trainer.register_model, [MODEL])
                return await asyncio.to_thread(trainer.enqueue_and_wait_until_completed, data, is_train=True)
            finally:
                controller.stop()
                await controlling
                served.should_exit = True
                await serving

    passed, failed, ungraded, of_endpoint = sorted(asyncio.run(completed()), key=lambda rollout: rollout.sample_idx_in_step)
    assert [rollout.final_reward for rollout in (passed, failed, of_endpoint)] == [1.0, 0.0, 1.0]
    for rollout in (passed, failed, of_endpoint):
        assert rollout.rollout_state == "succeeded"
        (triplet,) = rollout.triplets
        assert triplet.prompt["token_ids"]
        assert len(triplet.response["token_ids"]) == len(triplet.response["log_probs"]) > 0
    assert (ungraded.rollout_state, ungraded.final_reward, ungraded.triplets) == ("failed", None, []), "nothing of it is trained on"


def test_rllm_runs_its_tasks() -> None:
    engine_module = pytest.importorskip("rllm.engine.agentflow_engine", reason="rllm is not in the path")
    from omegaconf import OmegaConf
    from rllm.gateway.manager import GatewayManager

    from rolloutd.rllm import RolloutdEvaluator, RolloutdFlow

    class VerlEngine:
        """Its name and addresses are what rLLM's gateway reads of verl's engines."""

        server_addresses = (MODEL.removesuffix("/v1"),)

    gateway = GatewayManager(OmegaConf.create({"rllm": {"gateway": {"host": "127.0.0.1", "port": free_port()}}, "model": {"name": "scripted"}}))
    gateway.start(VerlEngine())
    flow = RolloutdFlow({"agent": "react", "verify": ["true"]}, server=SERVER)
    engine = engine_module.AgentFlowEngine(
        flow, RolloutdEvaluator(), gateway, "scripted", retry_limit=1, raise_on_error=False, train_sampling_params={"temperature": 1.0}
    )
    rows = [
        {"instruction": "Say hello."},
        {"instruction": "Say hello.", "rolloutd": {"verify": ["false"]}},
        {"instruction": "Say hello.", "rolloutd": {"endpoint": "scripted"}},
        {"instruction": "Say hello.", "rolloutd": {"setup": ["false"], "limits": {"attempts": 1}}},
    ]
    try:
        passed, failed, of_endpoint, ungraded = asyncio.run(engine.execute_tasks(rows))
    finally:
        engine.shutdown()
        gateway.stop()

    for episode, reward in ((passed, 1.0), (failed, 0.0), (of_endpoint, 1.0)):
        (trajectory,) = episode.trajectories
        assert (trajectory.reward, episode.is_correct) == (reward, reward == 1.0)
        assert trajectory.steps
        for step in trajectory.steps:
            assert step.prompt_ids
            assert len(step.response_ids) == len(step.logprobs) > 0
    assert len(passed.trajectories[0].steps) == len(of_endpoint.trajectories[0].steps), "a call of the agent is a step, and nothing else is"
    assert ungraded.trajectories == [], "nothing of it is trained on"
    assert "ended as setup_failed" in ungraded.metadata["error"]["message"]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port
