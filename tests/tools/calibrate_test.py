"""`calibrate` measures this machine; `sim` then predicts trainings on it."""

import json
import statistics

from cli import SCENARIOS, CliTest, main, trainyard

SETTINGS = {"parallel.tensor": 1, "parallel.pipeline": 2, "parallel.data": 1,
            "parallel.sequence": "false", "schedule.overlap": '["pipeline"]', "model.layers": 4,
            "training.steps": 12, "training.warmup_steps": 2, "data.validation": 0,
            "run.checkpoint_steps": 0, "run.evaluation_steps": 0}


class Calibrate(CliTest):
    def test_a_measured_machine_predicts_its_trainings(self):
        profile = self.folder / "machine.toml"
        table = self.succeed("calibrate", "--ranks", "2", "--out", profile)
        for kernel in ("gemm_weight_grad", "attention_backward", "adamw", "all_reduce", "send"):
            self.assertIn(kernel, table)
        job = [f"{SCENARIOS}/tiny-gpt.toml"]
        job += [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        on_it = ["--set", f"cluster.profile={profile}", "--json", "-"]
        predicted = json.loads(self.succeed("sim", *job, *on_it))["iteration_time_s"]
        steps = json.loads(self.succeed("train", *job, "--json", "-"))["steps"]
        measured = statistics.median(step["time_s"] for step in steps[2:])
        # How near is measured by conformance/prediction_test.py on a machine at rest; here others
        # may run beside any of the three.
        self.assertLess(measured / 3, predicted)
        self.assertLess(predicted, 3 * measured)

        refused = trainyard("sim", *job, *on_it, "--set", "training.precision=bf16")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("peak_bf16_tflops is 0); valid here: fp32", refused.stderr)

    def test_a_precision_that_there_is_not_is_refused(self):
        run = trainyard("calibrate", "--precision", "fp8")
        self.assertEqual(run.returncode, 2)
        self.assertIn("--precision fp8: valid: ", run.stderr)


if __name__ == "__main__":
    main()
