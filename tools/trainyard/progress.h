#pragma once
#include <chrono>
#include <string>

namespace trainyard {

// A line on standard error that is rewritten in place: only on a terminal, only after a second.
class Progress {
 public:
  explicit Progress(std::string what, std::size_t total);
  ~Progress();  // wipes the line
  void show(std::size_t done);

 private:
  std::string what_;
  std::size_t total_;
  std::chrono::steady_clock::time_point start_;
  bool terminal_, shown_ = false;
};

}  // namespace trainyard
