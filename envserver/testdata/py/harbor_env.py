"""HarborEnv, the published client of OpenEnv's Harbor environment: discovery, rollouts, and what a trainer makes of the results."""

import sys

from openenv.harbor.client import HarborEnv
from openenv.harbor.contract import export_training_contract, to_trace_entries, to_training_trace

url = sys.argv[1]
with HarborEnv(base_url=url) as env:
    splits = env.splits()
    assert [s["name"] for s in splits] == ["folder", "away", "lines"] and splits[0]["num_tasks"] == 2 and splits[1]["error"], splits
    assert env.num_tasks("lines") == 2 and env.num_tasks() == 2
    ref = env.get_task("folder", 0)
    assert (ref.index, ref.task_name, ref.dataset, ref.instruction) == (0, "a-task", "folder", "write a"), ref
    assert [t.task_name for t in env.get_task_range("", 0, 20)] == ["a-task", "b-task"]
    caps = env.capabilities()
    assert "opencode" in [h["name"] for h in caps["harnesses"]] and caps["datasets"] == splits, caps

    result = env.run_rollout(split="folder", task_index=0, sampling={"temperature": 0.8}, agent_step_limit=12, agent_timeout_sec=300)
    assert result.ok and result.error is None and result.solved and result.reward == 0.5 and result.reward_key == "reward", result
    assert result.rollout_type == "train" and result.n_turns == 3 and result.n_roots == 2 and result.multi_turn, result
    trace = to_training_trace(result)
    assert [t.node_id for t in trace.turns] == ["bbbbbbbbbbbb", "dddddddddddd"], trace
    assert trace.turns[0].loss_mask == [0, 0, 0, 1, 1] and not any(trace.turns[1].loss_mask), trace
    entries = to_trace_entries(result)
    assert len(entries) == 1 and entries[0]["response"]["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "bash", entries
    assert export_training_contract(result)["n_trainable_tokens"] == result.n_trainable_tokens == 2
    assert [c.role for c in result.conversations] == ["auxiliary", "agent"], result.conversations
    assert env.state().step_count == 2

    # What cannot run is a result without a reward; what a trainer reads of it is empty, and raises nothing.
    for wrong in ({"split": "x"}, {"task_index": 9}, {"sampling": {"temperature": 1, "top_p": 0.5}}, {"sandbox": "nowhere"}, {"provider": "zz"}):
        lost = env.run_rollout(**wrong)
        assert not lost.ok and lost.error and lost.reward is None, (wrong, lost)
        assert to_training_trace(lost).turns == [], (wrong, lost)
    never = env.run_rollout(harness="terminus-2")
    assert "opencode" in never.error, never
    try:
        to_training_trace(never)
        raise SystemExit("a harness that does not exist must stop a training run")
    except ValueError:
        pass
print("all checks held")
