#!/usr/bin/env python3
"""run.py TRAINYARD FOLDER [--jobs N]: simulates scaling-175b and scaling-530b from some 256 to 98,304
GPUs and writes results.md and scaling.svg into FOLDER: strong scaling (one batch), weak scaling (a
batch that grows with the GPUs), LAMB's four times larger batch, and what each technique gains where."""

import argparse
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from scaling_plot import svg

HERE = Path(__file__).resolve().parent
MOST = 20_000  # micro-batches a pipeline times stages: beyond, a simulation takes long
ALL = ["tensor", "pipeline", "data", "prefetch", "data_loading"]


@dataclass(frozen=True)
class Model:
    name: str
    replica: int   # GPUs
    stages: int    # micro-batches come in rounds of so many
    batch: int     # of strong scaling, sequences
    weak: int      # micro-batches a pipeline under weak scaling
    replicas: tuple

    def fits(self, replicas, batch):
        """Whether the batch is a whole number of rounds on so many replicas, and not too many."""
        return batch % (replicas * self.stages) == 0 and batch * self.stages <= MOST * replicas


MODELS = (Model("175b", 64, 8, 6144, 32, (4, 16, 48, 96, 192, 384, 768, 1536)),
          Model("530b", 280, 35, 6160, 140, (1, 4, 11, 22, 44, 88, 176, 352)))

# What goes without one technique, in settings of the scenario.
WITHOUT = {
    "parallel block": ["model.block=serial"],
    "window": ["model.window=0"],
    "tensor overlap": ["schedule.overlap=" + json.dumps([o for o in ALL if o != "tensor"])],
    "pipeline overlap": ["schedule.overlap=" + json.dumps([o for o in ALL if o != "pipeline"])],
    "data overlap": ["schedule.overlap=" + json.dumps(["tensor", "pipeline", "data_loading"])],
    "fused kernels": ["software.fused_norm=false", "software.fused_activation=false",
                      "software.fused_residual=false", "software.attention=flash1"],
}
# breakdown_s of `sim --json` that is not the stage's own work
LOSSES = ("bubble", "data_comm", "tensor_comm", "pipeline_comm", "straggler")


class Study:
    def __init__(self, program, jobs):
        self.program, self.pool = program, ThreadPoolExecutor(jobs)

    def result(self, model, replicas, batch, sets=(), draws=1000):
        """`sim --json` of a layout; None where the batch does not fit."""
        if not model.fits(replicas, batch):
            return None
        arguments = [f"parallel.data={replicas}", f"batch.global_sequences={batch}", *sets]
        done = subprocess.run(
            [self.program, "sim", HERE / f"scaling-{model.name}.toml", "--allow-oom", "--json", "-",
             "--draws", str(draws), *(part for a in arguments for part in ("--set", a))],
            capture_output=True, text=True, check=False)
        if done.returncode == 2 or not done.stdout:
            raise SystemExit(done.stderr)
        return json.loads(done.stdout)

    def curve(self, model, batch_of):
        """GPUs -> result over the model's replicas."""
        found = self.pool.map(lambda r: self.result(model, r, batch_of(r)), model.replicas)
        return {r * model.replica: result for r, result in zip(model.replicas, found) if result}

    def gains(self, model):
        """Technique -> GPUs -> MFU points that it gains in strong scaling."""
        cells = [(name, r) for name in WITHOUT for r in model.replicas[2:]
                 if model.fits(r, model.batch)]
        whole = {r: self.pool.submit(self.result, model, r, model.batch, (), 0)
                 for r in {r for _, r in cells}}
        without = {cell: self.pool.submit(self.result, model, cell[1], model.batch,
                                          WITHOUT[cell[0]], 0) for cell in cells}
        out = {name: {} for name in WITHOUT}
        for (name, r), future in without.items():
            mfu, less = whole[r].result()["mfu"], future.result()["mfu"]
            out[name][r * model.replica] = 100 * (mfu - less)
        return out


def row(gpus, result, sequence=2048):
    time, likely = result["iteration_time_s"], result["mfu_interval"]
    batch = round(result["tokens_per_s"] * time / sequence)
    shares = " | ".join(f"{100 * result['breakdown_s'][loss] / time:.1f}" for loss in LOSSES)
    return (f"| {gpus:,} | {batch:,} | {time:.2f} | {100 * result['mfu']:.1f} "
            f"({100 * likely[0]:.1f}-{100 * likely[1]:.1f}) | {shares} |")


def table(curve):
    yield ("| GPUs | batch | s a step | MFU % (80 %) | bubble % | data % | tensor % | pipeline % "
           "| stragglers % |")
    yield "|---" * 9 + "|"
    yield from (row(gpus, result) for gpus, result in curve.items())


def gains_table(gains):
    columns = list(next(iter(gains.values())))
    yield "| MFU points gained | " + " | ".join(f"{gpus:,} GPUs" for gpus in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for name, points in gains.items():
        yield f"| {name} | " + " | ".join(f"{points[g]:+.1f}" for g in columns) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    options = parser.parse_args()
    study = Study(options.program, options.jobs)
    text, panels = [], []
    for model in MODELS:
        curves = {
            f"strong, batch {model.batch:,}": study.curve(model, lambda r, m=model: m.batch),
            f"strong, LAMB's batch {4 * model.batch:,}":
                study.curve(model, lambda r, m=model: 4 * m.batch),
            f"weak, {model.weak} micro-batches a pipeline":
                study.curve(model, lambda r, m=model: m.weak * r)}
        for name, curve in curves.items():
            text += [f"### {model.name.upper()}: {name}\n", *table(curve), ""]
        gains = study.gains(model)
        text += [f"### {model.name.upper()}: what each technique gains, strong scaling\n",
                 *gains_table(gains), ""]
        panels.append((model.name.upper(), {
            name: [(gpus, 100 * r["mfu"], *(100 * x for x in r["mfu_interval"]))
                   for gpus, r in curve.items()] for name, curve in curves.items()}))
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "results.md").write_text("\n".join(text))
    (options.folder / "scaling.svg").write_text(svg(panels))


if __name__ == "__main__":
    main()
