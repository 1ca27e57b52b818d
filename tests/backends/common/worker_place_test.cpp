#include "backends/common/worker_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/common/session.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void expect_place(const Environment& environment, const WorkerPlace& expected) {
  const std::optional<WorkerPlace> place = worker_place(environment);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->rank, expected.rank);
  EXPECT_EQ(place->world, expected.world);
  EXPECT_EQ(place->local_rank, expected.local_rank);
  EXPECT_EQ(place->local_world, expected.local_world);
  EXPECT_EQ(place->store, expected.store);
  EXPECT_EQ(place->run_id, expected.run_id);
}

std::string error_of(const Environment& environment) {
  return config_error_of([&] { worker_place(environment); });
}

Environment torchrun() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"GROUP_RANK", "1"},
          {"MASTER_ADDR", "node0"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_RUN_ID", "gpt"},
          {"TORCHELASTIC_RESTART_COUNT", "2"}};
}

// The second of two nodes with 4 and 3 tasks.
Environment srun() {
  return {{"SLURM_PROCID", "6"},
          {"SLURM_NTASKS", "7"},
          {"SLURM_LOCALID", "2"},
          {"SLURM_NODEID", "1"},
          {"SLURM_JOB_ID", "77"},
          {"SLURM_STEP_ID", "3"},
          {"SLURM_STEP_TASKS_PER_NODE", "4,3"}};
}

TEST(WorkerPlace, IsNoneWithoutALauncher) {
  EXPECT_FALSE(worker_place({}).has_value());
  EXPECT_FALSE(worker_place({{"PATH", "/bin"}, {"MASTER_ADDR", "node0"}}).has_value());
  EXPECT_FALSE(worker_place({{"TRAINYARD_STORE", "file:/x"}}).has_value());
}

TEST(WorkerPlace, IsReadFromTorchrun) {
  expect_place(torchrun(), {5, 8, 1, 4, "", "gpt-node0-29500-2"});
}

TEST(WorkerPlace, IsReadFromOpenMpi) {
  expect_place({{"OMPI_COMM_WORLD_RANK", "3"},
                {"OMPI_COMM_WORLD_SIZE", "4"},
                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                {"PMIX_NAMESPACE", "1234"}},
               {3, 4, 1, 2, "", "1234"});
}

TEST(WorkerPlace, IsReadFromHydra) {
  expect_place({{"PMI_RANK", "3"},
                {"PMI_SIZE", "4"},
                {"MPI_LOCALRANKID", "1"},
                {"MPI_LOCALNRANKS", "2"},
                {"TRAINYARD_RUN_ID", "mine"}},
               {3, 4, 1, 2, "", "mine"});
}

TEST(WorkerPlace, IsReadFromSrun) { expect_place(srun(), {6, 7, 2, 3, "", "77-3"}); }

TEST(WorkerPlace, CountsOfSlurmMayBeShortened) {
  Environment environment = srun();
  environment["SLURM_NTASKS"] = "14";
  environment["SLURM_NODEID"] = "2";
  environment["SLURM_STEP_TASKS_PER_NODE"] = "4(x2),3(x2)";
  expect_place(environment, {6, 14, 2, 3, "", "77-3"});
}

TEST(WorkerPlace, ABatchScriptOfSlurmIsNoWorker) {
  Environment environment = srun();
  environment["SLURM_STEP_ID"] = "4294967291";  // slurm.h: SLURM_BATCH_SCRIPT
  EXPECT_FALSE(worker_place(environment).has_value());
  environment.erase("SLURM_STEP_ID");
  EXPECT_FALSE(worker_place(environment).has_value());
}

TEST(WorkerPlace, TheOwnLauncherIsReadBackAndGoesBeforeAllOthers) {
  const WorkerPlace place{1, 3, 1, 3, "file:/s", "r"};
  Environment environment = torchrun();
  environment.merge(srun());
  environment.merge(variables_of(place));
  expect_place(environment, place);
}

TEST(WorkerPlace, TorchrunInASlurmStepGoesBeforeSrun) {
  Environment environment = srun();
  environment.merge(torchrun());
  expect_place(environment, {5, 8, 1, 4, "", "gpt-node0-29500-2"});
}

TEST(WorkerPlace, StoreAndRunIdHoldWithAnyLauncher) {
  Environment environment = torchrun();
  environment["TRAINYARD_STORE"] = "redis://h:1";
  environment["TRAINYARD_RUN_ID"] = "mine";
  expect_place(environment, {5, 8, 1, 4, "redis://h:1", "mine"});
}

TEST(WorkerPlace, EveryMissingVariableIsNamed) {
  const std::string error = error_of({{"RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}});
  EXPECT_THAT(error, AllOf(HasSubstr("WORLD_SIZE is not set; torchrun sets RANK, WORLD_SIZE"),
                           HasSubstr("LOCAL_RANK is not set"), Not(HasSubstr("\nRANK is"))));
}

TEST(WorkerPlace, EveryValueThatMakesNoSenseIsNamedWithTheValidOnes) {
  Environment environment = torchrun();
  environment["RANK"] = "8";
  environment["LOCAL_RANK"] = "-1";
  EXPECT_THAT(error_of(environment),
              AllOf(HasSubstr("RANK is \"8\"; valid: 0 to 7, since WORLD_SIZE is 8"),
                    HasSubstr("LOCAL_RANK is \"-1\"; valid: 0 to 3, since LOCAL_WORLD_SIZE is 4")));
  environment = torchrun();
  environment["WORLD_SIZE"] = "many";
  environment["LOCAL_RANK"] = "1x";
  EXPECT_THAT(error_of(environment),
              AllOf(HasSubstr("WORLD_SIZE is \"many\"; valid: a whole number from 1"),
                    HasSubstr("LOCAL_RANK is \"1x\"")));
  environment = torchrun();
  environment["LOCAL_WORLD_SIZE"] = "9";
  EXPECT_THAT(error_of(environment),
              HasSubstr("LOCAL_WORLD_SIZE is \"9\"; valid: 1 to 8, since WORLD_SIZE is 8"));
}

TEST(WorkerPlace, TheProcessEnvironmentIsWhatTheProcessHas) {
  ASSERT_EQ(::setenv("TRAINYARD_TEST_OF_ENVIRONMENT", "a=b", 1), 0);
  EXPECT_EQ(process_environment()["TRAINYARD_TEST_OF_ENVIRONMENT"], "a=b");
  ::unsetenv("TRAINYARD_TEST_OF_ENVIRONMENT");
}

TEST(WorkerStore, TheOptionGoesBeforeTheVariable) {
  EXPECT_EQ(with_store({0, 2, 0, 1, "file:/a", "r"}, "file:/b").store, "file:/b");
  EXPECT_EQ(with_store({0, 2, 0, 1, "file:/a", "r"}, "").store, "file:/a");
}

TEST(WorkerStore, OneHostMeetsInAFolderForTemporaryFiles) {
  const WorkerPlace place = with_store({1, 2, 1, 2, "", ""}, "");
  EXPECT_EQ(place.store, "file:" + std::filesystem::temp_directory_path().string() + "/trainyard-" +
                             std::to_string(::getuid()));
  EXPECT_EQ(place.run_id, "parent-" + std::to_string(::getppid()));
}

TEST(WorkerStore, SeveralHostsMustBeToldAStoreAndARunId) {
  EXPECT_THAT(config_error_of([] {
                with_store({1, 4, 1, 2, "", ""}, "");
              }),
              AllOf(HasSubstr("--store or TRAINYARD_STORE"), HasSubstr("redis://host:port"),
                    HasSubstr("TRAINYARD_RUN_ID")));
}

}  // namespace
}  // namespace trainyard
