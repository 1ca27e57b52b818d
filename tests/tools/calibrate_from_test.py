#!/usr/bin/env python3
"""`trainyard calibrate --from`: constants are found again from times that were made with others."""

import json
import subprocess
import sys
from pathlib import Path

from cli import PROGRAM, SCENARIOS, CliTest, main

HEAD = ("gpu,kernel,dtype,m,n,k,b,h,hkv,s,d,causal,window,direction,impl,time_us,source\n")
SHAPES = [(m, n, k) for m in (512, 2048, 3072) for n in (1024, 4096, 6144) for k in (1024, 8192)]
CALLS = [(op, gpus, 1 << power) for op in ("all_reduce", "all_gather") for gpus in (4, 8)
         for power in (14, 18, 22, 26, 28)]


def kernels(times):
    return HEAD + "".join(f"A100-SXM4-80GB,gemm,bf16,{m},{n},{k},,,,,,,,fwd,mine,{time},mine\n"
                          for (m, n, k), time in zip(SHAPES, times))


def calls(times):
    return "source,gpu,nodes,gpus,nic,op,algo,bytes,time_us\n" + "".join(
        f"mine,A100,1,{gpus},NVLink,{op},,{size},{time}\n"
        for (op, gpus, size), time in zip(CALLS, times))


class CalibrateFrom(CliTest):
    def predicted(self, kind, text, setting):
        """What the model says to a table under `setting`."""
        section = kind.removeprefix("--")
        rules = self.scenario(
            "rules.toml", f'[[{section}]]\ngpu = "A100"\nset = ["cluster.preset=a100-8", "{setting}"]\n'
                          'why = "made up"\n')
        got = json.loads(self.succeed("validate", kind, self.scenario("old.csv", text),
                                      "--assumptions", rules, "--json", "-"))
        return [row["predicted"] for row in got["rows"]]

    def calibrated(self, text, *arguments):
        """Error before, fitted and held out of the first family, and the file that was written."""
        out, report = self.folder / "profile.toml", self.folder / "report.json"
        self.succeed("calibrate", "--from", self.scenario("table.csv", text), "--cluster", "a100-8",
                     "--out", out, "--json", report, *arguments)
        return json.loads(report.read_text())[0], out

    def test_kernel_constants_are_found_again(self):
        times = self.predicted("--kernels", kernels([1] * len(SHAPES)),
                               "cluster.gpu.gemm.tile_efficiency=[0.6,0.5,0.45,0.4]")
        found, profile = self.calibrated(kernels(times), "--folds", "3")
        self.assertEqual(found["rows"], len(SHAPES))
        self.assertGreater(found["before"], 0.15)
        self.assertLess(found["fitted"], 0.02)
        self.assertLess(found["held_out"], 0.06)
        # The file is a scenario that says where it comes from.
        self.assertIn("table.csv", profile.read_text())
        job = ("--set", "model=tiny-gpt", "--set", "batch.sequence_length=64")
        self.succeed("plan", profile, *job)

    def test_collective_constants_are_found_again(self):
        times = self.predicted("--collectives", calls([1] * len(CALLS)),
                               "cluster.nccl.simple.fraction=0.6")
        found, _ = self.calibrated(calls(times), "--folds", "2")
        self.assertGreater(found["before"], 0.05)
        self.assertLess(found["fitted"], found["before"] / 4)

    def test_shipped_constants_are_what_the_shipped_tables_give(self):
        gpus = Path(SCENARIOS, "gpus")
        nccl = Path(SCENARIOS, "clusters", "nccl")
        homes = {"b200-sxm": gpus, "cross-entropy": gpus, "ampere": nccl}
        subprocess.run([sys.executable, gpus / "fit.py", PROGRAM, *homes, "--out", self.folder],
                       check=True, capture_output=True)
        for name, home in homes.items():
            fitted = (self.folder / f"{name}.toml").read_text()
            self.assertEqual(fitted, (home / "fitted" / f"{name}.toml").read_text())
            self.assertIn("on rows held out", fitted)

    def test_every_shipped_table_is_fitted_to_and_every_fit_is_the_base_of_a_profile(self):
        for home in (Path(SCENARIOS, "gpus"), Path(SCENARIOS, "clusters", "nccl")):
            fits = "".join(file.read_text() for file in (home / "fitted").glob("*.toml"))
            profiles = "".join(file.read_text() for file in home.glob("*.toml"))
            self.assertTrue(fits)
            for table in (home / "data").glob("*.csv"):
                self.assertIn(f"--from data/{table.name},", fits)
            for file in (home / "fitted").glob("*.toml"):
                self.assertIn(f'"fitted/{file.name}"', profiles)

    def test_constants_stay_or_move_together_or_are_left_out(self):
        text = kernels([100] * len(SHAPES))
        _, profile = self.calibrated(text, "--folds", "2", "--keep", "gemm.t0_us", "--keep", "tile",
                                     "--together", "fill_us,split_k_us", "--write", "_us",
                                     "--constants-only", "--set", "cluster.gpu.gemm.fill_us=2",
                                     "--set", "cluster.gpu.gemm.split_k_us=6")
        lines = profile.read_text().splitlines()
        written = dict(line.split(" = ") for line in lines if line and not line.startswith("#"))
        self.assertEqual(set(written), {"cluster.gpu.gemm.fill_us", "cluster.gpu.gemm.split_k_us"})
        self.assertAlmostEqual(float(written["cluster.gpu.gemm.split_k_us"]) /
                               float(written["cluster.gpu.gemm.fill_us"]), 3, delta=0.01)
        self.assertTrue([line for line in lines if "rows' own: cluster.gpu.gemm.power_cap" in line])
        for option in ("--keep", "--together", "--write"):
            self.assertIn("valid: a part of one of cluster.gpu.gemm.t0_us", self.refused(
                "calibrate", "--from", self.scenario("t.csv", text), "--cluster", "a100-8",
                option, "nothing"))

    def test_rows_are_chosen_by_what_their_cells_contain(self):
        text = kernels([100] * len(SHAPES))
        self.assertIn("fewer than", self.refused(
            "calibrate", "--from", self.scenario("t.csv", text), "--cluster", "a100-8",
            "--where", "impl=theirs"))
        self.assertIn("--where", self.refused(
            "calibrate", "--from", self.scenario("t.csv", text), "--cluster", "a100-8",
            "--where", "colour=red"))

    def test_rows_that_cannot_be_believed_are_doubted(self):
        def fitted(text):
            found, profile = self.calibrated(text, "--folds", "2", "--keep", "tile")
            notes = "".join(line for line in profile.read_text().splitlines(True)
                            if line.startswith("# Note: "))
            for warning in found["warnings"]:
                self.assertIn(f"# Note: {warning}\n", notes)
            return notes
        times = self.predicted("--kernels", kernels([1] * len(SHAPES)), "seed=1")
        self.assertEqual(fitted(kernels(times)), "")
        self.assertIn("are the times microseconds", fitted(kernels([t / 1e3 for t in times])))
        self.assertIn("stopped at its bound", fitted(kernels([t * 1e3 for t in times])))
        text = kernels(times).replace("A100-SXM4-80GB", "H100-SXM5", 4)
        self.assertIn("rows of 2 GPUs are fitted as one: A100, H100", fitted(text))

    def test_repeats_of_one_shape_are_no_table(self):
        """Before: nothing was held out of them, and the error of that nothing was said to be 0."""
        row = kernels([100]).splitlines(True)
        said = self.refused("calibrate", "--from", self.scenario("t.csv", row[0] + row[1] * 20),
                            "--cluster", "a100-8")
        self.assertIn("than 3 shapes", said)

    def test_every_family_has_rows_held_out_however_a_table_mixes_them(self):
        """Before: shapes were numbered across families, so that every fold of one could be empty."""
        times = self.predicted("--kernels", kernels([1] * len(SHAPES)), "seed=1")
        # A GEMM and a norm in turn: of two folds one had all GEMMs, the other all norms.
        noisy = kernels([t * (1.5 if i % 3 else 1) for i, t in enumerate(times)]).splitlines(True)
        norms = [f"A100-SXM4-80GB,rms_norm,bf16,{1024 * (i + 1)},4096,,,,,,,,,fwd,mine,{50 * (i + 1)},mine\n"
                 for i in range(len(SHAPES))]
        text = noisy[0] + "".join(a + b for a, b in zip(noisy[1:], norms))
        found, _ = self.calibrated(text, "--folds", "2", "--keep", "tile")
        self.assertGreater(found["held_out"], 0.05)

    def test_results_are_refused_before_the_work_and_never_overwrite_the_table(self):
        table = self.scenario("t.csv", kernels([100] * len(SHAPES)))
        said = self.refused("calibrate", "--from", table, "--cluster", "a100-8", "--out", table)
        self.assertIn("is the table that is fitted to", said)
        for files in (("--out", "none/x"), ("--json", "none/x", "--out", self.folder / "p.toml"),
                      ("--json", "-")):
            self.refused("calibrate", "--from", table, "--cluster", "a100-8", *files)
        self.assertFalse((self.folder / "p.toml").exists())

    def test_needs_a_cluster_and_a_known_table(self):
        self.assertIn("--cluster", self.refused(
            "calibrate", "--from", self.scenario("t.csv", kernels([1] * len(SHAPES)))))
        self.assertIn("neither", self.refused(
            "calibrate", "--from", self.scenario("t.csv", "a,time_us\n1,2\n"), "--cluster", "a100-8"))


if __name__ == "__main__":
    main()
