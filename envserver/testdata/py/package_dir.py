"""OpenEnv's tools take the folder that describes the server: as a package, and as a folder to push."""

import ast
import subprocess
import sys
from pathlib import Path

from openenv.cli._cli_utils import validate_env_structure
from openenv.cli.commands.push import _validate_openenv_directory

folder = Path(sys.argv[1])
said = subprocess.run(
    [sys.executable, "-m", "openenv.cli", "validate", str(folder), "--level", "static", "--skip-build"], capture_output=True, text=True, check=False
)
assert said.returncode == 0, said.stdout + said.stderr
name, manifest = _validate_openenv_directory(folder)
assert name == "rolloutd_env" and manifest["port"] == 8000, manifest
validate_env_structure(folder)
for script in ("__init__.py", "client.py"):
    ast.parse((folder / script).read_text())
print("all checks held")
