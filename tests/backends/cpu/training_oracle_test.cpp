#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "backends/common/batch_feeds.h"
#include "backends/common/rank_state.h"
#include "backends/cpu/cpu_backend.h"
#include "core/config/load.h"
#include "core/engine/learning_rate.h"
#include "core/engine/step_loop.h"
#include "core/plan/plan.h"

// Whole trainings against PyTorch's: tests/oracle/README.md tells what the files hold.
namespace trainyard {
namespace {

using Json = nlohmann::json;
using Tensors = std::map<std::string, std::vector<double>>;

const std::string kFolder = TRAINYARD_TEST_DATA "/oracle/training/";

// The golden's rows, the same batches over and over.
class GoldenFeed : public BatchFeed {
 public:
  explicit GoldenFeed(const Json& batches) {
    for (const Json& batch : batches) {
      batches_.emplace_back();
      for (const Json& row : batch)
        for (const Json& token : row) batches_.back().push_back(token.get<std::int32_t>());
    }
  }
  std::span<const std::int32_t> batch(std::int64_t step) override {
    return batches_[static_cast<std::size_t>(step) % batches_.size()];
  }

 private:
  std::vector<std::vector<std::int32_t>> batches_;
};

// Trains a case on one rank of the CPU backend.
class GoldenRun {
 public:
  GoldenRun(const Job& job, const Json& golden)
      : job_(job),
        programs_(plan(job)),
        feed_(golden.at("batches")),
        backend_(make_cpu_backend(job, options_for(*programs_.by_stage[0]))),
        state_(job, *programs_.by_stage[0], job.mesh().coord(RankId(0)), backend_->memory()) {
    backend_->connect(job.mesh());
    state_.start(InitialWeights(job.model, job.batch.sequence_length, job.seed));
  }

  StepReport step(std::int64_t number) {
    StepInputs inputs;
    inputs.step = number;
    inputs.feed = &feed_;
    inputs.valid_tokens = count_targets(feed_.batch(number), job_.batch.sequence_length);
    inputs.update = number + 1;
    inputs.learning_rate = learning_rate(job_.optimization, total_steps(job_), number);
    return run_step(*backend_, programs_, job_.mesh(), inputs, kNever);
  }

  // The model's tensors out of the flat buffers BUCKET.`what` ("params", "grads").
  Tensors tensors(const std::string& what) {
    Tensors out;
    for (const BucketLayout& bucket : state_.buckets()) {
      const std::vector<float> flat = buffer(bucket.name + "." + what);
      for (const HeldRectangle& r : bucket.rectangles) {
        std::vector<double>& to = out[r.tensor];
        to.resize(static_cast<std::size_t>(r.shape[0] * r.shape[1]));
        for (std::int64_t i = 0; i < r.rows; ++i)
          for (std::int64_t j = 0; j < r.columns; ++j)
            to[(r.first_row + i) * r.shape[1] + r.first_column + j] =
                flat[r.offset + i * r.row_stride + j];
      }
    }
    return out;
  }

 private:
  static RealBackendOptions options_for(const Program& program) {
    RealBackendOptions options;
    options.memory = program.arena_bytes;
    return options;
  }

  std::vector<float> buffer(const std::string& name) {
    const Program& program = *programs_.by_stage[0];
    for (const BufferSpec& spec : program.buffers) {
      const BufferType& type = program.buffer_types[spec.type];
      if (type.name != name || spec.parent != kNone) continue;
      std::vector<float> values(static_cast<std::size_t>(type.size().value / 4));
      backend_->memory().read(static_cast<std::size_t>(spec.offset.value),
                              std::as_writable_bytes(std::span(values)));
      return values;
    }
    ADD_FAILURE() << "no buffer " << name;
    return {};
  }

  const Job& job_;
  ProgramSet programs_;
  GoldenFeed feed_;
  std::unique_ptr<RealBackend> backend_;
  RankState state_;
};

// Sums of rows (or of columns) of a tensor.
std::vector<double> sums(const std::vector<double>& x, std::int64_t columns, bool of_rows) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / columns;
  std::vector<double> out(static_cast<std::size_t>(of_rows ? rows : columns));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) out[of_rows ? i : j] += x[i * columns + j];
  return out;
}

double farthest(const std::vector<double>& got, const Json& expected, std::size_t every = 1) {
  double most = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    most = std::max(most, std::abs(got.at(i * every) - expected[i].get<double>()));
  return most;
}

// How far a tensor is from the golden's numbers of it.
double distance(const std::vector<double>& x, const Json& golden) {
  if (golden.contains("values")) return farthest(x, golden["values"]);
  const auto columns = golden["shape"][1].get<std::int64_t>();
  return std::max({farthest(sums(x, columns, true), golden["row_sums"]),
                   farthest(sums(x, columns, false), golden["column_sums"]),
                   farthest(x, golden["samples"], golden["every"])});
}

// Single precision may be a few times as far from double as PyTorch's own is: both round the same
// formulas, in another order. A golden has nine digits of the largest numbers.
constexpr double kTimes = 8;

void expect_tensors(const Tensors& got, const Json& golden, double scale) {
  for (const auto& [name, expected] : golden.items()) {
    ASSERT_TRUE(got.contains(name)) << name;
    std::vector<double> x = got.at(name);
    for (double& value : x) value /= scale;
    const double bound =
        kTimes * expected["float_error"].get<double>() + 1e-8 * expected["norm"].get<double>();
    EXPECT_LT(distance(x, expected), bound + 1e-12) << name;
  }
}

class PyTorchTraining : public ::testing::TestWithParam<const char*> {};

TEST_P(PyTorchTraining, GivesTheSameLossesGradientsAndWeights) {
  const std::string file = kFolder + GetParam();
  std::ifstream in(file + ".json");
  const Json golden = Json::parse(in);
  const Job job = load_job({file + ".toml"}, {}, TRAINYARD_SCENARIOS);
  GoldenRun run(job, golden);
  const std::size_t steps = golden["loss"].size();
  ASSERT_EQ(total_steps(job), static_cast<std::int64_t>(steps));
  for (std::size_t i = 0; i < steps; ++i) {
    EXPECT_NEAR(learning_rate(job.optimization, total_steps(job), static_cast<std::int64_t>(i)),
                golden["learning_rate"][i].get<double>(), 1e-11);
    const StepReport report = run.step(static_cast<std::int64_t>(i));
    ASSERT_EQ(report.outcome, Outcome::done) << report.message;
    EXPECT_NEAR(report.loss, golden["loss"][i].get<double>(),
                kTimes * golden["loss_float_error"].get<double>());
    const double norm = golden["grad_norm"][i].get<double>(), clip = job.training.clip;
    if (clip > 0) {
      EXPECT_NEAR(report.gradient_norm, norm,
                  kTimes * golden["grad_norm_float_error"].get<double>());
    }
    if (i == 0)  // the buffers hold them clipped
      expect_tensors(run.tensors("grads"), golden["gradients"],
                     clip > 0 && norm > clip ? clip / norm : 1);
  }
  expect_tensors(run.tensors("params"), golden["parameters"], 1);
}

INSTANTIATE_TEST_SUITE_P(Cases, PyTorchTraining,
                         ::testing::Values("gpt2", "llama", "gpt2-parallel", "llama-window",
                                           "gpt2-masked", "gpt2-lamb",
                                           "llama-parallel-window-lamb"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The numpy script and this program draw the same numbers.
TEST(PyTorchStart, HasTheSameWeights) {
  for (const char* name : {"gpt2", "llama-parallel-window-lamb"}) {
    std::ifstream in(kFolder + name + ".json");
    const Json golden = Json::parse(in);
    const Job job = load_job({kFolder + name + ".toml"}, {}, TRAINYARD_SCENARIOS);
    const InitialWeights weights(job.model, job.batch.sequence_length, job.seed);
    for (const LogicalTensor& t : logical_tensors(job.model, job.batch.sequence_length)) {
      if (t.start != Start::normal && t.start != Start::residual) continue;
      const Json& expected = golden["initial"].at(t.name);
      std::vector<float> values(static_cast<std::size_t>(t.elements()));
      weights.fill(whole(t), values);
      double squares = 0;
      for (const float v : values) squares += static_cast<double>(v) * v;
      EXPECT_NEAR(std::sqrt(squares), expected["norm"].get<double>(), 1e-8) << t.name;
      for (std::size_t i = 0; i < expected["first"].size(); ++i)
        EXPECT_NEAR(values[i], expected["first"][i].get<double>(), 1e-9) << t.name;
      EXPECT_NEAR(values.back(), expected["last"][0].get<double>(), 1e-9) << t.name;
    }
  }
}

}  // namespace
}  // namespace trainyard
