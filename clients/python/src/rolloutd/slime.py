"""Functions of slime and miles (August 2026) whose rollouts run in rolloutd.

    # rolloutd.yaml, named by --custom-config-path
    rolloutd_server: http://127.0.0.1:8000
    rolloutd_task: {agent: react, verify: ["pytest -q"]}

    --custom-config-path rolloutd.yaml
    --custom-generate-function-path rolloutd.slime.generate
    --rollout-function-path rolloutd.slime.generate_rollout
    --custom-reward-post-process-path rolloutd.slime.post_process_rewards

Both trainers have the same `Sample`, and it alone says which of them calls: neither package is imported before.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import logging
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .aio import AsyncClient
from .errors import InvalidError, RolloutdError, UnscoredError
from .trainers import Limits, Losses, Record, batch_health, fit, trained, untrained
from .trainers.experts import Shape, routed
from .trainers.masks import masked
from .trainers.running import arguments_of, pinned, run_group, run_rollout
from .trainers.slime import Sample as Fields
from .trainers.slime import samples, samples_of
from .trl.rollouts import instruction_of

log = logging.getLogger("rolloutd.slime")

# The estimators for which slime subtracts the mean of a group, and of these those for which it divides by the standard deviation.
_CENTRED = ("grpo", "gspo", "cispo", "reinforce_plus_plus_baseline")
_SCALED = ("grpo", "gspo", "cispo")


async def generate(args: Any, sample: Any, sampling_params: Mapping[str, Any], evaluation: bool = False) -> list[Any]:
    """A `--custom-generate-function-path`: runs a sample as a rollout, and returns a sample for each of its sequences.

    The arguments of the rollout are `rolloutd_task`, then those in the sample's `metadata["rolloutd"]`; the instruction is the prompt, or its last user
    message. Without `endpoint`, `base_url` or `model_key` the rollout calls the trainer's SGLang router. A rollout without a reward is one sample that is
    aborted and removed from the loss, and so is one that rolloutd refuses; the log says why. An evaluation gets one sample, with the longest sequence.
    """
    _check(args, sample)
    try:
        arguments = _arguments(args, sample, sampling_params, evaluation)
        async with AsyncClient(_server(args), token=getattr(args, "rolloutd_token", None)) as client:
            record = await run_rollout(client, arguments)
    except RolloutdError as err:
        record = Record(f"of sample {sample.index}", "", "", f"{type(err).__name__}: {err}", None, ())

    record, losses = fit(record, _limits(args, sampling_params))
    if losses != Losses():
        log.warning("rollout %s: %s exceed the lengths of the trainer", record.rollout_id, losses)
    replay, masks = (None, False) if evaluation else (_replay(args), _masks(args, sample))
    record = _replayed(record, replay, masks)
    made = samples_of(record, record.reward or 0.0, sample.index, replay, masks=masks)
    if (record.reward is None or not evaluation) and (why := untrained(record)):
        log.warning("removed: %s", why)
    if evaluation:
        made = [_evaluated(record, made)]
    return [_filled(sample, fields) for fields in made]


def generate_rollout(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """A `--rollout-function-path`: runs each prompt as a group of rolloutd, which replaces members that fail for infrastructure.

    A group without a reward is dropped, as is one that rolloutd refuses, and the next prompt takes its place. UnscoredError when as many groups in a row
    are dropped as a batch has. A member without a reward is removed from the loss, and has the mean reward of its group. `metrics` of the output has the
    health of the batch. An evaluation is the trainer's own, with `generate`; rollouts without a reward are in no mean.
    """
    if evaluation:
        return _evaluate(args, rollout_id, data_source)
    return asyncio.run(_Batch(args, data_source.get_samples).collect())


def post_process_rewards(args: Any, samples: list[Any], **_: Any) -> tuple[list[float], list[float]]:
    """A `--custom-reward-post-process-path`: the rewards and the advantages of samples, normalized within each group as the trainer's arguments say.

    A rollout counts once, however many samples it has. One that is removed from the loss is in no mean: it has the mean reward of its group, and the
    advantage 0. slime's own normalization takes the whole batch as one group when rollouts have several samples.
    """
    raw = [float(sample.get_reward_value(args)) for sample in samples]
    centred = args.advantage_estimator in _CENTRED and args.rewards_normalization
    scaled = centred and args.advantage_estimator in _SCALED and args.grpo_std_normalization
    advantages = [0.0] * len(samples)

    for members in _grouped(range(len(samples)), lambda i: samples[i].group_index):
        kept = [i for i in members if not samples[i].remove_sample]
        of_rollout = {samples[i].rollout_id: raw[i] for i in kept}
        mean = statistics.fmean(of_rollout.values()) if of_rollout else 0.0
        deviation = statistics.stdev(of_rollout.values()) if len(of_rollout) > 1 else 0.0
        for i in members:
            if i not in kept:
                raw[i] = mean
            else:
                advantages[i] = (raw[i] - mean) / (deviation + 1e-6 if scaled else 1.0) if centred else raw[i]
    return raw, advantages


class _Batch:
    """One call of the rollout function: groups run until as many are kept as the trainer wants."""

    def __init__(self, args: Any, get_samples: Callable[[int], list[list[Any]]]) -> None:
        self._args, self._get_samples = args, get_samples
        self._params = {name: getattr(args, f"rollout_{name}", None) for name in ("temperature", "top_p", "top_k")}
        self._params["max_new_tokens"] = args.rollout_max_response_len
        self._kept: list[list[list[Any]]] = []
        self._records: list[Record] = []
        self._losses, self._replaced = Losses(), 0
        self._dropped: dict[str, int] = {}
        self._dropped_in_a_row = 0

    async def collect(self) -> Any:
        wanted = self._args.rollout_batch_size
        running: set[asyncio.Task[None]] = set()
        try:
            while len(self._kept) < wanted:
                missing = max(wanted, self._args.over_sampling_batch_size) - len(self._kept) - len(running)
                running |= {asyncio.create_task(self._run(group)) for group in (self._get_samples(missing) if missing > 0 else ())}
                if not running:
                    raise UnscoredError(f"the data source has no further prompts, and {len(self._kept)} of {wanted} groups have training data")
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in running:  # more than the trainer wants, or an error
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return self._output(sorted(self._kept[:wanted], key=lambda group: group[0][0].index))

    async def _run(self, group: list[Any]) -> None:
        """Runs a group, and keeps it if it has training data and the trainer's filter keeps it."""
        _check(self._args, group[0])
        try:
            arguments = _arguments(self._args, group[0], self._params, evaluation=False)
            async with AsyncClient(_server(self._args), token=getattr(self._args, "rolloutd_token", None)) as client:
                run = await run_group(client, arguments, len(group))
        except RolloutdError as err:
            self._drop(type(err).__name__, str(err))
            return

        fitted = [fit(record, _limits(self._args, self._params)) for record in run.records]
        replay, masks = _replay(self._args), _masks(self._args, group[0])
        records = [_replayed(record, replay, masks) for record, _ in fitted]
        self._records += records
        self._replaced += run.replaced
        self._losses = sum((losses for _, losses in fitted), self._losses)
        made = samples(records, [sample.index for sample in group], replay, masks=masks)
        if not made:
            self._drop("untrained", "; ".join(map(untrained, records)))
            return

        self._dropped_in_a_row = 0
        rollouts = [[_filled(sample, fields) for fields in rows] for sample, rows in zip(group, made, strict=True)]
        if self._passes_filter(rollouts):
            self._kept.append(rollouts)

    def _passes_filter(self, rollouts: list[list[Any]]) -> bool:
        if (path := getattr(self._args, "dynamic_sampling_filter_path", None)) is None:
            return True
        package = _package(rollouts[0][0])
        function = importlib.import_module(f"{package}.utils.misc").load_function(path)
        found = importlib.import_module(f"{package}.rollout.filter_hub.base_types").call_dynamic_filter(function, self._args, rollouts)
        if not found.keep:
            self._count(f"filter_{found.reason or 'dropped'}")
        return bool(found.keep)

    def _drop(self, reason: str, message: str) -> None:
        log.warning("a group is dropped: %s", message)
        self._count(reason)
        self._dropped_in_a_row += 1
        if self._dropped_in_a_row >= self._args.rollout_batch_size:
            raise UnscoredError(f"{self._dropped_in_a_row} groups in a row gave no training data, the last: {message}")

    def _count(self, reason: str) -> None:
        self._dropped[reason] = self._dropped.get(reason, 0) + 1

    def _output(self, groups: list[list[list[Any]]]) -> Any:
        health = batch_health(self._records, replaced=self._replaced, losses=self._losses)
        dropped = {f"rolloutd/dropped_groups/{reason}": float(count) for reason, count in self._dropped.items()}
        base_types = importlib.import_module(f"{_package(groups[0][0][0])}.rollout.base_types")
        return base_types.RolloutFnTrainOutput(samples=groups, metrics={**health.line(), **dropped})


def _evaluate(args: Any, rollout_id: int, data_source: Any) -> Any:
    """The trainer's own evaluation, without the samples that have no reward, and without a dataset that has no other."""
    # The class of the data source may be the user's own.
    loaded = (type(data_source).__module__.partition(".")[0], *sys.modules)
    package = next(name for name in loaded if name in ("slime", "miles"))
    trainer = importlib.import_module(f"{package}.rollout.sglang_rollout")
    output = trainer.generate_rollout(args, rollout_id, data_source, evaluation=True)

    for name, columns in list(output.data.items()):
        graded = [i for i, sample in enumerate(columns["samples"]) if sample.status.value != "aborted"]
        if lost := len(columns["samples"]) - len(graded):
            log.warning("evaluation %s: %d of %d rollouts have no reward, and are left out", name, lost, len(columns["samples"]))
        output.data[name] = {column: [values[i] for i in graded] for column, values in columns.items()}
        if not graded:
            del output.data[name]
    return output


def _evaluated(record: Record, made: Iterable[Fields]) -> Fields:
    """The one sample of a rollout that is evaluated. A reward counts without tokens to train on too."""
    best = max(made, key=lambda fields: sum(fields["loss_mask"]))
    if record.reward is not None and not trained(record):
        best = Fields({**best, "status": "completed", "remove_sample": False})
    return best


def _check(args: Any, sample: Any) -> None:
    """Refuses what the trainer would need of each sample, and a record does not have."""
    if _masks(args, sample) and (getattr(args, "rollout_top_k", None) or -1) < 2:
        raise InvalidError(
            f"rollout_top_k: must be 2 or more where rollout_top_p is below 1, since SGLang gives no sampling masks otherwise, got {args.rollout_top_k}"
        )


def _arguments(args: Any, sample: Any, sampling_params: Mapping[str, Any], evaluation: bool) -> dict[str, Any]:
    shared = {"purpose": "eval" if evaluation else "train", **(getattr(args, "rolloutd_task", None) or {})}
    arguments = arguments_of(shared, (sample.metadata or {}).get("rolloutd"))
    if "instruction" not in arguments:
        arguments["instruction"] = instruction_of(sample.prompt)
    if not arguments.keys() & {"endpoint", "base_url", "model_key"}:
        arguments |= {"base_url": f"http://{args.sglang_router_ip}:{args.sglang_router_port}/v1", "model": str(args.hf_checkpoint)}
    if _replay(args) and not evaluation:
        arguments.setdefault("routed_experts", True)
    if _masks(args, sample) and not evaluation:
        arguments.setdefault("sampling_masks", True)
    if sampling_params.get("max_new_tokens") is not None:
        arguments.setdefault("max_tokens_cap", sampling_params["max_new_tokens"])
    return pinned(arguments, sampling_params)


def _replay(args: Any) -> Shape | None:
    """The router that the trainer replays; None if it replays none."""
    return Shape(args.num_layers, args.moe_router_topk) if getattr(args, "use_rollout_routing_replay", False) else None


def _masks(args: Any, sample: Any) -> bool:
    """Whether the trainer, which is slime, replays the sampler."""
    return getattr(args, "rollout_top_p", 1.0) != 1.0 and hasattr(sample, "rollout_top_p_token_ids")


def _replayed(record: Record, replay: Shape | None, masks: bool) -> Record:
    """The record without the sequences that cannot be replayed."""
    lacks: list[str] = []
    if replay is not None:
        record, lacks = routed(record)
    if masks:
        record, more = masked(record)
        lacks += more
    for lack in lacks:
        log.warning("left out: %s", lack)
    return record


def _server(args: Any) -> str | None:
    return getattr(args, "rolloutd_server", None)


def _limits(args: Any, sampling_params: Mapping[str, Any]) -> Limits:
    return Limits(response=sampling_params.get("max_new_tokens"), total=getattr(args, "rollout_max_context_len", None))


def _filled(sample: Any, fields: Fields) -> Any:
    """The trainer's sample with the fields of a sequence."""
    made = copy.copy(sample)
    for name, value in fields.items():
        setattr(made, name, value)
    made.status = type(sample).Status(fields["status"])
    made.metadata = {**(sample.metadata or {}), **fields["metadata"]}
    return made


def _package(sample: Any) -> str:
    """The trainer of a sample: slime or miles."""
    return type(sample).__module__.partition(".")[0]


def _grouped(indices: Iterable[int], key: Callable[[int], Any]) -> list[list[int]]:
    groups: dict[Any, list[int]] = {}
    for i in indices:
        groups.setdefault(key(i), []).append(i)
    return list(groups.values())
