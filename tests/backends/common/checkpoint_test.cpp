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

// Checks that every rank of `job` reads what step `step` left, in every part.
void expect_state(const CheckpointReader& reader, const Job& job, std::int64_t step) {
  const InitialWeights initial(job.model, job.batch.sequence_length, step);
  const Mesh mesh = job.mesh();
  for (std::int32_t rank = 0; rank < mesh.size(); ++rank) {
    const Coord coord = mesh.coord(RankId(rank));
    for (const BucketLayout& bucket :
         bucket_layouts(job, coord[Axis::pipeline], coord[Axis::tensor])) {
      std::vector<float> flat(bucket.elements, 0);
      for (const HeldRectangle& r : bucket.rectangles) initial.fill(r, flat);
      const ElementRange range = stepped_range(bucket, coord[Axis::data]);
      for (int part = 0; part < 3; ++part) {
        std::vector<float> got(range.count, 0), expected;
        for (const Rectangle& r : clip(bucket.rectangles, range))
          reader.read(r, kCheckpointParts[part], got);
        for (std::int64_t i = 0; i < range.count; ++i)
          expected.push_back(flat[range.first + i] * static_cast<float>(part + 1));
        ASSERT_EQ(got, expected) << bucket.name << kCheckpointParts[part];
      }
    }
  }
}

TEST(ThreadCheckpoint, EveryLayoutLoadsWhatAnyOtherWrote) {
  const auto cases = layout_cases();
  for (const LayoutCase& from : cases) {
    TemporaryFolder folder;
    ASSERT_EQ(save(from.job(), folder.path(), 3), "") << from.name;
    const NewestCheckpoint newest = newest_checkpoint(CheckpointStore(folder.path()));
    ASSERT_THAT(newest.rejected, IsEmpty()) << from.name;
    const CheckpointReader reader(newest.path);
    for (const LayoutCase& to : cases) {
      const Job job = to.job();
      if (!model_differences(reader.manifest().model, job.model).empty()) continue;
      SCOPED_TRACE(from.name + " → " + to.name);
      reader.expect(job.model, job.batch.sequence_length);
      expect_state(reader, job, 3);
    }
  }
}

TEST(ThreadCheckpoint, AnyNumberOfDataRanksLoadsWhatAnyOtherWrote) {
  for (int from = 1; from <= 6; ++from) {
    TemporaryFolder folder;
    ASSERT_EQ(save(tiny_job({.data = from, .zero = 1}), folder.path(), 1), "");
    const CheckpointReader reader(CheckpointStore(folder.path()).folder(1));
    for (int to = 1; to <= 6; ++to) expect_state(reader, tiny_job({.data = to, .zero = 2}), 1);
  }
}

TEST(ThreadCheckpoint, ReturnsToTheCallerWhileItIsWritten) {
  TemporaryFolder folder;
  CheckpointWriter slow(options_of(folder.path(), 0, 2)), late(options_of(folder.path(), 1, 2));
  const Job job = tiny_job({.data = 2, .zero = 1});
  const SavedState first(job, job.mesh().coord(RankId(0)), 1);
  const SavedState second(job, job.mesh().coord(RankId(1)), 1);
  slow.start(manifest_of(job, 1), first.pieces());
  EXPECT_TRUE(slow.busy());  // it has to wait for the second rank
  EXPECT_THAT(CheckpointStore(folder.path()).list(), IsEmpty());
  late.start(manifest_of(job, 1), second.pieces());
  EXPECT_EQ(slow.wait() + late.wait(), "");
  EXPECT_FALSE(slow.busy());
  EXPECT_EQ(CheckpointStore(folder.path()).list().size(), 1u);
}

TEST(ThreadCheckpoint, ARankThatDoesNotDeliverIsNamed) {
  TemporaryFolder folder;
  CheckpointOptions options = options_of(folder.path(), 0, 3);
  options.patience = std::chrono::milliseconds(50);
  CheckpointWriter writer(options);
  const Job job = tiny_job({});
  const SavedState state(job, {}, 7);
  writer.start(manifest_of(job, 7), state.pieces());
  EXPECT_THAT(writer.wait(), AllOf(HasSubstr("step 7"), HasSubstr("rank 1, 2")));
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

TEST(ThreadCheckpoint, ARankThatFailsTellsTheFirst) {
  TemporaryFolder folder;
  CheckpointWriter first(options_of(folder.path(), 0, 2)), second(options_of(folder.path(), 1, 2));
  const Job job = tiny_job({});
  const SavedState state(job, {}, 1);
  const fs::path unfinished = CheckpointStore(folder.path()).unfinished_folder(1, "test");
  // A folder where the second rank's file would go.
  fs::create_directories(unfinished / "rank-00001.safetensors.part");
  second.start(manifest_of(job, 1), state.pieces());
  EXPECT_THAT(second.wait(), AllOf(HasSubstr("step 1"), HasSubstr("Is a directory")));
  first.start(manifest_of(job, 1), state.pieces());
  EXPECT_THAT(first.wait(), AllOf(HasSubstr("rank 1:"), HasSubstr("Is a directory")));
  EXPECT_THAT(CheckpointStore(folder.path()).list(), IsEmpty());
}

// "writing failed: No such file or directory" was given as the cause of a full disk: the first
// rank, whose shard had failed, removed the folder under the others.
TEST(ThreadCheckpoint, AFirstRankThatFailsLeavesTheFolderToTheOthers) {
  TemporaryFolder folder;
  const Job job = tiny_job({});
  const SavedState state(job, {}, 1);
  {
    CheckpointWriter first(options_of(folder.path(), 0, 2)),
        second(options_of(folder.path(), 1, 2));
    const fs::path unfinished = CheckpointStore(folder.path()).unfinished_folder(1, "test");
    fs::create_directories(unfinished / "rank-00000.safetensors.part");
    first.start(manifest_of(job, 1), state.pieces());
    EXPECT_THAT(first.wait(), AllOf(HasSubstr("step 1"), HasSubstr("Is a directory")));
    second.start(manifest_of(job, 1), state.pieces());
    EXPECT_EQ(second.wait(), "");
    EXPECT_THAT(CheckpointStore(folder.path()).list(), IsEmpty());
  }
  const CheckpointWriter next_run(options_of(folder.path(), 0, 2));
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

TEST(Checkpoint, OneRankWritesTensorsUnderTheirOwnNames) {
  TemporaryFolder folder;
  ASSERT_EQ(save(tiny_job({}), folder.path(), 1), "");
  const SafetensorsFile shard(folder / "step-00000001/rank-00000.safetensors");
  EXPECT_THAT(shard.at("embedding").shape, ElementsAre(5, 4));
  EXPECT_THAT(shard.at("layer1.fc2.v").shape, ElementsAre(8, 4));
}

TEST(Checkpoint, PiecesAreNamedByTheirPlace) {
  Rectangle r{"layer0.q", {8, 8}, 0, 4, 8, 4, 0, 4};
  EXPECT_EQ(piece_name(r, ".m"), "layer0.q.m[0:8,4:8]");
  const auto piece = parse_piece_name("layer0.q.m[2:8,4:8]");
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->tensor_part, "layer0.q.m");
  EXPECT_EQ(piece->first_row, 2);
  EXPECT_EQ(piece->first_column, 4);
  for (const char* bad : {"a[0:1]", "a[0:1,2:3", "a[0:1,2:3]x", "a[x:1,2:3]"})
    EXPECT_FALSE(parse_piece_name(bad)) << bad;
}

TEST(Checkpoint, TheManifestKeepsAllThatARunGoesOnWith) {
  TemporaryFolder folder;
  CheckpointManifest m = manifest_of(tiny_job({}), 12345);
  m.data.seed = ~0ull;  // does not fit a double
  m.validation_loss = 1.0 / 3;
  m.shards = {{"rank-00000.safetensors", 1ll << 40, ~0ull - 1}};
  write_file(folder / kManifestFile, manifest_text(m));
  const CheckpointManifest read = read_manifest(folder.path());
  EXPECT_EQ(read.step, 12345);
  EXPECT_EQ(read.program_hash, m.program_hash);
  EXPECT_THAT(model_differences(read.model, m.model), IsEmpty());
  EXPECT_EQ(read.sequence, 3);
  EXPECT_EQ(read.parts, m.parts);
  EXPECT_EQ(read.data, m.data);
  EXPECT_EQ(read.validation_loss, m.validation_loss);
  EXPECT_EQ(read.state, m.state);
  ASSERT_EQ(read.shards.size(), 1u);
  EXPECT_EQ(read.shards[0].bytes, 1ll << 40);
  EXPECT_EQ(read.shards[0].hash, ~0ull - 1);
}

}  // namespace
}  // namespace trainyard
