#!/usr/bin/env python3
"""Trains small models with PyTorch and writes what came out to training/: CASE.toml, a scenario, and
CASE.json, what training it must give. README.md explains the files. Needs python3-torch.

make_training_goldens.py           writes the files
make_training_goldens.py --check   compares them with what this machine's PyTorch gives; exit code
                                   77 where there is no PyTorch"""

import json
import math
import sys
from pathlib import Path

try:
    import numpy as np
    import torch

    import reference_model as reference
    from initial_weights import initial_weights, random_tokens
except ImportError as missing:
    print(f"{missing}: the goldens cannot be made here")
    sys.exit(77)

FOLDER = Path(__file__).parent / "training"
STEPS, SEQUENCES, SEED = 10, 6, 1
FULL = 200  # elements up to which a tensor is listed whole
SAMPLES = 16

GPT2 = {"layers": 2}
LLAMA = {"layers": 2, "kv_heads": 2, "ffn": 80, "rmsnorm": True, "swiglu": True, "rope": True,
         "tied": False, "bias": False}
# The usual 1e-8 would let rounding alone decide where a gradient is zero in exact arithmetic, as
# that of a key's bias is.
TRAINING = {"optimizer": "adamw", "precision": "fp32", "clip": 1.0, "steps": STEPS,
            "learning_rate": 0.01, "min_learning_rate": 0.0, "learning_rate_schedule": "constant",
            "warmup_steps": 4, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-5}


def drawn_batches(name, model, count):
    tokens = random_tokens(SEED, name, count * SEQUENCES * (model.sequence + 1), model.vocab)
    return tokens.reshape(count, SEQUENCES, model.sequence + 1)


def file_batch(model):
    """The samples of training/tokens.bytes, a token a byte, in the order of the file."""
    tokens = random_tokens(SEED, "file", SEQUENCES * model.sequence + 1, model.vocab)
    starts = np.arange(SEQUENCES) * model.sequence
    return tokens, np.stack([tokens[s : s + model.sequence + 1] for s in starts])[None]


def masked_batches(model):
    """A third of the targets masked; step 3 has sequences 2 and 3 without any, step 6 a single
    target in all."""
    rows = drawn_batches("masked", model, STEPS)
    hidden = random_tokens(SEED, "mask", rows.size, 100).reshape(rows.shape) < 4
    hidden[2, 2:4] = True
    hidden[5] = True
    hidden[5, 4, 11] = False
    return np.where(hidden, ~rows, rows)


def case(model, batches=None, **training):
    model = reference.Model(**model)
    return model, {**TRAINING, **training}, batches


CASES = {
    "gpt2": case({**GPT2, "layers": 3}, "file", learning_rate_schedule="cosine",
                 min_learning_rate=0.001, clip=0.5),
    "llama": case({**LLAMA, "layers": 3}, "file", learning_rate_schedule="linear", clip=0.5),
    "gpt2-parallel": case({**GPT2, "parallel": True}, optimizer="adam", weight_decay=0.01),
    "llama-window": case({**LLAMA, "window": 7}),
    "gpt2-masked": case(GPT2, "masked", clip=0.0),
    "gpt2-lamb": case(GPT2, optimizer="lamb", epsilon=1e-6, learning_rate=0.05),
    "llama-parallel-window-lamb": case({**LLAMA, "parallel": True, "window": 5, "bias": True},
                                       optimizer="lamb", epsilon=1e-6, learning_rate=0.05),
}


def batches_of(name, model, kind):
    if kind == "file":
        return file_batch(model)[1]
    return masked_batches(model) if kind == "masked" else drawn_batches(name, model, STEPS)


def learning_rates(t):
    """Up in a line to the highest at the last warm-up step, then down to the lowest at the last."""
    rates, warmup = [], t["warmup_steps"]
    for step in range(1, STEPS + 1):
        if step <= warmup:
            rates.append(t["learning_rate"] * step / warmup)
            continue
        done = (step - warmup) / (STEPS - warmup)
        left = {"constant": 1, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
        span = t["learning_rate"] - t["min_learning_rate"]
        rates.append(t["min_learning_rate"] + span * left[t["learning_rate_schedule"]])
    return rates


def train(model, t, batches, dtype):
    """Loss and gradient norm of each step, the first step's gradients before clipping, and the
    parameters at the end."""
    start = initial_weights(model.shapes(), model.layers, SEED)
    weights = {n: torch.tensor(w, dtype=dtype, requires_grad=True) for n, w in start.items()}
    if t["optimizer"] == "lamb":
        optimizer = reference.Lamb(weights, t, model.parallel)
    else:
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[t["optimizer"]]
        optimizer = reference.torch_optimizer(kind, weights, t)
    out = {"loss": [], "grad_norm": []}
    for step, rate in enumerate(learning_rates(t)):
        for w in weights.values():
            w.grad = None
        loss = reference.loss(model, weights, torch.tensor(batches[step % len(batches)]))
        loss.backward()
        grads = [w.grad for w in weights.values()]
        if step == 0:
            out["gradients"] = {n: w.grad.double().numpy().copy() for n, w in weights.items()}
        out["loss"].append(float(loss))
        out["grad_norm"].append(float(reference.clip(grads, t["clip"] or math.inf)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    out["parameters"] = {n: w.detach().double().numpy() for n, w in weights.items()}
    return start, out


def digest(value):
    """A small tensor whole; of a large one the sums of rows and of columns and some elements."""
    if value.size <= FULL:
        return {"values": value.flatten()}
    every = value.size // SAMPLES
    return {"row_sums": value.sum(1), "column_sums": value.sum(0), "every": every,
            "samples": value.flatten()[::every]}


def tensor_json(exact, rounded):
    """The digest of a tensor from training in double, and how far training in float is from it in
    the worst of the digest's numbers."""
    fine, coarse = digest(exact), digest(rounded)
    off = max(np.abs(fine[k] - coarse[k]).max() for k in fine if k != "every")
    return {"shape": list(exact.shape), "norm": np.sqrt((exact**2).sum()), "float_error": off, **fine}


def scenario(name, m, t):
    """The case as a scenario. The GPU is there because a job has one; nothing depends on it."""
    sections = {
        "model": {
            "layers": m.layers, "hidden": m.hidden, "heads": m.heads, "kv_heads": m.kv_heads,
            "ffn": m.ffn, "vocab": m.vocab, "window": m.window,
            "block": "parallel" if m.parallel else "serial",
            "norm": "rmsnorm" if m.rmsnorm else "layernorm",
            "activation": "swiglu" if m.swiglu else "gelu",
            "position": "rope" if m.rope else "learned", "tied": m.tied, "bias": m.bias,
        },
        "batch": {"global_sequences": SEQUENCES, "micro_sequences": 2, "sequence_length": m.sequence},
        "training": t,
        "cluster.gpu": {"preset": "a100-sxm-40"},
    }
    if not m.window:
        del sections["model"]["window"]
    lines = [f"# {name}: written by make_training_goldens.py."]
    for section, keys in sections.items():
        lines += ["", f"[{section}]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def numbers(value):
    """Arrays and floats with the nine digits that tell any two fp32 numbers apart."""
    if isinstance(value, dict):
        return {k: numbers(v) for k, v in value.items()}
    if isinstance(value, (list, np.ndarray)):
        return [numbers(v) for v in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.9g}")
    return int(value) if isinstance(value, np.integer) else value


def golden(name, model, t, kind):
    batches = batches_of(name, model, kind)
    start, exact = train(model, t, batches, torch.float64)
    _, rounded = train(model, t, batches, torch.float32)
    out = {"seed": SEED, "batches": batches.tolist(), "learning_rate": learning_rates(t)}
    for key in ("loss", "grad_norm"):
        out[key] = exact[key]
        out[key + "_float_error"] = float(np.abs(np.array(exact[key]) - rounded[key]).max())
    out["initial"] = {n: {"norm": np.sqrt((w.astype(np.float64) ** 2).sum()),
                          "first": w.flatten()[:4], "last": w.flatten()[-1:]}
                      for n, w in start.items() if reference.decays(n)}
    for key in ("gradients", "parameters"):
        out[key] = {n: tensor_json(exact[key][n], rounded[key][n]) for n in exact[key]}
    return numbers(out)


def text_of(value):
    """A line for each entry of each table."""
    lines = []
    for key, entry in value.items():
        if key in ("initial", "gradients", "parameters"):
            inner = ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}"
                               for k, v in entry.items())
            lines.append(f"{json.dumps(key)}: {{\n{inner}\n}}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(entry, separators=(',', ':'))}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def differences(path, shipped, made):
    """Where two goldens differ by more than the rounding of double precision in ten steps."""
    if isinstance(made, dict) and isinstance(shipped, dict) and made.keys() == shipped.keys():
        return [d for k in made if not k.endswith("float_error")
                for d in differences(f"{path}.{k}", shipped[k], made[k])]
    if isinstance(made, list) and isinstance(shipped, list) and len(made) == len(shipped):
        return [d for i, pair in enumerate(zip(shipped, made)) for d in differences(f"{path}[{i}]", *pair)]
    if isinstance(made, float) and abs(made - shipped) <= 1e-8 + 1e-6 * abs(made):
        return []
    return [] if made == shipped else [f"{path}: {shipped} is now {made}"]


def main():
    torch.set_num_threads(1)
    check = sys.argv[1:] == ["--check"]
    FOLDER.mkdir(exist_ok=True)
    tokens = bytes(file_batch(CASES["gpt2"][0])[0].tolist())
    found = []
    if not check:
        (FOLDER / "tokens.bytes").write_bytes(tokens)
    elif (FOLDER / "tokens.bytes").read_bytes() != tokens:
        found.append("tokens.bytes differs")
    for name, (model, training, kind) in CASES.items():
        made, toml = golden(name, model, training, kind), scenario(name, model, training)
        data = FOLDER / f"{name}.json"
        if check:
            found += differences(name, json.loads(data.read_text()), made)
            if (FOLDER / f"{name}.toml").read_text() != toml:
                found.append(f"{name}.toml differs")
        else:
            data.write_text(text_of(made))
            (FOLDER / f"{name}.toml").write_text(toml)
    print("\n".join(found[:20]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
