"""One step of TRL's GRPOTrainer: the gradient of the loss is at exactly the tokens that the masks name. It runs where torch is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Answer, Server

from rolloutd import Client
from rolloutd.trl import RolloutFunc, reward

torch = pytest.importorskip("torch")

VOCABULARY = 800
PROMPT = [{"role": "user", "content": "count to three"}]
# Two replies with a tool result between them; the result differs.
MASKS = [[1] * 10 + [0] * 20 + [1] * 10, [1] * 10 + [0] * 14 + [1] * 12]


def group(server: Server) -> None:
    members = []
    for i, mask in enumerate(MASKS):
        members.append({"index": i, "rollout_id": f"r{i}", "outcome": "completed", "reward": float(i)})
        ids = [5] * 50 + [600 + (i * t) % 7 + t for t in range(len(mask))]
        line = {"rollout_id": f"r{i}", "reward": float(i), "token_ids": ids, "loss_mask": [0] * 50 + mask, "trained": sum(mask)}
        spans = [{"turn": 1, "start": 50, "stop": 60, "train": True}, {"turn": 2, "start": 50 + mask.index(1, 10), "stop": 50 + len(mask), "train": True}]
        text = json.dumps({**line, "logprobs": [0] * 50 + [-float(bit) for bit in mask], "spans": spans})
        server.on(f"GET /rollouts/r{i}/trajectory", Answer(200, text.encode()))
    state = {"group_id": "g", "size": 2, "members": members}
    server.on("POST /groups", Answer(202, state))
    server.on("GET /groups/g", Answer(200, {**state, "outcome": "complete"}))


def tiny() -> tuple[Any, Any]:
    """A small random model, and a tokenizer for its ids."""
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({str(i): i for i in range(VOCABULARY)}, unk_token="0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="1", pad_token="0", unk_token="0", padding_side="left")
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=512, pad_token_id=0, eos_token_id=1, bos_token_id=1,
    )
    return LlamaForCausalLM(config), tokenizer


def test_the_loss_touches_the_masked_tokens_alone(server: Server, tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    group(server)
    model, tokenizer = tiny()
    before = model.lm_head.weight.detach().clone()
    gradients: list[Any] = []

    def keep(module: Any, inputs: Any, hidden: Any) -> None:
        """Keeps the gradient of the last hidden states. Each of them contributes to the loss of one token only."""
        if hidden.requires_grad:
            hidden.register_hook(lambda grad: gradients.append(grad.abs().sum(-1).detach()))

    model.model.norm.register_forward_hook(keep)
    with Client(server.url) as client:
        rollouts = RolloutFunc(client, {"endpoint": "vllm"})
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            train_dataset=Dataset.from_list([{"prompt": PROMPT}] * 2),
            reward_funcs=reward,
            rollout_func=rollouts,
            args=GRPOConfig(
                output_dir=str(tmp_path), num_generations=2, per_device_train_batch_size=2, max_steps=1, learning_rate=1e-2, beta=0.0,
                temperature=0.7, use_cpu=True, report_to="none", save_strategy="no", gradient_checkpointing=False, bf16=False, logging_steps=1,
            ),
        )
        trainer.train()
    (sent,) = server.requests("POST /groups")
    assert (sent.body["group_size"], sent.body["instruction"]) == (2, "count to three")
    assert sent.body["sampling"] == {"temperature": 0.7, "top_p": 1.0, "repetition_penalty": 1.0}
    (gradient,) = gradients
    longest = max(map(len, MASKS))
    masks = sorted(mask + [0] * (longest - len(mask)) for mask in MASKS)
    touched = [[int(g > 0) for g in row] for row in gradient.tolist()]
    # The state before a token predicts it; the prompt's own tokens, before these, have no part in the loss.
    assert sorted(row[-longest - 1 : -1] for row in touched) == masks
    assert not any(bit for row in touched for bit in (*row[: -longest - 1], row[-1]))
    assert not torch.equal(before, model.lm_head.weight), "the step has changed the weights"
    assert [e["rewards/reward/mean"] for e in trainer.state.log_history if "rewards/reward/mean" in e] == [0.5]
