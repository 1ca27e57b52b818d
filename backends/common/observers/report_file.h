#pragma once
#include <string>
#include <string_view>

namespace trainyard {

// A report that grows while a run goes on: what is written is in the system's hands when write()
// returns, so another program may follow the file and a killed run loses nothing.
class ReportFile {
 public:
  enum class Start { anew, append };
  // "-" is standard output. Throws ConfigError when the path cannot be written.
  ReportFile(std::string path, Start start);
  static ReportFile standard_error();
  ~ReportFile();
  ReportFile(ReportFile&& other) noexcept;
  ReportFile& operator=(ReportFile&& other) noexcept;

  // Throws std::runtime_error naming the file and the system's reason (disk full, nobody reads the
  // pipe any more); the signal that a closed pipe sends is held back.
  void write(std::string_view bytes);

  const std::string& path() const { return path_; }
  bool is_terminal() const;

 private:
  ReportFile(std::string path, int fd, bool owned)
      : path_(std::move(path)), fd_(fd), owned_(owned) {}

  std::string path_;  // as messages name it
  int fd_ = -1;
  bool owned_ = true;
};

}  // namespace trainyard
