#include "backends/common/launcher.h"

#include "backends/common/launch/supervisor.h"
#include "core/error.h"

namespace trainyard {

int launch(const LaunchOptions& options) {
  check(options.processes > 0 && !options.command.empty(), "launch() needs a program to start");
  return Supervisor(options).run();
}

}  // namespace trainyard
