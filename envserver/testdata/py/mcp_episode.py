"""The Python client of the Model Context Protocol in interactive episodes: nothing but the address of the environment is given, and each
connection has an episode of its own, which ends with it."""

import asyncio
import sys

import httpx
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client


async def notes(session: ClientSession, text: str) -> str:
    result = await session.call_tool("note", {"text": text})
    assert not result.isError, result
    return result.content[0].text


async def main(url: str) -> None:
    async with streamable_http_client(url) as (read, write, get_id), ClientSession(read, write) as one:
        await one.initialize()
        assert [tool.name for tool in (await one.list_tools()).tools] == ["note", "submit"]
        assert await notes(one, "a") == '{"text":"a"}'
        async with streamable_http_client(url) as (read, write, _), ClientSession(read, write) as two:
            await two.initialize()
            assert await notes(two, "b") == '{"text":"b"}'
            done = await two.call_tool("submit", {})
            assert done.meta["done"], done
            over = await two.call_tool("note", {"text": "c"})
            assert over.isError and "a new session" in over.content[0].text, over
        assert await notes(one, "d") == '{"text":"a"} {"text":"d"}'
        async with httpx.AsyncClient() as http:
            ended = await http.delete(url, headers={"Mcp-Session-Id": get_id()})
            assert ended.status_code == 204, ended
        try:
            await notes(one, "e")
        except McpError as e:
            assert "Session terminated" in str(e), e
        else:
            raise AssertionError("the session has ended")


asyncio.run(asyncio.wait_for(main(sys.argv[1] + "/env/tools/mcp"), 120))
print("all checks held")
