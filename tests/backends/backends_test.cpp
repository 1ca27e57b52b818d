#include "backends/backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/simulator/hand_built.h"

namespace trainyard {
namespace {

TEST(Backends, UnknownNameIsAnsweredWithTheValidOnes) {
  try {
    make_backend("cuba", hand_job());
    FAIL() << "must throw";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("\"cuba\" is unknown; valid: sim"));
  }
}

TEST(Backends, EveryEntryCanBeMadeByItsName) {
  for (const BackendEntry& entry : backends()) {
    EXPECT_FALSE(entry.summary.empty());
    if (!entry.built) continue;
    EXPECT_EQ(make_backend(entry.name, hand_job())->name(), entry.name);
  }
}

}  // namespace
}  // namespace trainyard
