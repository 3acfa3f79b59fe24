"""Compares captured sequences with the models themselves: rescore.py SEQUENCES [VERSION=]FOLDER...

Each log probability must be the one that the model gives to that token after these, at the temperature of the call. With several models it is the one whose version
the turn names, and no other. What a chat template puts around a reply must be there once.
"""

import json
import os
import pathlib
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

TOLERANCE = 1e-3


def gaps(logits, sequence, span):
    """How far each log probability of a turn is from the model's own."""
    ids, start, stop = sequence["token_ids"], span["start"], span["stop"]
    expected = torch.log_softmax(logits[start - 1 : stop - 1] / span["temperature"], -1)
    return [abs(expected[i - start, ids[i]].item() - sequence["logprobs"][i]) for i in range(start, stop)]


def require_one_end(tokenizer, sequence):
    ids, end = sequence["token_ids"], tokenizer.convert_tokens_to_ids("<|im_end|>")
    for span in sequence["spans"]:
        stop = span["stop"]
        if stop < len(ids):  # the turn's end is there once, whether it was sampled or the reply was cut off
            after = ids[stop - 1 :] if ids[stop - 1] == end else ids[stop:]
            text = tokenizer.decode(after[:12])
            assert text.startswith("<|im_end|>\n<|im_start|>user\n"), f"{sequence['rollout_id']}: {text!r} behind turn {span['turn']}"
    assert [end, end] not in [ids[i : i + 2] for i in range(len(ids) - 1)], f"{sequence['rollout_id']}: a doubled end of turn"


def main(sequences, *named):
    torch.set_num_threads(1)
    folders = dict((["", *n.split("=", 1)])[-2:] for n in named)
    tokenizer = transformers.AutoTokenizer.from_pretrained(next(iter(folders.values())))
    models = {v: transformers.AutoModelForCausalLM.from_pretrained(f, dtype=torch.float32).eval() for v, f in folders.items()}
    tokens, worst, others = dict.fromkeys(models, 0), 0.0, dict.fromkeys(models, 0.0)
    for line in pathlib.Path(sequences).read_text().splitlines():
        s = json.loads(line)
        with torch.no_grad():
            logits = {v: m(torch.tensor([s["token_ids"]])).logits[0] for v, m in models.items()}
        for span in s["spans"]:
            version = span.get("model_version", "")
            for other in models.keys() - {version}:
                others[version] = max(others[version], *gaps(logits[other], s, span))
            for i, gap in enumerate(gaps(logits[version], s, span)):
                assert gap < TOLERANCE, f"{s['rollout_id']}, turn {span['turn']}, its token {i}, weights {version!r}: {gap} from the model's own"
                tokens[version], worst = tokens[version] + 1, max(worst, gap)
        require_one_end(tokenizer, s)
    for version in models:
        assert tokens[version] > 0, f"no token was compared with the weights {version!r}"
    assert len(models) == 1 or max(others.values()) > TOLERANCE, f"the weights are all alike: {others}"
    print(f"{tokens} tokens, at most {worst:.2g} apart, {others} from other weights")
    print("all checks held")


main(*sys.argv[1:])
