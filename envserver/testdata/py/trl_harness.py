"""TRL's own code that makes training rows of what an agent with its own loop did, run without what TRL trains with.

Its package imports torch and the like at the top; the functions that read a trace use none of it.
"""

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from unittest.mock import MagicMock

ABSENT = ("accelerate", "accelerate.logging", "datasets", "transformers", "trl.chat_template_utils", "trl.import_utils", "trl.trainer.utils")
PACKAGES = ("trl", "trl.trainer", "trl.experimental", "trl.experimental.async_grpo")


def load():
    """The module of TRL's loop-owning worker, and that of the worker below it."""
    root = Path(importlib.util.find_spec("trl").origin).parent.parent
    for name in PACKAGES:
        package = types.ModuleType(name)  # without running its __init__, which imports the trainer
        package.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[name] = package
    for name in ABSENT:
        sys.modules[name] = MagicMock()
    sys.modules["trl.import_utils"].is_aiohttp_available.return_value = False
    sys.modules["trl.import_utils"].is_vllm_available.return_value = False
    worker = "trl.experimental.async_grpo."
    return importlib.import_module(worker + "openenv_harness"), importlib.import_module(worker + "async_rollout_worker")
