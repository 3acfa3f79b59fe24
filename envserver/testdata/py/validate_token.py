"""`openenv validate --url` of a server with tokens: it has no option for one, and takes it from a netrc file or from the URL."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

openenv = pathlib.Path(sys.executable).with_name("openenv")
url, token = sys.argv[1:]


def validate(url: str, **env: str) -> dict:
    said = subprocess.run(
        [openenv, "validate", "--url", url, "--json", "--timeout", "300"], capture_output=True, text=True, env=os.environ | env
    )
    return json.loads(said.stdout)


assert validate(url)["passed"] is False
with tempfile.NamedTemporaryFile("w", suffix=".netrc") as netrc:
    netrc.write(f"machine 127.0.0.1 login any password {token}\n")
    netrc.flush()
    report = validate(url, NETRC=netrc.name)
assert report["passed"] is True, report
report = validate(url.replace("http://", f"http://any:{token}@"))
assert report["passed"] is True, report
print("all checks held")
