#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// Cuts bytes that come in any portions into lines.
class LineCutter {
 public:
  // The lines that `bytes` complete, without their ends. A line of more than 64 KiB comes in
  // pieces.
  std::vector<std::string> feed(std::string_view bytes);
  // What stands after the last end of a line, if anything.
  std::vector<std::string> rest();

 private:
  std::string begun_;
};

// Bytes on their way to a descriptor that may be slow; nothing here ever blocks.
class OutputQueue {
 public:
  explicit OutputQueue(int fd) : fd_(fd) {}
  int fd() const { return fd_; }
  void add(std::string_view text);
  bool empty() const { return begin_ == waiting_.size(); }
  // Who fills it should wait.
  bool full() const { return waiting_.size() - begin_ > kFull; }
  // When poll() says that fd can be written: writes as much as surely does not block, up to the end
  // of a line if there is one. A descriptor that refuses is given up.
  void write_some();
  void give_up();

 private:
  static constexpr std::size_t kFull = 1 << 20;
  int fd_;
  std::string waiting_;
  std::size_t begin_ = 0;
  bool given_up_ = false;
};

// Which lines are news. All ranks of a run that is wrong from the start say the same: among the
// first lines of each, one that another rank has said is none.
class RepeatedLines {
 public:
  bool is_news(int rank, std::string_view line);
  int repeated() const { return repeated_; }

 private:
  static constexpr int kLines = 64;  // of each rank
  std::map<std::string, int, std::less<>> first_said_by_;
  std::map<int, int> lines_;
  int repeated_ = 0;
};

}  // namespace trainyard
