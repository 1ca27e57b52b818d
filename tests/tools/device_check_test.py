"""tools/device_check on the host CUDA: every part does its work, and what goes wrong is told."""

import json
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = sys.argv[1]
sys.path.insert(0, str(ROOT / "tools/device_check"))
import checks
from machine import Failed, OutOfTime


def check(out, *arguments):
    return subprocess.run([sys.executable, ROOT / "tools/device_check", "--out", out, *arguments],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=300)


class MadeUpRuns:
    """A machine whose trainings on GPUs have the losses of those on the CPU, times a factor."""

    def __init__(self, factor, graphs_factor=1):
        self.factor, self.graphs_factor = factor, graphs_factor

    def trainyard(self, *words):
        factor = self.factor if "cuda" in words else 1
        factor *= self.graphs_factor if "run.cuda_graphs=true" in words else 1
        return {"steps": [{"loss": loss * factor, "grad_norm": 1} for loss in (10, 9, 8, 7, 6, 5)]}

    def losses(self, precision):
        return precision


class Losses(unittest.TestCase):
    def passed(self, runs):
        return checks.losses(runs, runs)["passed"]

    def test_equal_losses_pass_and_different_ones_do_not(self):
        self.assertTrue(self.passed(MadeUpRuns(1)))
        self.assertFalse(self.passed(MadeUpRuns(1.0002)))
        self.assertFalse(self.passed(MadeUpRuns(float("nan"))))

    def test_graphs_that_change_a_bit_do_not_pass(self):
        self.assertFalse(self.passed(MadeUpRuns(1, 1 + 2**-52)))


class Kernels(unittest.TestCase):
    # "kernels: FileNotFoundError": the program had said that the driver was too old.
    def test_what_kept_the_kernels_from_running_is_told(self):
        with tempfile.TemporaryDirectory() as out:
            (Path(out) / "kernels.json").write_text('{"kernels": []}')  # of a check before this one
            machine = unittest.mock.Mock(out=Path(out), on_host=None)
            machine.peak.return_value = None
            machine.run.return_value = subprocess.CompletedProcess((), 1, "", "no driver\n")
            with self.assertRaisesRegex(Failed, "no driver"):
                checks.kernels(machine, None)


class MadeUpSanitizer:
    """A machine on which the sanitizer's runs end with these codes; after them the time is over."""

    on_host, kernels_check, program = None, Path("kernels"), Path("trainyard")

    def __init__(self, *codes):
        self.codes, self.environments = list(codes), []

    def run(self, *command, allowed, environment):
        self.environments.append(environment)
        if not self.codes:
            raise OutOfTime
        return subprocess.CompletedProcess(command, self.codes.pop(0), "what it found", "")

    def losses(self, precision, **more):
        return "job.toml"


class Sanitizer(unittest.TestCase):
    def part(self, *codes):
        with unittest.mock.patch.object(checks, "SANITIZERS", (sys.executable,)):
            self.machine = MadeUpSanitizer(*codes)
            return checks.sanitizer(self.machine, self.machine)

    def test_what_a_tool_finds_is_told(self):
        self.assertTrue(self.part(0, 0, 0)["passed"])
        part = self.part(0, 99, 0)
        self.assertFalse(part["passed"])
        self.assertEqual([row["output"] for row in part["runs"]], ["", "what it found", ""])

    def test_a_training_is_one_process(self):  # or the sanitizer would watch its launcher
        self.part(0, 0, 0)
        self.assertEqual(self.machine.environments[2]["WORLD_SIZE"], "1")

    def test_what_ran_before_the_time_was_over_is_kept(self):
        part = self.part(0)
        self.assertEqual((part["passed"], len(part["runs"])), (False, 1))
        self.assertIn("racecheck on kernels", part["skipped"])

    def test_a_missing_tool_is_told_with_its_packages(self):
        with unittest.mock.patch.object(checks, "SANITIZERS", ("not-a-tool",)):
            part = checks.sanitizer(MadeUpSanitizer(), None)
        self.assertIn("cuda-sanitizer-13-0", part["skipped"])


class DeviceCheck(unittest.TestCase):
    def setUp(self):
        self.out = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def report(self):
        return json.loads((self.out / "report.json").read_text())

    def test_all_parts_pass_on_the_host_cuda(self):
        run = check(self.out, "--on-host", BUILD)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        report = self.report()
        self.assertTrue(report["passed"])
        self.assertEqual(report["left_out"], ["sanitizer"])
        parts = report["parts"]
        kernels = {row["kernel"] for row in parts["kernels"]["kernels"]}
        self.assertLessEqual({"gemm_forward", "attention_backward", "attention_backward_cudnn", "adamw",
                              "loss_sum"}, kernels)
        losses = {row["precision"]: row for row in parts["losses"]["rows"]}
        self.assertEqual(losses.keys(), {"fp32", "bf16", "fp16"})
        self.assertEqual(len(losses["fp32"]["losses"]), 6)
        # Storing activations in 16 bits must show.
        self.assertGreater(losses["bf16"]["difference"], losses["fp32"]["difference"])
        self.assertGreater(parts["step"]["rows"][0]["tokens_per_s"], 0)
        self.assertGreaterEqual(parts["step"]["gap_us"], 0)
        called = {(call["op"], call["ranks"]) for call in parts["calibration"]["collectives"]}
        self.assertLessEqual({("all_reduce", 2), ("all_gather", 2), ("send", 2)}, called)
        self.assertGreater(parts["prediction"]["step_s"], 0)
        self.assertEqual([row["ranks"] for row in parts["ranks"]["rows"]], [2, 2, 2])
        self.assertIn("passed", run.stdout)
        self.assertEqual((self.out / "report.txt").read_text(), run.stdout)

    def test_parts_that_the_time_is_too_short_for_are_named_and_nothing_has_passed(self):
        run = check(self.out, "--on-host", BUILD, "--seconds", "0.01")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("kernels", self.report()["left_out"])
        self.assertIn("the time is over", run.stdout)

    def test_a_part_that_fails_is_told_with_what_its_program_said(self):
        run = check(self.out, "--on-host", self.out)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("cuda_kernels_check_on_host", self.report()["parts"]["kernels"]["failure"])

    def test_a_machine_without_a_gpu_is_refused(self):
        run = subprocess.run([sys.executable, ROOT / "tools/device_check", "--out", self.out],
                             text=True, stderr=subprocess.PIPE, env={"PATH": ""}, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("no NVIDIA driver, or no GPU", run.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
