"""HarborEnv runs a Harbor task on a real server, and TRL's worker takes the results.

Arguments: the server, the folder with trl_harness.py.
"""

import sys
import threading
from types import SimpleNamespace

from openenv.core.harness import VerifyResult
from openenv.harbor.client import HarborEnv
from openenv.harbor.contract import to_training_trace

server, edge = sys.argv[1] + "/env/harbor", sys.argv[2]
sys.path.insert(0, edge)
import trl_harness  # noqa: E402

trl, _ = trl_harness.load()


class Session:
    """One rollout in the way of OpenEnv's HarborSession: what fails is a result, and close closes the client."""

    def __init__(self, **arguments):
        self.env, self.arguments, self.result = HarborEnv(base_url=server), arguments, None

    def wait_for_completion(self, timeout_s=None):
        self.result = self.env.run_rollout(**self.arguments)
        return 0 if self.result.ok else 1

    def fetch_training_trace(self):
        return to_training_trace(self.result)

    def fetch_proxy_trace(self):
        return []

    def initial_messages(self):
        return [{"role": "user", "content": "x"}]

    def list_tools(self):
        return []

    def call_tool(self, name, arguments):
        raise NotImplementedError

    def verify(self, transcript, final_state=None):
        return VerifyResult(env_reward=self.result.reward, done=True)

    def close(self):
        self.env.close()


def row(**arguments):
    """What TRL's worker makes of a rollout."""
    sessions = []

    def create(*args, **kwargs):
        sessions.append(Session(**arguments))
        return sessions[0]

    loop = SimpleNamespace(
        _factory=SimpleNamespace(create=create), _live_sessions=set(), _stop_event=threading.Event(), _adapter=None, _rollout_reward_fn=None,
        _fork_threshold_tokens=0, _EMPTY_ROLLOUT=trl._HarnessRolloutLoop._EMPTY_ROLLOUT,
    )
    out, _ = trl._HarnessRolloutLoop._run_session(loop, [{"role": "user", "content": "x"}], 7)
    return out, sessions[0].result


with HarborEnv(base_url=server) as env:
    assert env.splits() == [{"name": "sums", "num_tasks": 1}], env.splits()
    task = env.get_task("", 0)
    assert task.instruction == "Write the sum of numbers.txt into sum.txt.", task
    assert env.capabilities()["llm"]["model"] == "scripted"

with HarborEnv(base_url=sys.argv[1]) as root:  # the same tasks
    assert root.get_task("", 0) == task and root.capabilities()["datasets"] == [{"name": "sums", "num_tasks": 1}], root.splits()

(completion, ids, sequences, calls, _, reward), result = row(task_index=0, sampling={"temperature": 1.0}, agent_step_limit=12)
assert result.ok and result.task_name == "fix" and result.sandbox == "local" and result.rollout_type == "train", result
assert reward == result.reward == 1.0 and calls == 1 and completion[-1]["role"] == "assistant", (reward, calls)
assert sum(sum(s.completion_mask) for s in sequences) == len(ids) == result.n_trainable_tokens > 0
assert result.phase_timings["running_agent"] > 0 and result.agent_log_tail, result.phase_timings
assert result.turns[0].sampling_params["temperature"] == 1.0 and result.n_roots >= 1, result.turns[0].sampling_params

# A policy that cannot be trained on: the rollout is not started, and the worker goes on without it.
(_, ids, sequences, _, _, reward), lost = row(task_index=0, sampling={"temperature": 1.0, "top_p": 0.5})
assert not lost.ok and lost.error and reward is None and not ids and not sequences, lost
print("all checks held")
