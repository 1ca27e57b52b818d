#pragma once
#include "core/config/job.h"
#include "network_models/congestion/rate_control.h"

namespace trainyard {

// The packet buffer of every switch and how its ports share it: packets that came by one port fill
// at most `share` of what is free (dynamic thresholds; Choudhury and Hahne, 1998); above, the port
// pauses its neighbour (PFC).
struct SwitchBuffers {
  double bytes = 0, share = 0;
  bool pfc = true;  // without it, what finds no room is dropped
  // Payload rate of the ports that the marking thresholds are for, where others scale them; or 0.
  double marks_rate = 0;
};

// Those of the cluster. HPCC's simulator gives a switch 16 MB for every 50 Gb/s of a card and lets
// a port have an eighth of what is free (simulation/run.py and scratch/third.cc at 9f4be2a); a
// profile may say otherwise.
SwitchBuffers switch_buffers(const Cluster& cluster, const ControlParameters& control);

}  // namespace trainyard
