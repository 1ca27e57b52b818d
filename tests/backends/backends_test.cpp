#include "backends/backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace trainyard {
namespace {

std::string refusal(std::string_view name) {
  try {
    training_backend(name);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Backends, UnknownNameIsAnsweredWithTheValidOnes) {
  EXPECT_THAT(refusal("cuba"), ::testing::HasSubstr("\"cuba\" is unknown; valid: cpu, cuda"));
}

TEST(Backends, TheSimulatorSaysWhichCommandItHas) {
  EXPECT_THAT(refusal("sim"), ::testing::HasSubstr("trainyard sim"));
}

TEST(Backends, EveryEntryHasALineOfHelpAndTheOthersTrain) {
  for (const BackendEntry& entry : backends()) {
    EXPECT_FALSE(entry.summary.empty());
    if (entry.make == nullptr) continue;
    EXPECT_EQ(training_backend(entry.name).make, entry.make);
  }
}

}  // namespace
}  // namespace trainyard
