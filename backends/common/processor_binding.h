#pragma once
#include <cstdint>
#include <vector>

namespace trainyard {

// Processors by the numbers that the operating system gives them, rising.
using Processors = std::vector<std::int32_t>;

// Those that the calling thread may run on; none where the operating system does not tell.
Processors allowed_processors();

// Those of `allowed` that core_share() gives to the rank at `place` of the `ranks` that share them.
Processors own_processors(const Processors& allowed, std::int32_t place, std::int32_t ranks,
                          std::int32_t threads);

// While this lives, the calling thread and those that it starts run on these processors alone:
// threads of ranks that wake each other often would else meet on one core while others rest. Empty:
// they run where they did. Where the operating system refuses they stay there too, only slower.
class ProcessorBinding {
 public:
  explicit ProcessorBinding(const Processors& processors);
  ~ProcessorBinding();
  ProcessorBinding(const ProcessorBinding&) = delete;
  ProcessorBinding& operator=(const ProcessorBinding&) = delete;

 private:
  Processors before_;
};

}  // namespace trainyard
