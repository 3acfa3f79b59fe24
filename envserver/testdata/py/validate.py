"""What `openenv validate --url` says, and that it finds the mode."""

import json
import pathlib
import subprocess
import sys

openenv = pathlib.Path(sys.executable).with_name("openenv")
said = subprocess.run([openenv, "validate", "--url", sys.argv[1], "--json", "--timeout", "300"], capture_output=True, text=True)
assert said.returncode == 0, said.stdout + said.stderr
report = json.loads(said.stdout)
assert report["passed"] is True, said.stdout
assert report["mode"] == sys.argv[2], report["mode"]
assert report["standard_profile"] == "openenv-http/1.x", report["standard_profile"]
assert report["summary"]["passed_count"] == report["summary"]["total_count"] == 6, report["summary"]
print("all checks held")
