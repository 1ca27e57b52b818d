"""Checks and times the CUDA backend on the GPUs at hand; see README.md."""

import argparse
import json
import sys
import time

import checks
import report
from jobs import Jobs
from machine import Failed, Machine, OutOfTime


def run_part(part, machine, jobs):
    start = time.monotonic()
    try:
        result = part(machine, jobs)
    except OutOfTime:
        result = {"passed": False, "skipped": "the time is over"}
    except (Failed, OSError, ValueError, KeyError) as error:
        result = {"passed": False, "failure": f"{type(error).__name__}: {error}"}
    return {**result, "seconds": round(time.monotonic() - start, 2)}


def main():
    parser = argparse.ArgumentParser(prog="device_check", description=__doc__)
    parser.add_argument("--out", default="device_check_report", help="folder of the report")
    parser.add_argument("--seconds", type=float, default=470, help="parts beyond are left out")
    parser.add_argument("--on-host", metavar="BUILD", help="the host CUDA of this release build")
    options = parser.parse_args()
    try:
        machine = Machine(options.out, options.seconds, options.on_host)
    except Failed as error:
        sys.exit(f"device_check: {error}")
    jobs = Jobs(machine)
    parts = {}
    for part in checks.PARTS:
        print(f"{part.__name__} ...", end=" ", file=sys.stderr, flush=True)
        parts[part.__name__] = run_part(part, machine, jobs)
        print(f"{parts[part.__name__]['seconds']} s", file=sys.stderr)
        if part is checks.build and not parts["build"].get("passed"):
            break
    result = {"schema": "trainyard-device-check-1", "gpus": machine.gpus,
              "on_host": machine.on_host is not None,
              "passed": all(p.get("passed", True) for p in parts.values()),
              "left_out": [n for n, p in parts.items() if "skipped" in p],
              "aims": report.aims(parts), "parts": parts}
    (machine.out / "report.json").write_text(json.dumps(result, indent=1) + "\n")
    text = report.text_of(result)
    (machine.out / "report.txt").write_text(text)
    print(text, end="")
    sys.exit(0 if result["passed"] else 1)


main()
