#!/usr/bin/env python3
"""accuracy.py: reads what `trainyard validate --json -` prints and writes a table of families: rows,
median and largest error, how many lie in their 80 % interval, and what others report of such rows.
With --all, the line of all rows alone."""

import json
import sys

# Means, and for SimuMax the largest. Calculon caa4b11 was run with its own A100 file; vTrain's is
# from its paper (MICRO 2024), SimuMax' from docs/FULL_RESULTS.md at 4dcaae5.
OTHERS = {
    "Korthikanti Table 5": "Calculon 3.7 (8 points, largest 8.9)",
    "vTrain multi-node": "vTrain 14.7 (116 runs), Calculon 15.3 (109)",
    "vTrain single-node": "vTrain 8.4 (1,440 runs)",
    "SimuMax B200": "SimuMax at most 13.5 (43 cases)",
}


def line(name, family):
    coverage = family["coverage"]
    return (f"{name:<31}{family['rows']:>5}{100 * family['median_abs_error']:>9.1f}"
            f"{100 * family['max_abs_error']:>7.1f}"
            f"{'' if coverage is None else f'{100 * coverage:.0f}':>6}  {OTHERS.get(name, '')}").rstrip()


def main():
    result = json.load(sys.stdin)
    print("family                          rows median %  max %  in %  others, mean %")
    for family in sorted(result["families"], key=lambda f: f["name"].lower()):
        if family["rows"] and "--all" not in sys.argv[1:]:
            print(line(family["name"], family))
    print(line("all", result["all"]))
    skipped = sum(row["skipped"] is not None for row in result["rows"])
    print(f"{skipped} rows are not predicted; trainyard validate says why")


if __name__ == "__main__":
    main()
