"""slime and miles: their own classes take the samples. `deploy/suite.sh trainers` has their repositories in the path; without them the tests are skipped."""

from __future__ import annotations

import asyncio
import importlib
import importlib.abc
import importlib.machinery
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from masked import kept_by, with_masks
from recorded import Pairs, pairs_of, recorded
from routed import LAYERS, TOP_K, row_of, with_rows
from test_trainers_adapters import MODEL, SERVER, TASK, word_tokenizer
from test_trainers_packages import tensor_pairs

from rolloutd import InvalidError, UnscoredError
from rolloutd.slime import _replayed, generate, generate_rollout, post_process_rewards
from rolloutd.trainers import Record, slime, trained
from rolloutd.trainers.experts import Shape

needs_server = pytest.mark.skipif(not SERVER, reason="ROLLOUTD_TEST_SERVER names no server")


class Engines(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules in place of SGLang, which the trainers import and which needs a GPU."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] in ("sglang", "sglang_router"):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return MagicMock(name=spec.name, __path__=[], __spec__=spec, __version__="1")

    def exec_module(self, module: Any) -> None:
        return


@pytest.fixture(params=["slime", "miles"])
def package(request: pytest.FixtureRequest) -> Iterator[str]:
    pytest.importorskip(f"{request.param}.utils.types", reason=f"{request.param} is not installed")
    engines = Engines()
    sys.meta_path.insert(0, engines)
    yield request.param
    sys.meta_path.remove(engines)


def module(package: str, name: str) -> Any:
    return importlib.import_module(f"{package}.{name}")


def arguments(**changes: Any) -> Any:
    """Those of a trainer's arguments that are read."""
    values = {
        "rolloutd_server": SERVER, "rolloutd_task": TASK, "hf_checkpoint": "m", "rollout_temperature": 1.0, "rollout_top_p": 1.0, "rollout_top_k": -1,
        "rollout_max_response_len": 4096, "rollout_max_context_len": None, "rollout_batch_size": 2, "over_sampling_batch_size": 2, "n_samples_per_prompt": 2,
        "reward_key": None, "advantage_estimator": "grpo", "rewards_normalization": True, "grpo_std_normalization": True,
        "use_dynamic_global_batch_size": False, "custom_generate_function_path": "rolloutd.slime.generate",
    }  # fmt: skip
    return SimpleNamespace(**{**values, **changes})


def train_data(package: str, args: Any, rollouts: Any) -> Any:
    """The trainer's own data of what a rollout function returned, checked as it checks it."""
    flat = [sample for group in rollouts for rollout in group for sample in rollout]
    if package == "miles":
        for sample in flat:
            sample.validate()
        return module("miles", "ray.rollout.train_data_conversion").convert_samples_to_train_data(args, flat, {}, None, post_process_rewards)

    for sample in flat:
        sample._validate_response_metadata_lengths()
    module("slime", "observability.rollout_data_utils").validate_rollout_id_annotated(rollouts)
    manager = module("slime", "ray.rollout").RolloutManager.__ray_metadata__.modified_class
    own = SimpleNamespace(args=args, custom_convert_samples_to_train_data_func=None, custom_reward_post_process_func=post_process_rewards)
    own._post_process_rewards = lambda samples: manager._post_process_rewards(own, samples)
    return manager._convert_samples_to_train_data(own, flat)


def groups() -> list[list[Record]]:
    of: dict[str, list[Record]] = {}
    for record in recorded():
        of.setdefault(record.group, []).append(record)
    return list(of.values())


def test_the_set_in_the_trainers_own_classes(package: str) -> None:
    of_dict = module(package, "utils.types").Sample.from_dict
    made = [
        [[of_dict({**fields, "index": fields["rollout_id"], "group_index": i}) for fields in rollout] for rollout in slime.samples(group, range(4 * i, 4 * i + 4))]
        for i, group in enumerate(groups())
    ]
    data = train_data(package, arguments(), made)

    pairs: Pairs = tensor_pairs([], [], [])
    for ids, length, mask, logprobs in zip(data["tokens"], data["response_lengths"], data["loss_masks"], data["rollout_log_probs"], strict=True):
        pairs += tensor_pairs(ids[-length:], mask, logprobs)
    assert pairs == pairs_of(recorded())
    assert len(set(data["rollout_ids"])) == sum(len(group) for group in groups() if any(trained(record) for record in group))


def test_rewards_are_normalized_within_each_group() -> None:
    def sample(group: int, rollout: int, reward: float, removed: bool = False) -> Any:
        return SimpleNamespace(group_index=group, rollout_id=rollout, reward=reward, remove_sample=removed, get_reward_value=lambda _: reward)

    # The first rollout has three samples and counts once; one is removed.
    of_first = [sample(0, 0, 1.0), sample(0, 0, 1.0), sample(0, 0, 1.0), sample(0, 1, 0.0), sample(0, 2, 0.0, removed=True)]
    samples = [*of_first, sample(1, 3, 0.5), sample(1, 4, 0.5)]

    raw, advantages = post_process_rewards(arguments(grpo_std_normalization=False), samples)
    assert raw == [1, 1, 1, 0, 0.5, 0.5, 0.5]
    assert advantages == [0.5, 0.5, 0.5, -0.5, 0, 0, 0]

    _, scaled = post_process_rewards(arguments(), samples)
    assert scaled[0] == pytest.approx(0.5 / (statistics.stdev([1, 0]) + 1e-6))
    _, plain = post_process_rewards(arguments(advantage_estimator="ppo"), samples)
    assert plain == [1, 1, 1, 0, 0, 0.5, 0.5]


def test_what_a_record_does_not_have_is_refused() -> None:
    sample = SimpleNamespace(index=0, prompt="Say hello.", metadata={}, rollout_top_p_token_ids=None)
    with pytest.raises(InvalidError, match="rollout_top_k: must be 2 or more"):
        asyncio.run(generate(arguments(rollout_top_p=0.9), sample, {"temperature": 1.0}))
    with pytest.raises(InvalidError, match="rollout_top_k: must be 2 or more"):
        generate_rollout(arguments(rollout_top_p=0.9), 0, Prompts([[sample]]))


def test_the_routed_experts_in_the_trainers_own_classes(package: str) -> None:
    args = arguments(use_rollout_routing_replay=True, num_layers=LAYERS, moe_router_topk=TOP_K)
    of_dict = module(package, "utils.types").Sample.from_dict
    group = with_rows(groups()[0])
    made = slime.samples(group, range(len(group)), Shape(LAYERS, TOP_K))
    data = train_data(package, args, [[[of_dict({**fields, "index": fields["rollout_id"], "group_index": 0}) for fields in rows] for rows in made]])

    for tokens, rows, mask in zip(data["tokens"], data["rollout_routed_experts"], data["loss_masks"], strict=True):
        assert tuple(rows.shape) == (len(tokens) - 1, LAYERS, TOP_K)
        assert not any(mask) or rows.tolist() == [row_of(tokens[: i + 1]) for i in range(len(tokens) - 1)]


def test_a_sequence_without_all_routed_experts_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    record = next(record for record in recorded() if trained(record))
    kept = _replayed(record, Shape(LAYERS, TOP_K), masks=False)
    assert not kept.sequences
    assert f"left out: rollout {record.rollout_id}, sequence 0: no routed experts were asked for" in caplog.text


def test_a_sequence_without_all_sampling_masks_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    record = next(record for record in recorded() if trained(record))
    assert not _replayed(record, None, masks=True).sequences
    assert "has no sampling mask: it was not asked for" in caplog.text


@pytest.mark.parametrize("package", ["slime"], indirect=True)
def test_the_sampling_masks_in_the_trainers_own_classes(package: str) -> None:
    of_dict = module(package, "utils.types").Sample.from_dict
    group = next(g for g in groups() if any(map(trained, g)) and not all(map(trained, g)))
    made = slime.samples(with_masks(group), range(len(group)), masks=True)
    rollouts = [[of_dict({**fields, "index": fields["rollout_id"], "group_index": 0}) for fields in rollout] for rollout in made]
    data = train_data(package, arguments(rollout_top_p=0.9), [rollouts])

    for tokens, length, mask, ids, offsets in zip(
        data["tokens"], data["response_lengths"], data["loss_masks"], data["rollout_top_p_token_ids"], data["rollout_top_p_token_offsets"], strict=True
    ):
        for n in range(length):
            until = tokens[: len(tokens) - length + n + 1]
            assert ids[offsets[n] : offsets[n + 1]] == (kept_by(until) if mask[n] else [])


def test_a_data_source_that_ends_is_an_error() -> None:
    with pytest.raises(UnscoredError, match="no further prompts, and 0 of 2 groups"):
        generate_rollout(arguments(), 0, Prompts([]))


class Prompts:
    """A data source."""

    def __init__(self, groups: list[list[Any]]) -> None:
        self.left = groups

    def get_samples(self, count: int) -> list[list[Any]]:
        taken, self.left = self.left[:count], self.left[count:]
        return taken


def prompts(package: str, *rows: dict[str, Any]) -> Prompts:
    """Groups of two, with the arguments of their rollouts."""
    make = module(package, "utils.types").Sample
    return Prompts([[make(group_index=g, index=2 * g + i, prompt="Say hello.", metadata={"rolloutd": row}) for i in range(2)] for g, row in enumerate(rows)])


def call(package: str, args: Any, source: Prompts) -> Any:
    """The rollout function as the trainer calls it."""
    function = module(package, "utils.misc").load_function("rolloutd.slime.generate_rollout")
    if package == "slime":
        return module(package, "rollout.base_types").call_rollout_fn(function, args, 0, source, evaluation=False)
    types, loader = module(package, "rollout.base_types"), module(package, "rollout.inference_rollout.compatibility")
    loaded = loader.load_rollout_function(types.RolloutFnConstructorInput(args, source), "rolloutd.slime.generate_rollout")
    return loader.call_rollout_function(loaded, types.RolloutFnTrainInput(rollout_id=0))


UNGRADED = {"setup": ["false"], "limits": {"attempts": 1}}


@needs_server
def test_a_batch_has_the_groups_that_rolloutd_ran(package: str) -> None:
    source = prompts(package, {"verify": ["false"]}, UNGRADED, {"agent": "none such"}, {"verify": ["true"]}, {})
    args = arguments(rollout_batch_size=3, over_sampling_batch_size=3)
    output = call(package, args, source)

    assert [group[0][0].group_index for group in output.samples] == [0, 3, 4], "a group without rewards, and one that is refused, are replaced"
    data = train_data(package, args, output.samples)
    assert data["raw_reward"] == [0, 0, 1, 1, 1, 1]
    assert data["rewards"] == [0] * 6
    assert all(any(mask) for mask in data["loss_masks"])
    assert output.metrics["rolloutd/dropped_groups/untrained"] == output.metrics["rolloutd/dropped_groups/InvalidError"] == 1
    assert output.metrics["rolloutd/lost/setup_failed"] == 0.25


@needs_server
def test_a_batch_that_cannot_be_filled_is_an_error(package: str) -> None:
    with pytest.raises(UnscoredError, match="2 groups in a row gave no training data, the last: .*agent"):
        call(package, arguments(rollout_batch_size=2), prompts(package, {"agent": "none such"}, {"agent": "none such"}, {}))


def trainer_arguments(tokenizer_path: Path, **changes: Any) -> Any:
    """What the trainers' own loops read besides."""
    word_tokenizer().save_pretrained(tokenizer_path)
    return arguments(
        hf_checkpoint=str(tokenizer_path), chat_template_path=None, sglang_server_concurrency=4, rollout_num_gpus=1, rollout_num_gpus_per_engine=1,
        sglang_dp_size=1, partial_rollout=False, group_rm=False, rollout_stop=None, rollout_stop_token_ids=None, rollout_skip_special_tokens=True,
        router_policy=None, sglang_router_policy=None, custom_rm_path=None, rollout_sample_hooks_path=None, rollout_global_dataset=True, eval_max_prompt_len=None,
        multimodal_keys=None, apply_chat_template=False, apply_chat_template_kwargs={}, eval_reward_key=None, **changes,
    )  # fmt: skip


@needs_server
def test_a_group_of_samples_is_generated_by_the_trainer(package: str, tmp_path: Path) -> None:
    # Without an endpoint in the arguments, the rollout calls the trainer's router.
    host, _, port = MODEL.removeprefix("http://").removesuffix("/v1").partition(":")
    task = {**{name: value for name, value in TASK.items() if name != "endpoint"}, "model": "scripted"}
    args = trainer_arguments(tmp_path, rolloutd_task=task, sglang_router_ip=host, sglang_router_port=port)
    (group,) = prompts(package, {}).left
    sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "max_new_tokens": 4096}

    async def generated() -> Any:
        if package == "slime":
            return await module(package, "rollout.sglang_rollout").generate_and_rm_group(args, group, sampling)
        common = module(package, "rollout.inference_rollout.inference_rollout_common")
        return await common.generate_and_rm_group(common.GenerateState(args), group, sampling)

    data = train_data(package, args, [asyncio.run(generated())])
    assert data["raw_reward"] == [1, 1]
    assert all(any(mask) for mask in data["loss_masks"])


@needs_server
def test_an_evaluation_has_the_rewards_that_there_are(package: str, tmp_path: Path) -> None:
    config = module(package, "utils.eval_config").EvalDatasetConfig
    rows: dict[str, list[dict[str, Any]]] = {"some": [{}, {"verify": ["false"]}, UNGRADED], "none": [UNGRADED]}
    datasets = []
    for name, lines in rows.items():
        (path := tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"p": "Say hello.", "m": {"rolloutd": row}}) + "\n" for row in lines))
        more = {"input_key": "p", "label_key": None, "metadata_key": "m", "n_samples_per_eval_prompt": 1, "temperature": 1.0, "top_p": 1.0, "top_k": -1}
        datasets.append(config(name=name, path=str(path), max_response_len=4096, **more))

    source = object.__new__(module(package, "rollout.data_source").RolloutDataSource)
    output = generate_rollout(trainer_arguments(tmp_path, eval_datasets=datasets), 0, source, evaluation=True)
    assert output.data.keys() == {"some"}
    assert output.data["some"]["rewards"] == [1, 0]
    assert len(output.data["some"]["samples"]) == len(output.data["some"]["truncated"]) == 2
