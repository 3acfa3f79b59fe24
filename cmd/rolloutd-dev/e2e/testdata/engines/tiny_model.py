"""Makes a small model of the Qwen family for tests of real engines: tiny_model.py FOLDER CONVERSATION

The tokenizer is trained on modules of Python, which do not change with the project; its special tokens are those of Qwen3, and the chat template shows a conversation in the same form. The model
learns one conversation by heart, so that it makes real tool calls. On all else it answers with noise.
"""

import argparse
import inspect
import json
import json.decoder
import json.encoder
import logging
import pathlib
import random
import sys
import textwrap
import typing

import tokenizers
import torch
import transformers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PLAIN = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
CALL_FORM = '\n</tools>\n\nFor each function call:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
CONTEXT = 40960
STEPS = 600
TEXTS = [argparse, json.decoder, json.encoder, logging, random, textwrap, typing]


def make_tokenizer(texts, template):
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    t.normalizer = tokenizers.normalizers.NFC()
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(texts, tokenizers.trainers.BpeTrainer(vocab_size=2048, initial_alphabet=alphabet, show_progress=False))
    t.add_special_tokens([tokenizers.AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    t.add_tokens([tokenizers.AddedToken(s, special=False, normalized=False) for s in PLAIN])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template, model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def make_model(tokenizer):
    torch.manual_seed(1)
    end, pad = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=32, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, max_position_embeddings=CONTEXT, tie_word_embeddings=True, bos_token_id=None, eos_token_id=end, pad_token_id=pad,
    ))


def examples(tokenizer, conversation, noise, shuffle):
    """Ids and labels of the conversation in the ways that templates show it, with other results of the tools each time. Replies as they are sampled have
    labels."""
    while True:
        ids, labels = [], []

        def add(text, learn=False):
            more = tokenizer.encode(text, add_special_tokens=False)
            ids.extend(more)
            labels.extend(more if learn else [-100] * len(more))

        def some(most):
            at = shuffle.randrange(len(noise) - most)
            return noise[at : at + shuffle.randrange(most)]

        way = shuffle.choice(["thinks", "thinks", "does not think", "does not think", "history without thoughts", "goes on"])
        system = conversation["system"] if shuffle.random() < 0.5 else some(3000)
        if shuffle.random() < 0.1:  # as a prompt that is made long
            system = conversation["system"] + " word" * shuffle.randrange(1000)
        if shuffle.random() < 0.3:  # as templates show tools
            system += CALL_FORM
        if way == "goes on":  # and never ends
            add(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{conversation['endless']['instruction']}<|im_end|>\n<|im_start|>assistant\n")
            add(conversation["endless"]["reply"] * shuffle.randint(40, 200), learn=True)
            yield torch.tensor([ids]), torch.tensor([labels])
            continue
        add(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{conversation['instruction']}<|im_end|>\n")
        for i, reply in enumerate(conversation["replies"][: shuffle.randint(1, 3)]):
            if i > 0:
                result = json.dumps({"success": True, "output": some(200), "uniq_id": f"call_{i}_1", "metadata": {"bytes": 15}})
                add(f"<|im_start|>user\n<tool_response>\n{result}\n</tool_response><|im_end|>\n")
            plain = reply.split("</think>\n\n")[-1]
            add("<|im_start|>assistant\n")
            if way == "does not think":
                add("<think>\n\n</think>\n\n")
            if way == "history without thoughts":
                add(plain + "<|im_end|>\n")
            else:
                add((reply if way == "thinks" else plain) + "<|im_end|>", learn=True)
                add("\n")
        if way == "history without thoughts":
            add("<|im_start|>user\n<tool_response>\n" + some(200) + "\n</tool_response><|im_end|>\n<|im_start|>assistant\n")
            add(conversation["replies"][2] + "<|im_end|>", learn=True)
        yield torch.tensor([ids]), torch.tensor([labels])


def learn(model, tokenizer, conversation, noise):
    optimizer, batches = torch.optim.AdamW(model.parameters(), lr=3e-3), examples(tokenizer, conversation, noise, random.Random(1))
    model.train()
    for step in range(STEPS):
        ids, labels = next(batches)
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1 - step / STEPS)
        if step % 50 == 0 or step == STEPS - 1:
            print(f"step {step}: loss {loss.item():.4f}, {ids.shape[1]} tokens", flush=True)


def main(folder, conversation):
    here = pathlib.Path(__file__).parent
    corpus = [inspect.getsource(module) for module in TEXTS]
    tokenizer = make_tokenizer(corpus, (here / "chatml.jinja").read_text())
    model = make_model(tokenizer)
    learn(model, tokenizer, json.loads(pathlib.Path(conversation).read_text()), "".join(corpus))
    model.to(torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # Engines sample by these where a call does not say otherwise; Qwen's models bring the like.
    defaults = {"eos_token_id": model.config.eos_token_id, "temperature": 0.6, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.05}
    pathlib.Path(folder, "generation_config.json").write_text(json.dumps(defaults))
    print("all checks held")


if __name__ == "__main__":
    main(*sys.argv[1:])
