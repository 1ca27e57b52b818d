#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/config/units.h"
#include "core/error.h"
#include "core/report/text.h"
#include "network_models/congestion/dcqcn.h"
#include "tools/trainyard/net.h"
#include "tools/trainyard/net_congestion.h"

namespace trainyard {
namespace {

struct DcqcnOptions {
  Inputs inputs;
  std::string parameters = "paper", csv, svg;
  std::string marks = "published", model = "fluid", scenario = "incast", control = "dcqcn";
  int flows = 10;
  double gbps = 40, delay_us = 4, last_ms = 100, join_ms = 0, leave_ms = 0;
};

struct Spread {
  double least = 0, mean = 0, most = 0;
};

struct Outcome {
  DcqcnFixedPoint rest;
  Spread queue_bytes, alpha, rate, sum;  // over the last fifth of the time; rates in bytes/s
  double peak_bytes = 0, peak_ms = 0;
  double fair_ms = 0;  // from when on no two flows differ by more than a tenth of their share
  std::string csv;
};

constexpr double kSampleUs = 20, kLongestMs = 100e3;

// A check of CLI11 that "nan" does not pass.
auto between(double least, double most) {
  return [=](const std::string& text) {
    const auto value = parse_number(text);
    return value && *value >= least && *value <= most
               ? std::string()
               : fmt::format("{} is no number from {:g} to {:g}", text, least, most);
  };
}

class Spreader {
 public:
  void add(double value) {
    spread_.least = count_ == 0 ? value : std::min(spread_.least, value);
    spread_.most = count_ == 0 ? value : std::max(spread_.most, value);
    sum_ += value;
    spread_.mean = sum_ / ++count_;
  }
  const Spread& spread() const { return spread_; }

 private:
  Spread spread_;
  double sum_ = 0;
  int count_ = 0;
};

// All flows at line rate, as cards start; each `join_ms` after the one before.
Outcome run(const DcqcnOptions& options) {
  const Bandwidth port{options.gbps * 1e9 / 8};
  const DcqcnParameters parameters = dcqcn_parameters(options.parameters, port);
  DcqcnFluid fluid(parameters, port, microseconds(options.delay_us),
                   options.marks == "packets" ? DcqcnMarks::of_packets : DcqcnMarks::published);
  Outcome out;
  out.rest = dcqcn_fixed_point(parameters, port, options.flows);
  Spreader queue, alpha, rates, sums;
  const double last_us = options.last_ms * 1e3;
  out.csv = "time_us,queue_bytes";
  for (int flow = 0; flow < options.flows; ++flow) out.csv += fmt::format(",rate_{}_gbps", flow);
  out.csv += "\n";
  int joined = 0;
  for (double us = 0; us < last_us; us += kSampleUs) {
    for (; joined < options.flows && joined * options.join_ms * 1e3 <= us; ++joined)
      fluid.add(port);
    fluid.advance(microseconds(kSampleUs));
    const double time_us = to_microseconds(fluid.now());
    out.csv += fmt::format("{:.0f},{:.0f}", time_us, fluid.queue_bytes());
    Spreader now;
    for (int flow = 0; flow < options.flows; ++flow) {
      const double rate = flow < joined ? fluid.rate(flow).value : 0;
      out.csv += fmt::format(",{:.4f}", rate * 8e-9);
      if (flow < joined) now.add(rate);
    }
    out.csv += "\n";
    if (fluid.queue_bytes() > out.peak_bytes) {
      out.peak_bytes = fluid.queue_bytes();
      out.peak_ms = time_us * 1e-3;
    }
    if (now.spread().most - now.spread().least > 0.1 * port.value / joined)
      out.fair_ms = time_us * 1e-3;
    if (us < 0.8 * last_us) continue;
    queue.add(fluid.queue_bytes());
    alpha.add(fluid.alpha(0));
    for (int flow = 0; flow < joined; ++flow) rates.add(fluid.rate(flow).value);
    sums.add(now.spread().mean * joined);
  }
  out.queue_bytes = queue.spread();
  out.alpha = alpha.spread();
  out.rate = rates.spread();
  out.sum = sums.spread();
  return out;
}

std::string dcqcn_text(const DcqcnOptions& options, const Outcome& outcome) {
  const double port = options.gbps * 1e9 / 8;
  TextTable table;
  table.row(
      {fmt::format("last {:g} ms", options.last_ms / 5), "fixed point", "mean", "least", "most"});
  const auto row = [&](const char* name, double rest, const Spread& spread, double unit) {
    const auto text = [unit](double value) { return fmt::format("{:.3f}", value / unit); };
    table.row({name, text(rest), text(spread.mean), text(spread.least), text(spread.most)});
  };
  row("queue KB", outcome.rest.queue_bytes, outcome.queue_bytes, 1e3);
  row("alpha", outcome.rest.alpha, outcome.alpha, 1);
  row("rate of a flow Gb/s", port / options.flows, outcome.rate, 1.25e8);
  row("all flows / port", port, outcome.sum, port);
  return fmt::format(
      "DCQCN, {} parameters: {} flows into a port of {:g} Gb/s, marks seen {:g} us late\n\n{}\n"
      "longest queue {:.0f} KB at {:.2f} ms (no PFC)\n{}\n",
      options.parameters, options.flows, options.gbps, options.delay_us, table.text(),
      outcome.peak_bytes * 1e-3, outcome.peak_ms,
      outcome.fair_ms < options.last_ms
          ? fmt::format("flows within 10 % of their share from {:.2f} ms on", outcome.fair_ms)
          : "flows still differ by more than 10 % of their share at the end");
}

Json dcqcn_json(const DcqcnOptions& options, const Outcome& outcome) {
  const auto spread = [](double rest, const Spread& of) {
    return Json{{"fixed_point", rest}, {"mean", of.mean}, {"least", of.least}, {"most", of.most}};
  };
  const double port = options.gbps * 1e9 / 8;
  return {{"schema", "trainyard-net-dcqcn-1"},
          {"parameters", options.parameters},
          {"marks", options.marks},
          {"flows", options.flows},
          {"port_bytes_per_s", port},
          {"delay_s", options.delay_us * 1e-6},
          {"mark_probability", outcome.rest.mark_probability},
          {"queue_bytes", spread(outcome.rest.queue_bytes, outcome.queue_bytes)},
          {"alpha", spread(outcome.rest.alpha, outcome.alpha)},
          {"rate_bytes_per_s", spread(port / options.flows, outcome.rate)},
          {"sum_bytes_per_s", spread(port, outcome.sum)},
          {"longest_queue_bytes", outcome.peak_bytes},
          {"fair_after_s", outcome.fair_ms * 1e-3}};
}

double mean_of_last_fifth(const std::vector<double>& values) {
  const std::size_t from = values.size() * 4 / 5;
  double sum = 0;
  for (std::size_t i = from; i < values.size(); ++i) sum += values[i];
  return sum / static_cast<double>(values.size() - from);
}

// Over the cables of a small network, for models that have any.
int congestion(const DcqcnOptions& options) {
  Output output(options.inputs, "net-dcqcn");
  output.expect_extra(options.csv);
  output.expect_extra(options.svg);
  const CongestionCase asked{
      options.scenario, options.model,    options.control, options.parameters, options.flows,
      options.gbps,     options.delay_us, options.last_ms, options.join_ms,    options.leave_ms};
  const CongestionSeries series = run_congestion(asked);
  output.write_extra(options.csv, congestion_csv(series));
  output.write_extra(options.svg, congestion_svg(asked, series));
  Json json{{"schema", "trainyard-net-congestion-1"},
            {"scenario", asked.scenario},
            {"model", asked.model},
            {"control", asked.control},
            {"parameters", asked.parameters},
            {"step_ms", series.step_ms}};
  TextTable table;
  table.row({fmt::format("last {:g} ms", options.last_ms / 5), "mean", "unit"});
  const auto add = [&](const char* name, const char* unit, const auto& lines) {
    Json all = Json::array();
    for (const CongestionSeries::Line& line : lines) {
      const double mean = mean_of_last_fifth(line.values);
      table.row({line.name, fmt::format("{:.3f}", mean), unit});
      all.push_back({{"name", line.name}, {"mean", mean}, {"values", line.values}});
    }
    json[name] = all;
  };
  add("rates_gbps", "Gb/s", series.rates);
  add("queues_kb", "KB of queue", series.queues);
  add("paused", "of the time paused", series.pauses);
  output.write(json, fmt::format("{}, {:g} Gb/s, {}, model {}\n\n{}", asked.scenario, asked.gbps,
                                 asked.control, asked.model, table.text()));
  return 0;
}

int dcqcn(const DcqcnOptions& options) {
  if (options.model != "fluid" && options.marks != "published")
    throw ConfigError("--marks is of the fluid model; packet and flow have marks of their own");
  if (options.model != "fluid") return congestion(options);
  if (options.scenario != "incast" || options.control != "dcqcn" || !options.svg.empty() ||
      options.leave_ms > 0)
    throw ConfigError(
        "the fluid model has one port, DCQCN and flows that stay; for --scenario, --control, "
        "--leave-ms and --svg give --model packet or flow");
  Output output(options.inputs, "net-dcqcn");
  output.expect_extra(options.csv);
  const Outcome outcome = run(options);
  output.write_extra(options.csv, outcome.csv);
  output.write(dcqcn_json(options, outcome), dcqcn_text(options, outcome));
  return 0;
}

}  // namespace

void add_net_dcqcn(CLI::App& net, Action& action) {
  CLI::App* command = net.add_subcommand("dcqcn", "Flows that meet under congestion control");
  auto options = std::make_shared<DcqcnOptions>();
  command->add_option("--parameters", options->parameters, "Parameter set; help lists them")
      ->capture_default_str();
  command->add_option("--flows", options->flows, "Flows into the port")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--gbps", options->gbps, "Rate of the port and of every card")
      ->check(between(1, 10e3))
      ->capture_default_str();
  command
      ->add_option("--delay-us", options->delay_us,
                   "From a mark to its effect on the queue, at least 1")
      ->check(between(1, 10e3))
      ->capture_default_str();
  command
      ->add_option("--join-ms", options->join_ms, "Each flow starts so long after the one before")
      ->check(between(0, kLongestMs))
      ->capture_default_str();
  command->add_option("--last-ms", options->last_ms, "Simulated time")
      ->check(between(1, kLongestMs))
      ->capture_default_str();
  command
      ->add_option("--leave-ms", options->leave_ms,
                   "Towards the end flows leave, the last to come first, so long one after another")
      ->check(between(0, kLongestMs))
      ->capture_default_str();
  command->add_option("--model", options->model, "fluid (published equations), packet or flow")
      ->capture_default_str();
  command
      ->add_option("--marks", options->marks,
                   "Of the fluid model: published (met by the mean queue) or packets (as paced "
                   "packets meet them)")
      ->check(CLI::IsMember({"published", "packets"}))
      ->capture_default_str();
  command->add_option("--scenario", options->scenario, "incast, parking-lot or victim")
      ->capture_default_str();
  command
      ->add_option("--control", options->control,
                   "dcqcn, swift, hybrid or none; models packet and flow")
      ->capture_default_str();
  command->add_option("--svg", options->svg, "File for a plot of rates, queues and pauses");
  command->add_option("--csv", options->csv, "File for queue and rates over time");
  add_outputs(*command, options->inputs);
  command->callback([&action, options] { action = [options] { return dcqcn(*options); }; });
}

}  // namespace trainyard
