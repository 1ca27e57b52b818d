"""Trainings in 16 bits, evaluations, checkpoints and CUDA graphs of the CUDA backend are the CPU
backend's.

A number stored in 16 bits is off by up to 2^-9 (bf16) or 2^-12 (fp16) of itself. Backends that sum in
another order round some activations the other way, a unit apart; losses and norms, which average over
many of them, stay within one unit."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.conformance.checkpoint_files import newest, read_checkpoint
from tests.conformance.jobs import write_documents, write_job
from tests.tools import cli

BOUNDS = {"fp32": 2e-5, "bf16": 2**-8, "fp16": 2**-11}  # fp32: as layouts_test.py
SETTINGS = {"model.layers": 2, "model.dropout": 0.1, "batch.global_sequences": 4,
            "training.learning_rate_schedule": '"constant"', "data.validation": 0.2,
            "run.evaluation_sequences": 4, "run.evaluation_steps": 2, "parallel.data": 2,
            "parallel.zero": 1}


class Gpus(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.tokens = write_documents(self.folder)

    def train(self, out, backend, settings, *more):
        job = write_job(self.folder / "job.toml", self.tokens, SETTINGS | settings)
        run = cli.trainyard("train", job, "--backend", backend, "--out", self.folder / out, "--json",
                            "-", *more)
        self.assertEqual(run.returncode, 0, run.stderr[-2000:])
        return json.loads(run.stdout)

    def weights(self, out):
        return read_checkpoint(newest(self.folder / out))

    def compare(self, got, expected, bound):
        for what, key in (("steps", "loss"), ("steps", "grad_norm"), ("evaluations", "validation_loss")):
            for a, b in zip(got[what], expected[what], strict=True):
                self.assertLess(abs(a[key] / b[key] - 1), bound, f"{key} of {what} {a['step']}")

    def test_each_precision_has_the_cpus_losses_norms_and_evaluations(self):
        for precision, bound in BOUNDS.items():
            with self.subTest(precision=precision):
                settings = {"training.precision": json.dumps(precision)}
                got = self.train(f"gpu-{precision}", "cuda", settings)
                self.assertGreaterEqual(len(got["evaluations"]), 2)
                self.compare(got, self.train(f"cpu-{precision}", "cpu", settings), bound)

    def test_graphs_change_no_bit_of_losses_and_checkpoints(self):
        for precision in ("fp32", "bf16"):
            settings = {"training.precision": json.dumps(precision)}
            plain = self.train(f"plain-{precision}", "cuda", settings)
            graphs = self.train(f"graphs-{precision}", "cuda",
                                settings | {"run.cuda_graphs": "true"})
            for step, other in zip(plain["steps"], graphs["steps"], strict=True):
                self.assertEqual((step["loss"], step["grad_norm"]),
                                 (other["loss"], other["grad_norm"]))
            self.assertEqual(self.weights(f"plain-{precision}"), self.weights(f"graphs-{precision}"))

    def test_a_run_goes_on_from_the_other_backends_checkpoint_and_from_its_own_bit_for_bit(self):
        half = {"training.steps": 2, "training.precision": '"bf16"'}
        whole = {"training.precision": '"bf16"'}
        expected = self.train("whole", "cuda", whole)["steps"][2:]
        for first, second in (("cuda", "cuda"), ("cpu", "cuda"), ("cuda", "cpu")):
            with self.subTest(first=first, second=second):
                self.train(f"{first}-{second}", first, half)
                steps = self.train(f"{first}-{second}", second, whole, "--resume")["steps"]
                self.assertEqual([s["step"] for s in steps], [s["step"] for s in expected])
                for a, b in zip(steps, expected, strict=True):
                    self.assertLess(abs(a["loss"] / b["loss"] - 1), BOUNDS["bf16"])
        self.assertEqual(self.weights("cuda-cuda"), self.weights("whole"))


if __name__ == "__main__":
    cli.main()
