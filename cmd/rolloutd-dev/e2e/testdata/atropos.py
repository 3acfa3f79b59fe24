"""Environments written for Atropos against a real server, with a model that reads its prompts.

Arguments: the server, the trainer API, the example of a trainer, the address that sandboxes may reach.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

server, trainer_api, consumer, sources = sys.argv[1:5]
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


def answer_alone(messages: list[dict]) -> str:
    """The answer to a judge, or to an evaluation, which knows one of two answers."""
    asked = messages[-1]["content"]
    if "yes or no" in asked:
        return "yes" if "Paris" in asked or "4" in asked else "no"
    return "Paris" if "France" in asked else "I do not know."


def ids(text: str) -> list[int]:
    return [byte + 3 for byte in text.encode()]


class Model(BaseHTTPRequestHandler):
    """Chat completions as vLLM streams them; a token is a byte, and the template only joins the messages."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.endswith("/chat/completions"):
            self.send_error(404)
            return
        if not body.get("stream"):  # of an evaluation or a judge, without token ids
            whole = {"index": 0, "message": {"role": "assistant", "content": answer_alone(body["messages"])}, "finish_reason": "stop"}
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


def make_tokenizer(folder: str) -> str:
    """A tokenizer with a token for each byte, which the environments load from a folder instead of a hub."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_ = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    bytes_.pre_tokenizer, bytes_.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=bytes_, eos_token=letters[0]).save_pretrained(folder)
    return folder


home = tempfile.TemporaryDirectory()
tokenizer = make_tokenizer(f"{home.name}/tokenizer")
model_url = f"http://127.0.0.1:{model.server_port}/v1"
os.environ |= {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled", "MODEL_URL": model_url, "TOKENIZER": tokenizer, "SOURCES": f"http://{sources}"}


class Sources(SimpleHTTPRequestHandler):
    """Serves files."""

    def log_message(self, format: str, *args: object) -> None:
        return


def make_sources(folder: Path) -> None:
    """A repository, and an index with a package."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(folder / "work")]
    (folder / "work").mkdir()
    (folder / "work" / "readme.txt").write_text("a repository")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a repository"], ["clone", "-q", "--bare", ".", str(folder / "repo.git")]):
        subprocess.run([*git, *words], check=True)
    subprocess.run(["git", "-C", str(folder / "repo.git"), "update-server-info"], check=True)

    wheel = folder / "simple" / "word" / "word-1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as package:
        package.writestr("word.py", "VALUE = 'installed'\n")
        package.writestr("word-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: word\nVersion: 1.0\n")
        package.writestr("word-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        package.writestr("word-1.0.dist-info/RECORD", "word.py,,\nword-1.0.dist-info/METADATA,,\nword-1.0.dist-info/WHEEL,,\nword-1.0.dist-info/RECORD,,\n")
    (wheel.parent / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')


def command(env: str, *arguments: str) -> list[str]:
    words = [sys.executable, str(Path(__file__).resolve().parent / "environments.py"), env, *arguments]
    words += ["--env.rolloutd_server", server, "--env.tokenizer_name", tokenizer, "--env.use_wandb", "false"]
    # A file of the environment that names several servers has them in config_init alone, as in the original.
    return words if env == "judged_env" else words + ["--openai.base_url", model_url, "--openai.tokenizer_name", tokenizer]


def run(env: str, *arguments: str) -> str:
    # It ends by the rollouts' own bounds.
    done = subprocess.run(command(env, *arguments), capture_output=True, text=True, check=False, cwd=home.name)
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
    assert [m["role"] for m in group["messages"][0]] == ["system", "user", "assistant", "user", "assistant"], group["messages"]
    said = group["messages"][0][-1]["content"]
    assert re.fullmatch("[0-9a-f]{32}", said), said
    sampled = bytes(mask - 3 for mask in group["masks"][0] if mask != -100).decode()
    assert sampled.endswith("</tool_call>" + said) and sampled.startswith("<think>"), "each token that was sampled, of all turns"

    make_sources(Path(folder))
    host, port = sources.split(":")
    served = ThreadingHTTPServer((host, int(port)), partial(Sources, directory=folder))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    path = Path(folder) / "sources.jsonl"
    run("sources_env", "process", "--env.total_steps", "1", "--env.data_path_to_save_groups", str(path))
    served.shutdown()
    (group,) = map(json.loads, path.read_text().splitlines())
    check(group, 2)
    assert group["scores"] == [1.0, 1.0], group["messages"]

    path = Path(folder) / "capitals.jsonl"
    page = (Path(consumer).parent.parent / "docs" / "python.md").read_text(encoding="utf-8")
    (snippet,) = (text for text in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "rolloutd.atropos" in text)
    (Path(folder) / "capitals.py").write_text(snippet.replace("Qwen/Qwen3.5-4B", tokenizer).replace("http://gpu-box:8000/v1", model_url))
    words = command("", "process", "--env.total_steps", "1", "--env.data_path_to_save_groups", str(path))
    done = subprocess.run([sys.executable, str(Path(folder) / "capitals.py"), *words[3:]], capture_output=True, text=True, check=False, cwd=home.name)
    assert done.returncode == 0, (done.stdout, done.stderr)
    (group,) = map(json.loads, path.read_text().splitlines())
    check(group, 4)
    assert set(group["scores"]) == {0.0, 1.0}, group["scores"]

    path = Path(folder) / "skills.jsonl"
    run("toolserver_smoke_env", "process", "--env.total_steps", "1", "--env.data_path_to_save_groups", str(path))
    (group,) = map(json.loads, path.read_text().splitlines())
    check(group, 2)
    assert group["scores"] == [1.0, 1.0], group["messages"]


def killed_while_it_scores(folder: Path) -> None:
    """The rollouts of an environment that is killed await their scores, which the next one gives."""
    path, stop, kept = folder / "killed.jsonl", folder / "stop", folder / "open"

    def words(groups: int) -> list[str]:
        arguments = ("--env.data_path_to_save_groups", str(path), "--env.open_groups_path", str(kept), "--env.total_steps", str(groups))
        return command("killed_env", "process", *arguments)

    first = subprocess.Popen(words(1), env={**os.environ, "STOP_AT": str(stop)})
    try:
        while not stop.exists():
            assert first.poll() is None, "it ended before it was killed"
            time.sleep(0.05)
    finally:
        first.kill()
        first.wait()
    (begun,) = kept.glob("*.group")
    again = subprocess.run(words(0), capture_output=True, text=True, check=False)
    assert again.returncode == 0, (again.stdout, again.stderr)
    assert path.read_text() == "", "the file of the killed process"
    (group,) = map(json.loads, path.with_stem("killed_1").read_text().splitlines())
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

assert '"eval/accuracy": ' in run("simple_test_env", "evaluate")
assert '"eval/accuracy": 0.5' in run("judged_env", "evaluate")


def wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")


def restarted_while_it_serves(folder: Path) -> None:
    """Atropos' own server is killed and started again while an environment serves: the environment goes on, for the next trainer."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    api = [sys.executable, "-m", "uvicorn", "atroposlib.api.server:app", "--port", str(port), "--log-level", "warning"]
    url = f"http://127.0.0.1:{port}"

    first = subprocess.Popen(api)
    wait_for(port)
    arguments = ("--env.rollout_server_url", url, "--env.total_steps", "1000", "--env.max_num_workers", "1", "--env.data_dir_to_save_evals", str(folder))
    env = subprocess.Popen(command("judged_env", "serve", *arguments), stdout=subprocess.PIPE, text=True, cwd=folder)
    second = None
    try:
        steps(url)
        first.kill()
        first.wait()
        second = subprocess.Popen(api)
        wait_for(port)
        steps(url)
        env.send_signal(signal.SIGINT)
        printed, _ = env.communicate()
    finally:
        for process in filter(None, (first, second, env)):
            process.kill()
            process.wait()
    assert re.search(r"logged: \d+ scores", printed), "wandb_log of the environment is called"
    records = [json.loads(line) for line in (folder / "judged_env.evaluations.jsonl").read_text().splitlines()]
    assert records and all(r["metrics"] == {"eval/accuracy": 0.5} for r in records), records


def steps(url: str) -> None:
    """Two steps of a trainer, each of one group."""
    done = subprocess.run([sys.executable, consumer, url, "2", "2"], capture_output=True, text=True, check=True)
    assert len(re.findall(r"advantages \[-?0.5, -?0.5\]", done.stdout)) == 2, done.stdout


with tempfile.TemporaryDirectory() as folder:
    restarted_while_it_serves(Path(folder))
print("all checks held")
