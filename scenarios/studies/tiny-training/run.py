#!/usr/bin/env python3
"""run.py TRAINYARD FOLDER [--jobs N]: trains each scenario of this folder at several learning rates,
then at the best one with several seeds, and writes results.md and loss.svg into FOLDER. The report
of every run stays in FOLDER; one that is there already is not run again."""

import argparse
import json
import math
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean

from loss_plot import Curve, Panel, svg

HERE = Path(__file__).resolve().parent
YARDSTICK = "1-serial"
PANELS = (
    ("serial and parallel block", {"1-serial": "serial", "2-parallel-block": "parallel"}),
    ("full and sliding-window attention", {"1-serial": "full", "3-sliding-window": "window 32"}),
    ("Adam and LAMB, same tokens", {"1-serial": "Adam, batch 16",
                                    "4-adam-batch-x4": "Adam, batch 64",
                                    "5-lamb-batch-x4": "LAMB, batch 64"}))
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
FIRST = slice(2, 5)  # of the rates; others follow while the best one is at an edge
SEARCH_SEED, SEEDS = 1, (11, 12)


class Study:
    def __init__(self, program, folder, jobs):
        self.program, self.folder = program, folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.pool = ThreadPoolExecutor(jobs)
        self.variants = sorted(path.stem for path in HERE.glob("[0-9]-*.toml"))

    def report(self, variant, rate, seed):
        """What `train --json` reports of one run."""
        path = self.folder / f"{variant}-{rate:g}-{seed}.json"
        if not path.exists():
            done = subprocess.run(
                [self.program, "train", HERE / f"{variant}.toml", "--seed", str(seed), "--set",
                 f"training.learning_rate={rate}", "--set", f"training.min_learning_rate={rate / 10}",
                 "--json", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
            if done.returncode != 0 and not path.exists():
                raise SystemExit(done.stderr.decode())
        return json.loads(path.read_text())

    def losses(self, cells):
        """The last validation loss of each (variant, rate, seed); infinite where the run broke off."""
        def loss(cell):
            report = self.report(*cell)
            return report["final"]["validation_loss"] if report["failure"] is None else math.inf
        return dict(zip(cells, self.pool.map(loss, cells)))

    def search(self):
        """Variant -> {rate: loss}, such that the best rate has worse ones on both sides."""
        grid = {variant: {} for variant in self.variants}
        wanted = [(variant, rate) for rate in RATES[FIRST] for variant in self.variants]
        while wanted:
            found = self.losses([(*cell, SEARCH_SEED) for cell in wanted])
            for (variant, rate, _), loss in found.items():
                grid[variant][rate] = loss
            best = {v: RATES.index(min(losses, key=losses.get)) for v, losses in grid.items()}
            wanted = [(v, RATES[i]) for v, at in best.items() for i in (at - 1, at + 1)
                      if 0 <= i < len(RATES) and RATES[i] not in grid[v]]
        return grid

    def curve(self, variant, rate, label):
        """Validation loss over tokens: the mean of the seeds, and their range as a band."""
        points = []
        for seed in SEEDS:
            report = self.report(variant, rate, seed)
            tokens = report["steps"][0]["tokens"] / 1e3
            points.append([(e["step"] * tokens, e["validation_loss"]) for e in report["evaluations"]])
        by_step = list(zip(*points))
        return Curve(label, *([(at[0][0], take([y for _, y in at])) for at in by_step]
                              for take in (mean, min, max)))


def spread(values, form):
    return f"{mean(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def tables(grid, best, finals):
    yield f"| scenario | learning rate | validation loss, seeds {', '.join(map(str, SEEDS))} " \
          "| minus the serial block's, seed by seed |"
    yield "|---|---|---|---|"
    for variant, losses in finals.items():
        differences = [a - b for a, b in zip(losses, finals[YARDSTICK])]
        yield (f"| `{variant}` | {best[variant]:g} | {spread(losses, '.3f')} | "
               f"{'' if variant == YARDSTICK else spread(differences, '+.3f')} |")
    yield f"\nThe search, validation loss with seed {SEARCH_SEED}:\n"
    yield "| scenario | " + " | ".join(f"{rate:g}" for rate in RATES) + " |"
    yield "|---" * (len(RATES) + 1) + "|"
    for variant, losses in grid.items():
        cells = (f"{losses[rate]:.3f}" if rate in losses else "" for rate in RATES)
        yield f"| `{variant}` | " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, a thread each")
    options = parser.parse_args()
    study = Study(options.program, options.folder, options.jobs)
    grid = study.search()
    best = {variant: min(losses, key=losses.get) for variant, losses in grid.items()}
    found = study.losses([(v, best[v], seed) for seed in SEEDS for v in study.variants])
    finals = {v: [found[v, best[v], seed] for seed in SEEDS] for v in study.variants}
    (study.folder / "results.md").write_text("\n".join(tables(grid, best, finals)) + "\n")
    panels = [Panel(title, [study.curve(v, best[v], label) for v, label in curves.items()])
              for title, curves in PANELS]
    (study.folder / "loss.svg").write_text(
        svg(panels, "thousand tokens", "validation loss, nats a byte", top=3.5))


if __name__ == "__main__":
    main()
