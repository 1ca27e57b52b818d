"""The decoders that Trainyard trains, in plain PyTorch operators: forward pass, loss, clipping and
optimizers, by the definitions of core/program/kernel.cpp. Derivatives are PyTorch's own."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

NORM_EPSILON = 1e-5
ROTARY_BASE = 10000.0


@dataclass
class Model:
    layers: int
    hidden: int = 48
    heads: int = 4
    kv_heads: int = 4
    ffn: int = 192
    vocab: int = 131
    sequence: int = 24
    window: int = 0  # keys a query sees; 0: all earlier ones
    parallel: bool = False
    rmsnorm: bool = False
    swiglu: bool = False
    rope: bool = False
    tied: bool = True
    bias: bool = True

    @property
    def head_dim(self):
        return self.hidden // self.heads

    def shapes(self):
        """{name: [rows, columns]} of all parameters; a product is x [tokens, rows] @ w."""
        h, kv = self.hidden, self.kv_heads * self.head_dim
        out = {"embedding": (self.vocab, h)}
        norm = (1 if self.rmsnorm else 2, h)  # gamma, beta
        if not self.rope:
            out["positions"] = (self.sequence, h)

        def linear(name, rows, columns, bias=True):
            out[name] = (rows, columns)
            if self.bias and bias:
                out[name + "_bias"] = (1, columns)

        for i in range(self.layers):
            layer = f"layer{i}."
            out[layer + "norm1"] = norm
            linear(layer + "q", h, h)
            linear(layer + "k", h, kv)
            linear(layer + "v", h, kv)
            linear(layer + "proj", h, h)
            if not self.parallel:
                out[layer + "norm2"] = norm
            for name in ("gate", "value") if self.swiglu else ("fc1",):
                linear(layer + name, h, self.ffn)
            # The branches of a parallel block end in one sum, which has one bias: proj_bias.
            linear(layer + "fc2", self.ffn, h, bias=not self.parallel)
        out["final_norm"] = norm
        if not self.tied:
            out["head"] = (self.vocab, h)
        return out


def normed(m, x, scales):
    if m.rmsnorm:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPSILON) * scales[0]
    return F.layer_norm(x, (m.hidden,), scales[0], scales[1], NORM_EPSILON)


def linear(w, name, x):
    y = x @ w[name]
    return y + w[name + "_bias"][0] if name + "_bias" in w else y


def rotated(x):
    """Rotary positions (arXiv 2104.09864) on [batch, heads, sequence, dim]: i goes with i + dim/2."""
    dim, places = x.shape[-1], torch.arange(x.shape[-2], dtype=torch.float64)
    angles = torch.outer(places, ROTARY_BASE ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim))
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., : dim // 2], x[..., dim // 2 :]
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


def attention(m, w, layer, x):
    batch, sequence, _ = x.shape

    def heads(name, count):
        return linear(w, layer + name, x).view(batch, sequence, count, m.head_dim).transpose(1, 2)

    q, k, v = heads("q", m.heads), heads("k", m.kv_heads), heads("v", m.kv_heads)
    if m.rope:
        q, k = rotated(q), rotated(k)
    group = m.heads // m.kv_heads
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    place = torch.arange(sequence)
    distance = place[:, None] - place[None, :]
    hidden = (distance < 0) | (distance >= (m.window or sequence))
    scores = (q @ k.transpose(2, 3) / math.sqrt(m.head_dim)).masked_fill(hidden, -math.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, sequence, m.hidden)


def activated(m, w, layer, x):
    if m.swiglu:
        return F.silu(linear(w, layer + "gate", x)) * linear(w, layer + "value", x)
    return F.gelu(linear(w, layer + "fc1", x), approximate="tanh")


def logits(m, w, inputs):
    x = w["embedding"][inputs]
    if not m.rope:
        x = x + w["positions"]
    for i in range(m.layers):
        layer = f"layer{i}."
        y = normed(m, x, w[layer + "norm1"])
        attended = linear(w, layer + "proj", attention(m, w, layer, y))
        if not m.parallel:
            x = x + attended
            y = normed(m, x, w[layer + "norm2"])
            attended = 0
        x = x + attended + linear(w, layer + "fc2", activated(m, w, layer, y))
    return normed(m, x, w["final_norm"]) @ w["embedding" if m.tied else "head"].t()


def loss(m, w, rows):
    """Mean cross-entropy over the valid targets of rows [sequences, sequence + 1]. A token that is
    no target is stored as its complement, which is negative; as an input it is the token."""
    inputs = torch.where(rows < 0, ~rows, rows)[:, :-1]
    targets = rows[:, 1:].flatten()
    predicted = logits(m, w, inputs).flatten(0, 1)
    valid = targets >= 0
    return F.cross_entropy(predicted[valid], targets[valid], reduction="sum") / valid.sum()


def decays(name):
    """Biases and norms neither decay nor have a trust ratio."""
    return "norm" not in name and not name.endswith("_bias")


def clip(grads, largest):
    """Scales all gradients so that their common norm is at most `largest`; returns the norm
    before."""
    norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    if norm > largest:
        for g in grads:
            g.mul_(largest / norm)
    return norm


def torch_optimizer(kind, weights, settings):
    """PyTorch's Adam or AdamW, without decay for biases and norms."""
    groups = [
        {"params": [w for name, w in weights.items() if decays(name) == chosen], "weight_decay": decay}
        for chosen, decay in ((True, settings["weight_decay"]), (False, 0.0))
    ]
    return kind(groups, lr=0.0, betas=(settings["beta1"], settings["beta2"]), eps=settings["epsilon"])


class Lamb:
    """LAMB (You et al., arXiv 1904.00962, algorithm 2) with phi(z) = z and bias correction. Query,
    key and value weights of a layer are one tensor to it, gate and value of an MLP too, and all
    five in a parallel block, whose output weights are another, as the programs hold them."""

    TOGETHER = {"q": "qkv", "k": "qkv", "v": "qkv", "gate": "fc1", "value": "fc1"}
    IN_PARALLEL = {"qkv": "in", "fc1": "in", "proj": "out", "fc2": "out"}

    def __init__(self, weights, settings, parallel=False):
        self.parallel = parallel
        self.s, self.steps, self.param_groups = settings, 0, [{"lr": 0.0}]
        self.state = {n: (w, torch.zeros_like(w), torch.zeros_like(w)) for n, w in weights.items()}

    def tensor_of(self, name):
        *layer, last = name.split(".")
        last = self.TOGETHER.get(last, last)
        return ".".join([*layer, self.IN_PARALLEL.get(last, last) if self.parallel else last])

    @torch.no_grad()
    def step(self):
        self.steps += 1
        beta1, beta2, rate = self.s["beta1"], self.s["beta2"], self.param_groups[0]["lr"]
        directions, squares = {}, {}
        for name, (w, m, v) in self.state.items():
            m.mul_(beta1).add_(w.grad, alpha=1 - beta1)
            v.mul_(beta2).addcmul_(w.grad, w.grad, value=1 - beta2)
            m_hat, v_hat = m / (1 - beta1**self.steps), v / (1 - beta2**self.steps)
            directions[name] = m_hat / (v_hat.sqrt() + self.s["epsilon"])
            if decays(name):
                directions[name] += self.s["weight_decay"] * w
            sums = squares.setdefault(self.tensor_of(name), [0, 0])
            sums[0] += w.pow(2).sum()
            sums[1] += directions[name].pow(2).sum()
        for name, (w, _, _) in self.state.items():
            of_weight, of_direction = squares[self.tensor_of(name)]
            trusted = decays(name) and of_weight > 0 and of_direction > 0
            w -= rate * (torch.sqrt(of_weight / of_direction) if trusted else 1) * directions[name]
