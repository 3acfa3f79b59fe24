"""Adapters in their trainer's own classes, with rollouts on a real server. `deploy/suite.sh trainers` runs it; it needs ROLLOUTD_TEST_SERVER."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

SERVER = os.environ.get("ROLLOUTD_TEST_SERVER", "")
# The server's scripted model has replies for each of its example tasks; `verify` decides the reward.
TASK = {"endpoint": "scripted", "agent": "react", "verify": ["true"]}
PROMPT = [{"role": "user", "content": "Say hello."}]

pytestmark = pytest.mark.skipif(not SERVER, reason="ROLLOUTD_TEST_SERVER names no server")


def loop_of(module: Any, response_length: int = 4096, **more: Any) -> Any:
    """The agent loop as verl's worker makes it."""
    import hydra
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap, _agent_loop_registry

    assert _agent_loop_registry["rolloutd"] == {"_target_": "rolloutd.verl.RolloutdAgentLoop"}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"prompt_length": 16_384, "response_length": response_length}}, "data": {}})
    return hydra.utils.instantiate(
        {**_agent_loop_registry["rolloutd"], "server": SERVER, "task": {**TASK, **more}},
        trainer_config=DictConfigWrap(config), server_manager=None, tokenizer=tokenizer(), processor=None, dataset_cls=None,
        data_config=DictConfigWrap(config.data), hf_model_type=None, tools=None,
    )  # fmt: skip


def tokenizer() -> Any:
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
        return passed, failed, ungraded, cut, old

    passed, failed, ungraded, cut, old = asyncio.run(sessions())
    for (output,), reward in ((passed, 1.0), (failed, 0.0), (cut, 1.0)):
        fields = output.as_dict()
        assert float(fields["rm_scores"].sum()) == reward
        assert fields["response_mask"].sum() > 0
        assert len(fields["rollout_log_probs"]) == len(fields["responses"])
        assert isinstance(output.extra_fields["min_global_steps"], int)
    assert ungraded == [], "a rollout without a reward is left out"
    assert len(cut[0].response_ids) == 3
    assert old.reward_score == 1.0


@pytest.mark.parametrize("step_wise", [False, True])
def test_skyrl_generates_a_batch(step_wise: bool) -> None:
    base = pytest.importorskip("skyrl.train.generators.base", reason="skyrl is not installed")
    from skyrl.train.utils.trainer_utils import validate_generator_output

    from rolloutd.skyrl import RolloutdGenerator

    batch = base.GeneratorInput(
        prompts=[PROMPT] * 4,
        env_classes=["rolloutd"] * 4,
        env_extras=[{}, {}, {"rolloutd": {"setup": ["false"]}}, {"rolloutd": {"setup": ["false"]}}],
        sampling_params={"temperature": 1.0, "top_k": -1},
        trajectory_ids=[base.TrajectoryID(name, i) for name in ("a", "b") for i in range(2)],
        batch_metadata=base.BatchMetadata(global_step=1, training_phase="train"),
    )
    output = asyncio.run(RolloutdGenerator(SERVER, TASK, step_wise=step_wise).generate(batch))
    validate_generator_output(4, output, step_wise=step_wise)
    last = [i for i, id in enumerate(output["trajectory_ids"]) if output["trajectory_ids"][i + 1 : i + 2] != [id]]
    assert [output["rewards"][i] for i in last] == [1.0, 1.0, 0.0, 0.0]
    assert [any(output["loss_masks"][i]) for i in last] == [True, True, False, False], "the group without rewards is masked"
    assert output["rollout_metrics"]["rolloutd/untrained"] == 2


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
    assert (ungraded["_ng_failure_class"], ungraded["mask_sample"]) == ("setup_failed", True)
    assert (refused["_ng_failure_class"], refused["mask_sample"]) == ("InvalidError", True), "an HTTP error would end the collection"
    assert "one of the user" in refused["error"]
    assert (away["_ng_failure_class"], away["_ng_task_index"]) == ("UnavailableError", 3)
    assert metrics.raise_for_status().json()["agent_metrics"]["mean/reward"] == 0.5, "the rollout without a reward is in no mean"
