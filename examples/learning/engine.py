"""An endpoint in vLLM's form over a model of this process: completions of token ids, and the chat template."""

import json
import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from policy import MAX_LENGTH, prompt_ids
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


@dataclass
class Request:
    prompt: list[int]
    most: int
    temperature: float
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finished: str = ""
    answered: Future[None] = field(default_factory=Future)


class Engine:
    """Serves the model on a port. While `lock` is held, no token is sampled."""

    def __init__(self, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, name: str, port: int) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.lock = threading.Lock()
        self._waiting: queue.Queue[Request] = queue.Queue()
        server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (_Handler,), {"engine": self}))
        server.daemon_threads = True

        for run in (self._sample_forever, server.serve_forever):  # both end with the process
            threading.Thread(target=run, daemon=True).start()

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = body["prompt"]
        ids = self.tokenizer.encode(prompt, add_special_tokens=False) if isinstance(prompt, str) else prompt
        most = min(body.get("max_tokens") or 64, MAX_LENGTH - len(ids))
        if most < 1:
            raise ValueError(f"This model's maximum context length is {MAX_LENGTH} tokens, the prompt has {len(ids)}")

        temperature = body.get("temperature")
        request = Request(ids, most, 1.0 if temperature is None else max(float(temperature), 1e-6))
        self._waiting.put(request)
        request.answered.result()

        return self._reply(request)

    def tokenize(self, body: dict[str, Any]) -> dict[str, Any]:
        if "messages" in body:
            ids = prompt_ids(self.tokenizer, body["messages"], body.get("add_generation_prompt", True))
        else:
            ids = self.tokenizer.encode(body["prompt"], add_special_tokens=False)

        return {"count": len(ids), "max_model_len": MAX_LENGTH, "tokens": ids}

    def _reply(self, request: Request) -> dict[str, Any]:
        ids = request.ids
        count, prompt = len(ids), len(request.prompt)
        logprobs = {
            "tokens": self.tokenizer.convert_ids_to_tokens(ids),
            "token_logprobs": request.logprobs,
            "top_logprobs": None,
            "text_offset": [0] * count,
        }
        choice = {
            "index": 0,
            "text": self.tokenizer.decode([i for i in ids if i != self.tokenizer.eos_token_id]),
            "finish_reason": request.finished,
            "logprobs": logprobs,
            "prompt_token_ids": request.prompt,
            "token_ids": ids,
        }
        usage = {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count}

        return {"id": "c", "object": "text_completion", "model": self.name, "choices": [choice], "usage": usage}

    def _sample_forever(self) -> None:
        while True:
            requests = [self._waiting.get()]
            while len(requests) < 32 and not self._waiting.empty():
                requests.append(self._waiting.get())

            with self.lock:
                sample(self.model, requests, self.tokenizer.eos_token_id)

            for request in requests:
                request.answered.set_result(None)


@torch.no_grad()
def sample(model: LlamaForCausalLM, requests: list[Request], end: int) -> None:
    """Samples all replies together. The prompts are padded at their beginning."""
    longest = max(len(r.prompt) for r in requests)
    ids = torch.tensor([[0] * (longest - len(r.prompt)) + r.prompt for r in requests])
    mask = torch.tensor([[0] * (longest - len(r.prompt)) + [1] * len(r.prompt) for r in requests])
    place = (mask.cumsum(1) - 1).clamp(min=0)
    temperatures = torch.tensor([[r.temperature] for r in requests])
    cache = None

    while not all(r.finished for r in requests):
        out = model(input_ids=ids, attention_mask=mask, position_ids=place, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        logprobs = torch.log_softmax(out.logits[:, -1].float() / temperatures, -1)
        ids = torch.multinomial(logprobs.exp(), 1)
        _append(requests, ids[:, 0].tolist(), logprobs.gather(1, ids)[:, 0].tolist(), end)
        mask = torch.cat([mask, torch.ones_like(ids)], 1)
        place = place[:, -1:] + 1


def _append(requests: list[Request], ids: list[int], logprobs: list[float], end: int) -> None:
    for request, token, logprob in zip(requests, ids, logprobs, strict=True):
        if request.finished:
            continue

        request.ids.append(token)
        request.logprobs.append(logprob)

        if token == end:
            request.finished = "stop"
        elif len(request.ids) == request.most:
            request.finished = "length"


class _Handler(BaseHTTPRequestHandler):
    engine: Engine
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        model = {"id": self.engine.name, "object": "model", "max_model_len": MAX_LENGTH}
        self._answer(*((200, {"object": "list", "data": [model]}) if self.path == "/v1/models" else (404, {})))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        call = {"/v1/completions": self.engine.complete, "/tokenize": self.engine.tokenize}.get(self.path)
        if call is None:
            self._answer(404, {"detail": "Not Found"})
            return

        try:
            answer = call(body)
        except (ValueError, KeyError) as err:
            self._answer(400, {"error": {"message": str(err), "type": "BadRequestError", "code": 400}})
            return

        if body.get("stream"):
            self._send(200, "text/event-stream", f"data: {json.dumps(answer)}\n\ndata: [DONE]\n\n".encode())
        else:
            self._answer(200, answer)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(body).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a line for each request would hide the trainer's."""
