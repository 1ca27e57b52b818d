#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/core/config/toy.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

// Broken text of every kind must end in a job or a ConfigError, nothing else (SimAI#31: one line
// missing from the input ended in a crash).
class MutatedScenario : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    for (const char* part : {"models/toy-model", "toy_node", "gpus/toy-gpu", "good"}) {
      std::ifstream in(kToyRoot + "/" + part + ".toml");
      for (std::string line; std::getline(in, line);)
        if (!line.starts_with("base")) lines_.push_back(line);
    }
  }

  // True if the text is accepted, false for a ConfigError with at least one violation.
  bool accepted(const std::string& text) const {
    const std::string file = (folder_ / "mutated.toml").string();
    std::ofstream(file, std::ios::binary) << text;
    try {
      load_job({file}, {}, kToyRoot);
      return true;
    } catch (const ConfigError& error) {
      EXPECT_FALSE(error.violations().empty());
      return false;
    }
  }
  static std::string join(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  std::vector<std::string> lines_;
};

TEST_F(MutatedScenario, IsLegalBeforeMutation) { EXPECT_TRUE(accepted(join(lines_))); }

TEST_F(MutatedScenario, WithOneLineMissingIsAcceptedOrRefused) {
  int refused = 0;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    auto lines = lines_;
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i));
    refused += !accepted(join(lines));
  }
  EXPECT_GT(refused, 10);  // at least the required keys
}

TEST_F(MutatedScenario, WithAKeyTwiceIsRefused) {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (lines_[i].find(" = ") == std::string::npos) continue;
    auto lines = lines_;
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(i), lines_[i]);
    EXPECT_FALSE(accepted(join(lines))) << lines_[i];
  }
}

TEST_F(MutatedScenario, WithBytesChangedInsertedOrCutIsAcceptedOrRefused) {
  const std::string text = join(lines_);
  std::mt19937 draw(1);  // its sequence is fixed by the standard
  for (int round = 0; round < 800; ++round) {
    std::string mutated = text;
    for (int change = 0; change < 1 + round % 3; ++change) {
      const std::size_t at = draw() % mutated.size();
      if (draw() % 3 == 0)
        mutated[at] = static_cast<char>(draw() % 256);
      else if (draw() % 2 == 0)
        mutated.insert(at, 1, "[]{}=.\"'#\n0e-"[draw() % 13]);
      else
        mutated.erase(at, draw() % 4);
    }
    accepted(mutated);
  }
}

}  // namespace
}  // namespace trainyard
