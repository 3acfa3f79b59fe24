"""Compares captured sequences with the model itself: rescore.py FOLDER SEQUENCES.

Each log probability must be the one that the model gives to that token after these, at the temperature of the call. What a chat template puts around a reply
must be there once.
"""

import json
import os
import pathlib
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

TOLERANCE = 1e-3


def main(folder, sequences):
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    tokens, worst = 0, 0.0
    for line in pathlib.Path(sequences).read_text().splitlines():
        s = json.loads(line)
        ids = s["token_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0]
        for span in s["spans"]:
            start, stop = span["start"], span["stop"]
            expected = torch.log_softmax(logits[start - 1 : stop - 1] / span["temperature"], -1)
            for i in range(start, stop):
                gap = abs(expected[i - start, ids[i]].item() - s["logprobs"][i])
                assert gap < TOLERANCE, f"{s['rollout_id']}, turn {span['turn']}, token {i}: {s['logprobs'][i]} and not {expected[i - start, ids[i]].item()}"
                tokens, worst = tokens + 1, max(worst, gap)
            if stop < len(ids):  # the turn's end is there once, whether it was sampled or the reply was cut off
                after = ids[stop - 1 :] if ids[stop - 1] == end else ids[stop:]
                text = tokenizer.decode(after[:12])
                assert text.startswith("<|im_end|>\n<|im_start|>user\n"), f"{s['rollout_id']}: {text!r} behind turn {span['turn']}"
        assert [end, end] not in [ids[i : i + 2] for i in range(len(ids) - 1)], f"{s['rollout_id']}: a doubled end of turn"
    assert tokens > 0, "no token was compared"
    print(f"{tokens} tokens, at most {worst:.2g} apart")
    print("all checks held")


main(*sys.argv[1:])
