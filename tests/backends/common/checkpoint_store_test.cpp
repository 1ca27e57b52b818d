#include <gmock/gmock.h>

#include "backends/common/checkpoint_pieces.h"
#include "backends/common/checkpoint_reader.h"
#include "backends/common/file_writer.h"
#include "backends/common/model_json.h"
#include "tests/backends/common/saved_runs.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

void flip_bit(const fs::path& path, std::int64_t offset) {
  std::string content = read_file(path);
  content[offset] = static_cast<char>(content[offset] ^ 0x10);
  write_file(path, content);
}

// Checks that every rank of `job` reads what step `step` left, in every part.
// The newest checkpoint is damaged in one way; the one before it is used.
class Damaged {
 public:
  Damaged() {
    for (const std::int64_t step : {10, 20})
      EXPECT_EQ(save(tiny_job({.data = 2, .zero = 1}), folder_.path(), step), "");
  }
  fs::path newest() const { return folder_ / "step-00000020"; }
  fs::path operator/(const std::string& name) const { return newest() / name; }
  std::string rejected() const {
    const NewestCheckpoint newest = newest_checkpoint(CheckpointStore(folder_.path()));
    EXPECT_EQ(newest.path, folder_ / "step-00000010");
    EXPECT_EQ(newest.rejected.size(), 1u);
    return newest.rejected.empty() ? "" : newest.rejected[0];
  }

 private:
  TemporaryFolder folder_;
};

TEST(Checkpoint, AMissingShardIsNamedAndThePreviousUsed) {
  const Damaged d;
  fs::remove(d / "rank-00001.safetensors");
  EXPECT_THAT(d.rejected(), HasSubstr("step-00000020/rank-00001.safetensors"));
}

TEST(Checkpoint, ATruncatedShardIsNamedAndThePreviousUsed) {
  const Damaged d;
  const auto size = fs::file_size(d / "rank-00001.safetensors");
  fs::resize_file(d / "rank-00001.safetensors", size - 1);
  EXPECT_THAT(d.rejected(), AllOf(HasSubstr("step-00000020/rank-00001.safetensors: has"),
                                  HasSubstr(std::to_string(size))));
}

TEST(Checkpoint, AFlippedBitIsNamedAndThePreviousUsed) {
  const Damaged d;
  flip_bit(d / "rank-00000.safetensors", 1000);
  EXPECT_THAT(d.rejected(), HasSubstr("step-00000020/rank-00000.safetensors: damaged"));
}

TEST(Checkpoint, AShardOfAnotherStepIsNamedAndThePreviousUsed) {
  const Damaged d;
  fs::copy_file(d / "../step-00000010/rank-00001.safetensors", d / "rank-00001.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(d.rejected(), HasSubstr("step-00000020/rank-00001.safetensors: damaged"));
}

TEST(Checkpoint, AManifestWithAnyBitFlippedIsRefused) {
  const Damaged d;
  const std::string whole = read_file(d / kManifestFile);
  for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    write_file(d / kManifestFile, damaged);
    EXPECT_THROW(read_manifest(d.newest()), ConfigError) << i << " " << whole[i];
  }
  EXPECT_THAT(d.rejected(), HasSubstr("step-00000020/manifest.json"));
}

TEST(Checkpoint, AMissingOrCutManifestIsNamedAndThePreviousUsed) {
  const Damaged d;
  const std::string whole = read_file(d / kManifestFile);
  write_file(d / kManifestFile, whole.substr(0, whole.size() / 2));
  EXPECT_THAT(d.rejected(), HasSubstr("step-00000020/manifest.json: is no JSON"));
  fs::remove(d / kManifestFile);
  EXPECT_THAT(d.rejected(), HasSubstr("step-00000020/manifest.json: cannot be opened"));
}

TEST(Checkpoint, AModelOfOtherShapeIsRefusedWithEveryDifference) {
  TemporaryFolder folder;
  ASSERT_EQ(save(tiny_job({}), folder.path(), 1), "");
  const CheckpointReader reader(folder / "step-00000001");
  Model other = tiny_job({}).model;
  other.vocab = 6, other.heads = other.kv_heads = 1, other.norm = Norm::rmsnorm;
  const std::string error = config_error_of([&] { reader.expect(other, 4); });
  EXPECT_THAT(error, AllOf(HasSubstr("step-00000001: model.vocab is 5, not 6"),
                           HasSubstr("model.heads is 2, not 1"), HasSubstr("model.kv_heads"),
                           HasSubstr("model.norm is \"layernorm\", not \"rmsnorm\""),
                           HasSubstr("learned positions for 3 tokens, not 4")));
}

TEST(Checkpoint, PartsThatWereNotSavedAreNotThere) {
  TemporaryFolder folder;
  CheckpointManifest manifest = manifest_of(tiny_job({}), 1);
  manifest.parts = {""};
  const SavedState state(tiny_job({}), {}, 1);
  std::vector<CheckpointPiece> weights;
  for (const CheckpointPiece& piece : state.pieces())
    if (std::string(piece.part).empty()) weights.push_back(piece);
  CheckpointWriter writer(options_of(folder.path()));
  writer.start(manifest, weights);
  ASSERT_EQ(writer.wait(), "");
  const CheckpointReader reader(folder / "step-00000001");
  EXPECT_TRUE(reader.has(""));
  EXPECT_FALSE(reader.has(".m"));
  std::vector<float> flat(20);
  const Rectangle table = whole({"embedding", 5, 4});
  reader.read(table, "", flat);
  EXPECT_THAT(config_error_of([&] { reader.read(table, ".m", flat); }),
              HasSubstr("has 0 of 20 elements of \"embedding.m\""));
}

TEST(Checkpoint, OnlyTheNewestAndTheBestStay) {
  TemporaryFolder folder;
  const Job job = tiny_job({});
  const SavedState state(job, {}, 1);
  CheckpointOptions options = options_of(folder.path());
  options.keep = 2;
  CheckpointWriter writer(options);
  const std::pair<std::int64_t, double> losses[] = {{1, 3}, {2, 1}, {3, 2}, {4, 2.5}, {5, 4}};
  for (const auto& [step, loss] : losses) {
    CheckpointManifest manifest = manifest_of(job, step);
    manifest.validation_loss = loss;
    writer.start(manifest, state.pieces());
    ASSERT_EQ(writer.wait(), "");
  }
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("step-00000002", "step-00000004", "step-00000005"));
}

TEST(Checkpoint, StepsBeyondEightDigitsAreNewer) {
  TemporaryFolder folder;
  for (const std::int64_t step : {99999999, 100000000, 20}) save(tiny_job({}), folder.path(), step);
  EXPECT_EQ(newest_checkpoint(CheckpointStore(folder.path())).path, folder / "step-100000000");
}

TEST(Checkpoint, LeftoversOfAnEndedRunAreRemovedAndAReplacedOneComesBack) {
  TemporaryFolder folder;
  ASSERT_EQ(save(tiny_job({}), folder.path(), 5), "");
  fs::rename(folder / "step-00000005", folder / ".replaced-step-00000005");
  fs::create_directory(folder / ".step-00000009.old");
  write_file(folder / ".step-00000009.old/rank-00000.safetensors.part", "x");
  fs::create_directory(folder / ".removed-step-00000001");
  write_file(folder / "notes.txt", "mine");
  CheckpointStore(folder.path()).prepare();
  EXPECT_THAT(names_in(folder.path()), ElementsAre("notes.txt", "step-00000005"));
  EXPECT_EQ(checkpoint_problem(folder / "step-00000005"), "");
}

TEST(Checkpoint, TheSameStepIsWrittenAgainAfterASetback) {
  TemporaryFolder folder;
  const Job job = tiny_job({});
  ASSERT_EQ(save(job, folder.path(), 5), "");
  flip_bit(folder / "step-00000005/rank-00000.safetensors", 500);
  ASSERT_EQ(save(job, folder.path(), 5), "");
  EXPECT_EQ(checkpoint_problem(folder / "step-00000005"), "");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000005"));
}

TEST(Checkpoint, AnEmptyOrMissingRootHasNone) {
  TemporaryFolder folder;
  EXPECT_TRUE(newest_checkpoint(CheckpointStore(folder.path())).path.empty());
  EXPECT_TRUE(newest_checkpoint(CheckpointStore(folder / "none")).path.empty());
}

}  // namespace
}  // namespace trainyard
