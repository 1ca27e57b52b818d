#!/usr/bin/env python3
"""Fails on an include that goes against tools → backends → simulator → network_models → core, on
a library outside the one folder it is meant for, and on a thread, socket or clock in core."""

import re

from tree import files, report

LAYERS = ("core", "network_models", "simulator", "backends", "tools", "tests")

# include → folders that may have it
ONLY_IN = {
    r"CLI/.*": ("tools",),
    r"toml\+\+/.*": ("core/config",),
    r"nlohmann/.*": ("backends/common", "tools", "tests"),
    r"(utf8proc|xxhash)\.h": ("backends/common",),
    r"hiredis/.*": ("backends/common",),
    r"zlib\.h": ("tools",),
    r"Eigen/.*": ("backends/cpu", "tests/benchmarks"),
    r"(cuda|cublas|cudnn|nccl|nvtx|driver_types|vector_types).*": (
        "backends/cuda",
        "tests/cuda_on_host",
        "tests/backends/cuda",
    ),
    r"simgrid/.*": ("network_models/simgrid",),
}
NEVER_IN_CORE = (
    r"thread|mutex|shared_mutex|condition_variable|future|atomic|stop_token|semaphore|latch"
    r"|barrier|chrono|ctime|time\.h|pthread\.h|sys/.*|netinet/.*|arpa/.*|unistd\.h|random"
)
NEVER_SAID_IN_CORE = r"\b(std::thread|std::chrono|std::async|rand\(|::socket\()"


def include_problem(where, layer, include):
    top = include.split("/")[0]
    if top in LAYERS:
        if LAYERS.index(top) > LAYERS.index(layer):
            return f"{where}: {layer} may not include {top}"
        return None
    for pattern, allowed in ONLY_IN.items():
        if re.fullmatch(pattern, include) and not any(where.startswith(a + "/") for a in allowed):
            return f"{where}: <{include}> belongs in {' or '.join(allowed)}"
    if layer == "core" and re.fullmatch(NEVER_IN_CORE, include):
        return f"{where}: no thread, socket or clock in core (<{include}>)"
    return None


def problems(root="."):
    found = []
    for path in files(root, ".h", ".cpp", ".cu", ".cuh"):
        name = path.relative_to(root).as_posix()
        layer = name.split("/")[0]
        if layer not in LAYERS:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            where = f"{name}:{number}"
            include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if include:
                if include[1] == '"' and include[2].split("/")[0] not in LAYERS:
                    found.append(f'{where}: write "{include[2]}" from the repository root')
                else:
                    found.append(include_problem(where, layer, include[2]))
            elif layer == "core" and re.search(NEVER_SAID_IN_CORE, line.split("//")[0]):
                found.append(f"{where}: no thread, socket or clock in core: {line.strip()}")
    return [f for f in found if f]


if __name__ == "__main__":
    report(problems())
