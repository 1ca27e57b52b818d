"""Trainyard's random numbers and initial weights, once more in numpy: from the papers and from what
core/random.h and core/model/initial_weights.h say, not from their code."""

import numpy as np

DEVIATION = 0.02
MASK64 = (1 << 64) - 1


def mix(x):
    """Finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    x = (x + 0x9E3779B97F4A7C15) & MASK64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK64
    return x ^ x >> 31


def random_key(seed, name):
    """The two key words of everything drawn under `name`."""
    state = mix(seed)
    for byte in name.encode():
        state = mix(state ^ byte)
    return state & 0xFFFFFFFF, state >> 32


def philox(key, counters):
    """Philox4x32-10 (Salmon et al., SC 2011) of counters [n]: uint64 [n, 4] of 32-bit words."""
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    c = [counters & low, counters >> shift, np.zeros_like(counters), np.zeros_like(counters)]
    k0, k1 = key
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [b >> shift ^ c[1] ^ np.uint64(k0), b & low, a >> shift ^ c[3] ^ np.uint64(k1), a & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, -1)


def positive_uniform(high, low):
    """53 bits of two words, in (0, 1]."""
    bits = (high << np.uint64(32) | low) >> np.uint64(11)
    return (bits + np.uint64(1)).astype(np.float64) * 2.0**-53


def random_normals(key, count):
    """Standard normal numbers 0 … count - 1: a pair from each block (Box and Muller 1958)."""
    words = philox(key, np.arange((count + 1) // 2, dtype=np.uint64))
    radius = np.sqrt(-2 * np.log(positive_uniform(words[:, 0], words[:, 1])))
    angle = 2 * np.pi * positive_uniform(words[:, 2], words[:, 3])
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).reshape(-1)[:count]


def random_tokens(seed, name, count, vocab):
    """Tokens of which small ones are frequent, so that there is something to learn."""
    words = philox(random_key(seed, name), np.arange(count, dtype=np.uint64))[:, 0]
    return np.floor((words.astype(np.float64) * 2.0**-32) ** 3 * vocab).astype(np.int64)


def initial_weights(shapes, layers, seed):
    """fp32 weights of {name: [rows, columns]}: biases 0, norms the identity, the rest normal, and
    smaller by sqrt(2 layers) where a product ends on the residual stream."""
    weights = {}
    for name, (rows, columns) in shapes.items():
        value = np.zeros((rows, columns))
        if "norm" in name:
            value[0] = 1
        elif not name.endswith("_bias"):
            ends = name.endswith((".proj", ".fc2"))
            deviation = DEVIATION / np.sqrt(2 * layers) if ends else DEVIATION
            normals = random_normals(random_key(seed, name), rows * columns)
            value = (deviation * normals).reshape(rows, columns)
        weights[name] = value.astype(np.float32)
    return weights
