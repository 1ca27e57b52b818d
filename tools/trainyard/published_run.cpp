#include "tools/trainyard/published_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "core/config/schema.h"

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
  return run.number(key, otherwise);
}

void put(PublishedRun& run, const std::string& key, std::int64_t value) {
  run.keys[key] = std::to_string(value);
}

// Whole numbers as they stand, within what the key takes.
void read_numbers(const CsvRow& row, PublishedRun& run) {
  for (const Column& column : kNumbers) {
    const auto value = row.integer(column.name);
    if (!value) continue;
    const Row& key = *find_row(column.key);
    const auto number = static_cast<double>(*value);
    if (number < key.low || number > key.high)
      row.violation(column.name,
                    fmt::format("is out of range; legal: {:.0f} to {:.0f}", key.low, key.high));
    else
      put(run, std::string(column.key), *value);
  }
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Words of tables are many: what is none of ours is said among what was assumed, as nothing is
// known then.
void not_understood(const CsvRow& row, std::string_view column, PublishedRun& run) {
  run.notes += fmt::format("{} '{}' is not understood; ", column, printable(row.text(column)));
}

void read_recompute(const CsvRow& row, PublishedRun& run) {
  const std::string text = lower(row.text("recompute"));
  for (const char* kind : {"full", "selective", "none"})
    if (text.starts_with(kind)) return void(run.keys["training.recompute"] = kind);
  if (!text.empty()) not_understood(row, "recompute", run);
}

void read_precision(const CsvRow& row, PublishedRun& run) {
  const std::string text = lower(row.text("precision"));
  for (const char* type : {"fp32", "bf16", "fp16"})  // "bf16 with fp32 accumulation" is bf16
    if (contains(text, type)) run.keys["training.precision"] = type;
  const bool known =
      run.keys.contains("training.precision") || contains(text, "fp8") || contains(text, "fp4");
  if (!text.empty() && !known) not_understood(row, "precision", run);
}

void read_zero(const CsvRow& row, PublishedRun& run) {
  const std::string& zero = row.text("zero_stage");
  if (contains(zero, "FSDP"))
    run.keys["parallel.zero"] = "3";
  else if (zero.size() == 1 && zero >= "0" && zero <= "3")
    run.keys["parallel.zero"] = zero;
  else if (!zero.empty())
    row.violation("zero_stage", "valid: 0, 1, 2, 3, or FSDP with its name");
}

// Chunks of a stage: a number, or one layer in each, which are the most there can be.
void read_chunks(const CsvRow& row, PublishedRun& run) {
  const std::string& chunks = row.text("vpp");
  if (contains(chunks, "1 layer/chunk")) {
    const std::int64_t stages = std::max<std::int64_t>(1, value_or(run, "parallel.pipeline", 1));
    put(run, "parallel.virtual_stages", (value_or(run, "model.layers", 1) + 2) / stages);
  } else {
    const std::int64_t number = row.integer("vpp").value_or(1);
    if (number < 1 || number > 10'000)
      row.violation("vpp", "is out of range; legal: 1 to 10000, or '1 layer/chunk'");
    if (number <= 1 || number > 10'000) return;
    put(run, "parallel.virtual_stages", number);
  }
  run.keys["schedule.pipeline"] = "interleaved-1f1b";
}

void read_words(const CsvRow& row, PublishedRun& run) {
  const std::string& sequence = row.text("sequence_parallel");
  if (sequence == "y") run.keys["parallel.sequence"] = "true";
  if (sequence == "n") run.keys["parallel.sequence"] = "false";
  if (sequence != "y" && sequence != "n" && !sequence.empty())
    row.violation("sequence_parallel", "valid: y, n, or nothing");
  if (contains(row.text("optimizer"), "LAMB")) run.keys["training.optimizer"] = "lamb";
  read_zero(row, run);
  read_precision(row, run);
  read_recompute(row, run);
  read_chunks(row, run);
}

// Replicas from the number of GPUs where the table does not print them; micro-batches a pipeline
// from the note "mbc=N".
void derive_sizes(const CsvRow& row, PublishedRun& run) {
  const std::int64_t tensor = value_or(run, "parallel.tensor", 1),
                     pipeline = value_or(run, "parallel.pipeline", 1),
                     context = value_or(run, "parallel.context", 1);
  const std::int64_t replica = std::max<std::int64_t>(1, tensor * pipeline * context);
  const std::int64_t gpus = row.integer("n_gpus").value_or(0);
  if (!run.keys.contains("parallel.data")) {
    if (gpus > 0 && gpus % replica == 0)
      put(run, "parallel.data", gpus / replica);
    else
      run.skip = "the number of GPUs is not told, or no multiple of tensor x pipeline x context";
  }
  const std::int64_t data = value_or(run, "parallel.data", 1);
  const bool filled = gpus % replica == 0 && gpus / replica == data;
  if (run.skip.empty() && !row.text("n_gpus").empty() && !filled)
    run.skip = fmt::format("{} GPUs are not tensor {} x context {} x pipeline {} x data {}", gpus,
                           tensor, context, pipeline, data);
  const std::string& note = row.text("notes");
  const std::size_t at = note.find("mbc=");
  const auto batch = run.keys.find("batch.global_sequences");
  const bool told = batch != run.keys.end() && !batch->second.ends_with(" a stage");
  if (at == std::string::npos || told) return;
  const std::int64_t micro_batches = std::atoll(note.c_str() + at + 4);
  if (micro_batches >= 1 && micro_batches <= 1'000'000)
    put(run, "batch.global_sequences",
        micro_batches * data * value_or(run, "batch.micro_sequences", 1));
}

// "hidden/128" of the hidden size.
void fill_heads(PublishedRun& run) {
  const auto found = run.keys.find("model.heads");
  if (found == run.keys.end() || !found->second.starts_with("hidden/")) return;
  put(run, found->first,
      std::max<std::int64_t>(1, value_or(run, "model.hidden", 0) /
                                    std::max(1LL, std::atoll(found->second.c_str() + 7))));
}

// As many chunks as there are layers, where a rule asks for them.
void fill_chunks(PublishedRun& run) {
  const auto found = run.keys.find("parallel.virtual_stages");
  if (found == run.keys.end() || found->second != "layers") return;
  const std::int64_t stages = std::max<std::int64_t>(1, value_or(run, "parallel.pipeline", 1));
  put(run, "parallel.virtual_stages",
      std::max<std::int64_t>(1, value_or(run, "model.layers", 1) / stages));
}

// "a.b=c" as scenario keys; "@column" stands for what the row has there.
void put_all(PublishedRun& run, const std::vector<std::string>& sets, const CsvRow& row) {
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    std::string value = equals == std::string::npos ? "" : set.substr(equals + 1);
    if (value.starts_with('@')) value = row.text(value.substr(1));
    run.keys[set.substr(0, equals)] = value;
  }
}

// Why there is no job yet; empty: nothing lacks.
std::string what_lacks(const CsvRow& row, const PublishedRun& run) {
  if (!run.keys.contains("cluster.preset"))
    return row.text("gpu").empty() ? "the GPU is not told"
                                   : fmt::format("no rule knows the GPU '{}'", row.text("gpu"));
  const auto preset = run.keys.find("model.preset");
  std::string lacking;
  for (const char* key :
       {"model.layers", "model.hidden", "model.heads", "model.vocab", "batch.sequence_length"})
    if (!run.keys.contains(key) &&
        (preset == run.keys.end() || !std::string_view(key).starts_with("model.")))
      lacking += fmt::format("{}{}", lacking.empty() ? "" : ", ", key);
  if (lacking.empty()) return "";
  return fmt::format("{} {} not told, and no rule knows the model by its name", lacking,
                     contains(lacking, ",") ? "are" : "is");
}

}  // namespace

std::int64_t PublishedRun::number(const std::string& key, std::int64_t otherwise) const {
  const auto found = keys.find(key);
  if (found == keys.end() || found->second.empty() || std::isdigit(found->second[0]) == 0)
    return otherwise;
  return std::atoll(found->second.c_str());
}

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
  put_all(run, assumed.defaults, row);
  read_numbers(row, run);
  read_words(row, run);
  put_all(run, assumed.sets, row);
  if (row.integer("ep").value_or(1) > 1) run.skip = "experts are not available";
  if (run.skip.empty()) run.skip = what_lacks(row, run);
  if (run.skip.empty() && !assumed.gpu)
    run.skip = fmt::format("no rule knows the GPU '{}'", printable(row.text("gpu")));
  if (!run.skip.empty()) return run;
  if (value_or(run, "parallel.tensor", 1) == 1) run.keys.erase("parallel.sequence");
  fill_heads(run);
  fill_chunks(run);
  derive_sizes(row, run);
  if (run.skip.empty() && !run.keys.contains("batch.global_sequences"))
    run.skip = "the batch is not told, and a step's time depends on it";
  return run;
}

}  // namespace trainyard
