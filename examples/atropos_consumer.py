"""A trainer in 20 lines: takes batches of scored groups from rolloutd's trainer API (or Atropos') and prints what it would train on.

    rolloutd trainer-api &
    python3 examples/atropos_consumer.py http://127.0.0.1:8001 8 [STEPS]
"""
import http.client, json, sys, time, urllib.error, urllib.request

url, batch_size, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0

def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    while True:
        try:
            request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"}, method=method)
            return json.loads(urllib.request.urlopen(request).read())
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException):  # the server is unreachable; every call may be repeated
            time.sleep(1)

call("POST", "/register", {"wandb_group": "example", "wandb_project": "example", "batch_size": batch_size, "max_token_len": 32768,
                           "checkpoint_dir": "", "save_checkpoint_interval": 0, "starting_step": 0, "num_steps": steps or 1000})
step, last = 0, None
while not steps or step < steps:
    answer = call("GET", "/batch?ack=explicit")
    if not answer["batch"]:
        time.sleep(1)
        continue
    if "batch_id" not in answer or answer["batch_id"] != last:  # else the answer to its acknowledgement was lost
        for group in answer["batch"]:
            mean = sum(group["scores"]) / len(group["scores"])
            trained = sum(id != -100 for mask in group["masks"] for id in mask)
            name = (group["group_overrides"] or {}).get("rolloutd_key", "group")
            print(f"step {step}: {name}: advantages {[round(score - mean, 3) for score in group['scores']]}, {trained} tokens to train on", flush=True)
        step, last = step + 1, answer.get("batch_id")
    if "batch_id" in answer:  # of rolloutd: the step is done, so the batch is not served again
        call("POST", f"/batch/{answer['batch_id']}/ack", {})
