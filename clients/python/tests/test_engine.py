"""The endpoint over a trainer's engine: what it answers, and rollouts of a real server that call it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from routed import row_of

from rolloutd import AsyncClient
from rolloutd.engine import Call, Engine, Reply
from rolloutd.trainers import split, trained
from rolloutd.trainers.experts import expert_rows
from rolloutd.trainers.running import run_rollout

SERVER = os.environ.get("ROLLOUTD_TEST_SERVER", "")
END = 256
CALL = '<tool_call>{"name": "terminal", "arguments": {"command": "echo %s > n.txt"}}</tool_call>'


class Bytes:
    """A tokenizer whose tokens are bytes, and one that ends a message."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        parts = [list(part.encode()) for part in text.split("<end>")]
        return [id for i, part in enumerate(parts) for id in ([END] if i else []) + part]

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        return bytes(id for id in token_ids if id != END).decode(errors="replace") + ("" if skip_special_tokens else "<end>" * token_ids.count(END))

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [str(id) for id in ids]

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        text = "".join(f"{message['role']}: {message['content']}<end>" for message in conversation)
        return text + ("assistant: " if options["add_generation_prompt"] else "")


def reply_to(call: Call) -> Reply:
    """A call of the tool, then an answer: the digit is that of the instruction."""
    text = Bytes().decode(call.prompt_ids, skip_special_tokens=True)
    asked = re.search(r"Write (\d)", text)
    said = CALL % asked[1] if asked and text.count("assistant: ") == 1 else "Done."
    ids = [*said.encode(), END]
    return Reply(ids, [-i / 1024 for i in range(len(ids))], version="step-7")


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(reply_to, Bytes(), max_length=16_384) as made:
        yield made


def post(engine: Engine, path: str, body: Any) -> httpx.Response:
    return httpx.post(engine.url.removesuffix("/v1") + path, json=body, timeout=30)


def test_a_completion_has_the_ids_of_prompt_and_reply(engine: Engine) -> None:
    prompt = Bytes().encode("user: Write 3<end>assistant: ", add_special_tokens=False)
    body = {"prompt": prompt, "max_tokens": 64, "temperature": 0.5, "top_p": 0.9}
    answer = post(engine, "/v1/completions", body).raise_for_status().json()
    (choice,) = answer["choices"]
    assert choice["prompt_token_ids"] == prompt
    assert choice["token_ids"] == [*(CALL % 3).encode(), END]
    assert choice["text"] == CALL % 3
    assert choice["logprobs"]["token_logprobs"] == [-i / 1024 for i in range(len(choice["token_ids"]))]
    assert (answer["weight_version"], answer["usage"]["prompt_tokens"], choice["finish_reason"]) == ("step-7", len(prompt), "stop")

    stream = post(engine, "/v1/completions", {**body, "stream": True}).text.split("\n\n")
    assert json.loads(stream[0].removeprefix("data: "))["choices"] == answer["choices"]
    assert stream[1] == "data: [DONE]"


def test_a_chat_completion_has_them_too(engine: Engine) -> None:
    body = {"messages": [{"role": "user", "content": "Write 3"}], "max_tokens": 64}
    answer = post(engine, "/v1/chat/completions", body).raise_for_status().json()
    (choice,) = answer["choices"]
    assert answer["prompt_token_ids"] == Bytes().encode("user: Write 3<end>assistant: ", add_special_tokens=False)
    assert choice["message"] == {"role": "assistant", "content": CALL % 3}
    assert choice["token_ids"] == [*(CALL % 3).encode(), END]
    assert len(choice["logprobs"]["content"]) == len(choice["token_ids"])


def test_messages_are_tokenized_by_the_template_of_the_trainer(engine: Engine) -> None:
    body = {"messages": [{"role": "user", "content": "é"}], "chat_template_kwargs": {"chat_template": "x", "tokenize": True}}
    assert post(engine, "/tokenize", body).json() == {"count": 21, "max_model_len": 16_384, "tokens": [*"user: é".encode(), END, *b"assistant: "]} | {"count": 20}
    assert post(engine, "/tokenize", {"prompt": "ab", "add_special_tokens": False}).json()["tokens"] == [97, 98]
    assert httpx.get(engine.url + "/models").json()["data"][0] == {"id": "policy", "object": "model", "max_model_len": 16_384}


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/v1/completions", {"prompt": [1, -2]}, 400, "prompt: must be a text, or a list of token ids"),
        ("/v1/completions", {"prompt": [True]}, 400, "prompt: must be"),
        ("/v1/completions", {"prompt": [1], "temperature": "hot"}, 400, "temperature: must be a number, got hot"),
        ("/v1/completions", {"prompt": [1], "max_tokens": [1]}, 400, "max_tokens: must be a number"),
        ("/v1/completions", {"prompt": [1] * 16_384}, 400, "maximum context length is 16384 tokens, the prompt has 16384"),
        ("/v1/completions", [], 400, "must be a JSON object"),
        ("/tokenize", {"messages": [{}]}, 400, "messages: must be a list of objects with a role"),
        ("/tokenize", {"messages": [], "chat_template_kwargs": "x"}, 400, "chat_template_kwargs: must be an object"),
        ("/tokenize", {"messages": [{"role": "user"}]}, 400, "messages: the chat template refuses them: KeyError: 'content'"),
        ("/tokenize", {}, 400, "prompt: must be a text"),
        ("/v1/chat/completions", {}, 400, "messages: must be a list"),
        ("/v1/responses", {}, 404, "Not Found"),
    ],
)
def test_a_request_that_cannot_be_answered(engine: Engine, path: str, body: Any, status: int, error: str) -> None:
    answer = post(engine, path, body)
    assert answer.status_code == status
    assert error in answer.text


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply([1, 2], [0.0]), "each of 2 tokens, got 1"), (Reply([1], [float("nan")]), "finite"),
        (Reply([1], None), "TypeError"), (Reply([1], [None]), "TypeError"), (Reply([300], [0.0]), "ValueError"),  # type: ignore[arg-type, list-item]
        (ValueError("out of memory"), "generate: ValueError: out of memory"),
    ],  # fmt: skip
)
def test_a_fault_of_the_engine_ends_the_call_alone(reply: Reply | Exception, error: str) -> None:
    def generate(_: Call) -> Reply:
        if isinstance(reply, Exception):
            raise reply
        return reply

    with Engine(generate, Bytes(), max_length=100) as engine:
        for _ in range(2):
            answer = post(engine, "/v1/completions", {"prompt": [1]})
            assert (answer.status_code, error in answer.text) == (500, True)


def test_a_fault_of_the_template_is_none_of_the_request(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    def unset(*_: Any, **options: Any) -> Any:
        raise ValueError("tokenizer.chat_template is not set")

    monkeypatch.setattr(Bytes, "apply_chat_template", unset)
    answer = post(engine, "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})
    assert (answer.status_code, "chat_template is not set" in answer.text) == (500, True)


def test_half_of_a_character_is_a_fault_of_the_request(engine: Engine) -> None:
    for body in (b'{"prompt": "\\ud800"}', b'{"messages": [{"role": "user", "content": "\\ud800"}]}'):
        answer = httpx.post(engine.url.removesuffix("/v1") + "/tokenize", content=body)
        assert (answer.status_code, "the text must be Unicode" in answer.text) == (400, True)


def test_a_coroutine_runs_on_the_trainers_loop_and_ends_when_its_caller_hangs_up() -> None:
    async def run() -> None:
        sampling, cancelled = asyncio.Event(), asyncio.Event()
        threads: list[int] = []

        async def generate(call: Call) -> Reply:
            if call.max_tokens == 1:
                threads.append(threading.get_ident())
                return Reply([65], [0.0], "length")
            try:
                sampling.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
            raise AssertionError

        with Engine(generate, Bytes(), max_length=100) as engine:
            async with httpx.AsyncClient() as client:
                answer = await client.post(engine.url + "/completions", json={"prompt": [1], "max_tokens": 1})
            assert (answer.json()["choices"][0]["text"], threads) == ("A", [threading.get_ident()])

            host, _, port = engine.url.removeprefix("http://").removesuffix("/v1").partition(":")
            with socket.create_connection((host, int(port))) as caller:
                content = json.dumps({"prompt": [1]}).encode()
                caller.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content))
                await asyncio.wait_for(sampling.wait(), 60)
            await asyncio.wait_for(cancelled.wait(), 60)

    asyncio.run(run())


@pytest.mark.skipif(not SERVER, reason="ROLLOUTD_TEST_SERVER names no server")
def test_rollouts_call_the_engine(engine: Engine) -> None:
    async def run() -> Any:
        async with AsyncClient(SERVER) as client:
            task = {"base_url": engine.url, "model": engine.model, "agent": "react", "react": {"continuation": "tokens"}}
            return await run_rollout(client, {**task, "instruction": "Write 3 into n.txt", "verify": ['test "$(cat n.txt)" = 3'], "purpose": "train"})

    record = asyncio.run(run())
    assert (record.outcome, record.reward) == ("completed", 1)
    (sequence,) = trained(record)
    parts = split(sequence)
    sampled = [[*(CALL % 3).encode(), END], [*b"Done.", END]]
    assert [id for id, bit in zip(parts.response_ids, parts.mask, strict=True) if bit] == [id for ids in sampled for id in ids]
    assert [lp for lp, bit in zip(parts.logprobs, parts.mask, strict=True) if bit] == [-i / 1024 for ids in sampled for i in range(len(ids))]
    assert [span.versions for span in sequence.spans] == [("step-7", "step-7")] * 2


@pytest.mark.skipif(not SERVER, reason="ROLLOUTD_TEST_SERVER names no server")
def test_rollouts_have_the_routed_experts_of_the_engine() -> None:
    numpy = pytest.importorskip("numpy")

    def rows_of(ids: list[int]) -> Any:
        return numpy.array([row_of(ids[: i + 1]) for i in range(len(ids) - 1)], dtype=numpy.int32)

    def routed_reply_to(call: Call) -> Reply:
        reply = reply_to(call)
        return replace(reply, routed_experts=rows_of([*call.prompt_ids, *reply.token_ids]))

    async def run(url: str, model: str) -> Any:
        async with AsyncClient(SERVER) as client:
            task = {"base_url": url, "model": model, "agent": "react", "routed_experts": True, "purpose": "train"}
            return await run_rollout(client, {**task, "instruction": "Write 3 into n.txt", "verify": ['test "$(cat n.txt)" = 3']})

    with Engine(routed_reply_to, Bytes(), max_length=16_384) as engine:
        record = asyncio.run(run(engine.url, engine.model))

    assert (record.outcome, record.reward) == ("completed", 1)
    (sequence,) = trained(record)
    assert len(sequence.spans) == 2
    assert (expert_rows(sequence) == rows_of(sequence.token_ids)).all()
