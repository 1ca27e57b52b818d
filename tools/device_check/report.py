"""The report for people."""

# Key of `aims`, the line about it, what is asked for. Of one GPU.
AIMS = (("mfu", "MFU of GPT-2 124M in bf16 without CUDA graphs", lambda v: v >= 0.45),
        ("bandwidth", "least part of HBM bandwidth of a memory-bound kernel (bf16)",
         lambda v: v >= 0.80),
        ("launch_us", "us between launches", lambda v: v <= 3),
        ("prediction", "simulated step over measured step", lambda v: abs(v - 1) <= 0.10))


def aims(parts):
    """What the aims of the CUDA backend are about, as far as it was measured."""
    out = {}
    rows = parts.get("step", {}).get("rows", [])
    if rows:
        out["mfu"] = rows[0]["mfu"]
        if "step_s" in parts.get("prediction", {}):
            out["prediction"] = parts["prediction"]["step_s"] / rows[0]["step_s"]
    bound_by_memory = [r["roofline"] for r in parts.get("kernels", {}).get("kernels", [])
                       if r["dtype"] == "bf16" and "roofline" in r and "tflops" not in r]
    if bound_by_memory:
        out["bandwidth"] = min(bound_by_memory)
    if "launch_us" in parts.get("calibration", {}):
        out["launch_us"] = parts["calibration"]["launch_us"]
    return {key: value for key, value in out.items() if value is not None}


def text_of(report):
    parts = report["parts"]
    lines = [f"{len(report['gpus'])} x {report['gpus'][0]['name']}: "
             + ("passed" if report["passed"] else "FAILED"), ""]
    if report["on_host"]:
        lines += ["on the host CUDA, in small sizes: times mean nothing", ""]
    for name, part in parts.items():
        state = part.get("skipped") or part.get("failure") or ("ok" if part["passed"] else "FAILED")
        lines.append(f"{name:12} {part['seconds']:7.1f} s  {state}")
    lines += ["", "aims"]
    for key, what, holds in AIMS:
        value = report["aims"].get(key)
        told = "not measured" if value is None else f"{value:.3g}, {'met' if holds(value) else 'missed'}"
        lines.append(f"  {what}: {told}")
    for name, section in (("kernels", kernel_lines), ("losses", loss_lines), ("step", step_lines),
                          ("calibration", call_lines), ("prediction", class_lines),
                          ("ranks", rank_lines), ("sanitizer", sanitizer_lines)):
        if "seconds" in parts.get(name, {}) and not parts[name].keys() & {"skipped", "failure"}:
            lines += ["", *section(parts[name])]
    return "\n".join(lines) + "\n"


def kernel_lines(part):
    yield f"{'kernel':28}{'type':6}{'of allowed':>11}{'us':>11}{'GB/s':>9}{'TFLOP/s':>9}{'roofline %':>11}"
    for row in part["kernels"]:
        cells = [f"{row[key] * scale:{width}.1f}" if key in row else " " * width
                 for key, scale, width in (("time_us", 1, 11), ("gbs", 1, 9), ("tflops", 1, 9),
                                           ("roofline", 100, 11))]
        start = f"{row['kernel']:28}{row['dtype']:6}"
        if "skipped" in row:
            yield f"{start}  left out: {row['skipped']}"
            continue
        yield f"{start}{row['error']:11.3f}" + "".join(cells) + ("" if row["passed"] else "  WRONG")


def loss_lines(part):
    yield (f"losses beside the CPU's of {part['cpu_steps']} steps in fp32; CUDA graphs give "
           + ("the same bits" if part["graphs_equal"] else "OTHER losses"))
    for row in part["rows"]:
        yield (f"  {row['precision']}: {len(row['losses'])} steps, {row['losses'][0]:.4f} to "
               f"{row['losses'][-1]:.4f}, apart by {row['difference']:.1e} (allowed {row['bound']:.0e})")


def step_lines(part):
    yield "step in bf16"
    for row in part["rows"]:
        mfu = "n/a" if row["mfu"] is None else f"{100 * row['mfu']:.1f} %"
        yield (f"  {'with' if row['cuda_graphs'] else 'without'} CUDA graphs: {row['step_s'] * 1e3:.2f} "
               f"ms, {row['tokens_per_s']:.0f} tokens/s, MFU {mfu}")
    yield f"  between instructions of a traced step: {part['gap_us']:.2f} us (median, events included)"


def call_lines(part):
    yield (f"launch {part['launch_us']:.2f} us, in a graph {part['graph_launch_us']:.2f} us, copies from "
           f"the host {part['copy_gbs']:.1f} GB/s; profile: {part['profile']}")
    for row in part["collectives"]:
        yield (f"  {row['op']:15}{row['ranks']:3} ranks {row['bytes']:12.0f} bytes {row['us']:10.1f} us "
               f"{row['algbw_gbs']:8.2f} GB/s, bus {row['busbw_gbs']:8.2f} GB/s")


def class_lines(part):
    yield f"simulated step {part['step_s'] * 1e3:.2f} ms; where a traced step and it differ most:"
    for row in part["worst_classes"]:
        time = row["time_s"]
        yield (f"  {row['class']:32}{row['stream']:10} measured {time['a'] * 1e3:9.3f} ms, "
               f"simulated {time['b'] * 1e3:9.3f} ms")


def rank_lines(part):
    yield "layouts beside one GPU"
    for row in part["rows"]:
        rate = f", {row['tokens_per_s']:.0f} tokens/s" if "tokens_per_s" in row else ""
        yield f"  {row['layout']} ({row['ranks']} GPUs): apart by {row['difference']:.1e}{rate}"


def sanitizer_lines(part):
    yield "compute-sanitizer"
    for row in part["runs"]:
        yield f"  {row['tool']} on {row['program']}: {'ok' if row['passed'] else row['output']}"
