"""Replaces the weights of an engine under its calls, as a trainer does: replace_weights.py TRAINER_API TOKEN ENGINE FOLDER VERSION"""

import json
import sys
import urllib.request

from rolloutd import WeightSync


def main(trainer, token, engine, folder, version):
    def post(path, body=None):
        request = urllib.request.Request(engine + path, json.dumps(body or {}).encode(), {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=60).read()

    def load():
        assert sync.status()[0].in_flight == 0, "a call is under way"
        post("/pause?mode=abort")  # the engine may not have noticed yet that calls were given up
        post("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": folder}})
        # What is cached was computed by the weights before. The cache is not emptied while a request holds a part of it.
        assert json.loads(post("/reset_prefix_cache"))["success"], "the cache of prefixes is not empty"
        post("/resume")

    sync = WeightSync(engine.removeprefix("http://"), trainer, token=token)
    before = sync.status()[0]
    sync.update(load, version=version, wait_s=1, abort=True)
    print(f"{before.in_flight} calls were under way")
    print("all checks held")


main(*sys.argv[1:])
