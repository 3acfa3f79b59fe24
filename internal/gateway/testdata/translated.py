"""The Anthropic, OpenAI and Google clients against an endpoint that has chat completions alone: python translated.py <base url>.

Each client streams a call and then brings the result of the tool that the model called."""

import sys

import anthropic
import openai
from google import genai
from google.genai import types

base = sys.argv[1]
ai = openai.OpenAI(base_url=base + "/v1", api_key="dummy", max_retries=0)
claude = anthropic.Anthropic(base_url=base, api_key="dummy", max_retries=0)
gemini = genai.Client(api_key="dummy", http_options=types.HttpOptions(base_url=base))
schema = {"type": "object", "properties": {"command": {"type": "string"}}}


def messages():
    tools = [{"name": "bash", "input_schema": schema}]
    talk = [{"role": "user", "content": "hi"}]
    with claude.messages.stream(model="m", max_tokens=100, messages=talk, tools=tools) as stream:
        said = stream.get_final_message()
    assert [b.type for b in said.content] == ["thinking", "text", "tool_use"], said
    assert said.content[0].thinking == "Hm <b>" and said.content[1].text == "Hello"
    assert said.content[2].input == {"command": "ls"} and said.stop_reason == "tool_use"
    assert (said.usage.input_tokens, said.usage.cache_read_input_tokens, said.usage.output_tokens) == (2, 1, 2), said.usage
    result = {"type": "tool_result", "tool_use_id": said.content[2].id, "content": "file.txt"}
    talk += [{"role": "assistant", "content": said.content}, {"role": "user", "content": [result]}]
    whole = claude.messages.create(model="m", max_tokens=100, messages=talk, tools=tools)
    assert whole.content[1].text == "Hello" and whole.model == "m", whole


def responses():
    tools = [{"type": "function", "name": "bash", "parameters": schema}]
    talk = [{"role": "user", "content": "hi"}]
    with ai.responses.stream(model="m", input=talk, tools=tools) as stream:
        kinds = [e.type for e in stream]
        said = stream.get_final_response()
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
    assert [o.type for o in said.output] == ["reasoning", "message", "function_call"], said
    assert said.output_text == "Hello" and said.output[0].content[0].text == "Hm <b>"
    call = said.output[2]
    assert call.arguments == '{"command": "ls"}' and said.usage.input_tokens_details.cached_tokens == 1, said
    talk += [o.model_dump(exclude_none=True) for o in said.output]
    talk += [{"type": "function_call_output", "call_id": call.call_id, "output": "file.txt"}]
    whole = ai.responses.create(model="m", input=talk, tools=tools)
    assert whole.output_text == "Hello" and whole.status == "completed", whole


def generate():
    declared = types.FunctionDeclaration(name="bash", parameters_json_schema=schema)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declared])], automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
    )
    talk = [types.Content(role="user", parts=[types.Part(text="hi")])]
    chunks = list(gemini.models.generate_content_stream(model="m", contents=talk, config=config))
    parts = [p for c in chunks for p in c.candidates[0].content.parts]
    assert parts[0].thought and parts[0].text == "Hm <b>" and parts[1].text == "Hello", parts
    call = parts[2].function_call
    assert (call.id, call.name, call.args) == ("call_1", "bash", {"command": "ls"}), call
    assert chunks[-1].usage_metadata.prompt_token_count == 3 and chunks[-1].candidates[0].finish_reason == "STOP", chunks[-1]
    answer = types.Part(function_response=types.FunctionResponse(id=call.id, name="bash", response={"output": "file.txt"}))
    talk += [types.Content(role="model", parts=parts), types.Content(role="user", parts=[answer])]
    whole = gemini.models.generate_content(model="m", contents=talk, config=config)
    assert [p.text for p in whole.candidates[0].content.parts][:2] == ["Hm <b>", "Hello"], whole
    assert gemini.models.count_tokens(model="m", contents=talk).total_tokens > 0


messages()
responses()
generate()
print("all checks held")
