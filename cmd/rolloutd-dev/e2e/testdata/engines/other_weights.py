"""Writes a model beside another, as a step of training would: other_weights.py FOLDER OTHER [NOISE]. Its numbers differ, and with the default it still does what the first one learnt."""

import pathlib
import shutil
import sys

import torch
import transformers

NOISE = 0.03


def main(folder, other, noise=NOISE):
    shutil.copytree(folder, other)
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(torch.randn_like(weights) * float(noise) * weights.std())
    model.generation_config = transformers.GenerationConfig()  # the copied one is what counts
    model.save_pretrained(other)
    shutil.copy(pathlib.Path(folder, "generation_config.json"), other)
    print("all checks held")


main(*sys.argv[1:])
