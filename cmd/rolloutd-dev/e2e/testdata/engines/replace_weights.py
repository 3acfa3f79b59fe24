"""Holds the calls to an engine while its weights are replaced, as a trainer does: replace_weights.py TRAINER_API TOKEN ENDPOINT VERSION

Writes a line when no call is under way, and resumes at the end of its input.
"""

import sys

from rolloutd import WeightSync


def main(trainer, token, endpoint, version):
    with WeightSync(endpoint, trainer, token=token).drained(version=version, wait_s=1, abort=True):
        print("drained", flush=True)
        sys.stdin.read()


main(*sys.argv[1:])
