"""Every layout trains the same model: losses, gradient norms and weights are those of one rank.

fp32 sums of n terms in another order differ by about sqrt(n) 2^-24 of their size. Four steps of a
model of this size stay within BOUND of the reference's loss and norm. Adam divides by the root of
the second moment, which would blow rounding up where a gradient is almost zero; epsilon 1e-3 bounds
that, so that a weight moves by less than learning_rate / epsilon times the rounding of its gradient:
1e-2 / 1e-3 * 2^-24 * (largest gradient, about 1) * sqrt(384 tokens) = 1.2e-5 a step."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.conformance.checkpoint_files import newest, read_checkpoint
from tests.conformance.jobs import write_documents, write_job
from tests.conformance.pairwise import covering_set
from tests.tools import cli

BOUND = 2e-5          # relative, of losses and norms
WEIGHT_BOUND = 5e-5   # absolute, of weights of size 0.02 to 1 that move by up to 1e-2 a step

# All pairs of values take 27 layouts. `python3 layouts_test.py PROGRAM SCENARIOS 60` trains more,
# for groups of three values.
LAYOUTS = int(sys.argv[3]) if len(sys.argv) > 3 else 24

# With a fourth argument layouts train on that backend, the references on the CPU as ever; a fifth,
# N, takes every Nth layout of at most eight ranks.
BACKEND = sys.argv[4] if len(sys.argv) > 4 else "cpu"
EVERY = int(sys.argv[5]) if len(sys.argv) > 5 else 1
MOST_RANKS = 16 if BACKEND == "cpu" else 8
# The host CUDA takes seconds a step; the second one's loss is that of updated weights.
FEWER = {} if BACKEND == "cpu" else {"training.steps": 2}

AXES = {
    "tensor": [1, 2, 4], "pipeline": [1, 2, 4], "data": [1, 2, 3], "context": [1, 2],
    "zero": [0, 1, 2, 3], "sequence": [False, True],
    "schedule": ["1f1b", "gpipe", "interleaved-1f1b", "zb-h1", "zb-2p"],
    "overlap": [False, True], "recompute": ["none", "selective", "full"],
    "block": ["serial", "parallel"], "window": [0, 5], "family": ["gpt2", "llama"],
    "optimizer": ["adamw", "lamb"],
}

def legal(c):
    ranks = c["tensor"] * c["pipeline"] * c["data"] * c["context"]
    return (ranks <= MOST_RANKS
            and (c["tensor"] > 1 or not c["sequence"])
            and (c["data"] * c["context"] > 1 or c["zero"] == 0)
            and (c["schedule"] == "1f1b" or c["pipeline"] > 1)
            and (c["schedule"] != "zb-2p" or c["overlap"]))


def settings_of(c):
    overlap = []
    if c["overlap"]:
        overlap = ["pipeline", "data", "data_loading"]
        overlap += ["tensor"] if c["sequence"] else []
        overlap += ["prefetch"] if c["zero"] > 0 else []
    s = {
        "parallel.tensor": c["tensor"], "parallel.pipeline": c["pipeline"],
        "parallel.data": c["data"], "parallel.zero": c["zero"],
        "parallel.context": c["context"],
        "parallel.sequence": str(c["sequence"]).lower(),
        "parallel.virtual_stages": 2 if c["schedule"] == "interleaved-1f1b" else 1,
        "schedule.pipeline": json.dumps(c["schedule"]), "schedule.overlap": json.dumps(overlap),
        "schedule.tensor_chunks": 2,
        "training.recompute": json.dumps(c["recompute"]),
    }
    return {**s, **model_settings(c)}


def model_settings(c):
    s = {"model.block": json.dumps(c["block"]), "model.window": c["window"],
         "training.optimizer": json.dumps(c["optimizer"]),
         # A tied table cannot be exchanged between stages under ZeRO-3.
         "model.tied": str(c["family"] == "gpt2" and c["zero"] < 3).lower()}
    if c["family"] == "llama":
        s |= {"model.norm": '"rmsnorm"', "model.activation": '"swiglu"',
              "model.position": '"rope"', "model.bias": "false", "model.ffn": 48}
    return s


class Layouts(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.tokens = write_documents(self.folder)
        self.references = {}

    def train(self, name, settings, backend=BACKEND):
        """What a training reports, and the weights it leaves."""
        job = write_job(self.folder / f"{name}.toml", self.tokens, FEWER | settings)
        out = self.folder / name
        run = cli.trainyard("train", job, "--out", out, "--json", "-", "--backend", backend)
        self.assertEqual(run.returncode, 0, f"{settings}\n{run.stderr[-2000:]}")
        simulated = json.loads(cli.trainyard("sim", job, "--json", "-").stdout)
        report = json.loads(run.stdout)
        self.assertEqual(report["program_hash"], simulated["program_hash"], settings)
        return report, read_checkpoint(newest(out))

    def reference(self, c):
        model = model_settings(c)
        key = json.dumps(model)
        if key not in self.references:
            self.references[key] = self.train(f"reference{len(self.references)}", model,
                                              backend="cpu")
        return self.references[key]

    def compare(self, c, got, expected):
        for a, b in zip(got[0]["steps"], expected[0]["steps"], strict=True):
            for what in ("loss", "grad_norm"):
                self.assertLess(abs(a[what] / b[what] - 1), BOUND, f"{what} of {a['step']}: {c}")
        self.assertEqual(got[1].keys(), expected[1].keys())
        for name, values in expected[1].items():
            worst = max(abs(x - y) for x, y in zip(got[1][name], values, strict=True))
            self.assertLess(worst, WEIGHT_BOUND, f"{name}: {c}")

    def test_every_layout_of_a_covering_set_is_one_rank(self):
        chosen = covering_set(AXES, legal, at_least=LAYOUTS)
        self.assertGreaterEqual(len(chosen), LAYOUTS)
        for i, c in enumerate(chosen[::EVERY]):
            with self.subTest(layout=c):
                self.compare(c, self.train(f"layout{i}", settings_of(c)), self.reference(c))

    @unittest.skipIf(EVERY > 1, "a sample of layouts is asked for")
    def test_replicas_hold_the_same_bits_after_fifty_steps(self):
        """`train` compares them itself at every checkpoint, here every tenth step."""
        more = {"training.steps": 50, "run.checkpoint_steps": 10, "batch.global_sequences": 4,
                "model.dropout": 0.1}
        for zero, precision in ((0, "fp32"), (1, "bf16"), (2, "fp16")):
            with self.subTest(zero=zero):
                c = {"tensor": 2, "pipeline": 2, "data": 2, "context": 1, "zero": zero, "sequence": zero > 0,
                     "schedule": "1f1b", "overlap": True, "recompute": "none", "block": "serial",
                     "window": 0, "family": "gpt2", "optimizer": "adamw"}
                report, _ = self.train(f"replicas{zero}", {
                    **settings_of(c), **more, "training.precision": json.dumps(precision)})
                self.assertEqual(len(report["steps"]), 50)


if __name__ == "__main__":
    cli.main()
