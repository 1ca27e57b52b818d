#include "network_models/congestion/switch_buffers.h"

namespace trainyard {

SwitchBuffers switch_buffers(const Cluster& cluster, const ControlParameters& control) {
  constexpr double kBytesPerRate = 16e6 / (50e9 / 8);
  const FabricProfile& fabric = cluster.fabric;
  const double given = static_cast<double>(fabric.switch_buffer.value);
  SwitchBuffers out;
  out.bytes = given > 0 ? given : kBytesPerRate * cluster.node.nic.value;
  out.share = fabric.pfc_share;
  out.pfc = fabric.pfc;
  if (control.dcqcn.scales) out.marks_rate = cluster.node.nic.value * cluster.node.nic_efficiency;
  return out;
}

}  // namespace trainyard
