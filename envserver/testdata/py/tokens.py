"""A server with tokens admits clients that carry one: as a header where the client can send one, else in the URL."""

import asyncio
import sys

from openenv.core.generic_client import GenericEnvClient


async def main(url: str) -> None:
    try:
        async with GenericEnvClient(base_url=url):
            raise AssertionError("no token, no session")
    except ConnectionError as e:
        assert "401" in str(e), e
    async with GenericEnvClient(base_url=url.replace("http://", "ws://any:0123456789abcdef@")) as env:
        await env.reset()


asyncio.run(main(sys.argv[1]))
print("all checks held")
