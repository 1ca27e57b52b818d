#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/config/job.h"

namespace trainyard {

// A congestion scenario over one or two switches, for the models that have cables.
struct CongestionCase {
  std::string scenario = "incast";  // or parking-lot, victim
  std::string model = "packet";     // or flow
  std::string control = "dcqcn", parameters = "paper";
  int flows = 10;
  double gbps = 40, delay_us = 4, last_ms = 100, join_ms = 0, leave_ms = 0;
};

// What happened, every `step_ms`.
struct CongestionSeries {
  struct Line {
    std::string name;
    std::vector<double> values;
  };
  double step_ms = 0;
  std::vector<Line> rates;   // Gb/s of each flow, means of the step
  std::vector<Line> queues;  // KB, at the links where flows meet
  std::vector<Line> pauses;  // part of the step that links upstream were paused
};

// Runs it. Throws ConfigError.
CongestionSeries run_congestion(const CongestionCase& asked);

std::string congestion_csv(const CongestionSeries& series);
std::string congestion_svg(const CongestionCase& asked, const CongestionSeries& series);

}  // namespace trainyard
