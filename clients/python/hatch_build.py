"""The build hook that adds rolloutd's programs to a wheel."""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Programs(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the programs of the folder ROLLOUTD_PROGRAMS, which run on the platform ROLLOUTD_PLATFORM, as commands.

    `make release` sets both variables. Without them the wheel has the client alone and is for any platform.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if "ROLLOUTD_PROGRAMS" not in os.environ:
            return

        folder = Path(os.environ["ROLLOUTD_PROGRAMS"])
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['ROLLOUTD_PLATFORM']}"

        # rolloutd finds sandboxd beside itself.
        for program in ("rolloutd", "rolloutd-dev", "sandboxd"):
            build_data["shared_scripts"][str(folder / program)] = program
            build_data["sbom_files"].append(str(folder / f"{program}.cdx.json"))
