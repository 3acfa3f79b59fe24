"""What `openenv validate --url` says, and that it finds the mode."""

import contextlib
import io
import json
import sys

from openenv.cli.__main__ import main

url, mode = sys.argv[1:3]
sys.argv = ["openenv", "validate", "--url", url, "--json", "--timeout", "300"]
code, out = 0, io.StringIO()
with contextlib.redirect_stdout(out):
    try:
        main()
    except SystemExit as end:
        code = end.code
said = out.getvalue()
assert not code, said
report = json.loads(said)
assert report["passed"] is True, said
assert report["mode"] == mode, report["mode"]
assert report["standard_profile"] == "openenv-http/1.x", report["standard_profile"]
assert report["summary"]["passed_count"] == report["summary"]["total_count"] == 6, report["summary"]
print("all checks held")
