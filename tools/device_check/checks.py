"""The parts of the check. Each takes the machine and its jobs, and returns its part of the report:
`passed` and figures, or `skipped` with a reason."""

import json
import math
import os
import shutil
import statistics

from jobs import CPU_STEPS
from machine import Failed, OutOfTime

# Relative differences of losses from the CPU's. fp32: sums of up to 50,304 terms in another order,
# sqrt(50304) 2^-24 = 1.3e-5 each, over several layers and steps. 16 bits: a unit in the last place
# (2^-8, 2^-11) of the activations, of which a loss averages many.
BOUNDS = {"fp32": 1e-4, "bf16": 1e-2, "fp16": 2e-3}
SANITIZERS = ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer",
              "/usr/local/cuda/compute-sanitizer/compute-sanitizer")
# A launcher's word for the only rank: it starts no process that the sanitizer would have to follow.
ONE_RANK = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
WARM_UP = 3  # steps that are not timed: libraries load, graphs are captured


def build(machine, _):
    """The program and the kernels' check, for the GPU's architecture."""
    if machine.on_host:
        return {"passed": True, "folder": str(machine.build)}
    architecture = machine.gpus[0]["capability"].replace(".", "")
    machine.run("cmake", "--preset", "cuda", "-B", machine.build, "-Wno-dev", "-DTRAINYARD_TESTS=ON",
                f"-DCMAKE_CUDA_ARCHITECTURES={architecture}")
    machine.run("cmake", "--build", machine.build, "-j", os.cpu_count(), "--target", "trainyard",
                "cuda_kernels_check")
    return {"passed": True, "folder": str(machine.build), "architecture": architecture}


def kernels(machine, _):
    """Every kernel against the CPU's, and its time."""
    path = machine.out / "kernels.json"
    words = ["--json", path] + (["--small"] if machine.on_host else [])
    for option, key in (("--peak_tflops", "peak_bf16_tflops"), ("--hbm_gbps", "memory_bandwidth_gbs"),
                        ("--peak_fp32_tflops", "peak_fp32_tflops")):
        if machine.peak(key):
            words += [option, machine.peak(key)]
    path.unlink(missing_ok=True)  # an earlier check's
    done = machine.run(machine.kernels_check, *words, allowed=(0, 1))
    if not path.exists():
        raise Failed(done.stderr.strip())
    rows = json.loads(path.read_text())["kernels"]
    wrong = [f"{row['kernel']} ({row['dtype']})" for row in rows if not row["passed"]]
    return {"passed": not wrong, "wrong": wrong, "kernels": rows}


def series(report, what):
    return [step[what] for step in report["steps"]]


def apart(got, expected):
    """The largest relative difference of two lists, as far as both go."""
    return max(abs(a / b - 1) if math.isfinite(a) else math.inf for a, b in zip(got, expected))


def losses(machine, jobs):
    """50 steps in each precision beside the CPU's first ones in fp32; fp32 with CUDA graphs too."""
    train = ["train", jobs.losses("fp32")]
    graphs = machine.trainyard(*train, "--backend", "cuda", "--set", "run.cuda_graphs=true")
    plain = machine.trainyard(*train, "--backend", "cuda")
    cpu = machine.trainyard(*train, "--backend", "cpu", "--set", f"training.steps={CPU_STEPS}",
                            "--set", f"run.threads={os.cpu_count()}")
    expected, norms = series(cpu, "loss"), series(cpu, "grad_norm")
    # Weights' moments that are almost zero make norms of gradients differ before losses do.
    rows = []
    for precision, bound in BOUNDS.items():
        got = plain if precision == "fp32" else machine.trainyard(
            "train", jobs.losses(precision), "--backend", "cuda")
        rows.append({"precision": precision, "bound": bound, "losses": series(got, "loss"),
                     "difference": apart(series(got, "loss"), expected),
                     "norm_difference": apart(series(got, "grad_norm"), norms)})
    same = series(plain, "loss") == series(graphs, "loss")
    fell = [row["losses"][-1] < row["losses"][0] for row in rows]
    return {"passed": same and all(fell) and all(r["difference"] <= r["bound"] for r in rows),
            "cpu_steps": CPU_STEPS, "cpu_losses": expected, "rows": rows, "graphs_equal": same}


def sanitizer(machine, jobs):
    """compute-sanitizer on small kernels, and its memory check on a small training."""
    if machine.on_host:
        return {"skipped": "the host CUDA watches memory and barriers itself"}
    tool = next((t for t in map(shutil.which, SANITIZERS) if t), None)
    if tool is None:
        return {"skipped": "compute-sanitizer is not installed (apt: cuda-sanitizer-13-0, pip: "
                           "nvidia-cuda-sanitizer-api)"}
    tiny = ["train", jobs.losses("bf16", **{"training.steps": 2}), "--backend", "cuda",
            "--set", "model.layers=1", "--set", "model.vocab=512", "--set", "model.hidden=128",
            "--set", "model.heads=2"]
    kernel_check = [machine.kernels_check, "--small"]
    rows = []
    for name, command in (("memcheck", kernel_check), ("racecheck", kernel_check),
                          ("memcheck", [machine.program, *tiny])):
        program = command[0].name
        try:
            done = machine.run(tool, "--tool", name, "--error-exitcode", "99", *command,
                               allowed=(0, 99), environment=ONE_RANK)
        except OutOfTime:
            return {"passed": False, "runs": rows,
                    "skipped": f"the time was over in {name} on {program}"}
        rows.append({"tool": name, "program": program, "passed": done.returncode == 0,
                     "output": done.stdout[-1500:] if done.returncode else ""})
    return {"passed": all(row["passed"] for row in rows), "runs": rows}


def step(machine, jobs):
    """Tokens a second and MFU of a step, with and without CUDA graphs; a trace of one step."""
    rows, trace = [], machine.out / "step.trace.json"
    for graphs in (False, True):
        report = machine.trainyard("train", jobs.speed(), "--backend", "cuda", "--set",
                                   f"run.cuda_graphs={str(graphs).lower()}",
                                   *([] if graphs else ["--trace", trace]))
        seconds = statistics.median(series(report, "time_s")[WARM_UP:])
        rate = report["steps"][-1]["tokens"] / seconds
        peak = machine.peak("peak_bf16_tflops")
        rows.append({"cuda_graphs": graphs, "step_s": seconds, "tokens_per_s": rate,
                     "mfu": rate * report["model_flops_per_token"] / (peak * 1e12) if peak else None})
    return {"passed": True, "rows": rows, "gap_us": gap_us(json.loads(trace.read_text()))}


def gap_us(trace):
    """Median time between instructions of the compute stream; it includes a timed step's events."""
    events = trace["traceEvents"]
    threads = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in events
                   if e["ph"] == "X" and e["tid"] == threads["compute"])
    return statistics.median(max(0, after[0] - before[1]) for before, after in zip(spans, spans[1:]))


def calibration(machine, _):
    """A profile of this machine, and what its collectives reach."""
    profile = machine.out / "profile.toml"
    seconds = 1 if machine.on_host else 60
    ranks = [n for n in (2, 4, 8) if n <= len(machine.gpus)]
    samples = machine.trainyard("calibrate", "--backend", "cuda", "--seconds", seconds, "--out",
                                profile, *(["--ranks", ",".join(map(str, ranks))] if ranks else []))
    return {"passed": bool(samples["kernels"]), "profile": str(profile),
            "launch_us": samples["launch_us"], "graph_launch_us": samples["graph_launch_us"],
            "copy_gbs": samples["copy_gbs"], "kernel_samples": len(samples["kernels"]),
            "collectives": [bandwidths(call) for call in samples["calls"]]}


def bandwidths(call):
    """GB/s of a collective: of its bytes, and of the links as nccl-tests count them."""
    n, alg = call["ranks"], call["bytes"] / call["us"] * 1e-3
    factor = {"all_reduce": 2 * (n - 1) / n, "all_gather": (n - 1) / n,
              "reduce_scatter": (n - 1) / n}.get(call["op"], 1)
    return {"op": call["op"], "ranks": n, "bytes": call["bytes"], "us": call["us"],
            "algbw_gbs": alg, "busbw_gbs": alg * factor}


def prediction(machine, jobs):
    """The timed job, simulated with the new profile, beside what was measured."""
    measured, simulated = machine.out / "step.trace.json", machine.out / "simulated.trace.json"
    report = machine.trainyard("sim", jobs.speed(), "--set",
                               f"cluster.profile={machine.out / 'profile.toml'}", "--trace", simulated)
    both = machine.trainyard("compare", measured, simulated)
    worst = sorted(both["classes"], key=lambda c: -abs(c["time_s"]["difference"]))[:8]
    return {"passed": both["instructions"]["compared"] > 0, "step_s": report["iteration_time_s"],
            "traced_ratio": both["ratio"], "worst_classes": worst}


def ranks(machine, jobs):
    """Layouts over several GPUs give the losses of one."""
    if len(machine.gpus) < 2:
        return {"skipped": "there is one GPU"}
    one = series(machine.trainyard("train", jobs.losses("fp32"), "--backend", "cuda"), "loss")
    layouts = [{"parallel.tensor": 2, "parallel.sequence": True}, {"parallel.pipeline": 2},
               {"parallel.data": 2, "parallel.zero": 2}]
    if len(machine.gpus) >= 8:
        layouts.append({"parallel.tensor": 2, "parallel.pipeline": 2, "parallel.data": 2})
    rows = []
    for layout in layouts:
        got = series(machine.trainyard("train", jobs.losses("fp32", **layout), "--backend", "cuda"),
                     "loss")
        count = math.prod(v for k, v in layout.items()
                          if k in ("parallel.tensor", "parallel.pipeline", "parallel.data"))
        name = ", ".join(f"{k.split('.')[1]} {v}" for k, v in layout.items())
        row = {"layout": name, "ranks": count, "difference": apart(got[:CPU_STEPS], one)}
        if not machine.on_host:
            timed = machine.trainyard("train", jobs.speed(**layout), "--backend", "cuda")
            row["tokens_per_s"] = timed["steps"][-1]["tokens"] / statistics.median(
                series(timed, "time_s")[WARM_UP:])
        rows.append(row)
    return {"passed": all(r["difference"] <= BOUNDS["fp32"] for r in rows), "rows": rows}


PARTS = (build, kernels, losses, step, calibration, prediction, ranks, sanitizer)
