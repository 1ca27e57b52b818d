#!/usr/bin/env python3
"""fit.py TRAINYARD [GPU...]: fits the constants of matrix products anew to the tables in data/ and
writes fitted/, one file a GPU, which the profiles here have as their base. Where the search starts
is the same for all GPUs and is none of them. --out FOLDER writes there instead."""

import argparse
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
# GPU -> a cluster that has it
CLUSTERS = {"a100-sxm-80": "a100-8", "h100-sxm": "h100-8", "h200-sxm": "h200-8", "b200-sxm": "b200-8"}
# The tables are bursts, which no power limit slows; the other settings are round numbers.
START = {"sustained": 1, "t0_us": 2, "fill_us": 2, "bandwidth_fraction": 0.5, "split_k_us": 4,
         "power_cap": 0.8, "tile_efficiency": "[0.9,0.8,0.7,0.6]"}


def fit(program, gpu, folder):
    settings = [part for key, value in START.items()
                for part in ("--set", f"cluster.gpu.gemm.{key}={value}")]
    subprocess.run([program, "calibrate", "--from", f"data/{gpu}.csv", "--cluster", CLUSTERS[gpu],
                    "--constants-only", *settings, "--out", folder / f"{gpu}.toml"],
                   cwd=HERE, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("gpus", nargs="*", choices=[[], *CLUSTERS], help="default: all")
    parser.add_argument("--out", type=Path, default=HERE / "fitted")
    options = parser.parse_args()
    for gpu in options.gpus or CLUSTERS:
        fit(options.program.resolve(), gpu, options.out.resolve())


if __name__ == "__main__":
    main()
