"""Environments written for Atropos against a real server, with a model that reads its prompts.

Arguments: the server, the trainer API, the example of a trainer.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

server, trainer_api, consumer = sys.argv[1:4]
COUNT = iter(range(1_000_000))


def call(name: str, **arguments: str) -> str:
    return "<tool_call>" + json.dumps({"name": name, "arguments": arguments}) + "</tool_call>"


def reply(messages: list[dict]) -> str:
    """Runs the command that the task names and says what it printed; answers every second question right."""
    task = "\n".join(m["content"] for m in messages if m["role"] == "user")
    if "skills_list" in task:
        turns = [call("skills_list", category="all"), call("terminal", command="python3 -c \"print('ok')\""), "ok"]
        return turns[sum(m["role"] == "assistant" for m in messages)]
    answer = re.findall(r"<tool_response>(.*?)</tool_response>", messages[-1]["content"], re.DOTALL)
    if answer:
        return json.loads(answer[-1])["output"].strip()
    command = re.search(r"repeat the token.*nothing else: (.*)", task)
    if command:
        return "<think>Run it.</think>\n" + call("terminal", command=command[1])
    right = "Paris" if "France" in task else "4"
    return right if next(COUNT) % 2 == 0 else "I do not know."


def ids(text: str) -> list[int]:
    return [byte + 3 for byte in text.encode()]


class Model(BaseHTTPRequestHandler):
    """Chat completions as vLLM streams them; a token is a byte, and the template only joins the messages."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.endswith("/chat/completions"):
            self.send_error(404)
            return
        if not body.get("stream"):  # asks for the prompt's token ids, which this model does not give so
            whole = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}
            self.answer("application/json", json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "toy", "choices": [whole]}))
            return
        prompt = "".join(f"{m['role']}:{m['content']}\n" for m in body["messages"]) + "assistant:"
        text = reply(body["messages"])
        logprobs = {"content": [{"token": f"token_id:{id}", "logprob": -0.25, "top_logprobs": []} for id in ids(text)]}
        choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "logprobs": logprobs, "token_ids": ids(text), "finish_reason": None}
        usage = {"prompt_tokens": len(ids(prompt)), "completion_tokens": len(ids(text)), "total_tokens": len(ids(prompt)) + len(ids(text))}
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        lines = []
        for more in ({"choices": [choice], "prompt_token_ids": ids(prompt)}, {"choices": [end]}, {"choices": [], "usage": usage}):
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "toy", **more}
            lines.append(f"data: {json.dumps(chunk)}\n\n")
        self.answer("text/event-stream", "".join(lines) + "data: [DONE]\n\n")

    def answer(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        return


model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=model.serve_forever, daemon=True).start()


def command(env: str, *arguments: str) -> list[str]:
    words = [sys.executable, str(Path(__file__).parent / "environments.py"), env, *arguments]
    return words + ["--env.rolloutd_server", server, "--openai.base_url", f"http://127.0.0.1:{model.server_port}/v1"]


def run(env: str, *arguments: str) -> str:
    done = subprocess.run(command(env, *arguments, "--env.open_groups_path="), capture_output=True, text=True, check=False)  # it ends by the rollouts' own bounds
    assert done.returncode == 0, (done.args, done.stdout, done.stderr)
    return done.stdout


def check(group: dict, size: int) -> None:
    assert len(group["tokens"]) == len(group["masks"]) == len(group["inference_logprobs"]) == len(group["scores"]) == size, group
    for tokens, masks, logprobs in zip(group["tokens"], group["masks"], group["inference_logprobs"], strict=True):
        assert len(tokens) == len(masks) == len(logprobs)
        for token, mask, logprob in zip(tokens, masks, logprobs, strict=True):
            assert (mask, logprob) in ((-100, 1.0), (token, -0.25)), (token, mask, logprob)


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "groups.jsonl"
    run("terminal_smoke_env", "process", "--env.total_steps", "1", "--env.data_path_to_save_groups", str(path))
    (group,) = map(json.loads, path.read_text().splitlines())
    check(group, 1)
    assert group["scores"] == [1.0] and group["generation_params"] == {"temperature": 0.2}, group
    said = group["messages"][0][-1]["content"]
    assert re.fullmatch("[0-9a-f]{32}", said), said
    sampled = bytes(mask - 3 for mask in group["masks"][0] if mask != -100).decode()
    assert sampled.endswith("</tool_call>" + said) and sampled.startswith("<think>"), "each token that was sampled, of all turns"

    path = Path(folder) / "skills.jsonl"
    run("toolserver_smoke_env", "process", "--env.total_steps", "1", "--env.data_path_to_save_groups", str(path))
    (group,) = map(json.loads, path.read_text().splitlines())
    check(group, 2)
    assert group["scores"] == [1.0, 1.0], group["messages"]


def killed_while_it_scores(folder: Path) -> None:
    """The rollouts of an environment that is killed await their scores, which the next one gives."""
    path, stop, kept = folder / "killed.jsonl", folder / "stop", folder / "open"
    words = command("killed_env", "process", "--env.total_steps", "0", "--env.data_path_to_save_groups", str(path), "--env.open_groups_path", str(kept))
    first = subprocess.Popen([*words, "--env.total_steps", "1"], env={**os.environ, "STOP_AT": str(stop)})
    try:
        while not stop.exists():
            assert first.poll() is None, "it ended before it was killed"
            time.sleep(0.05)
    finally:
        first.kill()
        first.wait()
    (begun,) = kept.glob("*.group")
    again = subprocess.run(words, capture_output=True, text=True, check=False)
    assert again.returncode == 0, (again.stdout, again.stderr)
    (group,) = map(json.loads, path.read_text().splitlines())
    check(group, 2)
    assert sorted(group["scores"]) == [0.0, 1.0], group
    assert {o["rollout_id"] for o in group["overrides"]} == {f"{begun.stem}-{i}" for i in range(2)}, "its rollouts are the same"
    assert not list(kept.iterdir())


with tempfile.TemporaryDirectory() as folder:
    killed_while_it_scores(Path(folder))

trainer = subprocess.Popen([sys.executable, consumer, trainer_api, "2", "2"], stdout=subprocess.PIPE, text=True)
try:
    run("simple_test_env", "serve", "--env.rollout_server_url", trainer_api, "--env.total_steps", "1", "--env.max_num_workers", "1")
    printed, _ = trainer.communicate()  # it ends with its second step
finally:
    trainer.kill()
assert trainer.returncode == 0 and printed.count("advantages [0.5, -0.5]") + printed.count("advantages [-0.5, 0.5]") == 2, printed

assert json.loads(run("simple_test_env", "evaluate")).keys() == {"eval/accuracy"}
print("all checks held")
