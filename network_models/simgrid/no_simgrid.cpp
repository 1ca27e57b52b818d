#include "core/error.h"
#include "network_models/simgrid/simgrid_model.h"

namespace trainyard {

std::unique_ptr<NetworkModel> make_simgrid_model(const Job&) {
  throw ConfigError(
      "this build has no network model \"simgrid\"; configure with -DTRAINYARD_SIMGRID=ON (needs "
      "libsimgrid-dev)");
}

}  // namespace trainyard
