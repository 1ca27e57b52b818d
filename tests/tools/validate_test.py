#!/usr/bin/env python3
"""`trainyard validate`: tables of measurements are predicted, and nothing is left out silently."""

import json

from cli import CliTest, main

# aiconfigurator 095f58a, A100-SXM, sglang rows; the last is none of ours.
KERNELS = """\
gpu,kernel,dtype,m,n,k,b,h,hkv,s,d,causal,window,direction,impl,time_us,source
A100-SXM4-80GB,gemm,bf16,512,4096,4096,,,,,,,,fwd,torch/cublas (sglang),97,aiconfigurator@095f58a:a100
A100-SXM4-80GB,gemm,bf16,1024,4096,4096,,,,,,,,fwd,torch/cublas (sglang),208,aiconfigurator@095f58a:a100
A100-SXM4-80GB,gemm,bf16,1792,4096,4096,,,,,,,,fwd,torch/cublas (sglang),308,aiconfigurator@095f58a:a100
H800-SXM,gemm,mxfp8,64,2112,7168,,,,,,,,fwd,"DeepGEMM ""block"" scaled",9.4,DeepGEMM@a6d97a1
"""
# The same source, 8 A100 of one node; superbenchmark times a reduce as well.
COLLECTIVES = """\
source,gpu,nodes,gpus,nic,op,algo,bytes,time_us
aiconfigurator@095f58a,A100-SXM4-80GB,1,8,NVLink3,all_reduce,default,33554432,367
aiconfigurator@095f58a,A100-SXM4-80GB,1,8,NVLink3,all_gather,default,134217728,660
superbenchmark@700d650,A100-SXM4-40GB,1,8,NVLink3,reduce,default,1048576,50
"""
# Korthikanti et al., arXiv 2205.05198, table 5 (22B), and a run whose layers nobody told.
RUNS = """\
id,source,table,system,gpu,n_gpus,layers,hidden,heads,kv_heads,ffn_hidden,vocab,seq_len,\
global_batch,micro_batch,tp,pp,vpp,dp,cp,ep,zero_stage,sequence_parallel,recompute,precision,\
optimizer,iter_time_s,tokens_per_s,tflops_per_gpu,mfu_pct,notes
22B-full,arXiv 2205.05198,Table 5,Megatron-LM,A100-80GB,8,48,6144,64,64,24576,51200,2048,4,4,8,1,\
1,1,,,,n,full,fp16,,1.42,,,,
22B-selective,arXiv 2205.05198,Table 5,Megatron-LM,A100-80GB,8,48,6144,64,64,24576,51200,2048,4,4,\
8,1,1,1,,,,y,selective,fp16,,1.10,,,,
untold,arXiv 2205.05198,Table 5,Megatron-LM,A100-80GB,8,,,,,,,2048,4,4,8,1,1,1,,,,,,,,,,,50,
"""
# vTrain's own columns and milliseconds: VIA-Research/vTrain f8dda847, data/ground_truth_single.csv,
# lines 3 and 654.
VTRAIN = """\
# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,\
tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)
8,32,4,1024,16,24,1024,2,2,2,219.732754
2,8,4,1024,16,24,1024,2,1,1,169.787258
"""


class Validate(CliTest):
    def table(self, text):
        return self.scenario("table.csv", text)

    def validate(self, option, text, *arguments):
        return json.loads(
            self.succeed("validate", option, self.table(text), "--json", "-", *arguments))

    def test_kernels_are_predicted_row_by_row_and_by_family(self):
        got = self.validate("--kernels", KERNELS)
        self.assertEqual(got["schema"], "trainyard-validate-1")
        for row, measured in zip(got["rows"], (97, 208, 308)):
            self.assertEqual(row["published"], measured)
            self.assertLess(abs(row["error"]), 0.15)
            self.assertAlmostEqual(row["error"], row["predicted"] / measured - 1)
        family = got["families"][0]
        self.assertEqual((family["name"], family["rows"]), ("A100 gemm >= 512", 3))
        errors = [abs(row["error"]) for row in got["rows"][:3]]
        self.assertAlmostEqual(family["mean_abs_error"], sum(errors) / 3)
        self.assertAlmostEqual(family["median_abs_error"], sorted(errors)[1])
        self.assertAlmostEqual(family["max_abs_error"], max(errors))

    def test_a_median_of_an_even_number_lies_between_the_two_in_the_middle(self):
        got = self.validate("--runs", RUNS)
        errors = [abs(row["error"]) for row in got["rows"][:2]]
        self.assertAlmostEqual(got["all"]["median_abs_error"], sum(errors) / 2)

    def test_what_is_not_predicted_has_its_reason(self):
        skipped = self.validate("--kernels", KERNELS)["rows"][3]
        self.assertIn("mxfp8", skipped["skipped"])
        self.assertIsNone(skipped["predicted"])
        self.assertIn("reduce", self.validate("--collectives", COLLECTIVES)["rows"][2]["skipped"])
        self.assertIn("model.layers", self.validate("--runs", RUNS)["rows"][2]["skipped"])
        text = self.succeed("validate", "--kernels", self.table(KERNELS))
        self.assertIn("not predicted: 1 rows", text)

    def test_a_torn_record_costs_only_itself(self):
        rows = self.validate("--collectives", COLLECTIVES + "aiconfigurator,A100,1,8\n")["rows"]
        self.assertEqual(len(rows), 4)
        self.assertIn("4 cells for 9 columns", rows[3]["skipped"])

    def test_collectives_are_predicted(self):
        got = self.validate("--collectives", COLLECTIVES)
        for row in got["rows"][:2]:
            self.assertLess(abs(row["error"]), 0.15)
        self.assertEqual(got["families"][0]["name"], "up to 128 MiB")

    def test_runs_are_predicted_with_what_was_assumed(self):
        got = self.validate("--runs", RUNS)
        for row in got["rows"][:2]:
            self.assertEqual(row["quantity"], "iteration_time_s")
            self.assertLess(abs(row["error"]), 0.05)
            self.assertIn("model.attention=unfused", row["assumed"])
            self.assertAlmostEqual(sum(row["breakdown_s"].values()), row["predicted"], 6)
        self.assertEqual(got["families"][0]["name"], "Korthikanti Table 5")

    def test_rows_of_unknown_sources_go_by_the_habits_of_their_time(self):
        unknown = RUNS.replace("arXiv 2205.05198,Table 5", "a blog,a page")
        rows = self.validate("--runs", unknown)["rows"]
        for row in rows[:2]:  # fp16 on A100 with Megatron-LM: before FlashAttention
            self.assertLess(abs(row["error"]), 0.1)
            self.assertIn("model.attention=unfused", row["assumed"])
        hidden = self.validate("--runs", RUNS, "--without-source-rules")
        for row, other in zip(rows[:2], hidden["rows"]):
            self.assertEqual(row["predicted"], other["predicted"])
            self.assertNotIn("selene", other["assumed"])
        self.assertEqual(hidden["families"][0]["name"], "Korthikanti Table 5")

    def test_what_is_not_told_follows_from_the_name_and_from_memory(self):
        columns = RUNS.splitlines()[0]
        row = self.validate("--runs", columns + """
x,blog,,FSDP Llama-2-7B,A100-80GB,8,,,,,,,,,,1,1,,,,,,,,,,,25000,,,
""")["rows"][0]
        for chosen in ("model.preset=llama-7b", "parallel.zero=3", "by memory",
                       "batch.sequence_length=4096"):
            self.assertIn(chosen, row["assumed"])
        self.assertLess(abs(row["predicted"] / 25000 - 1), 0.5)  # 40 to 60 % of 312 TFLOPS

    def test_the_hardware_is_the_rows_not_its_sources(self):
        columns = RUNS.splitlines()[0]
        like = ("s,SimuMax,B200 v1.2,Megatron-LM 0.14,{},8,4,4096,32,8,14336,128256,4096,32,1,2,1,1,4,"
                "1,1,,,,bf16,,1,,,,\n")
        gpus = ("B200-SXM", "A100-PCIe-80GB", "GB200", "A800-80GB", "H100 PCIe", "MI300X", "A10G")
        rows = self.validate("--runs", columns + "\n" + "".join(map(like.format, gpus)))["rows"]
        seconds = {gpu: row["predicted"] for gpu, row in zip(gpus, rows)}
        self.assertGreater(seconds["A100-PCIe-80GB"], 3 * seconds["B200-SXM"])
        self.assertLess(seconds["GB200"], seconds["B200-SXM"])
        self.assertLess(seconds["A800-80GB"], seconds["A100-PCIe-80GB"])
        self.assertLess(seconds["H100 PCIe"], seconds["A800-80GB"])
        self.assertIn("no rule knows the GPU 'MI300X'", rows[5]["skipped"])
        self.assertIn("no rule knows the GPU 'A10G'", rows[6]["skipped"])

    def test_runs_are_read_as_vtrain_writes_them(self):
        got = self.validate("--runs", VTRAIN)
        for row, line, milliseconds in zip(got["rows"], (2, 3), (219.732754, 169.787258)):
            self.assertEqual((row["id"], row["quantity"]), (f"line {line}", "iteration_time_s"))
            self.assertAlmostEqual(row["published"], milliseconds / 1e3, 9)
            self.assertLess(abs(row["error"]), 0.2)  # nine in ten of the table's 1,440 rows are
        self.assertEqual(got["families"][0]["name"], "vTrain single-node")
        broken = self.table(VTRAIN.replace(",1024,16,", ",1024.5,16,"))
        self.assertIn("table.csv:2: hidden size = '1024.5'", self.refused("validate", "--runs", broken))

    def test_intervals_hold_predictions_and_count_as_coverage(self):
        got = self.validate("--runs", RUNS)
        held = 0
        for row in got["rows"][:2]:
            self.assertLess(row["low"], row["predicted"])
            self.assertGreater(row["high"], row["predicted"])
            held += row["low"] <= row["published"] <= row["high"]
        self.assertEqual(got["families"][0]["coverage"], held / 2)

    def test_the_page_needs_nothing_else_and_escapes_what_tables_say(self):
        page = self.folder / "page.html"
        table = self.table(RUNS.replace("22B-full", "<22B & full>"))
        self.succeed("validate", "--runs", table, "--html", page)
        text = page.read_text()
        self.assertIn("&lt;22B &amp; full&gt;", text)
        self.assertNotIn("<22B", text)
        self.assertEqual(text.count("<circle"), 2 * 3)  # plot, own family, all
        for word in ("http:", "https:", "src=", "@import"):
            self.assertNotIn(word, text)

    def test_threads_do_not_change_a_byte(self):
        one = self.succeed("validate", "--runs", self.table(RUNS), "--threads", 1, "--json", "-")
        two = self.succeed("validate", "--runs", self.table(RUNS), "--threads", 2, "--json", "-")
        self.assertEqual(one, two)

    def test_bad_tables_are_refused_with_their_lines(self):
        broken = KERNELS.replace(",97,", ",ninety,").replace(",208,", ",-1,")
        said = self.refused("validate", "--kernels", self.table(broken))
        self.assertIn("table.csv:2: time_us = 'ninety': is no number", said)
        self.assertIn("table.csv:3: time_us = '-1': must be more than 0", said)
        lacking = KERNELS.replace("time_us", "ms").replace("impl", "kind")
        said = self.refused("validate", "--kernels", self.table(lacking))
        self.assertIn("lacks the column 'time_us'", said)
        self.assertIn("lacks the column 'impl'", said)
        self.assertIn("no such file", self.refused("validate", "--runs", self.folder / "none.csv"))
        self.assertIn("quote", self.refused("validate", "--kernels", self.table(KERNELS + '"a')))

    def test_columns_are_looked_for_by_name_and_each_once(self):
        said = self.refused("validate", "--kernels", self.table(KERNELS.replace("time_us", "Time_us")))
        self.assertIn("lacks the column 'time_us'; did you mean Time_us?", said)
        said = self.refused("validate", "--kernels",
                            self.table(KERNELS.replace("source\n", "source,time_us\n")))
        self.assertIn("table.csv:1: has the column 'time_us' twice", said)
        said = self.refused("validate", "--kernels", self.table(KERNELS.replace(",", ";")))
        self.assertEqual(said.count("\n"), 1)
        self.assertIn("gpu;kernel;dtype", said)
        self.assertIn("is empty", self.refused("validate", "--runs", self.table("")))
        self.assertIn("is a directory", self.refused("validate", "--runs", self.folder))

    def test_byte_order_marks_line_ends_and_blank_lines_do_not_matter(self):
        plain = self.validate("--kernels", KERNELS)
        lines = KERNELS.replace("\n", "\r\n") + "\r\n  \r\n" + "," * 16 + "\r\n"
        self.assertEqual(self.validate("--kernels", "\ufeff" + lines), plain)

    def test_a_torn_record_says_nothing_under_other_columns_names(self):
        rows = self.validate("--kernels", KERNELS + "# a comment\n" + "x," * 20 + "x\n")["rows"]
        self.assertEqual([row["family"] for row in rows[4:]], ["torn records"] * 2)
        self.assertIn("21 cells for 17 columns", rows[5]["skipped"])

    def test_kernels_that_cannot_be_run_are_skipped_and_blank_nobodys_figures(self):
        attention = "A100-SXM4-80GB,attention,bf16,,,,1,8,{},1024,128,1,,{},flash-attn2,{},x\n"
        rows = (KERNELS.replace(",97,", ",,").replace(",208,", ",208,").splitlines(True)[:3] +
                ["MI300X,gemm,bf16,512,4096,4096,,,,,,,,fwd,torch,97,x\n",
                 f"A100-SXM4-80GB,gemm,bf16,{9 * 10**14},{9 * 10**14},9,,,,,,,,fwd,torch,97,x\n",
                 attention.format(8, "sideways", 97), attention.format(16, "fwd", 97)])
        got = self.validate("--kernels", "".join(rows), "--html", self.folder / "page.html")
        reasons = [row["skipped"] for row in got["rows"]]
        for reason, words in zip(reasons, ("no time is told", None, "no rule names a profile of the GPU "
                                           "'MI300X'", "more elements", "direction 'sideways'; valid: fwd",
                                           "hkv 16 does not divide h 8")):
            self.assertIn(words, reason) if words else self.assertIsNone(reason)
        self.assertLess(got["all"]["mean_abs_error"], 0.15)

    def test_runs_that_cannot_have_been_are_refused_or_skipped(self):
        # Before: tensor 0 ended in a division by zero, 64 GPUs and a batch of 4 went unnoticed.
        for cells, said in ((",4,4,0,1,1,1,", "tp = '0': is out of range; legal: 1 to 1000000"),
                            (",4,4,8,0,1,1,", "pp = '0'"), (",4,4,8,1,many,1,", "vpp = 'many'"),
                            (",4,4,8,1,1,-1,", "dp = '-1'")):
            table = self.table(RUNS.replace(",4,4,8,1,1,1,", cells, 1).replace("\\\n", ""))
            self.assertIn(f"table.csv:2: {said}", self.refused("validate", "--runs", table))
        table = self.table(RUNS.replace(",n,full,", ",no,full,").replace("A100-80GB,8,", "A100-80GB,x,"))
        said = self.refused("validate", "--runs", table)
        for cell in ("sequence_parallel = 'no': valid: y, n", "table.csv:3: n_gpus = 'x'"):
            self.assertIn(cell, said)
        one = "".join(RUNS.splitlines(True)[:2])
        for old, new, reason in (("GB,8,", "GB,64,", "64 GPUs are not tensor 8 x context 1 x pipeline 1 x data 1"),
                                 (",4,4,8,", ",4,16,8,", "a batch of 4 is less than a micro-batch of 16"),
                                 ("A100-80GB", "MI300X", "no rule knows the GPU 'MI300X'")):
            self.assertIn(old, one)
            row = self.validate("--runs", one.replace(old, new))["rows"][0]
            self.assertIn(reason, row["skipped"])
        words = self.validate("--runs", one.replace(",full,fp16", ",blockwise,FP16"))["rows"][0]
        self.assertIn("recompute 'blockwise' is not understood", words["assumed"])
        self.assertNotIn("'FP16'", words["assumed"])

    def test_results_do_not_overwrite_the_table_or_each_other(self):
        table = self.table(KERNELS)
        page = self.folder / "page.html"
        for results in (("--json", table), ("--html", table), ("--json", page, "--html", page),
                        ("--out", self.folder, "--json", self.folder / "." / "validate.json")):
            self.assertIn("holds an input or another result", self.refused(
                "validate", "--kernels", table, *results))
        self.assertIn("only --json", self.refused("validate", "--kernels", table, "--html", "-"))
        self.assertEqual(table.read_text(), KERNELS)
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()),
                         ["small.toml", "table.csv"])

    def test_the_page_is_readable_small_and_in_the_dark_and_says_when_it_is_empty(self):
        page = self.folder / "page.html"
        self.succeed("validate", "--kernels", self.table(KERNELS.replace("A100", "Z9")), "--html", page)
        text = page.read_text()
        for words in ("width=device-width", "prefers-color-scheme:dark", "No row was predicted"):
            self.assertIn(words, text)

    def test_rules_are_refused_for_what_no_job_could_be_told(self):
        rule = '[[kernels]]\ngpu = "A100"\n'
        for rules, said in (
                (rule + 'set = "cluster.gpuu=3"\nwhy = "x"', "rules.toml:3:7: cluster.gpuu = 3: unknown key"),
                (rule + 'set = "cluster.preset=a100-9"\nwhy = "x"', "did you mean a100-8?"),
                (rule + 'set = "model.layers=8.5"\nwhy = "x"', "takes an integer"),
                (rule + 'set = ["seed=1", "seed=2"]\nwhy = "x"', "sets this key twice"),
                (rule + 'set = "seed=1"\nwhy = ""', "says nothing"),
                (rule + 'skip = ""', "says nothing"),
                (rule + 'skip = ["a", "b"]', "one text is needed"),
                (rule, "a rule needs one of set, skip, family"),
                ('[[kernels]]\ngpu = []\nskip = "x"', "names nothing"),
                (rule + 'skip = "x"\n[[kernel]]\ngpu = "A100"', "[[kernel]]: is no section; valid: runs, "
                 "kernels, collectives; did you mean kernels?")):
            path = self.scenario("rules.toml", rules)
            self.assertIn(said, self.refused("validate", "--kernels", self.table(KERNELS),
                                             "--assumptions", path))

    def test_a_rule_needs_a_column_and_a_reason(self):
        rules = self.scenario("rules.toml", '[[kernels]]\ngpux = "A100"\nset = "a=b"\n')
        said = self.refused("validate", "--kernels", self.table(KERNELS), "--assumptions", rules)
        self.assertIn("gpux: no column of this name", said)
        self.assertIn("needs its why", said)


if __name__ == "__main__":
    main()
