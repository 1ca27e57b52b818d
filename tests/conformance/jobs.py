"""Small models and the token files they train on."""

import random
import struct

VOCAB = 131  # a prime: no tensor size divides it

BASE = {
    "model.layers": 8, "model.hidden": 32, "model.heads": 4, "model.ffn": 64,
    "model.vocab": VOCAB,
    "batch.global_sequences": 24, "batch.micro_sequences": 1, "batch.sequence_length": 16,
    "training.precision": '"fp32"', "training.optimizer": '"adamw"', "training.steps": 4,
    "training.learning_rate": 1e-2, "training.epsilon": 1e-3, "training.clip": 1.0,
    "training.vocab_divisible_by": 1,
    "data.separate_documents": "true", "data.format": '"megatron"',
    "cluster.preset": '"a100-8"', "cluster.node.gpus": 16, "run.timeout_s": 60,
}


def write_documents(folder, seed=7):
    """Documents of many lengths; sixteen of one token in a row make samples without any target."""
    draw = random.Random(seed)
    lengths = [draw.choice([1, 2, 3, 5, 17, 40]) for _ in range(60)] + [1] * 64
    lengths += [draw.choice([7, 30, 90]) for _ in range(40)]
    tokens = bytes(draw.randrange(VOCAB) for _ in range(sum(lengths)))
    (folder / "tokens.bin").write_bytes(tokens)
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    index = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 1, len(lengths), len(lengths) + 1)
    index += struct.pack(f"<{len(lengths)}i", *lengths)
    index += struct.pack(f"<{len(starts)}q", *starts)
    index += struct.pack(f"<{len(lengths) + 1}q", *range(len(lengths) + 1))
    (folder / "tokens.idx").write_bytes(index)
    return folder / "tokens.bin"


def write_job(path, tokens, settings):
    """A scenario of BASE with `settings` on top."""
    keys = {**BASE, "data.files": f'["{tokens}"]', **settings}
    path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
    return path
