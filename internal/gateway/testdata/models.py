"""The OpenAI and Anthropic clients against the gateway: python models.py <base url> [ended]."""

import sys

import anthropic
import openai

base = sys.argv[1]
ai = openai.OpenAI(base_url=base + "/v1", api_key="dummy", max_retries=0)
claude = anthropic.Anthropic(base_url=base, api_key="dummy", max_retries=0)
messages = [{"role": "user", "content": "hi"}]


def chat():
    whole = ai.chat.completions.create(model="m", messages=messages)
    assert whole.choices[0].message.content == "Hello", whole
    assert whole.choices[0].finish_reason == "stop"
    assert whole.choices[0].logprobs is None
    assert whole.usage.total_tokens == 5
    assert not hasattr(whole.choices[0], "token_ids")
    pieces = list(ai.chat.completions.create(model="m", messages=messages, stream=True, logprobs=True))
    assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == "Hello", pieces
    assert sum(len(p.choices[0].logprobs.content) for p in pieces if p.choices and p.choices[0].logprobs) == 2
    with ai.chat.completions.stream(model="m", messages=messages) as stream:
        assert stream.get_final_completion().choices[0].message.content == "Hello"


def completions():
    whole = ai.completions.create(model="m", prompt="hi", logprobs=1)
    assert whole.choices[0].text == "Hello", whole
    assert whole.choices[0].logprobs.tokens == ["Hel", "lo"]
    assert whole.usage.completion_tokens == 2
    pieces = list(ai.completions.create(model="m", prompt="hi", stream=True))
    assert "".join(p.choices[0].text for p in pieces if p.choices) == "Hello", pieces


def responses():
    whole = ai.responses.create(model="m", input="hi")
    assert whole.output_text == "Hello", whole
    assert whole.status == "completed" and whole.usage.total_tokens == 5
    assert not whole.output[0].content[0].logprobs and not whole.top_logprobs, whole
    assert whole.model_extra["input_messages"] is None and whole.model_extra["output_messages"] is None, whole
    asked = ai.responses.create(model="m", input="hi", include=["message.output_text.logprobs"], top_logprobs=1)
    assert [t.logprob for t in asked.output[0].content[0].logprobs] == [-0.5, -0.25], asked
    asked = ai.responses.create(model="m", input="hi", extra_body={"enable_response_messages": True})
    assert asked.model_extra["input_messages"][0]["tokens"] == [1, 2, 3], asked
    with ai.responses.stream(model="m", input="hi") as stream:
        deltas = [e for e in stream if e.type == "response.output_text.delta"]
        assert "".join(e.delta for e in deltas) == "Hello"
        assert not any(e.logprobs for e in deltas), deltas
        assert stream.get_final_response().output_text == "Hello"


def anthropics():
    whole = claude.messages.create(model="m", max_tokens=100, messages=messages)
    assert whole.content[0].text == "Hello", whole
    assert whole.stop_reason == "end_turn" and whole.usage.output_tokens == 2
    with claude.messages.stream(model="m", max_tokens=100, messages=messages) as stream:
        assert "".join(stream.text_stream) == "Hello"
        last = stream.get_final_message()
    assert last.stop_reason == "end_turn" and last.usage.input_tokens == 3, last


def refused(call, wrong):
    try:
        call()
    except wrong as e:
        assert e.status_code == 400 and e.body, e
    else:
        raise AssertionError("not refused")


def refusals():
    refused(lambda: ai.chat.completions.create(model="m", messages=messages, n=2), openai.BadRequestError)
    refused(lambda: ai.completions.create(model="m", prompt=["a", "b"]), openai.BadRequestError)
    refused(lambda: ai.responses.create(model="m", input="hi", background=True), openai.BadRequestError)
    refused(
        lambda: claude.messages.create(model="m", max_tokens=1, messages=messages, metadata={"user_id": "fail"}),
        anthropic.BadRequestError,
    )


def ended():
    assert ai.chat.completions.create(model="m", messages=messages).choices[0].message.content == ""
    assert ai.responses.create(model="m", input="hi").output == []
    with ai.responses.stream(model="m", input="hi") as stream:
        assert stream.get_final_response().output_text == ""
    assert claude.messages.create(model="m", max_tokens=1, messages=messages).content == []
    with claude.messages.stream(model="m", max_tokens=1, messages=messages) as stream:
        assert stream.get_final_message().stop_reason == "end_turn"


if sys.argv[2:] == ["ended"]:
    ended()
else:
    chat()
    completions()
    responses()
    anthropics()
    refusals()
print("all checks held")
