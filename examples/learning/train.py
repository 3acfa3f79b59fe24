"""The trainer: serves the policy, pulls finished groups, takes steps of GRPO on them, and replaces the served weights.

It may be killed at any time: a checkpoint has the weights, the optimizer, the curve and the keys of the step's groups.
"""

import argparse
import copy
import json
import os
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import torch
from engine import Engine
from grpo import CONTROLS, Row, broken, update
from policy import make_model, make_tokenizer, warm_up_once
from rolloutd import WeightSync

GROUPS = 4  # of a step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="of the checkpoint and the curve")
    parser.add_argument("--queue", required=True, help="URL of the pull queue")
    parser.add_argument("--port", type=int, required=True, help="of the engine")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=float, default=5e-4, help="the highest learning rate")
    parser.add_argument("--warm", type=Path, help="file of the warm-up, which runs of a seed may share")
    parser.add_argument("--control", choices=CONTROLS, default="")
    args = parser.parse_args()
    torch.set_num_threads(1)  # the other core is for the server and the sandboxes

    trainer = Trainer(args)
    while len(trainer.curve) < args.steps:
        trainer.step()


class Trainer:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.rng = random.Random(f"{args.seed} {os.getpid()}")
        self.http = httpx.Client(timeout=60.0)
        self.checkpoint = args.folder / "checkpoint.pt"
        self.curve: list[dict[str, Any]] = []
        self.keys: list[str] = []

        tokenizer = make_tokenizer()
        self.model = make_model(tokenizer, args.seed)
        # With the usual 0.999, a rare bad reply after quiet steps makes a step so large that the form is lost.
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr, weight_decay=0.0, betas=(0.9, 0.95))
        if self.checkpoint.exists():
            self._restore()
        else:
            warm_up_once(self.model, tokenizer, args.seed, args.warm or args.folder / "warm.pt")
            self._save()

        self.served = copy.deepcopy(self.model)
        self.weights = WeightSync("vllm", retry_s=600.0)
        # The endpoint is paused until its weights have a name. After a kill they may be later than the name at the gateway.
        with self.weights.drained(version=self._version(), abort=True):
            self.engine = Engine(self.served, tokenizer, "tiny", args.port)

    def step(self) -> None:
        """Trains on the next groups. They are acknowledged last, so that a killed trainer is served them again."""
        pulled = self._pull()
        groups = [rows_of(p["group"]) for p in pulled]
        rollouts = [rollout for p in pulled for rollout in p["group"]["rollouts"]]
        rewards = [rollout["reward"] for rollout in rollouts]
        spans = [span for rollout in rollouts for s in rollout["sequences"] for span in s["spans"]]
        began = time.time()
        self._set_rate()
        difference = update(self.model, self.optimizer, broken(groups, self.args.control, self.rng))

        self.curve.append(
            {
                "step": len(self.curve) + 1,
                "reward": sum(rewards) / len(rewards),
                "rollouts": len(rewards),
                "sequences": sum(len(group) for group in groups),
                "largest_difference": difference,
                "versions": sorted({span.get("model_version", "") for span in spans}),
                "train_s": round(time.time() - began, 2),
                "time": time.time(),
            }
        )
        self.keys = [p["key"] for p in pulled]
        self._save()
        self._serve_weights()
        self._acknowledge(self.keys)
        print(json.dumps(self.curve[-1]), flush=True)

    def _set_rate(self) -> None:
        """Ten steps up, then down to the end: the first steps of Adam, and the last ones, must not undo the form."""
        done, steps = len(self.curve), self.args.steps
        for group in self.optimizer.param_groups:
            group["lr"] = self.args.lr * min((done + 1) / 10, 1 - done / steps)

    def _pull(self) -> list[dict[str, Any]]:
        while True:
            pulled = self._call("GET", f"{self.args.queue}/groups?max={GROUPS}")["groups"]
            done = [p["key"] for p in pulled if p["key"] in self.keys]
            if done:
                self._acknowledge(done)
            elif len(pulled) == GROUPS:
                return pulled
            else:
                time.sleep(0.1)

    def _acknowledge(self, keys: list[str]) -> None:
        self._call("POST", f"{self.args.queue}/ack", {"keys": keys})

    def _call(self, method: str, url: str, body: Any = None) -> Any:
        """Repeats the call while the server is away."""
        while True:
            with suppress(httpx.TransportError):
                answer = self.http.request(method, url, json=body)
                if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                    return answer.raise_for_status().json()

            time.sleep(0.5)

    def _serve_weights(self) -> None:
        def load() -> None:
            with self.engine.lock:
                self.served.load_state_dict(self.model.state_dict())

        self.weights.update(load, version=self._version())

    def _version(self) -> str:
        return f"step-{len(self.curve)}"

    def _save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "curve": self.curve,
            "keys": self.keys,
        }
        part = self.checkpoint.with_suffix(".part")
        torch.save(state, part)
        part.replace(self.checkpoint)
        self.args.folder.joinpath("curve.json").write_text(json.dumps(self.curve, indent=1) + "\n")

    def _restore(self) -> None:
        state = torch.load(self.checkpoint)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.curve, self.keys = state["curve"], state["keys"]


def rows_of(group: dict[str, Any]) -> list[Row]:
    """The sequences of a group. A rollout without one, whose calls all failed, is in the rewards alone."""
    return [
        Row(s["token_ids"], s["loss_mask"], s["logprobs"], _reward(rollout, s["spans"]))
        for rollout in group["rollouts"]
        for s in rollout["sequences"]
    ]


def _reward(rollout: dict[str, Any], spans: list[dict[str, Any]]) -> float:
    """A reply that was cut off earns nothing: else the policy learns to write anything behind its tool call."""
    return 0.0 if any(span.get("truncated") for span in spans) else rollout["reward"]


if __name__ == "__main__":
    main()
