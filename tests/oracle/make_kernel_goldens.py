#!/usr/bin/env python3
"""Writes kernels/*.json: inputs and results of PyTorch's double-precision operators and their
automatic derivatives, which the kernels have to reproduce. Needs python3-torch.

make_kernel_goldens.py [FOLDER] writes to FOLDER (default: beside this file)."""

import json
import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def draw(*shape):
    """Normal numbers with four decimals, so that a file holds them exactly."""
    return torch.round(torch.randn(*shape) * 1e4) / 1e4


def leaf(*shape):
    return draw(*shape).requires_grad_()


def attention(batch, sequence, heads, kv_heads, dim, window):
    qkv, dout = leaf(batch * sequence, (heads + 2 * kv_heads) * dim), draw(batch * sequence, heads * dim)
    split = qkv.view(batch, sequence, heads + 2 * kv_heads, dim).transpose(1, 2)
    q, k, v = split.split([heads, kv_heads, kv_heads], dim=1)
    k, v = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
    place = torch.arange(sequence)
    distance = place[:, None] - place[None, :]
    hidden = (distance < 0) | ((distance >= window) if window else torch.zeros_like(distance, dtype=torch.bool))
    scores = (q @ k.transpose(2, 3) / math.sqrt(dim)).masked_fill(hidden, -math.inf)
    out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch * sequence, heads * dim)
    out.backward(dout)
    return {
        "shape": [batch, heads, kv_heads, sequence, dim, window],
        "qkv": qkv, "dout": dout, "out": out, "dqkv": qkv.grad,
        "lse": scores.logsumexp(-1).reshape(batch * heads, sequence),
    }


def rope(batch, sequence, heads, kv_heads, dim, base):
    """rotate_half as in Hugging Face's Llama."""
    qkv = draw(batch * sequence, (heads + 2 * kv_heads) * dim)
    angle = torch.outer(torch.arange(sequence), base ** (-torch.arange(0, dim, 2) / dim))
    cosine, sine = (torch.cat([f(angle)] * 2, -1)[None, :, None] for f in (torch.cos, torch.sin))
    x = qkv.view(batch, sequence, heads + 2 * kv_heads, dim)
    turned = x[:, :, : heads + kv_heads]
    half = torch.cat([-turned[..., dim // 2 :], turned[..., : dim // 2]], -1)
    out = torch.cat([turned * cosine + half * sine, x[:, :, heads + kv_heads :]], 2)
    return {"shape": [batch * sequence, heads, kv_heads, dim, sequence], "base": base, "qkv": qkv,
            "out": out.reshape(qkv.shape)}


def norm(rows, columns, layernorm):
    x, gamma, dy = leaf(rows, columns), leaf(columns), draw(rows, columns)
    beta = leaf(columns) if layernorm else None
    if layernorm:
        y = F.layer_norm(x, (columns,), gamma, beta, 1e-5)
    else:
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * gamma
    y.backward(dy)
    scales = torch.stack([gamma, beta]) if layernorm else gamma[None]
    grads = torch.stack([gamma.grad, beta.grad]) if layernorm else gamma.grad[None]
    return {"shape": [rows, columns], "x": x, "scales": scales, "dy": dy, "y": y, "dx": x.grad,
            "dscales": grads}


def activation(rows, columns, gated):
    x, dy = leaf(rows, columns * (2 if gated else 1)), draw(rows, columns)
    y = F.silu(x[:, :columns]) * x[:, columns:] if gated else F.gelu(x, approximate="tanh")
    y.backward(dy)
    return {"shape": [rows, columns], "x": x, "dy": dy, "y": y, "dx": x.grad}


def linear(rows, inputs, outputs):
    x, w, bias, dy = leaf(rows, inputs), leaf(inputs, outputs), leaf(outputs), draw(rows, outputs)
    y = F.linear(x, w.t(), bias)
    y.backward(dy)
    return {"shape": [rows, outputs, inputs], "x": x, "w": w, "bias": bias[None], "dy": dy, "y": y,
            "dx": x.grad, "dw": w.grad, "dbias": bias.grad[None]}


def cross_entropy(rows, vocab):
    logits, target = leaf(rows, vocab), torch.randint(vocab, (rows,))
    target[1] = -100
    valid = int((target >= 0).sum())
    loss = F.cross_entropy(logits, target, ignore_index=-100, reduction="sum")
    (loss / valid).backward()
    return {"shape": [rows, vocab], "logits": logits, "target": target[None], "loss": float(loss),
            "valid": valid, "dlogits": logits.grad}


def optimizer(kind, steps, elements):
    settings = {"lr": 0.01, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
    weight, grads = leaf(elements), draw(steps, elements)
    before = weight.detach().clone()
    chosen = kind([weight], **settings)
    for grad in grads:
        weight.grad = grad.clone()
        chosen.step()
    state = chosen.state[weight]
    return {"grads": grads, "before": before[None], "after": weight[None],
            "m": state["exp_avg"][None], "v": state["exp_avg_sq"][None]}


def plain(value):
    if isinstance(value, torch.Tensor):
        if value.dtype == torch.int64:
            return {"rows": value.shape[0], "columns": value.shape[1], "values": value.flatten().tolist()}
        numbers = [float(f"{v:.14g}") for v in value.detach().flatten().tolist()]
        return {"rows": value.shape[0], "columns": value.shape[1], "values": numbers}
    return value


FILES = {
    "attention": lambda: {
        "full": attention(2, 5, 2, 2, 3, 0),
        "grouped_window": attention(1, 7, 4, 2, 4, 3),
        "one_key_head": attention(1, 6, 3, 1, 2, 0),
    },
    "layers": lambda: {
        "layernorm": norm(3, 7, True),
        "rmsnorm": norm(3, 7, False),
        "gelu": activation(3, 5, False),
        "swiglu": activation(3, 5, True),
        "rope": rope(2, 3, 2, 1, 6, 10000.0),
        "linear": linear(3, 5, 4),
    },
    "training": lambda: {
        "cross_entropy": cross_entropy(5, 11),
        "adam": optimizer(torch.optim.Adam, 3, 6),
        "adamw": optimizer(torch.optim.AdamW, 3, 6),
    },
}


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in FILES.items():
        torch.manual_seed(20250101)
        cases = {case: {k: plain(v) for k, v in values.items()} for case, values in make().items()}
        text = json.dumps({"torch": torch.__version__, "cases": cases}, indent=None)
        (folder / f"{name}.json").write_text(text.replace('}, "', '},\n"') + "\n")


if __name__ == "__main__":
    main()
