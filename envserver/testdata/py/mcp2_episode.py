"""The second generation of the Python client of the Model Context Protocol in interactive episodes, with its default settings: it falls back to
the handshake, since later versions of the protocol have no sessions."""

import asyncio
import sys

from mcp import Client


async def notes(client: Client, text: str) -> str:
    result = await client.call_tool("note", {"text": text})
    assert not result.is_error, result
    return result.content[0].text


async def main(url: str) -> None:
    async with Client(url) as one, Client(url) as two:
        assert one.protocol_version == "2025-11-25", one.protocol_version
        assert [tool.name for tool in (await one.list_tools()).tools] == ["note", "submit"]
        assert await notes(one, "a") == '{"text":"a"}'
        assert await notes(two, "b") == '{"text":"b"}'
        assert await notes(one, "c") == '{"text":"a"} {"text":"c"}'
        done = await two.call_tool("submit", {})
        assert done.meta["done"], done
    # A version without sessions is served where the URL names one.
    named = url + "?session_id=mine"
    for text, want in ("a", '{"text":"a"}'), ("b", '{"text":"a"} {"text":"b"}'):
        async with Client(named) as client:
            assert client.protocol_version == "2026-07-28", client.protocol_version
            assert await notes(client, text) == want


asyncio.run(asyncio.wait_for(main(sys.argv[1] + "/env/tools/mcp"), 120))
print("all checks held")
