#include "tools/trainyard/local_ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

namespace trainyard {
namespace fs = std::filesystem;

std::string new_run_id() {
  return fmt::format("{:x}-{}", std::chrono::system_clock::now().time_since_epoch().count(),
                     getpid());
}

std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  words.at(0) = fs::read_symlink("/proc/self/exe");
  return words;
}

MeetingFolder::MeetingFolder(const std::string& run_id)
    : path_(fs::temp_directory_path() / ("trainyard-" + run_id)) {}

MeetingFolder::~MeetingFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace trainyard
