#!/usr/bin/env python3
"""fit.py TRAINYARD [NAME...]: fits constants of kernels anew to the tables in data/ and writes fitted/,
one file a GPU, which the profiles here have as their base; and those of NCCL in ../clusters/nccl
likewise. Searches start from round numbers or those of another GPU. --out FOLDER writes there instead."""

import argparse
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

# The tables of products are bursts, which no power limit slows; the other settings are round numbers.
PRODUCTS = {f"cluster.gpu.gemm.{key}": value for key, value in {
    "sustained": 1, "t0_us": 2, "fill_us": 2, "bandwidth_fraction": 0.5, "split_k_us": 4,
    "power_cap": 0.8, "tile_efficiency": "[0.9,0.8,0.7,0.6]"}.items()}
# PyTorch's own norms; its launches are in the times.
EAGER = {"software.fused_norm": "false"}
FRACTIONS = {f"cluster.gpu.memory_bound.{key}": 0.8 for key in (
    "elementwise", "softmax", "norm_forward", "norm_forward_unfused", "norm_backward_unfused")}
# Bytes of a logit: float copy and maximum; subtract, exp, sum and divide; gradient.
LOSS = {f"cluster.gpu.memory_bound.loss_{key}_bytes": value
        for key, value in (("max", 10), ("sum", 27), ("backward", 20))}


def products(gpu, cluster):
    return {"table": gpu, "cluster": cluster, "start": PRODUCTS}


def attention(table, cluster, kernel, impl, start, **options):
    settings = {"head_64": 1, "head_256": 1, "half_keys": 200, "blocks_per_sm": 8,
                "occupancy_exponent": 0.25, **start}
    named = {f"cluster.gpu.attention.{kernel}.{key}": value for key, value in settings.items()}
    return {"table": table, "cluster": cluster, "where": [f"impl={impl}"],
            "start": {"software.attention": kernel, **named}, **options}


def charts(gpu, cluster, kernel, impl, forward, backward, **options):
    """All with blocks enough for every SM: they tell rates by length and head dimension."""
    return attention(f"{gpu}-attention", cluster, kernel, impl,
                     {"forward_tflops": forward, "backward_tflops": backward},
                     keep=["t0_us", "blocks_per_sm", "occupancy_exponent"], **options)


def both_passes(gpu, cluster, kernel, impl, forward, backward):
    """One time for both tells one rate; their ratio is that of the start. Rates by length are those of
    heads of 128, as large models have them, and head dimension 64 relative to those by all rows."""
    wide = charts(gpu, cluster, kernel, impl, forward, backward, together=["tflops"],
                  write=["tflops", "half_keys"])
    wide["where"].append("d=128")
    return [wide, charts(gpu, cluster, kernel, impl, forward, backward, together=["tflops"],
                         write=["head_64"])]


def serving(gpu, cluster, kernel, impl, forward):
    """Few and many blocks, so these tell occupancy. The rest is of an operator with its metadata."""
    return attention(f"{gpu}-serving", cluster, kernel, impl, {"forward_tflops": forward, "t0_us": 10},
                     write=["blocks_per_sm", "occupancy_exponent"])


def memory(gpu, cluster, *where, **options):
    start = {**FRACTIONS, **options.pop("start", {})}
    return {"table": f"{gpu}-memory", "cluster": cluster, "where": where, "keep": ["t0_us"],
            "start": start, **options}


A100, H100, H200, B200, V100 = "a100-sxm-80", "h100-sxm", "h200-sxm", "b200-sxm", "v100-sxm-32"
PARTS = {
    A100: [products(A100, "a100-8"),
           *both_passes(A100, "a100-8", "flash2", "flash-attn2", 200, 190),
           # 4,096 keys on few heads and many: occupancy and rates, but not lengths.
           attention(f"{A100}-attention", "a100-8", "cudnn", "cuDNN",
                     {"forward_tflops": 200, "backward_tflops": 200, "half_keys": 245},
                     keep=["t0_us", "half_keys"]),
           memory(A100, "a100-8", start={**EAGER, "cluster.gpu": "a100-pcie-80"})],
    H100: [products(H100, "h100-8"),
           charts(H100, "h100-8", "flash2", "flash-attn2", 300, 300),
           charts(H100, "h100-8", "flash3", "flash-attn3", 600, 600),
           charts(H100, "h100-8", "cudnn", "cudnn", 600, 600),
           serving(H100, "h100-8", "flash3", "(vllm)", 600),
           memory(H100, "h100-8", "impl=liger"),
           memory(H100, "h100-8", "impl=huggingface", start=EAGER)],
    H200: [products(H200, "h200-8"),
           charts(H200, "h200-8", "cudnn", "cudnn", 600, 600),
           memory(H200, "h200-8", "impl=cudnn"),
           memory(H200, "h200-8", "impl=pytorch", start=EAGER)],
    B200: [products(B200, "b200-8"),
           # An eager loop that waits for the host: 40 us.
           attention(f"{B200}-attention", "b200-8", "cudnn", "cuDNN",
                     {"forward_tflops": 1200, "backward_tflops": 1200, "t0_us": 40, "blocks_per_sm": 2}, keep=["t0_us"])],
    V100: [memory(V100, "v100-8", start=EAGER)],
    # Of every GPU, in bytes. One time for both parts of the forward pass.
    "cross-entropy": [memory(H100, "h100-8", "impl=megatron-fused", start=LOSS,
                             together=["loss_max,loss_sum"])],
}


# Round numbers; steps over NVLink and between nodes as in the profiles where rows of one node, or of
# few messages that this protocol is the fastest for, do not tell them.
NCCL = {f"cluster.nccl.{key}": value for key, value in {
    "ll.base_us": 10, "ll128.base_us": 20, "simple.base_us": 40, "ll.nvlink_us": 1,
    "ll128.fraction": 0.8, "simple.fraction": 0.9, "all_to_all_us": 5, "all_to_all_peer_us": 1,
    "all_to_all_fraction": 0.8}.items()}
COLLECTIVES = {
    "ampere": {"cluster": "a100-8", "start": NCCL,
               "keep": ["launch_us", "net_us", "ll128.nvlink_us", "simple.nvlink_us"]},
    "hopper": {"cluster": "h100-8", "keep": ["launch_us", "net_us"], "start": {
        **NCCL, "cluster.nccl.ll128.nvlink_us": 1, "cluster.nccl.simple.nvlink_us": 1,
        "cluster.nccl.nvls_us": 50, "cluster.nccl.nvls_gbs": 300}},
}
NCCL_FOLDER = HERE.parent / "clusters" / "nccl"


def fit(program, part, out, folder=HERE):
    command = [program, "calibrate", "--from", f"data/{part['table']}.csv", "--cluster",
               part["cluster"], "--constants-only", "--out", out]
    for key, value in part["start"].items():
        command += ["--set", f"{key}={value}"]
    for option in ("where", "keep", "together", "write"):
        for text in part.get(option, ()):
            command += [f"--{option}", text]
    print(part["table"], *part.get("where", ()), flush=True)
    subprocess.run(command, cwd=folder, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("names", nargs="*", choices=[[], *PARTS, *COLLECTIVES], help="default: all")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    program = options.program.resolve()
    for name in options.names or [*PARTS, *COLLECTIVES]:
        home = HERE if name in PARTS else NCCL_FOLDER
        out = (options.out or home / "fitted").resolve()
        if name in COLLECTIVES:
            fit(program, {"table": name, **COLLECTIVES[name]}, out / f"{name}.toml", home)
            continue
        with tempfile.TemporaryDirectory() as folder:
            texts = []
            for number, part in enumerate(PARTS[name]):
                text = Path(folder, f"{number}.toml")
                fit(program, part, text)
                texts.append(text.read_text())
        (out / f"{name}.toml").write_text("\n".join(texts))


if __name__ == "__main__":
    main()
