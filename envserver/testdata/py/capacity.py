"""A client that gets no session gets the reason, however it is timed. The server has one slot."""

import asyncio
import sys

from openenv.core.generic_client import GenericEnvClient


async def main(url: str) -> None:
    async with GenericEnvClient(base_url=url) as first:
        await first.reset()
        for pause in (0, 0, 0, 0, 0.2):
            second = GenericEnvClient(base_url=url)
            await second.connect()
            await asyncio.sleep(pause)
            for _ in range(2):
                try:
                    await second.reset()
                except RuntimeError as e:
                    assert "CAPACITY_REACHED" in str(e) and "1/1" in str(e), e
                else:
                    raise AssertionError("there is only one slot")
            await second.close()
        await first.state()
    # The slot is free again, soon after the first has gone.
    for _ in range(100):
        try:
            async with GenericEnvClient(base_url=url) as third:
                await third.reset()
            break
        except RuntimeError:
            await asyncio.sleep(0.1)
    else:
        raise AssertionError("the slot was never freed")


asyncio.run(main(sys.argv[1]))
print("all checks held")
