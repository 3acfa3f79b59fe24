"""Imports modules once and runs each script in a fork. When its input ends, it exits and kills all scripts.

Arguments: the modules. Each line of input is {"id", "argv", "output"}; each line of output {"id", "code"}.
"""

import importlib
import json
import os
import runpy
import signal
import sys
import traceback


def run(argv: list[str], output: str) -> int:
    """Runs a script as the interpreter would, with its output in a file."""
    target = os.open(output, os.O_WRONLY)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(target, 1)
    os.dup2(target, 2)
    sys.argv = argv
    sys.path[0] = os.path.dirname(argv[0])
    code = 1
    try:
        runpy.run_path(argv[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def serve() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        request = json.loads(line)
        if os.fork():
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        script = os.fork()
        if not script:
            os._exit(run(request["argv"], request["output"]))
        _, status = os.waitpid(script, 0)
        os.write(1, json.dumps({"id": request["id"], "code": os.waitstatus_to_exitcode(status)}).encode() + b"\n")
        os._exit(0)


serve()
os.killpg(0, signal.SIGKILL)
