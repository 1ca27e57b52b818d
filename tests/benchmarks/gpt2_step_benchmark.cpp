#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/common/kernel_contexts.h"
#include "backends/common/operands.h"
#include "backends/common/rank_state.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels/kernels.h"
#include "core/config/load.h"
#include "core/engine/step_loop.h"
#include "core/plan/plan.h"
#include "tests/benchmarks/plain_gpt2.h"

// GPT-2 124M, 4 sequences of 256 tokens: training steps of the CPU backend and of plain_gpt2 in
// turns, from the same weights on the same tokens, then the backend's kernels one by one.
//   gpt2_step_benchmark [rounds] [threads] [layers]
namespace trainyard {
namespace {

using Clock = std::chrono::steady_clock;

template <class F>
double seconds(F f) {
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Job job_of(int layers) {
  return load_job(
      {std::string(TRAINYARD_SCENARIOS) + "/models/gpt2-124m.toml"},
      {"model.layers=" + std::to_string(layers), "model.dropout=0.0", "batch.global_sequences=4",
       "batch.micro_sequences=4", "batch.sequence_length=256", "training.optimizer=\"adamw\"",
       "training.precision=\"fp32\"", "training.steps=1000", "cluster.preset=\"a100-8\""},
      TRAINYARD_SCENARIOS);
}

// The same random tokens in every step.
class RandomTokens final : public BatchFeed {
 public:
  explicit RandomTokens(const Job& job)
      : tokens_(static_cast<std::size_t>(job.batch.global_sequences *
                                         (job.batch.sequence_length + 1))) {
    std::mt19937 random;
    for (std::int32_t& token : tokens_)
      token = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(job.model.vocab));
  }
  std::span<const std::int32_t> batch(std::int64_t) override { return tokens_; }

 private:
  std::vector<std::int32_t> tokens_;
};

// One kind of kernel in a step.
struct KernelTime {
  std::int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};
using KernelTimes = std::map<std::string, KernelTime>;

class Ours {
 public:
  Ours(const Job& job, int threads)
      : job_(job),
        programs_(plan(job)),
        feed_(job),
        workers_(threads),
        backend_(make_cpu_backend(job, options(threads))),
        state_(job, program(), {}, backend_->memory()) {
    backend_->connect(job.mesh());
    state_.start(InitialWeights(job.model, job.batch.sequence_length, job.seed));
  }

  double step(std::int64_t number) {
    const StepReport report = run_step(*backend_, programs_, job_.mesh(), inputs(number), kNever);
    if (report.outcome != Outcome::done) throw std::runtime_error(report.message);
    return report.loss;
  }

  // Runs the step's kernels in the order of the program, and adds the time each takes.
  void time_kernels(std::int64_t number, KernelTimes& times) {
    std::vector<std::byte> arena(backend_->memory().size());
    backend_->memory().read(0, arena);
    const ProgramMemory memory(program(), arena);
    KernelContexts contexts(job_, RankId(0));
    contexts.begin(program(), inputs(number));
    for (const Instr& instr : program().code) {
      if (instr.op != Op::kernel) continue;
      const KernelSpec& spec = program().kernels[instr.what];
      KernelTime& time = times[std::string(kernel_info(spec.kind).name)];
      time.seconds +=
          seconds([&] { run_kernel(spec, memory.operands(instr), contexts.of(instr), &workers_); });
      ++time.calls;
      time.flops += spec.flops;
      time.bytes += static_cast<double>(spec.read.value + spec.written.value);
    }
  }

  std::span<const std::int32_t> tokens() { return feed_.batch(0); }
  double rate() const { return job_.optimization.learning_rate; }

 private:
  const Program& program() const { return *programs_.by_stage[0]; }
  RealBackendOptions options(int threads) const {
    RealBackendOptions out;
    out.threads = threads;
    out.memory = program().arena_bytes;
    return out;
  }
  StepInputs inputs(std::int64_t number) {
    StepInputs in;
    in.step = number;
    in.feed = &feed_;
    in.valid_tokens = job_.batch.global_sequences * job_.batch.sequence_length;
    in.update = number + 1;
    in.learning_rate = rate();
    return in;
  }

  const Job& job_;
  ProgramSet programs_;
  RandomTokens feed_;
  Workers workers_;
  std::unique_ptr<RealBackend> backend_;
  RankState state_;
};

// Where plain_gpt2 keeps a logical tensor: weights [in, out] as rows of [out, in] from `part` times
// hidden on, biases from that element on, others as they are.
struct Place {
  std::string_view name;
  PlainTensor tensor;
  std::int64_t part = 0;
  bool transposed = false;
};
constexpr std::array kPlaces{
    Place{"embedding", kPlainEmbedding},  Place{"positions", kPlainPositions},
    Place{"final_norm", kPlainFinalNorm}, Place{"norm1", kPlainNorm1},
    Place{"q", kPlainQkv, 0, true},       Place{"k", kPlainQkv, 1, true},
    Place{"v", kPlainQkv, 2, true},       Place{"q_bias", kPlainQkvBias, 0},
    Place{"k_bias", kPlainQkvBias, 1},    Place{"v_bias", kPlainQkvBias, 2},
    Place{"proj", kPlainProj, 0, true},   Place{"proj_bias", kPlainProjBias},
    Place{"norm2", kPlainNorm2},          Place{"fc1", kPlainFc1, 0, true},
    Place{"fc1_bias", kPlainFc1Bias},     Place{"fc2", kPlainFc2, 0, true},
    Place{"fc2_bias", kPlainFc2Bias}};

class Plain {
 public:
  Plain(const Job& job, int threads)
      : job_(job),
        model_(
            plain_model_new({static_cast<int>(job.model.layers), static_cast<int>(job.model.hidden),
                             static_cast<int>(job.model.heads), static_cast<int>(job.model.vocab),
                             static_cast<int>(job.batch.sequence_length),
                             static_cast<int>(job.batch.global_sequences), threads})) {
    const InitialWeights weights(job.model, job.batch.sequence_length, job.seed);
    for (const LogicalTensor& tensor : logical_tensors(job.model, job.batch.sequence_length))
      copy(tensor, weights);
  }
  ~Plain() { plain_model_free(model_); }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;

  double step(std::int64_t number, std::span<const std::int32_t> tokens) {
    const Optimization& o = job_.optimization;
    return plain_step(model_, tokens.data(),
                      {static_cast<float>(o.learning_rate), static_cast<float>(o.beta1),
                       static_cast<float>(o.beta2), static_cast<float>(o.epsilon),
                       static_cast<float>(o.weight_decay), static_cast<float>(job_.training.clip),
                       static_cast<int>(number + 1)});
  }
  std::array<double, kPlainParts> seconds() const {
    std::array<double, kPlainParts> out;
    std::copy_n(plain_seconds(model_), kPlainParts, out.begin());
    return out;
  }

 private:
  void copy(const LogicalTensor& tensor, const InitialWeights& weights) {
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    weights.fill(whole(tensor), values);
    const std::size_t dot = tensor.name.find('.');
    const int layer = dot == std::string::npos ? 0 : std::stoi(tensor.name.substr(5));
    const std::string name = dot == std::string::npos ? tensor.name : tensor.name.substr(dot + 1);
    const Place& place = *std::ranges::find(kPlaces, name, &Place::name);
    float* to = plain_tensor(model_, place.tensor, layer) +
                place.part * job_.model.hidden * (place.transposed ? tensor.rows : 1);
    for (std::int64_t i = 0; i < tensor.rows; ++i)
      for (std::int64_t j = 0; j < tensor.columns; ++j)
        to[place.transposed ? j * tensor.rows + i : i * tensor.columns + j] =
            values[static_cast<std::size_t>(i * tensor.columns + j)];
  }

  const Job& job_;
  PlainModel* model_;
};

double median(std::vector<double> x) {
  std::ranges::sort(x);
  return x[x.size() / 2];
}
double best(const std::vector<double>& x) { return std::ranges::min(x); }

void print_kernels(const KernelTimes& times, int rounds) {
  double total = 0;
  for (const auto& [name, time] : times) total += time.seconds;
  std::vector<std::pair<std::string, KernelTime>> sorted(times.begin(), times.end());
  std::ranges::sort(sorted, {}, [](const auto& entry) { return -entry.second.seconds; });
  fmt::print("\n{:<22} {:>5} {:>9} {:>6} {:>8} {:>6}\n", "kernels of a step", "calls", "ms",
             "share", "GFLOP/s", "GB/s");
  for (const auto& [name, t] : sorted)
    fmt::print("{:<22} {:>5} {:>9.2f} {:>5.1f}% {:>8.1f} {:>6.1f}\n", name, t.calls / rounds,
               t.seconds / rounds * 1e3, t.seconds / total * 100, t.flops / t.seconds * 1e-9,
               t.bytes / t.seconds * 1e-9);
  fmt::print("{:<22} {:>5} {:>9.2f}\n", "sum", "", total / rounds * 1e3);
}

void print_parts(const Plain& plain, int steps) {
  constexpr std::array<std::string_view, kPlainParts> kNames{"dense", "attention", "elementwise",
                                                             "loss", "optimizer"};
  const auto seconds = plain.seconds();
  fmt::print("\nplain C, mean of a step\n");
  for (std::size_t i = 0; i < kPlainParts; ++i)
    fmt::print("{:<22} {:>15.2f} ms\n", kNames[i], seconds[i] / steps * 1e3);
}

int argument(int argc, char** argv, int index, int otherwise) {
  return argc > index ? std::stoi(argv[index]) : otherwise;
}

int run(int argc, char** argv) {
  const int rounds = argument(argc, argv, 1, 4);
  const int threads =
      argument(argc, argv, 2, static_cast<int>(std::thread::hardware_concurrency()));
  const Job job = job_of(argument(argc, argv, 3, 12));
  const double tokens = static_cast<double>(job.batch.global_sequences * job.batch.sequence_length);
  Ours ours(job, threads);
  Plain plain(job, threads);
  std::vector<double> own, other;
  KernelTimes kernels;
  fmt::print(
      "{} layers, {} threads; the first of {} steps is not counted\n{:>4} {:>12} {:>12} "
      "{:>10} {:>10}\n",
      job.model.layers, threads, rounds + 1, "step", "loss", "plain loss", "ms", "plain ms");
  for (int i = 0; i <= rounds; ++i) {
    double loss = 0, plain_loss = 0;
    own.push_back(seconds([&] { loss = ours.step(i); }));
    other.push_back(seconds([&] { plain_loss = plain.step(i, ours.tokens()); }));
    fmt::print("{:>4} {:>12.6f} {:>12.6f} {:>10.1f} {:>10.1f}\n", i, loss, plain_loss,
               own.back() * 1e3, other.back() * 1e3);
    if (std::abs(loss - plain_loss) > 2e-3) throw std::runtime_error("the losses differ");
  }
  own.erase(own.begin());
  other.erase(other.begin());
  fmt::print("\n{:<10} {:>14} {:>16}\n", "tokens/s", "best step", "median step");
  fmt::print("{:<10} {:>14.1f} {:>16.1f}\n", "trainyard", tokens / best(own), tokens / median(own));
  fmt::print("{:<10} {:>14.1f} {:>16.1f}\n", "plain C", tokens / best(other),
             tokens / median(other));
  fmt::print("{:<10} {:>14.2f} {:>16.2f}\n", "ratio", best(other) / best(own),
             median(other) / median(own));
  for (int i = 0; i < rounds; ++i) ours.time_kernels(rounds + 1 + i, kernels);
  print_kernels(kernels, rounds);
  print_parts(plain, rounds + 1);
  return 0;
}

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) {
  try {
    return trainyard::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
