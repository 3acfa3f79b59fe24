"""The OpenAI and Anthropic clients, trying again as they do by default, meet errors inside streams: python broken.py <base url> <pieces>.

Each must raise, having seen so many pieces of text or none, and never hand over half a reply as a whole one.
"""

import sys

import anthropic
import openai

base, pieces = sys.argv[1], int(sys.argv[2])
ai = openai.OpenAI(base_url=base + "/v1", api_key="dummy")
claude = anthropic.Anthropic(base_url=base, api_key="dummy")
messages = [{"role": "user", "content": "hi"}]


def chat():
    for piece in ai.chat.completions.create(model="m", messages=messages, stream=True):
        yield piece.choices[0].delta.content if piece.choices else None


def chat_helper():
    with ai.chat.completions.stream(model="m", messages=messages) as stream:
        for event in stream:
            yield event.type == "content.delta" and event.delta
        stream.get_final_completion()


def completions():
    for piece in ai.completions.create(model="m", prompt="hi", stream=True):
        yield piece.choices[0].text if piece.choices else None


def responses():
    for event in ai.responses.create(model="m", input="hi", stream=True):
        yield event.type == "response.output_text.delta"


def responses_helper():
    with ai.responses.stream(model="m", input="hi") as stream:
        for event in stream:
            yield event.type == "response.output_text.delta"
        stream.get_final_response()


def anthropics():
    for event in claude.messages.create(model="m", max_tokens=9, messages=messages, stream=True):
        yield event.type == "content_block_delta"


def anthropics_helper():
    with claude.messages.stream(model="m", max_tokens=9, messages=messages) as stream:
        for event in stream:
            yield event.type == "content_block_delta"
        stream.get_final_message()


for call, wrong in [
    (chat, openai.APIError),
    (chat_helper, openai.APIError),
    (completions, openai.APIError),
    (responses, openai.APIError),
    (responses_helper, openai.APIError),
    (anthropics, anthropic.APIError),
    (anthropics_helper, anthropic.APIError),
]:
    seen = 0
    try:
        for said in call():
            seen += bool(said)
    except wrong as e:
        assert "the rollout's trace has" in str(e), (call, e)
    else:
        raise AssertionError(f"{call} took it for whole")
    assert seen == pieces, (call, seen)
print("all checks held")
