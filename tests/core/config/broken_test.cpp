#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/config/load.h"
#include "core/error.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kHere = TRAINYARD_TEST_DATA "/core/config";

// Every file of broken/ says in its first lines what must be found in it: "# expect: FRAGMENT" of
// one of the messages, and "# count: N" of them.
struct Expectation {
  std::vector<std::string> fragments;
  std::size_t count = 0;
};

Expectation read_expectation(const fs::path& path) {
  Expectation out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line) && line.starts_with("# ");) {
    if (line.starts_with("# expect: ")) out.fragments.push_back(line.substr(10));
    if (line.starts_with("# count: ")) out.count = std::stoul(line.substr(9));
  }
  return out;
}

std::vector<std::string> violations_of(const std::string& file) {
  try {
    load_job({file}, {}, kHere + "/data");
  } catch (const ConfigError& error) {
    return error.violations();
  }
  return {};
}

class BrokenScenario : public testing::TestWithParam<std::string> {};

TEST_P(BrokenScenario, NamesEveryViolationAtOnce) {
  const std::string file = kHere + "/broken/" + GetParam() + ".toml";
  const Expectation expected = read_expectation(file);
  ASSERT_FALSE(expected.fragments.empty());
  const auto violations = violations_of(file);
  EXPECT_EQ(violations.size(), expected.count) << testing::PrintToString(violations);
  for (const std::string& fragment : expected.fragments)
    EXPECT_THAT(violations, testing::Contains(HasSubstr(fragment)));
}

TEST_P(BrokenScenario, IsToldInPrintableLinesWithTheFileName) {
  const std::string file = kHere + "/broken/" + GetParam() + ".toml";
  for (const std::string& violation : violations_of(file)) {
    EXPECT_LT(violation.size(), 1500U);
    EXPECT_TRUE(std::none_of(violation.begin(), violation.end(), [](unsigned char c) {
      return c < 0x20 && c != '\n';
    })) << violation;
    EXPECT_TRUE(violation.find(".toml") != std::string::npos ||
                violation.find("(not given)") != std::string::npos)
        << violation;
  }
}

std::vector<std::string> broken_files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kHere + "/broken"))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Files, BrokenScenario, testing::ValuesIn(broken_files()),
                         [](const auto& info) { return info.param; });

TEST(BrokenScenarioFiles, AreManyEnough) { EXPECT_GE(broken_files().size(), 45U); }

class UnreadableScenario : public testing::Test {
 protected:
  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(UnreadableScenario, ThatIsADirectoryIsRefusedOnce) {
  const auto violations = violations_of(folder_.string());
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_THAT(violations[0], HasSubstr("is a directory"));
}

TEST_F(UnreadableScenario, ThatDoesNotExistIsRefusedOnce) {
  const auto violations = violations_of((folder_ / "none.toml").string());
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_THAT(violations[0], HasSubstr("none.toml: no such file"));
}

TEST_F(UnreadableScenario, ThatIsLargerThan4MiBIsRefusedOnce) {
  const fs::path file = folder_ / "huge.toml";
  std::ofstream(file) << std::string((4 << 20) + 1, '\n');
  const auto violations = violations_of(file.string());
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_THAT(violations[0], HasSubstr("huge.toml: is larger than 4 MiB"));
}

TEST_F(UnreadableScenario, ThatFillsItsFourMiBWithNestingIsRefusedOrReadWithoutCrash) {
  const fs::path file = folder_ / "nested.toml";
  for (const char* opening : {"[", "{a=", "a."}) {
    std::string text = "x = ";
    if (*opening == 'a') text.clear();
    while (text.size() < (4 << 20) - 8) text += opening;
    std::ofstream(file) << text;
    EXPECT_EQ(violations_of(file.string()).size(), 1U) << opening;
  }
}

TEST_F(UnreadableScenario, ThatMayNotBeReadIsRefusedOnce) {
  const fs::path file = folder_ / "closed.toml";
  std::ofstream(file) << "name = \"x\"\n";
  fs::permissions(file, fs::perms::none);
  std::ifstream probe(file);
  if (probe) GTEST_SKIP() << "this user may read everything";
  const auto violations = violations_of(file.string());
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_THAT(violations[0], HasSubstr("closed.toml: cannot be read"));
}

}  // namespace
}  // namespace trainyard
