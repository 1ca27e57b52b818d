#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "backends/cpu/cpu_device.h"
#include "core/config/load.h"

// What an instruction of the CPU backend costs beside its work: steps of kernels that set one
// number to zero, from the first call of begin() to the end of finish(). `us_an_instruction` is of
// the whole step.
namespace trainyard {
namespace {

Instr instruction(std::uint32_t number, Stream stream, std::uint32_t wait) {
  Instr instr;
  instr.op = Op::kernel;
  instr.stream = stream;
  instr.first_operand = number;
  instr.operands = 1;
  instr.pass = 0;
  instr.waits[0] = wait;
  return instr;
}

// Instruction i is on stream i % 2, or all are on one, and waits for the `every`-th before it.
Program program_of(std::uint32_t instructions, bool two_streams, std::uint32_t every) {
  Program program;
  program.passes = {Pass{}};
  program.buffer_types = {{"number", {1, 1}, {1, 1}, DType::fp32, MemoryClass::workspace, false}};
  for (std::uint32_t i = 0; i < 2; ++i) {
    BufferSpec number;
    number.offset = Bytes(64 * i);
    program.buffers.push_back(number);
  }
  program.arena_bytes = Bytes(128);
  KernelSpec zero;
  zero.kind = KernelKind::zero;
  zero.dtype = DType::fp32;
  zero.shape = {1};
  program.kernels = {zero};
  for (std::uint32_t i = 0; i < instructions; ++i) {
    const bool second = two_streams && i % 2 == 1;
    const bool waits = two_streams && i > 0 && i % every == 0;
    program.code.push_back(
        instruction(i, second ? Stream::tensor : Stream::compute, waits ? i - 1 : kNone));
    program.operands.push_back({second ? 1U : 0U, static_cast<std::uint32_t>(Access::write)});
  }
  return program;
}

// Arguments: streams, and how many instructions there are to a wait for the other stream.
void instructions(benchmark::State& state) {
  constexpr std::uint32_t kInstructions = 20'000;
  const Job job = load_job(
      {std::string(TRAINYARD_SCENARIOS) + "/tiny-gpt.toml"},
      {"parallel.tensor=1", "parallel.pipeline=1", "parallel.data=1", "parallel.sequence=false"},
      TRAINYARD_SCENARIOS);
  const Program program =
      program_of(kInstructions, state.range(0) == 2, static_cast<std::uint32_t>(state.range(1)));
  Transport transport(RankId(0), {});
  transport.connect(job.mesh(), nullptr);
  std::vector<std::byte> arena(static_cast<std::size_t>(program.arena_bytes.value));
  CpuDevice device(job, RankId(0), transport, arena, nullptr);
  double best = 1e9, sum = 0;
  for ([[maybe_unused]] auto _ : state) {
    const Time start = device.now();
    const StepReport report = run_on_streams(device, program, {}, kNever);
    const double elapsed = static_cast<double>((device.now() - start).value);
    if (report.outcome != Outcome::done) return state.SkipWithError(report.message.c_str());
    best = std::min(best, elapsed);
    sum += elapsed;
  }
  state.counters["us_an_instruction"] = best * 1e-3 / kInstructions;
  state.counters["mean_us"] = sum * 1e-3 / kInstructions / static_cast<double>(state.iterations());
}
BENCHMARK(instructions)
    ->ArgNames({"streams", "to_a_wait"})
    ->Args({1, 1})
    ->Args({2, 101})
    ->Args({2, 11})
    ->Args({2, 1})
    ->UseRealTime()
    ->Iterations(10)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trainyard
