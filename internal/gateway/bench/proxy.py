"""A capturing proxy as trainers write it: FastAPI as the server, httpx as the client, and one synced line of JSON for each call."""

import json
import os
import time

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

upstream = os.environ["UPSTREAM"]
client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None, max_keepalive_connections=None))
out = open(os.environ["OUT"], "ab", buffering=0)
app = FastAPI()


def record(body, began, prompt, ids, logprobs, text, finish, usage):
    out.write(json.dumps({
        "request": body, "prompt_token_ids": prompt, "completion_token_ids": ids, "per_token_logps": logprobs,
        "text": text, "finish_reason": finish, "usage": usage, "latency_s": time.time() - began,
    }).encode() + b"\n")
    os.fdatasync(out.fileno())


@app.get("/v1/models")
async def models():
    return {"object": "list", "data": [{"id": "m", "object": "model"}]}


@app.post("/v1/chat/completions")
async def chat(request: Request):
    body, began = await request.json(), time.time()
    body.update(model="m", logprobs=True, top_logprobs=5, return_token_ids=True)
    body["max_tokens"] = min(body.get("max_tokens", 4096), 4096)
    if body.get("stream"):
        return StreamingResponse(stream(body, began), media_type="text/event-stream")
    res = (await client.post(upstream + "/chat/completions", json=body)).json()
    choice = res["choices"][0]
    logprobs = [t["logprob"] for t in choice["logprobs"]["content"]]
    record(body, began, res["prompt_token_ids"], choice["token_ids"], logprobs, choice["message"]["content"], choice["finish_reason"], res["usage"])
    return JSONResponse(res)


async def stream(body, began):
    prompt, ids, logprobs, text, finish, usage = [], [], [], [], None, None
    async with client.stream("POST", upstream + "/chat/completions", json=body) as res:
        async for line in res.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                chunk = json.loads(line[6:])
                prompt = chunk.get("prompt_token_ids") or prompt
                usage = chunk.get("usage") or usage
                for choice in chunk["choices"][:1]:
                    ids += choice.get("token_ids") or []
                    text.append(choice["delta"].get("content") or "")
                    finish = choice["finish_reason"] or finish
                    logprobs += [t["logprob"] for t in (choice.get("logprobs") or {}).get("content", [])]
            if line == "data: [DONE]":
                record(body, began, prompt, ids, logprobs, "".join(text), finish, usage)
            yield line + "\n"


uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")
