"""Runs rolloutd-dev, a producer and the trainer; on request it kills them, and sandboxes, at random meanwhile.

    make learn                      or: python3 learn.py --folder out --steps 150
    python3 learn.py --control shuffled_rewards --folder out-shuffled
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from rolloutd import Client, RolloutdError
from rolloutd.producers import Producers
from task import DIGITS, SYSTEM, instruction, verifier

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "token-of-the-learning-example"
# rolloutd-dev adds --port-offset to the ports on which it listens
CONFIG = """
sinks:
  learn: {kind: pull, url: "http://127.0.0.1:%(api)d", max_waiting: 4, sequences: all}
trainer_api: {listen: "127.0.0.1:8001"}
"""


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the processes, as Ctrl-C does
    args, rest = _arguments()
    args.folder.mkdir(parents=True, exist_ok=True)
    run = Run(args, rest)
    try:
        run.start_all()
        run.produce()
        run.watch()
    finally:
        run.stop()


def _arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(epilog="further arguments are those of train.py")
    parser.add_argument("--folder", type=Path, default=Path(".rolloutd/learning"), help="of the run: data, curve, logs")
    parser.add_argument("--programs", type=Path, default=ROOT / "bin", help="folder of rolloutd-dev")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--kill-every", type=float, default=0, help="seconds between kills, on average; 0: none")
    parser.add_argument("--port-offset", type=int, default=0, help="added to all ports")

    return parser.parse_known_args()


class Run:
    def __init__(self, args: argparse.Namespace, rest: list[str]) -> None:
        self.args, self.rest = args, rest
        self.rng = random.Random()
        self.data = args.folder.resolve() / "data"
        names = {"server": 8000, "api": 8001, "gateway": 7071, "engine": 8750}
        self.ports = {name: port + args.port_offset for name, port in names.items()}
        (args.folder / "config.yaml").write_text(CONFIG % self.ports)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.producer = f"learn-{args.folder.resolve().name}"
        self.kills: list[str] = []

    def start_all(self) -> None:
        self._start("server")
        self._start("trainer")

    def produce(self) -> None:
        """Starts groups of 8 rollouts of the digits, in another order each time, as many as a step needs."""
        tasks = [{"task_id": d, "instruction": instruction(d), "verify": [verifier(d)]} for d in DIGITS]
        rollout = {
            "endpoint": "vllm",
            "agent": "react",
            "react": {"system_prompt": SYSTEM, "max_steps": 3, "max_tokens": 48},
            "sampling": {"temperature": 1.0},
        }
        self._producers().submit(
            producer_id=self.producer,
            tasks=tasks,
            rollout=rollout,
            sink="learn",
            group_size=8,
            shuffle=1,
            epochs=0,
            total_steps=2 * self.args.steps,
            batch_size=32,
            max_batches_offpolicy=1,
            filter={"equal_scores": False},
        )

    def _producers(self) -> Producers:
        return Client(f"http://127.0.0.1:{self.ports['server']}").producers

    def watch(self) -> None:
        """Waits for the trainer's end. What this program kills it starts again."""
        due = self._next_kill()
        while self.processes["trainer"].poll() is None:
            time.sleep(0.2)
            if time.time() > due:
                self._kill(self.rng.choice(["server", "trainer", "sandboxes"]))
                due = self._next_kill()

            if self.processes["server"].poll() is not None:
                raise SystemExit(f"the server ended: see {self.args.folder}/server.log")

        if self.processes["trainer"].returncode:
            raise SystemExit(f"the trainer failed: see {self.args.folder}/trainer.log")

        # what is in flight is for no step: its sandboxes end now
        self._producers().abort(self.producer, "the training has ended")
        self._producers().wait(self.producer, timeout_s=300)
        print(f"kills: {self.kills}")

    def stop(self) -> None:
        for name in ("trainer", "server"):
            if name in self.processes:
                self.processes[name].send_signal(signal.SIGTERM)
                self.processes[name].wait()

    def _next_kill(self) -> float:
        every = self.args.kill_every

        return time.time() + every * self.rng.uniform(0.5, 1.5) if every else float("inf")

    def _kill(self, what: str) -> None:
        if what == "sandboxes":
            for pid in self._sandboxes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        else:
            self.processes[what].kill()
            self.processes[what].wait()
            self._start(what)

        self.kills.append(what)
        print(f"killed: {what}", flush=True)

    def _sandboxes(self) -> list[int]:
        """The sandboxes of this run. Their ids begin with the producer's."""
        pattern = f"sandboxd serve .*--id {self.producer}-"
        found = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True, check=False)

        return [int(pid) for pid in found.stdout.split()]

    def _start(self, name: str) -> None:
        command, env = getattr(self, f"_{name}")()
        with (self.args.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, env={**os.environ, **env}, stdout=log, stderr=log)

        if name == "server":
            self._await_server()

    def _server(self) -> tuple[list[str], dict[str, str]]:
        command = [str(self.args.programs / "rolloutd-dev"), "--data", str(self.data), "--no-ui"]
        command += ["--config", str(self.args.folder / "config.yaml"), "--port-offset", str(self.args.port_offset)]
        engine = f"http://127.0.0.1:{self.ports['engine']}"

        return command, {"VLLM_URL": engine, "VLLM_MODEL": "tiny", "ROLLOUTD_TRAINER_TOKENS": TOKEN}

    def _trainer(self) -> tuple[list[str], dict[str, str]]:
        command = [sys.executable, str(Path(__file__).with_name("train.py")), str(self.args.folder)]
        command += ["--queue", f"http://127.0.0.1:{self.ports['api']}/queues/learn"]
        command += ["--port", str(self.ports["engine"]), "--steps", str(self.args.steps), *self.rest]
        gateway = f"http://127.0.0.1:{self.ports['gateway']}"

        return command, {"ROLLOUTD_TRAINER_URL": gateway, "ROLLOUTD_TRAINER_TOKEN": TOKEN}

    def _await_server(self) -> None:
        client = Client(f"http://127.0.0.1:{self.ports['server']}", retry_s=1)
        while self.processes["server"].poll() is None:
            with suppress(RolloutdError):
                client.rollouts.page(limit=1)
                return

        raise SystemExit(f"the server ended: see {self.args.folder}/server.log")


if __name__ == "__main__":
    main()
