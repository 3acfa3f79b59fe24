"""TRL's GRPOTrainer on a model made here, fed by a real server: by rollout_func, and by environment_factory.

Arguments: the server, and a file that is made while its rollouts run: then every process of the server is killed, and started again.
"""

import json
import sys
import tempfile
from functools import partial
from pathlib import Path

import torch
import trl
from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from rolloutd import Client
from rolloutd.trl import Environment, RolloutFunc, reward

server, running = sys.argv[1], Path(sys.argv[2])
WRITE = "Write binary_search.py with a function binary_search(items, target)"


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, and the chat template of Qwen3 as TRL ships it."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_ = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    bytes_.pre_tokenizer, bytes_.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    marks = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
    bytes_.add_tokens([AddedToken(mark, special=False) for mark in marks])
    made = PreTrainedTokenizerFast(
        tokenizer_object=bytes_, eos_token="<|im_end|>", pad_token="<|endoftext|>", additional_special_tokens=special, padding_side="left"
    )
    made.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    return made


def tiny() -> LlamaForCausalLM:
    """A model with a place for each token of the scripted model."""
    torch.manual_seed(1)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=1 << 15, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=32768,
        )
    )


def settings(folder: str, **more: object) -> GRPOConfig:
    return GRPOConfig(
        output_dir=folder, num_generations=2, per_device_train_batch_size=2, learning_rate=1e-2, beta=0.0, use_cpu=True, report_to="none",
        save_strategy="no", gradient_checkpointing=False, bf16=False, logging_steps=1, **more,
    )


def by_rollouts(client: Client, folder: str) -> None:
    """The tokens come from the server's scripted model, which solves one task and not the other."""
    prompts = [[{"role": "user", "content": text}] for text in (WRITE, "say hello")]
    rollouts = RolloutFunc(client, {"endpoint": "scripted", "agent": "react", "verify": ["test -s binary_search.py"]})

    def while_killed(*args: object) -> object:
        running.touch()
        return rollouts(*args)

    trainer = GRPOTrainer(
        model=tiny(), processing_class=tokenizer(), train_dataset=Dataset.from_list([{"prompt": p} for p in prompts]), reward_funcs=reward,
        rollout_func=while_killed, args=settings(folder, max_steps=2),
    )
    trainer.train()
    means = [entry["rewards/reward/mean"] for entry in trainer.state.log_history if "rewards/reward/mean" in entry]
    assert sorted(means) == [0.0, 1.0], trainer.state.log_history
    assert (rollouts.counts.rows, rollouts.counts.lost) == (4, 0), rollouts.counts


class Replies:
    """Takes the place of sampling: each generation calls a tool, with its own answer, and then ends."""

    def __init__(self, words: PreTrainedTokenizerFast) -> None:
        self.words, self.prompts = words, []

    def __call__(self, input_ids: torch.Tensor, **more: object) -> torch.Tensor:
        rows = []
        for i, row in enumerate(input_ids):
            prompt = self.words.decode(row)
            self.prompts.append(prompt)
            call = json.dumps({"name": "terminal", "arguments": {"command": f"echo {i + 3} > n.txt; cat n.txt"}})
            text = "done" if "<tool_response>" in prompt else f"<tool_call>\n{call}\n</tool_call>"
            rows.append(self.words.encode(text + "<|im_end|>"))
        longest = max(map(len, rows))
        padded = [row + [self.words.pad_token_id] * (longest - len(row)) for row in rows]
        return torch.cat([input_ids, torch.tensor(padded)], dim=1)


def by_environment(client: Client, folder: str) -> None:
    """The trainer's own model calls the tools of a sandbox; one of two generations is right."""
    words, model = tokenizer(), tiny()
    model.generate = Replies(words)
    rows = [{"prompt": [{"role": "user", "content": "Write 3 into n.txt."}]}] * 2
    trainer = GRPOTrainer(
        model=model, processing_class=words, train_dataset=Dataset.from_list(rows),
        environment_factory=partial(Environment, client, {"verify": ["test $(cat n.txt) = 3"]}),
        args=settings(folder, max_steps=1, max_completion_length=4096),
    )
    before = model.lm_head.weight.detach().clone()
    trainer.train()
    (step,) = (entry for entry in trainer.state.log_history if "rewards/Environment/mean" in entry)
    assert (step["rewards/Environment/mean"], step["tools/call_frequency"], step["tools/failure_frequency"]) == (0.5, 1.0, 0.0), step
    assert any("<tool_response>\n3" in prompt for prompt in model.generate.prompts), "the model reads what its command printed"
    assert not torch.equal(before, model.lm_head.weight), "the step has changed the weights"


with Client(server) as client, tempfile.TemporaryDirectory() as folder:
    by_environment(client, folder)
    by_rollouts(client, folder)
print("all checks held")
