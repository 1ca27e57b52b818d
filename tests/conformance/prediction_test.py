"""A calibrated simulation against real trainings of this machine, layout by layout.

By hand, on a machine that does nothing else: `prediction_test.py PROGRAM SCENARIOS [PROFILE]`.
Calibrates (or takes PROFILE), trains each layout, and compares the median time of its last 20 steps
with the step that `sim` predicts. None of these layouts or models is used in the calibration."""

import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.tools import cli

STEPS, COUNTED = 26, 20
BOUND = 0.15

LLAMA = {
    "model.layers": 4, "model.hidden": 192, "model.heads": 6, "model.ffn": 512,
    "model.norm": '"rmsnorm"', "model.activation": '"swiglu"', "model.position": '"rope"',
    "model.bias": "false", "model.tied": "false", "batch.sequence_length": 96,
}
MODELS = {"gpt": {}, "llama": LLAMA}

# tensor, pipeline, data, and what differs from one rank's plain settings
LAYOUTS = [
    ("gpt", 1, 1, 1, {}),
    ("gpt", 2, 1, 1, {"parallel.sequence": "true"}),
    ("gpt", 1, 2, 1, {}),
    ("gpt", 1, 1, 2, {"parallel.zero": 1}),
    ("gpt", 2, 2, 1, {}),
    ("gpt", 1, 4, 1, {"training.recompute": '"full"'}),
    ("gpt", 2, 2, 2, {"parallel.sequence": "true", "parallel.zero": 1}),
    ("gpt", 1, 1, 8, {"parallel.zero": 2}),
    ("llama", 1, 1, 1, {"training.recompute": '"full"'}),
    ("llama", 2, 1, 1, {}),
    ("llama", 1, 2, 1, {"schedule.pipeline": '"zb-h1"'}),
    ("llama", 1, 1, 2, {"parallel.zero": 3}),
    ("llama", 1, 2, 2, {}),
    ("llama", 2, 1, 2, {"parallel.sequence": "true", "parallel.zero": 2}),
    ("llama", 2, 4, 1, {"parallel.sequence": "true"}),
    ("llama", 1, 4, 2, {"parallel.zero": 1}),
]


def settings_of(layout):
    model, tensor, pipeline, data, more = layout
    settings = {
        "parallel.tensor": tensor, "parallel.pipeline": pipeline, "parallel.data": data,
        "parallel.sequence": "false", "parallel.zero": 0,
        "schedule.overlap": '["pipeline", "data_loading"]' if pipeline > 1 else '["data_loading"]',
        "training.steps": STEPS, "training.warmup_steps": 5, "data.validation": 0,
        "run.checkpoint_steps": 0, "run.evaluation_steps": 0, **MODELS[model], **more,
    }
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def finished(*arguments):
    run = cli.trainyard(*arguments)
    if run.returncode != 0:
        sys.exit(f"{arguments}: {run.stderr}")
    return run.stdout


def measured(job, settings):
    steps = json.loads(finished("train", job, *settings, "--json", "-"))["steps"]
    times = sorted(step["time_s"] for step in steps[-COUNTED:])
    return statistics.median(times), times[len(times) // 4], times[-1 - len(times) // 4]


def predicted(job, settings, profile):
    profile = ["--set", f"cluster.profile={profile}"]
    return json.loads(finished("sim", job, *settings, *profile, "--json", "-"))


def name_of(layout):
    model, tensor, pipeline, data, more = layout
    extras = " ".join(f"{key.split('.')[1]}={value}" for key, value in more.items())
    return f"{model} t{tensor} p{pipeline} d{data} {extras}"


def main():
    job = Path(cli.SCENARIOS) / "tiny-gpt.toml"
    with tempfile.TemporaryDirectory() as folder:
        profile = sys.argv[3] if len(sys.argv) > 3 else Path(folder) / "profile.toml"
        if len(sys.argv) <= 3:
            print(finished("calibrate", "--out", profile))
        profile = Path(profile).resolve()
        print(f"{'layout':<46}{'predicted':>10}{'measured':>10}{'quartiles':>17}{'error':>8}  ms")
        errors = []
        for layout in LAYOUTS:
            settings = settings_of(layout)
            step = 1e3 * predicted(job, settings, profile)["iteration_time_s"]
            middle, low, high = (1e3 * time for time in measured(job, settings))
            errors.append(step / middle - 1)
            print(f"{name_of(layout):<46}{step:>10.2f}{middle:>10.2f}{low:>9.2f}{high:>8.2f}"
                  f"{100 * errors[-1]:>+7.1f} %", flush=True)
    worst = max(abs(error) for error in errors)
    mean = sum(abs(error) for error in errors) / len(errors)
    print(f"mean {100 * mean:.1f} %, largest {100 * worst:.1f} % of {len(errors)} layouts")
    return 0 if worst <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
