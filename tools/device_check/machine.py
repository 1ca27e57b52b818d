"""The GPUs at hand, the programs that use them, and the time there is."""

import json
import os
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Part of a GPU's name -> the cluster preset with its data sheet.
PRESETS = {"B200": "b200-8", "H200": "h200-8", "H100": "h100-8", "A100": "a100-8"}


class OutOfTime(Exception):
    """There is no time left for a part, or it took all of it."""


class Failed(Exception):
    """What went wrong in a part."""


class Machine:
    """One or several GPUs of a kind, with the programs built for them."""

    def __init__(self, out, seconds, on_host):
        self.out, self.on_host = Path(out).resolve(), on_host
        self.out.mkdir(parents=True, exist_ok=True)
        self.deadline = time.monotonic() + seconds
        self.gpus = [{"name": "CUDA on the host", "capability": "9.0"}] * 2 if on_host else find_gpus()
        self.build = Path(on_host).resolve() if on_host else ROOT / "build/device_check"
        names = [preset for part, preset in PRESETS.items() if part in self.gpus[0]["name"]]
        self.preset = names[0] if names else None
        suffix = "_on_host" if on_host else ""
        where = "tests/cuda_on_host/trainyard_cuda_on_host" if on_host else "tools/trainyard/trainyard"
        self.program = self.build / where
        self.kernels_check = self.build / f"tests/cuda_kernels_check/cuda_kernels_check{suffix}"

    def peak(self, key):
        """A number of the GPU's data sheet under [cluster.gpu]; None for a GPU without one."""
        if self.preset is None:
            return None
        return merged(ROOT / f"scenarios/clusters/{self.preset}.toml")["gpu"].get(key)

    def run(self, *command, allowed=(0,), environment=None):
        """The finished process; Failed with the end of its output unless its code is allowed."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime
        variables = {**os.environ, **(environment or {})}
        if self.on_host:
            variables["CUDA_ON_HOST"] = f"devices={len(self.gpus)}"
        try:
            done = subprocess.run([str(word) for word in command], text=True, cwd=ROOT, timeout=left,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables,
                                  check=False)
        except subprocess.TimeoutExpired as error:
            raise OutOfTime from error
        if done.returncode not in allowed:
            raise Failed(f"{Path(str(command[0])).name} ended with {done.returncode}: "
                         + (done.stderr or done.stdout)[-1500:])
        return done

    def trainyard(self, *words):
        """What the command writes as JSON."""
        path = self.out / "last.json"
        self.run(self.program, *words, "--json", path)
        return json.loads(path.read_text())


def find_gpus():
    """Name, compute capability and memory of each GPU, as nvidia-smi tells them."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        raise Failed("nvidia-smi is not here: no NVIDIA driver, or no GPU")
    query = "--query-gpu=name,compute_cap,memory.total,driver_version"
    done = subprocess.run([tool, query, "--format=csv,noheader"], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    rows = [line.split(", ") for line in done.stdout.splitlines() if line.count(", ") == 3]
    if done.returncode or not rows:
        raise Failed("nvidia-smi names no GPU: " + done.stdout.strip())
    return [dict(zip(("name", "capability", "memory", "driver"), row)) for row in rows]


def merged(path):
    """[cluster] of a preset with those it is based on."""
    own = tomllib.loads(path.read_text())
    bases = own.get("base", [])
    out = {}
    for base in [bases] if isinstance(bases, str) else bases:
        out = overlaid(out, merged(path.parent / base))
    cluster = dict(own.get("cluster", {}))
    name = cluster.get("gpu")
    if isinstance(name, str):
        cluster["gpu"] = merged(ROOT / f"scenarios/gpus/{name}.toml")["gpu"]
    return overlaid(out, cluster)


def overlaid(below, above):
    """`above` on top of `below`, table by table."""
    out = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = overlaid(out[key], value) if both else value
    return out
