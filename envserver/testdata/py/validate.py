"""What `openenv validate --url` checks, and that it finds the mode."""

import json
import sys

from openenv.cli._validation import validate_running_environment

report = validate_running_environment(sys.argv[1], timeout_s=20)
assert report["passed"] is True, json.dumps(report, indent=2)
assert report["mode"] == sys.argv[2], report["mode"]
assert report["standard_profile"] == "openenv-http/1.x", report["standard_profile"]
assert report["summary"]["passed_count"] == report["summary"]["total_count"] == 6, report["summary"]
print("all checks held")
