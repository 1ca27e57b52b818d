#include "backends/common/checkpoint_manifest.h"

#include <fmt/core.h>

#include "backends/common/file_writer.h"
#include "backends/common/mapped_file.h"
#include "backends/common/model_json.h"
#include "core/error.h"
#include "core/model/logical_tensors.h"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "trainyard-checkpoint-1";

// 64 bits do not survive every JSON reader as a number.
std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::uint64_t from_hex(const std::string& text) { return std::stoull(text, nullptr, 16); }

std::uint64_t hash_of(const Json& json) {
  const std::string text = json.dump();
  return hash_bytes(std::as_bytes(std::span(text.data(), text.size())));
}

Json shards_json(const std::vector<ShardRecord>& shards) {
  Json list = Json::array();
  for (const ShardRecord& shard : shards)
    list.push_back({{"file", shard.file}, {"bytes", shard.bytes}, {"xxh64", hex(shard.hash)}});
  return list;
}

// For other programs; this one derives them from the model.
Json shapes_json(const CheckpointManifest& m) {
  Json shapes = Json::object();
  for (const LogicalTensor& t : logical_tensors(m.model, m.sequence))
    shapes[t.name] = {t.rows, t.columns};
  return shapes;
}

CheckpointManifest from_json(const Json& json) {
  CheckpointManifest m;
  m.step = json.at("step").get<std::int64_t>();
  m.program_hash = json.at("program_hash").get<std::string>();
  m.model = model_from_json(json.at("model"));
  m.sequence = json.at("sequence_length").get<std::int64_t>();
  m.parts = json.at("parts").get<std::vector<std::string>>();
  for (const Json& shard : json.at("shards"))
    m.shards.push_back({shard.at("file").get<std::string>(), shard.at("bytes").get<std::int64_t>(),
                        from_hex(shard.at("xxh64").get<std::string>())});
  const Json& data = json.at("data");
  m.data = {data.at("seed").get<std::uint64_t>(), data.at("samples").get<std::int64_t>(),
            data.at("epoch").get<std::int64_t>(), data.at("position").get<std::int64_t>()};
  if (!json.at("validation_loss").is_null())
    m.validation_loss = json.at("validation_loss").get<double>();
  m.state = json.at("state");
  return m;
}

}  // namespace

std::string manifest_text(const CheckpointManifest& m) {
  Json json = {{"schema", kSchema},
               {"step", m.step},
               {"program_hash", m.program_hash},
               {"data",
                {{"seed", m.data.seed},
                 {"samples", m.data.samples},
                 {"epoch", m.data.epoch},
                 {"position", m.data.position}}},
               {"validation_loss", nullptr},
               {"state", m.state},
               {"parts", m.parts},
               {"model", model_json(m.model)},
               {"sequence_length", m.sequence},
               {"tensors", shapes_json(m)},
               {"shards", shards_json(m.shards)}};
  if (m.validation_loss) json["validation_loss"] = *m.validation_loss;
  json["manifest_xxh64"] = hex(hash_of(json));
  return json.dump(1) + "\n";
}

CheckpointManifest read_manifest(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / kManifestFile;
  const MappedFile file(path);
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  Json json = Json::parse(text, text + file.size(), nullptr, false);
  if (!json.is_object())
    throw ConfigError(fmt::format("{}: is no JSON object, so cut off or damaged", path.string()));
  const std::string schema = json.value("schema", Json()).is_string()
                                 ? json["schema"].get<std::string>()
                                 : std::string("none");
  if (schema != kSchema)
    throw ConfigError(
        fmt::format("{}: expected schema {}, found {}", path.string(), kSchema, schema));
  try {
    const std::uint64_t expected = from_hex(json.at("manifest_xxh64").get<std::string>());
    json.erase("manifest_xxh64");
    const std::uint64_t actual = hash_of(json);
    if (actual != expected)
      throw ConfigError(fmt::format("{}: damaged: hash {}, expected {}", path.string(), hex(actual),
                                    hex(expected)));
    return from_json(json);
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {  // a key is missing or of another type
    throw ConfigError(fmt::format("{}: damaged: {}", path.string(), error.what()));
  }
}

}  // namespace trainyard
