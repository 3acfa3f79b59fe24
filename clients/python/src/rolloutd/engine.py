"""An endpoint over a trainer's own engine, where that is inside of the trainer's process and has no address.

    async def generate(call: Call) -> Reply:
        output = await engine.generate(call.prompt_ids, max_tokens=call.max_tokens, temperature=call.temperature)
        return Reply(output.token_ids, output.logprobs, version=f"step-{step}")

    with Engine(generate, tokenizer, max_length=32_768) as engine:
        client.rollouts.run(base_url=engine.url, model=engine.model, agent="react", instruction="…", verify=["…"])

It answers what `react` asks, in vLLM's form: `/tokenize`, `/v1/completions`, `/v1/chat/completions` and `/v1/models`. Replies of chat completions are
text: tool calls in them are not parsed, which agents other than `react` need.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import io
import json
import math
import select
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as WaitTimeout
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from .errors import InvalidError

# Bytes of a request, above which it is refused.
_LARGEST_BODY = 64 << 20

# Seconds between two looks at whether the caller of a request is still there.
_LOOK_S = 1.0

_SAMPLING = ("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed", "stop", "stop_token_ids")


@dataclass(frozen=True)
class Call:
    """One reply that is to be sampled. `sampling` has further parameters, such as `top_p`, where the call gives them."""

    prompt_ids: list[int]
    max_tokens: int
    temperature: float
    sampling: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """The sampled tokens with their log probabilities, and with the end token if there is one. `version` names the weights that sampled them."""

    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str = "stop"  # or length
    version: str = ""
    # The experts that the router chose for all tokens of prompt and reply but the last: an array of numpy [tokens - 1, layers, top_k].
    routed_experts: Any = None


class Tokenizer(Protocol):
    """What is used of a tokenizer of transformers."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...
    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str: ...
    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]: ...
    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...


class Engine:
    """Serves `generate` on a port, until it is closed. One that is a coroutine function runs on `loop`, by default the loop that runs now.

    A function runs in the thread of its request. A coroutine is cancelled if the caller hangs up. `max_length` is the longest prompt with its reply, in
    tokens. The server of rolloutd must reach `host`.
    """

    def __init__(
        self,
        generate: Callable[[Call], Reply | Awaitable[Reply]],
        tokenizer: Tokenizer,
        *,
        max_length: int,
        model: str = "policy",
        host: str = "127.0.0.1",
        port: int = 0,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.model, self.max_length = model, max_length
        self._generate, self._tokenizer = generate, tokenizer
        self._tokenizing = threading.Lock()  # a fast tokenizer is not safe for threads
        self._loop = loop or (asyncio.get_running_loop() if inspect.iscoroutinefunction(generate) else None)
        self._server = ThreadingHTTPServer((host, port), type("Handler", (_Handler,), {"engine": self}))
        self._server.daemon_threads = True
        self.url = f"http://{host}:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server. Calls that are under way are not waited for."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def complete(self, body: Mapping[str, Any], caller: socket.socket) -> dict[str, Any]:
        """The answer to POST /v1/completions."""
        call = self._call(body.get("prompt"), body, body.get("max_tokens"))
        reply = self._sampled(call, caller)
        text, tokens = self._decoded(reply, body)
        logprobs = {"tokens": tokens, "token_logprobs": list(reply.logprobs), "top_logprobs": None, "text_offset": [0] * len(tokens)}
        choice = {**_choice(reply, body), "text": text, "logprobs": logprobs, "prompt_token_ids": call.prompt_ids}
        return {"object": "text_completion", "choices": [choice], **self._head(call, reply)}

    def chat(self, body: Mapping[str, Any], caller: socket.socket) -> dict[str, Any]:
        """The answer to POST /v1/chat/completions."""
        prompt = self.tokenize({"messages": None, **body}, caller)["tokens"]
        call = self._call(prompt, body, body.get("max_completion_tokens") or body.get("max_tokens"))
        reply = self._sampled(call, caller)
        text, tokens = self._decoded(reply, body)
        pairs = zip(tokens, reply.logprobs, strict=True)
        content: list[dict[str, Any]] = [{"token": token, "logprob": logprob, "bytes": None, "top_logprobs": []} for token, logprob in pairs]
        message = {"role": "assistant", "content": text}
        choice = {**_choice(reply, body), "delta" if body.get("stream") else "message": message, "logprobs": {"content": content}}
        name = "chat.completion.chunk" if body.get("stream") else "chat.completion"
        return {"object": name, "choices": [choice], "prompt_token_ids": call.prompt_ids, **self._head(call, reply)}

    def _sampled(self, call: Call, caller: socket.socket) -> Reply:
        try:
            reply = self._generate(call)
            if inspect.isawaitable(reply):
                reply = self._awaited(reply, caller)
        except (ValueError, KeyError, TypeError) as err:  # no fault of the request
            raise RuntimeError(f"generate: {type(err).__name__}: {err}") from err
        if len(reply.token_ids) != len(reply.logprobs) or not all(map(math.isfinite, reply.logprobs)):
            raise RuntimeError(f"the engine must give a finite log probability for each of {len(reply.token_ids)} tokens, got {len(reply.logprobs)}")
        return reply

    def tokenize(self, body: Mapping[str, Any], _: socket.socket) -> dict[str, Any]:
        """The answer to POST /tokenize, of messages or of a text."""
        with self._tokenizing:
            if "messages" not in body:
                ids = self._tokenizer.encode(_unicode(_text(body)), add_special_tokens=bool(body.get("add_special_tokens", True)))
            else:
                messages, given = _chat(body)
                options = {name: value for name, value in given.items() if name not in ("chat_template", "conversation")}
                options |= {name: body[name] for name in ("tools", "continue_final_message") if body.get(name)}
                options |= {"tokenize": False, "add_generation_prompt": body.get("add_generation_prompt", True)}
                ids = self._tokenizer.encode(_unicode(self._rendered(messages, options)), add_special_tokens=False)
        return {"count": len(ids), "max_model_len": self.max_length, "tokens": ids}

    def _rendered(self, messages: list[dict[str, Any]], options: dict[str, Any]) -> str:
        """The text of a conversation. One that the template refuses, although it takes another one, is a fault of the request."""
        try:
            return str(self._tokenizer.apply_chat_template(messages, **options))
        except Exception as err:
            self._tokenizer.apply_chat_template([{"role": "user", "content": "."}], tokenize=False, add_generation_prompt=True)
            raise InvalidError(f"messages: the chat template refuses them: {type(err).__name__}: {err}") from err

    def models(self) -> dict[str, Any]:
        """The answer to GET /v1/models."""
        return {"object": "list", "data": [{"id": self.model, "object": "model", "max_model_len": self.max_length}]}

    def _call(self, prompt: Any, body: Mapping[str, Any], max_tokens: Any) -> Call:
        if isinstance(prompt, str):
            prompt = self.tokenize({"prompt": prompt}, self._server.socket)["tokens"]
        if not isinstance(prompt, list) or not prompt or not all(type(id) is int and id >= 0 for id in prompt):
            raise InvalidError("prompt: must be a text, or a list of token ids")

        most = min(int(_number("max_tokens", max_tokens or self.max_length)), self.max_length - len(prompt))
        if most < 1:
            # vLLM's words, which rolloutd knows.
            raise InvalidError(f"This model's maximum context length is {self.max_length} tokens, the prompt has {len(prompt)}")
        temperature = body.get("temperature")
        sampling = {name: body[name] for name in _SAMPLING if body.get(name) is not None}
        return Call(prompt, most, 1.0 if temperature is None else _number("temperature", temperature), sampling)

    def _awaited(self, reply: Awaitable[Reply], caller: socket.socket) -> Reply:
        """Awaits a reply on the trainer's loop. ConnectionError if the caller hangs up: nobody would get the reply."""
        if self._loop is None:
            raise RuntimeError("the engine needs a loop for a generate that is awaited")

        async def awaited() -> Reply:
            return await reply

        future: Future[Reply] = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
        while True:
            try:
                return future.result(timeout=_LOOK_S)
            except WaitTimeout:
                if future.done():  # with a TimeoutError of its own
                    raise
                if _hung_up(caller):
                    future.cancel()
                    raise ConnectionError("the caller hung up") from None
            except CancelledError as err:
                raise RuntimeError("the trainer cancelled the call") from err

    def _decoded(self, reply: Reply, body: Mapping[str, Any]) -> tuple[str, list[str]]:
        with self._tokenizing:
            text = self._tokenizer.decode(reply.token_ids, skip_special_tokens=body.get("skip_special_tokens", True))
            return text, self._tokenizer.convert_ids_to_tokens(reply.token_ids)

    def _head(self, call: Call, reply: Reply) -> dict[str, Any]:
        prompt, sampled = len(call.prompt_ids), len(reply.token_ids)
        usage = {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled}
        version = {"weight_version": reply.version} if reply.version else {}
        return {"id": "completion", "model": self.model, "usage": usage, **version}


def _object(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as err:
        raise InvalidError(f"the body must be JSON: {type(err).__name__}: {err}") from err
    if not isinstance(body, dict):
        raise InvalidError("the body must be a JSON object")
    return body


def _text(body: Mapping[str, Any]) -> str:
    if not isinstance(text := body.get("prompt"), str):
        raise InvalidError("prompt: must be a text")
    return text


def _unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as err:  # half of a character, which JSON can say
        raise InvalidError(f"the text must be Unicode: {err.reason} at {err.start}") from err
    return text


def _chat(body: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The messages of a body, and its arguments of the chat template."""
    messages, options = body["messages"], body.get("chat_template_kwargs") or {}
    if not isinstance(messages, list) or not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages):
        raise InvalidError("messages: must be a list of objects with a role")
    if not isinstance(options, dict):
        raise InvalidError("chat_template_kwargs: must be an object")
    return messages, options


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidError(f"{name}: must be a number, got {str(value)[:100]}")
    return number


def _choice(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": reply.finish_reason, "token_ids": list(reply.token_ids)}
    if body.get("return_routed_experts") and reply.routed_experts is not None:
        choice["routed_experts"] = _encoded(reply.routed_experts)
    return choice


def _encoded(rows: Any) -> str:
    """The rows in numpy's file format and base64, as vLLM writes them."""
    import numpy

    file = io.BytesIO()
    numpy.save(file, numpy.ascontiguousarray(rows, dtype=numpy.int32), allow_pickle=False)
    return base64.b64encode(file.getbuffer()).decode()


def _hung_up(caller: socket.socket) -> bool:
    try:
        readable, _, _ = select.select([caller], [], [], 0)
        return bool(readable) and caller.recv(1, socket.MSG_PEEK) == b""
    except (OSError, ValueError):
        return True


class _Handler(BaseHTTPRequestHandler):
    engine: Engine
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._answer(200, self.engine.models())
        else:
            self._answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length") or ""
        if not length.isdigit() or int(length) > _LARGEST_BODY:
            self.close_connection = True
            self._refuse(413, f"the body must have a length, of at most {_LARGEST_BODY} bytes")
            return

        content = self.rfile.read(int(length))
        calls = {"/v1/completions": self.engine.complete, "/v1/chat/completions": self.engine.chat, "/tokenize": self.engine.tokenize}
        call = calls.get(self.path)
        if call is None:
            self._answer(404, {"detail": "Not Found"})
            return
        try:
            self._reply(call, content)
        except ConnectionError:
            self.close_connection = True

    def _reply(self, call: Callable[[Mapping[str, Any], socket.socket], dict[str, Any]], content: bytes) -> None:
        try:
            body = _object(content)
            answer = call(body, self.connection)
        except InvalidError as err:  # of the body alone: rolloutd takes 400 as a fault of the agent
            self._refuse(400, str(err))
        except ConnectionError:
            raise
        except Exception as err:  # of the trainer's engine, tokenizer or template: it ends this call alone
            self._refuse(500, f"{type(err).__name__}: {err}")
        else:
            if body.get("stream"):
                self._send(200, "text/event-stream", f"data: {json.dumps(answer)}\n\ndata: [DONE]\n\n".encode())
            else:
                self._answer(200, answer)

    def _refuse(self, status: int, message: str) -> None:
        self._answer(status, {"error": {"message": message, "type": "BadRequestError" if status < 500 else "InternalServerError", "code": status}})

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
