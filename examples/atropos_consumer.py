"""A trainer in 20 lines: takes batches of scored groups from rolloutd's trainer API (or Atropos') and prints what it would train on.

    rolloutd trainer-api &
    python3 examples/atropos_consumer.py http://127.0.0.1:8001 8 [STEPS]
"""
import json, sys, time, urllib.request

url, batch_size, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0

def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"}, method=method)
    return json.load(urllib.request.urlopen(request))

call("POST", "/register", {"wandb_group": "example", "wandb_project": "example", "batch_size": batch_size, "max_token_len": 32768,
                           "checkpoint_dir": "", "save_checkpoint_interval": 0, "starting_step": 0, "num_steps": steps or 1000})
step = 0
while not steps or step < steps:
    answer = call("GET", "/batch?ack=explicit")
    if not answer["batch"]:
        time.sleep(1)
        continue
    for group in answer["batch"]:
        mean = sum(group["scores"]) / len(group["scores"])
        trained = sum(id != -100 for mask in group["masks"] for id in mask)
        print(f"step {step}: advantages {[round(score - mean, 3) for score in group['scores']]}, {trained} tokens to train on", flush=True)
    step += 1
    if "batch_id" in answer:  # rolloutd's: the step is taken, so the batch is not served again
        call("POST", f"/batch/{answer['batch_id']}/ack", {})
