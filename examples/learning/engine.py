"""The policy of this process behind an endpoint: requests that come together are sampled together."""

import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

import rolloutd.engine
import torch
from policy import MAX_LENGTH
from rolloutd.engine import Call, Reply
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
        self.model, self.end = model, tokenizer.eos_token_id
        self.lock = threading.Lock()
        self._waiting: queue.Queue[Request] = queue.Queue()
        rolloutd.engine.Engine(self._generate, tokenizer, max_length=MAX_LENGTH, model=name, port=port)
        threading.Thread(target=self._sample_forever, daemon=True).start()  # it ends with the process

    def _generate(self, call: Call) -> Reply:
        request = Request(call.prompt_ids, call.max_tokens, max(call.temperature, 1e-6))
        self._waiting.put(request)
        request.answered.result()

        return Reply(request.ids, request.logprobs, request.finished)

    def _sample_forever(self) -> None:
        while True:
            requests = [self._waiting.get()]
            while len(requests) < 32 and not self._waiting.empty():
                requests.append(self._waiting.get())

            with self.lock:
                sample(self.model, requests, self.end)

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
