#include "tools/trainyard/published_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "core/report/throughput.h"

namespace trainyard {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

struct Column {
  std::string_view name, key;
};

// Columns whose whole numbers are scenario keys as they stand.
constexpr Column kNumbers[] = {{"layers", "model.layers"},
                               {"hidden", "model.hidden"},
                               {"heads", "model.heads"},
                               {"kv_heads", "model.kv_heads"},
                               {"ffn_hidden", "model.ffn"},
                               {"vocab", "model.vocab"},
                               {"seq_len", "batch.sequence_length"},
                               {"global_batch", "batch.global_sequences"},
                               {"micro_batch", "batch.micro_sequences"},
                               {"tp", "parallel.tensor"},
                               {"pp", "parallel.pipeline"},
                               {"dp", "parallel.data"},
                               {"cp", "parallel.context"}};

std::int64_t value_or(const PublishedRun& run, const std::string& key, std::int64_t otherwise) {
  const auto found = run.keys.find(key);
  return found == run.keys.end() ? otherwise : std::atoll(found->second.c_str());
}

void put(PublishedRun& run, const std::string& key, std::int64_t value) {
  run.keys[key] = std::to_string(value);
}

void read_recompute(const CsvRow& row, PublishedRun& run) {
  const std::string& text = row.text("recompute");
  if (text.starts_with("full")) run.keys["training.recompute"] = "full";
  if (text.starts_with("selective")) run.keys["training.recompute"] = "selective";
  if (text.starts_with("none")) run.keys["training.recompute"] = "none";
}

void read_words(const CsvRow& row, PublishedRun& run) {
  const std::string& zero = row.text("zero_stage");
  if (!zero.empty()) run.keys["parallel.zero"] = contains(zero, "FSDP") ? "3" : zero;
  if (row.text("sequence_parallel") == "y") run.keys["parallel.sequence"] = "true";
  const std::string& precision = row.text("precision");
  for (const char* type : {"bf16", "fp16", "fp32"})
    if (contains(precision, type)) run.keys["training.precision"] = type;
  if (contains(precision, "BF16")) run.keys["training.precision"] = "bf16";
  if (contains(row.text("optimizer"), "LAMB")) run.keys["training.optimizer"] = "lamb";
  read_recompute(row, run);
  const std::string& chunks = row.text("vpp");
  if (chunks == "1" || chunks.empty()) return;
  run.keys["parallel.virtual_stages"] = chunks;
  if (contains(chunks, "1 layer/chunk")) {  // the most there are
    const std::int64_t stages = std::max<std::int64_t>(1, value_or(run, "parallel.pipeline", 1));
    put(run, "parallel.virtual_stages", (value_or(run, "model.layers", 1) + 2) / stages);
  }
  run.keys["schedule.pipeline"] = "interleaved-1f1b";
}

// Replicas from the number of GPUs where the table does not print them; micro-batches a pipeline
// from the note "mbc=N".
void derive_sizes(const CsvRow& row, PublishedRun& run) {
  const std::int64_t replica = value_or(run, "parallel.tensor", 1) *
                               value_or(run, "parallel.pipeline", 1) *
                               value_or(run, "parallel.context", 1);
  if (!run.keys.contains("parallel.data")) {
    const std::int64_t gpus = row.integer("n_gpus").value_or(0);
    if (gpus > 0 && gpus % replica == 0)
      put(run, "parallel.data", gpus / replica);
    else
      run.skip = "the number of GPUs is not told, or no multiple of tensor x pipeline x context";
  }
  const std::string& note = row.text("notes");
  const std::size_t at = note.find("mbc=");
  if (at != std::string::npos && !run.keys.contains("batch.global_sequences"))
    put(run, "batch.global_sequences",
        std::atoll(note.c_str() + at + 4) * value_or(run, "parallel.data", 1) *
            value_or(run, "batch.micro_sequences", 1));
}

// As many chunks as there are layers, where a rule asks for them.
void fill_chunks(PublishedRun& run) {
  const auto found = run.keys.find("parallel.virtual_stages");
  if (found == run.keys.end() || found->second != "layers") return;
  const std::int64_t stages = std::max<std::int64_t>(1, value_or(run, "parallel.pipeline", 1));
  put(run, "parallel.virtual_stages",
      std::max<std::int64_t>(1, value_or(run, "model.layers", 1) / stages));
}

// Interleaving runs whole rounds of micro-batches, every schedule whole micro-batches.
void round_batch(PublishedRun& run) {
  const std::int64_t batch = value_or(run, "batch.global_sequences", 0);
  const bool rounds = value_or(run, "parallel.virtual_stages", 1) > 1;
  const std::int64_t step = value_or(run, "parallel.data", 1) *
                            value_or(run, "batch.micro_sequences", 1) *
                            (rounds ? value_or(run, "parallel.pipeline", 1) : 1);
  if (batch <= 0 || step <= 0 || batch % step == 0) return;
  const std::int64_t rounded = std::max<std::int64_t>(1, (batch + step / 2) / step) * step;
  put(run, "batch.global_sequences", rounded);
  run.batch_scale = static_cast<double>(batch) / static_cast<double>(rounded);
  run.notes += fmt::format("batch {} rounded to {}; ", batch, rounded);
}

// Layers that do not divide: one fewer in the first and last chunk where that makes it even, else
// the remainder in the first chunks.
void split_layers(PublishedRun& run) {
  const std::int64_t layers = value_or(run, "model.layers", 0);
  const std::int64_t chunks =
      value_or(run, "parallel.pipeline", 1) *
      std::max<std::int64_t>(1, value_or(run, "parallel.virtual_stages", 1));
  if (layers % chunks == 0 || run.keys.contains("parallel.layers_per_stage")) return;
  if (layers < chunks && layers + 2 != chunks) return void(run.skip = "fewer layers than chunks");
  const bool fewer_at_ends = (layers + 2) % chunks == 0;
  std::string split;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const bool end = chunk == 0 || chunk + 1 == chunks;
    const std::int64_t own = fewer_at_ends ? (layers + 2) / chunks - (end ? 1 : 0)
                                           : layers / chunks + (chunk < layers % chunks ? 1 : 0);
    split += fmt::format("{}{}", chunk == 0 ? "" : ",", own);
  }
  run.keys["parallel.layers_per_stage"] = "[" + split + "]";
}

}  // namespace

std::vector<std::string> PublishedRun::sets() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : keys) out.push_back(key + "=" + value);
  return out;
}

std::vector<std::string_view> published_run_columns() {
  std::vector<std::string_view> out{"id",           "source",
                                    "table",        "system",
                                    "gpu",          "n_gpus",
                                    "ep",           "vpp",
                                    "zero_stage",   "sequence_parallel",
                                    "recompute",    "precision",
                                    "optimizer",    "iter_time_s",
                                    "tokens_per_s", "tflops_per_gpu",
                                    "mfu_pct",      "notes"};
  for (const Column& column : kNumbers) out.push_back(column.name);
  return out;
}

std::vector<CsvDialect> published_run_dialects() {
  // ground_truth_single.csv and its like. Its vocabulary and recomputation are those of the
  // configurations beside it (config/validation, src/config.py).
  return {{{{"# GPUs", "n_gpus"},
            {"global batch", "global_batch"},
            {"micro batch", "micro_batch"},
            {"hidden size", "hidden"},
            {"attention heads", "heads"},
            {"# layers", "layers"},
            {"sequence length", "seq_len"},
            {"tensor parallelism", "tp"},
            {"data parallelism", "dp"},
            {"pipeline parallelism", "pp"},
            {"iteration time (ms)", "iter_time_s", 1e-3}},
           {{"source", "VIA-Research/vTrain"},
            {"table", "ground truth"},
            {"system", "Megatron-DeepSpeed"},
            {"gpu", "A100-80GB"},
            {"vocab", "50257"},
            {"zero_stage", "0"},
            {"recompute", "full"},
            {"precision", "fp16"}}}};
}

PublishedRun published_run(const CsvRow& row, const Assumed& assumed) {
  PublishedRun run;
  run.skip = row.defect().empty() ? assumed.skip : row.defect();
  if (!run.skip.empty()) return run;
  for (const Column& column : kNumbers)
    if (const auto value = row.integer(column.name)) put(run, std::string(column.key), *value);
  read_words(row, run);
  for (const std::string& set : assumed.sets) {
    const std::size_t equals = set.find('=');
    run.keys[set.substr(0, equals)] = equals == std::string::npos ? "" : set.substr(equals + 1);
  }
  if (row.integer("ep").value_or(1) > 1) run.skip = "experts are not available";
  if (!run.keys.contains("cluster.preset")) run.skip = "no rule names a cluster for this source";
  for (const char* key : {"model.layers", "model.hidden", "model.heads", "model.vocab"})
    if (run.skip.empty() && !run.keys.contains(key)) run.skip = fmt::format("{} is not told", key);
  if (!run.skip.empty()) return run;
  if (value_or(run, "parallel.tensor", 1) == 1) run.keys.erase("parallel.sequence");
  fill_chunks(run);
  derive_sizes(row, run);
  if (run.skip.empty() && !run.keys.contains("batch.global_sequences"))
    run.skip = "the batch is not told";
  round_batch(run);
  split_layers(run);
  return run;
}

const char* PublishedSpeed::name() const {
  switch (kind) {
    case Kind::none:
      return "";
    case Kind::iteration:
      return "iteration_time_s";
    case Kind::tokens:
      return "tokens_per_s";
    case Kind::mfu:
      return "mfu_pct";
    case Kind::flops:
    case Kind::flops_with_recompute:
      return "tflops_per_gpu";
  }
  return "";
}

double PublishedSpeed::of(const Job& job, double iteration_s) const {
  const Throughput speed = throughput(job, seconds(iteration_s), 0);
  const Model& m = job.model;
  const auto l = static_cast<double>(m.layers), h = static_cast<double>(m.hidden),
             s = static_cast<double>(job.batch.sequence_length), v = static_cast<double>(m.vocab);
  switch (kind) {
    case Kind::none:
      return 0;
    case Kind::iteration:
      return iteration_s;
    case Kind::tokens:
      return speed.tokens_per_s;
    case Kind::mfu:
      return speed.mfu * 100;
    case Kind::flops:
      return speed.tokens_per_s * speed.model_flops_per_token / job.gpus() * 1e-12;
    case Kind::flops_with_recompute:  // arXiv 2104.04473, equation 3
      return speed.tokens_per_s * 96 * l * h * h * (1 + s / (6 * h) + v / (16 * l * h)) /
             job.gpus() * 1e-12;
  }
  return 0;
}

PublishedSpeed published_speed(const CsvRow& row) {
  using Kind = PublishedSpeed::Kind;
  const std::string& formula = row.text("flops_formula");
  const bool with_recompute = contains(formula, "N96");
  const Kind flops = with_recompute                  ? Kind::flops_with_recompute
                     : contains(formula, "12Bslh^2") ? Kind::flops
                                                     : Kind::none;
  const struct {
    std::string_view column;
    Kind kind;
  } columns[] = {{"iter_time_s", Kind::iteration},
                 {"tokens_per_s", Kind::tokens},
                 {"tflops_per_gpu", flops},
                 {"mfu_pct", Kind::mfu}};
  for (const auto& [column, kind] : columns)
    if (const auto value = row.positive(column); value && kind != Kind::none) return {kind, *value};
  return {};
}

}  // namespace trainyard
