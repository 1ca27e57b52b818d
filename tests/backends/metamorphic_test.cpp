#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "core/config/load.h"
#include "core/config/schema.h"
#include "core/error.h"
#include "core/memory/memory_plan.h"
#include "core/plan/plan.h"
#include "simulator/simulation.h"
#include "tests/backends/schema_changes.h"

namespace trainyard {
namespace {

using Sets = std::vector<std::string>;

const Sets kCluster{"model.layers=16",
                    "model.hidden=4096",
                    "model.heads=32",
                    "model.ffn=16384",
                    "model.vocab=50257",
                    "parallel.tensor=8",
                    "parallel.pipeline=4",
                    "parallel.data=8",
                    "parallel.sequence=true",
                    "parallel.zero=1",
                    "batch.global_sequences=64",
                    "batch.micro_sequences=1",
                    "batch.sequence_length=2048",
                    "cluster.preset=megascale-a100",
                    "training.total_tokens=1e9",
                    "training.precision=bf16"};

Sets with(Sets more) {
  Sets all = kCluster;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Sets with_packets(const std::string& control, Sets more = {}) {
  Sets all = with({"parallel.tensor=1", "parallel.sequence=false", "parallel.pipeline=1",
                   "parallel.data=16", "model.layers=2", "model.hidden=256", "model.heads=8",
                   "model.ffn=1024", "model.vocab=4000", "batch.sequence_length=128",
                   "cluster.fabric.nodes_per_tor=1", "cluster.fabric.tor_uplinks=2",
                   "cluster.fabric.rails=1", "cluster.fabric.uplink_gbps=50",
                   "cluster.fabric.switch_buffer=4MiB", "network.model=packet",
                   "network.congestion_control=" + control});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Whatever the first 300 ms bring for rail 0 is lost, and later a packet of a thousand.
constexpr const char* kOutage =
    "faults.list=[\"switch_down switch=tor:0 for=300ms\", \"loss link=nic_out:0 rate=0.001\"]";

// The jobs that keys are tried on; each adds to the first.
const std::map<std::string, Sets>& bases() {
  static const std::map<std::string, Sets> kBases{
      {"cluster", with({})},
      {"overlap", with({"schedule.overlap=[\"tensor\",\"pipeline\",\"data\"]"})},
      {"interleaved", with({"schedule.pipeline=interleaved-1f1b", "parallel.virtual_stages=2"})},
      {"zero-bubble", with({"schedule.pipeline=zb-h1"})},
      {"unfused", with({"model.attention=unfused", "model.dropout=0.1"})},
      {"eager", with({"software.fused_norm=false", "software.fused_residual=false",
                      "software.fused_activation=false", "model.dropout=0.1"})},
      {"windowed", with({"model.window=256", "model.position=rope", "model.head_dim=64"})},
      {"fp8 ready", with({"cluster.gpu.gemm.fp8_speedup=1.8"})},
      {"fp8", with({"cluster.gpu.gemm.fp8_speedup=1.8", "software.fp8_linear=true"})},
      {"lamb", with({"training.optimizer=lamb"})},
      {"full", with({"training.precision=fp32"})},
      {"half", with({"training.precision=fp16"})},
      {"all-reduce", with({"parallel.zero=0", "parallel.sequence=false"})},
      {"inside", with({"parallel.tensor=2", "parallel.pipeline=4", "parallel.data=1",
                       "batch.global_sequences=8"})},
      {"wide", with({"parallel.tensor=1", "parallel.sequence=false", "parallel.pipeline=1",
                     "parallel.data=64", "model.layers=2", "cluster.fabric.nodes_per_tor=2",
                     "cluster.fabric.tors_per_pod=16", "cluster.fabric.tor_uplinks=2"})},
      {"packets", with_packets("none")},
      {"flows", with_packets("ideal", {"network.model=flow"})},
      {"marked packets", with_packets("dcqcn")},
      {"dropped packets", with_packets("none", {"cluster.fabric.pfc=false"})},
      {"tiny",
       with({"model.hidden=256", "model.heads=8", "model.ffn=1024", "batch.sequence_length=128"})},
      {"tiny and wide",
       with({"model.hidden=256", "model.heads=8", "model.ffn=1024", "batch.sequence_length=128",
             "parallel.tensor=1", "parallel.sequence=false", "parallel.pipeline=1",
             "parallel.data=64", "model.layers=2"})},
      {"measured",
       with({"training.precision=fp32", "cluster.node.cores=4", "cluster.gpu.measured_threads=[1]",
             "cluster.gpu.measured_kernels.gemm_forward.t0_us=[10]",
             "cluster.gpu.measured_kernels.gemm_forward.flop_ps=[0.1]",
             "cluster.gpu.measured_kernels.gemm_forward.byte_ps=[0.1]",
             "cluster.measured_calls.all_gather.work_us=10",
             "cluster.measured_calls.all_gather.work_peer_us=1",
             "cluster.measured_calls.all_gather.work_byte_ns=0.01",
             "cluster.measured_calls.all_gather.wait_us=10",
             "cluster.measured_calls.all_gather.wait_peer_us=1",
             "cluster.measured_calls.all_gather.wait_byte_ns=0.01"})},
      {"big heads", with({"model.head_dim=256"})},
      {"graphs", with({"model.hidden=256", "model.heads=8", "model.ffn=1024",
                       "batch.sequence_length=128", "software.cuda_graphs=true"})},
      {"misaligned", with({"model.ffn=16400", "cluster.gpu.gemm.alignment=64"})},
      {"short", with({"batch.sequence_length=128"})},
      {"single", with({"training.precision=fp32", "cluster.gpu.peak_tf32_tflops=0"})},
      {"replayed", with({"measured.forward_ms=[10]", "measured.backward_ms=[20]"})},
      {"two nodes", with({"parallel.tensor=2", "parallel.pipeline=4", "parallel.data=2",
                          "batch.global_sequences=8"})},
      {"outage", with({"parallel.tensor=2", "parallel.pipeline=4", "parallel.data=2",
                       "batch.global_sequences=8", "network.model=flow", kOutage})},
      {"hopper",
       with({"cluster.preset=dgx-h100-superpod", "parallel.zero=0", "parallel.sequence=false",
             "parallel.tensor=1", "parallel.pipeline=1", "parallel.data=16", "model.layers=2"})},
  };
  return kBases;
}

struct Answer {
  double time = 0, memory = 0, model_flops = 0, days = 0;
  bool refused = false;
  bool operator==(const Answer&) const = default;
};

Answer run(const Sets& sets) {
  Answer o;
  try {
    const Job job = load_job({}, sets, TRAINYARD_SCENARIOS);
    const ProgramSet programs = plan(job);
    const SimulationResult result = simulate(job, programs, {});
    o.time = to_seconds(result.iteration);
    for (const auto& program : programs.by_stage)
      o.memory = std::max(o.memory, static_cast<double>(program->arena_bytes.value));
    o.model_flops = model_flops_per_token(job.model, job.batch.sequence_length, job.training.flops);
    const double tokens =
        static_cast<double>(job.batch.global_sequences * job.batch.sequence_length);
    o.days = job.training.total_tokens / tokens * o.time;
  } catch (const ConfigError&) {
    o.refused = true;
  }
  return o;
}

// Keys that are told apart from what a step takes.
bool beyond_a_step(const std::string& key) {
  static const std::set<std::string> kLabels{"model.preset", "cluster.gpu.name",
                                             "cluster.nccl.version"};
  // All-to-all comes with expert parallelism, which jobs cannot ask for yet.
  return kLabels.contains(key) || key.starts_with("expect.") ||
         key.starts_with("cluster.nccl.all_to_all");
}

bool shows(Effect effect, const Answer& before, const Answer& after) {
  if (effect == Effect::refused) return after.refused;
  if (after.refused) return false;
  switch (effect) {
    case Effect::slower:
      return after.time > before.time;
    case Effect::faster:
      return after.time < before.time;
    case Effect::more_memory:
      return after.memory > before.memory;
    case Effect::less_memory:
      return after.memory < before.memory;
    case Effect::none:
      return after == before;
    default:
      return after != before;
  }
}

TEST(EveryKey, MovesTheResultTheRightWay) {
  std::map<std::string, Answer> before;
  for (const auto& [name, sets] : bases()) {
    before[name] = run(sets);
    ASSERT_FALSE(before[name].refused) << name;
  }
  for (const Change& change : schema_changes()) {
    Sets sets = bases().at(change.base);
    sets.push_back(change.set);
    const Answer after = run(sets), &was = before.at(change.base);
    EXPECT_TRUE(shows(change.effect, was, after))
        << change.base << " with " << change.set << ": " << was.time << " s to " << after.time
        << " s, " << was.memory << " to " << after.memory << " bytes, refused " << after.refused;
  }
}

TEST(EveryKey, IsTriedOrHasAReasonNotToMatter) {
  std::set<std::string> tried;
  for (const Change& change : schema_changes()) {
    std::string key = change.set.substr(0, change.set.find('='));
    for (const std::string name :
         {".attention.flash2.", ".measured_kernels.gemm_forward.", ".measured_calls.all_gather."}) {
      const std::size_t at = key.find(name), section = name.find('.', 1);
      if (at != key.npos) key.replace(at, name.size(), name.substr(0, section) + ".*.");
    }
    tried.insert(key);
  }
  std::istringstream schema(describe_schema());
  for (std::string line; std::getline(schema, line);) {
    if (line.empty() || line[0] == ' ' || line[0] == '[' || line.find('.') == std::string::npos)
      continue;
    EXPECT_TRUE(tried.contains(line) || beyond_a_step(line)) << line << " never changes a result";
  }
}

}  // namespace
}  // namespace trainyard
