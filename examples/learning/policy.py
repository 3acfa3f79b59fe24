"""The policy: a tokenizer, a transformer of 0.6 million parameters, and a warm-up on demonstrations."""

import random
from pathlib import Path

import torch
from task import CALL, DIGITS, demonstration
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

MAX_LENGTH = 512
WARM = 0.3  # the probability of the right digit at which the warm-up stops

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.decoder = decoders.ByteLevel()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        show_progress=False,
    )
    texts = [m["content"] for asked in DIGITS for written in DIGITS for m in demonstration(asked, written)]
    bpe.train_from_iterator([*texts, "system\n", "user\n", "assistant\n"] * 2, trainer)
    tags = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
    bpe.add_tokens([AddedToken(tag, special=False) for tag in tags])

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = TEMPLATE

    return tokenizer


def make_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=MAX_LENGTH,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )

    return LlamaForCausalLM(config).eval()


def prompt_ids(tokenizer: PreTrainedTokenizerFast, messages: list[dict[str, str]], reply: bool = True) -> list[int]:
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=reply)

    return tokenizer.encode(text, add_special_tokens=False)


def padded(rows: list[list[float]], dtype: torch.dtype = torch.float) -> torch.Tensor:
    """The rows with zeros at their ends. 0 is the id of <|endoftext|>, which no token attends to there."""
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row, dtype=dtype) for row in rows], batch_first=True)


def log_probabilities(model: LlamaForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    """The log probability of each token but the first."""
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()

    return torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0]


def warm_up(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, seed: int, steps: int = 400) -> None:
    """Teaches the form of the tool call. Half of the digits are the one asked for, the others are drawn.

    It stops where the policy begins to copy the digit. Before, nothing of the reply depends on the digit, and no
    reward could teach it.
    """
    rng = random.Random(seed)
    rows = {(a, w): marked(tokenizer, demonstration(a, w)) for a in DIGITS for w in DIGITS}
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    model.train()

    for i in range(steps):
        if i % 5 == 0 and right_digits(model, tokenizer) >= WARM:
            break

        asked = rng.choices(DIGITS, k=32)
        batch = [rows[a, a if rng.random() < 0.5 else rng.choice(DIGITS)] for a in asked]
        mask = padded([mask for _, mask in batch])[:, 1:]
        logps = log_probabilities(model, padded([ids for ids, _ in batch], torch.long))
        step(model, optimizer, -(logps * mask).sum() / mask.sum())

    model.eval()


@torch.no_grad()
def right_digits(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> float:
    """The mean probability, over the digits, that a tool call writes the digit asked for."""
    start = tokenizer.encode(CALL.partition("%s")[0], add_special_tokens=False)
    prompts = [prompt_ids(tokenizer, demonstration(d, d)[:2]) + start for d in DIGITS]
    digits = torch.tensor([tokenizer.convert_tokens_to_ids(d) for d in DIGITS])
    probabilities = torch.softmax(model(input_ids=torch.tensor(prompts)).logits[:, -1].float(), -1)

    return float(probabilities.gather(1, digits[:, None]).mean())


def warm_up_once(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, seed: int, file: Path, steps: int = 400
) -> None:
    """Takes the warm-up from the file, or makes it and writes the file: runs of a seed begin with the same weights."""
    if file.exists():
        warm = torch.load(file)
        if warm["seed"] != seed:
            raise ValueError(f"{file} is the warm-up of seed {warm['seed']}, not of {seed}: choose another file")

        model.load_state_dict(warm["model"])
        return

    warm_up(model, tokenizer, seed, steps)
    part = file.with_suffix(".part")
    torch.save({"seed": seed, "model": model.state_dict()}, part)
    part.replace(file)


def step(model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def marked(tokenizer: PreTrainedTokenizerFast, messages: list[dict[str, str]]) -> tuple[list[int], list[int]]:
    """The ids of a demonstration, and 1 for those of the assistant's replies."""
    ids, mask = prompt_ids(tokenizer, messages[:2]), []

    for i in (2, 4):
        mask += [0] * (len(prompt_ids(tokenizer, messages[:i])) - len(mask))
        ids = prompt_ids(tokenizer, messages[: i + 1], reply=False)
        mask += [1] * (len(ids) - 1 - len(mask)) + [0]  # the line break after <|im_end|> is the template's

    return ids, mask
