#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace trainyard {

// A name that no other start of any run has.
std::string new_run_id();

// This process's own command line, to start it again as one of several ranks.
std::vector<std::string> own_command();

// A folder in which the ranks of this machine meet, gone with the run.
class MeetingFolder {
 public:
  explicit MeetingFolder(const std::string& run_id);
  ~MeetingFolder();
  MeetingFolder(const MeetingFolder&) = delete;
  MeetingFolder& operator=(const MeetingFolder&) = delete;
  std::string address() const { return "file:" + path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace trainyard
