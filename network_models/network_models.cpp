#include "network_models/network_models.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "network_models/closed_form.h"
#include "network_models/flow/flow_model.h"
#include "network_models/packet/packet_model.h"
#include "network_models/simgrid/simgrid_model.h"

namespace trainyard {
namespace {

std::unique_ptr<NetworkModel> make_closed_form(const NetworkModelInfo& self, const Job& job) {
  return std::make_unique<ClosedFormModel>(job.cluster, job.network, job.placement(),
                                           self.collisions);
}

std::unique_ptr<NetworkModel> make_flow(const NetworkModelInfo&, const Job& job) {
  return std::make_unique<FlowModel>(job.cluster, job.network, job.placement(), job.seed);
}

std::unique_ptr<NetworkModel> make_packet(const NetworkModelInfo&, const Job& job) {
  return std::make_unique<PacketModel>(job.cluster, job.network, job.placement(), job.seed);
}

std::unique_ptr<NetworkModel> make_simgrid(const NetworkModelInfo&, const Job& job) {
  return make_simgrid_model(job);
}

constexpr std::array kModels{
    NetworkModelInfo{"ideal", "latency and bandwidth; flows never meet above the NICs", false,
                     false, make_closed_form},
    NetworkModelInfo{"analytic", "latency, bandwidth and expected ECMP collisions, closed form",
                     true, false, make_closed_form},
    NetworkModelInfo{"flow", "every flow on its ECMP path, links shared max-min fairly", true, true,
                     make_flow},
    NetworkModelInfo{"packet", "every packet, queue and pause; at most 512 GPUs", true, true,
                     make_packet},
    NetworkModelInfo{
        "simgrid",
        "the second opinion on `flow`, by SimGrid's engine: for tests and a few hundred "
        "GPUs (12,288 random flows within 0.1 s took it 402 s, a local solver 0.06 s)",
        true, true, make_simgrid},
};

}  // namespace

std::span<const NetworkModelInfo> network_models() { return kModels; }

const NetworkModelInfo& network_model_info(std::string_view name) {
  const auto* found = std::ranges::find(kModels, name, &NetworkModelInfo::name);
  if (found != kModels.end()) return *found;
  std::string valid;
  for (const NetworkModelInfo& model : kModels)
    valid += name == "help" ? fmt::format("\n  {:<10} {}", model.name, model.summary)
                            : fmt::format("{}{}", valid.empty() ? "" : ", ", model.name);
  if (name == "help") throw ConfigError("network models:" + valid);
  throw ConfigError(fmt::format("unknown network model '{}'; valid: {}", name, valid));
}

void NetworkModel::set_loss(LinkId, double, Time) {
  throw ConfigError("fault loss: only network.model \"flow\" loses packets of a link");
}

std::unique_ptr<NetworkModel> make_network_model(const Job& job) {
  const NetworkModelInfo& info = network_model_info(job.network.model);
  return info.make(info, job);
}

}  // namespace trainyard
