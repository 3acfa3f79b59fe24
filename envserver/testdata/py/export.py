"""A rollout's trace as a trainer reads it: the arrays by numpy, and the turns by openenv's contract and TRL's own worker.

Arguments: the server, the rollout, and how many turns it has at least to train on.
"""

import io
import json
import sys

import numpy as np
import requests
import trl_harness
from openenv.core.harness import TrainingTrace

url, rollout, at_least = f"{sys.argv[1]}/rollouts/{sys.argv[2]}/trace", sys.argv[2], int(sys.argv[3])


def get(**query):
    reply = requests.get(url, params=query, timeout=300)
    reply.raise_for_status()
    return reply


lines = [json.loads(line) for line in get().content.splitlines()]
assert [json.loads(line) for line in get(format="jsonl").content.splitlines()] == lines


def same(got, dtype, want):
    np.testing.assert_array_equal(got, np.array(want, dtype=dtype), strict=True)


# The arrays say what the lines say.
arrays = np.load(io.BytesIO(get(format="npz").content), allow_pickle=False)
for name in ("turn", "upstream_status"):
    same(arrays[name], np.int64, [line[name] for line in lines])
for name in ("prompt_tokens", "completion_tokens"):
    same(arrays[name], np.int64, [line["usage"][name] for line in lines])
for name in ("train", "delivered"):
    same(arrays[name], np.bool_, [line[name] for line in lines])
same(arrays["broken"], np.bool_, ["broken" in line for line in lines])
for name in ("timestamp", "queued_s", "first_byte_s", "latency_s"):
    same(arrays[name], np.float64, [line[name] for line in lines])
for name in ("call_id", "api", "kind", "lineage", "branch", "finish_reason", "model_version", "engine"):
    assert arrays[name].dtype.kind == "U", name
    assert arrays[name].tolist() == [line.get(name, "") for line in lines], name
breaks = [line.get("prefix_break", {"after_turn": 0, "at": -1}) for line in lines]
same(arrays["prefix_break_after"], np.int64, [b["after_turn"] for b in breaks])
same(arrays["prefix_break_at"], np.int64, [b["at"] for b in breaks])
for name, offsets, dtype in (
    ("prompt_token_ids", "prompt_offsets", np.int32),
    ("completion_token_ids", "completion_offsets", np.int32),
    ("per_token_logps", "logps_offsets", np.float64),
):
    assert arrays[offsets].dtype == np.int64 and len(arrays[offsets]) == len(lines) + 1
    assert arrays[offsets][0] == 0 and arrays[offsets][-1] == len(arrays[name])
    parts = np.split(arrays[name], arrays[offsets][1:-1])
    for part, line in zip(parts, lines, strict=True):
        same(part, dtype, line[name])

# openenv validates the turns to train on, and TRL's worker makes its records and rows of them.
train = [line for line in lines if line["train"]]
assert len(train) >= at_least, [(line["kind"], line.get("broken"), line.get("flaws")) for line in lines]
for line in train:
    assert line["loss_mask"] == [0] * len(line["prompt_token_ids"]) + [1] * len(line["completion_token_ids"])
assert len({line["node_id"] for line in lines}) == len(lines)
trace = TrainingTrace.from_entries([line | {"metadata": {"node_id": line["node_id"]}} for line in train])
harness, worker = trl_harness.load()
records = harness._turns_from_training_trace(trace)
for record, line in zip(records, train, strict=True):
    assert record.prompt_ids == line["prompt_token_ids"]
    assert record.output_ids == line["completion_token_ids"]
    assert record.output_log_probs == line["per_token_logps"]
    assert record.output_mask == [1] * len(line["completion_token_ids"])
    if line["completion_tokens"] and line["completion_tokens"][0].startswith("token_id:"):
        assert [int(token.removeprefix("token_id:")) for token in line["completion_tokens"]] == record.output_ids

# A row ends where a prompt does not begin with what came before it, which is what prefix_break says.
rows, tally = worker._chain_to_sequences(records, rollout, 0)
assert len(rows) == 1 + sum("prefix_break" in line for line in train[1:]), (len(rows), tally)
sampled = [logp for row in rows for logp, mask in zip(row.old_log_probs, row.completion_mask, strict=True) if mask]
assert sampled == [logp for line in train for logp in line["per_token_logps"]]
assert {row.rollout_id for row in rows} == {rollout}

# Messages, tools and calls are where a reward function looks for them.
entries = trace.to_trace_entries()
for entry, line in zip(entries, train, strict=True):
    assert entry["request"]["messages"] == line["request"]["messages"] and entry["request"]["tools"]
    assert entry["response"]["choices"][0]["message"]["role"] == "assistant"
messages = harness._messages_from_trace(entries)
assert messages[:-1] == train[-1]["request"]["messages"] and messages[-1]["role"] == "assistant"
called = harness._tool_call_counts_by_name(entries)
want = {}
for line in train:
    for call in line["response"]["choices"][0]["message"].get("tool_calls") or []:
        want[call["function"]["name"]] = want.get(call["function"]["name"], 0) + 1
assert called == want and called, (called, want)
print("all checks held")
