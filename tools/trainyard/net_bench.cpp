#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/config/units.h"
#include "core/error.h"
#include "core/report/text.h"
#include "network_models/network_models.h"
#include "tools/trainyard/net.h"
#include "tools/trainyard/net_ring.h"

namespace trainyard {
namespace {

struct BenchOptions {
  NetInputs net;
  std::string op = "all_reduce", sizes = "1K:8G", model = "flow", algorithm = "auto";
  std::int32_t per_node = 0;
  std::int64_t concurrent = 1;
  bool shuffled = false;
  std::vector<std::string> links;
};

// Bus bandwidth is algorithm bandwidth times laps (n - 1) / n, or times 1, as nccl-tests counts it.
struct BenchOp {
  const char* name;
  Op op;
  double laps;  // 0: once, whatever the number of ranks
};
constexpr BenchOp kOps[] = {{"all_reduce", Op::all_reduce, 2},
                            {"all_gather", Op::all_gather, 1},
                            {"reduce_scatter", Op::reduce_scatter, 1},
                            {"broadcast", Op::broadcast, 0},
                            {"all_to_all", Op::all_to_all, 1}};

const BenchOp& bench_op(const std::string& name) {
  std::vector<std::string_view> names;
  for (const BenchOp& each : kOps) {
    if (name == each.name) return each;
    names.emplace_back(each.name);
  }
  throw ConfigError(fmt::format("--op {}: no collective; valid: {}", name, fmt::join(names, ", ")));
}

double bus_factor(const BenchOp& op, double ranks) {
  return op.laps == 0 ? 1 : op.laps * (ranks - 1) / ranks;
}

// "8", "1K", "8G" as nccl-tests takes them: powers of 1,024.
std::int64_t size_of(const std::string& text) {
  static constexpr std::string_view kUnits = "KMG";
  const std::size_t unit = text.empty() ? std::string::npos : kUnits.find(text.back());
  const auto number =
      parse_number(unit == std::string::npos ? text : text.substr(0, text.size() - 1));
  const double bytes =
      number.value_or(0) * std::pow(1024, unit == std::string::npos ? 0 : unit + 1);
  if (bytes < 1 || bytes > 1e15)
    throw ConfigError(fmt::format("--sizes: \"{}\" is no size; write 1K, 64M, 8G or bytes", text));
  return std::llround(bytes);
}

// "1K:8G": each twice the one before; "64M": that alone.
std::vector<std::int64_t> sizes_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::int64_t first = size_of(text.substr(0, colon));
  const std::int64_t last = colon == std::string::npos ? first : size_of(text.substr(colon + 1));
  if (last < first) throw ConfigError(fmt::format("--sizes {}: ends before it starts", text));
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = first; size <= last; size *= 2) sizes.push_back(size);
  return sizes;
}

RingLayout layout_of(const BenchOptions& options, const Job& job) {
  const std::int32_t gpus = job.cluster.node.gpus;
  RingLayout layout;
  layout.per_node = options.per_node > 0 ? options.per_node : gpus;
  layout.groups = options.concurrent;
  layout.shuffled = options.shuffled;
  layout.links = options.links;
  layout.gpus =
      options.net.gpus > 0 ? options.net.gpus : std::int64_t{job.cluster.nodes} * layout.per_node;
  if (gpus % layout.per_node != 0 || layout.gpus % layout.per_node != 0)
    throw ConfigError(fmt::format("--per-node {} must divide the {} GPUs of a node and --gpus {}",
                                  layout.per_node, gpus, layout.gpus));
  if (layout.nodes() < 2)
    throw ConfigError(fmt::format("{} GPUs, {} on a node: a ring over the network needs two nodes",
                                  layout.gpus, layout.per_node));
  return layout;
}

struct Row {
  std::int64_t bytes;
  double time_s, rate, bus;  // bytes per second
  std::string_view algorithm;
};

struct Bench {
  Job job;
  RingLayout layout;
  bool by_flows = false;         // a model whose flows meet
  std::vector<RingReport> runs;  // of each pattern; closed forms have none
  RingReport report;             // of what the largest size takes
  std::vector<Wires> ring, tree;
  std::vector<Row> rows;
};

// What each group's rings (or pairs) and trees get, over flows or as expected.
void find_wires(const BenchOptions& options, const BenchOp& op, const CollectiveTimer& timer,
                const std::vector<GroupShape>& shapes, Bench& bench) {
  if (!bench.by_flows) {
    for (const GroupShape& shape : shapes) bench.ring.push_back(timer.expected_wires(shape));
    bench.tree = bench.ring;
    return;
  }
  const auto run = [&](Pattern pattern) {
    bench.layout.pattern = pattern;
    bench.runs.push_back(options.model == "flow" ? run_rings(bench.job, bench.layout)
                                                 : run_rings_beside(bench.job, bench.layout));
    return bench.runs.back().wires;
  };
  if (op.op == Op::all_reduce && options.algorithm != "ring") bench.tree = run(Pattern::tree);
  bench.ring = bench.tree;
  if (options.algorithm == "tree") return;
  bench.ring = run(op.op == Op::all_to_all ? Pattern::pairs : Pattern::ring);
  if (bench.tree.empty()) bench.tree = bench.ring;
}

// What the fabric did to the flows of `algorithm`.
RingReport report_of(const Bench& bench, std::string_view algorithm) {
  for (const RingReport& run : bench.runs)
    if ((run.pattern == Pattern::tree) == algorithm.ends_with("tree")) return run;
  return {};
}

// The slowest group's time counts for each size.
void time_collectives(const BenchOptions& options, const BenchOp& op,
                      const std::vector<std::int64_t>& sizes, Bench& bench) {
  const CollectiveTimer timer(bench.job.cluster, bench.job.network);
  std::vector<GroupShape> shapes;
  for (const auto& nodes : ring_nodes(bench.job, bench.layout))
    shapes.push_back(ring_shape(bench.job, bench.layout, nodes));
  find_wires(options, op, timer, shapes, bench);
  const double ranks = static_cast<double>(bench.layout.gpus);
  for (const std::int64_t bytes : sizes) {
    CollectiveTimer::Choice longest;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      CollectiveTimer::Choice now =
          timer.choose(op.op, shapes[i], Bytes{bytes}, bench.ring[i], bench.tree[i]);
      if (options.algorithm == "ring")
        now = {timer.ring_time(op.op, shapes[i], Bytes{bytes}, bench.ring[i]), "ring"};
      if (options.algorithm == "tree")
        now = {timer.tree_time(shapes[i], Bytes{bytes}, bench.tree[i]), "tree"};
      if (now.time >= longest.time) longest = now;
    }
    const double seconds = to_seconds(longest.time), rate = static_cast<double>(bytes) / seconds;
    bench.rows.push_back({bytes, seconds, rate, rate * bus_factor(op, ranks), longest.algorithm});
  }
  bench.report = report_of(bench, bench.rows.back().algorithm);
}

std::string_view pattern_name(Pattern pattern) {
  return pattern == Pattern::ring ? "rings" : pattern == Pattern::tree ? "trees" : "pairs";
}

std::string bench_text(const BenchOptions& options, const Bench& bench) {
  const RingLayout& layout = bench.layout;
  const RingReport& report = bench.report;
  std::string out =
      fmt::format("{}: {}, {} group{} of {} GPUs in {} nodes, model {}, seed {}\n\n",
                  bench.job.name, options.op, layout.groups, layout.groups == 1 ? "" : "s",
                  grouped(layout.gpus), grouped(layout.nodes()), options.model, bench.job.seed);
  TextTable table;
  table.row({"bytes", "time us", "algbw GB/s", "busbw GB/s", "algorithm"});
  for (const Row& row : bench.rows)
    table.row({grouped(row.bytes), fmt::format("{:.1f}", row.time_s * 1e6),
               fmt::format("{:.3f}", row.rate * 1e-9), fmt::format("{:.3f}", row.bus * 1e-9),
               std::string(row.algorithm)});
  out += table.text();
  if (options.model != "flow") return out;
  out += fmt::format(
      "\n{} flows between nodes, in {}; the slowest gets {} % of its card: {}, {} queue pair{} on "
      "it\n",
      grouped(report.flows), pattern_name(report.pattern), percent(report.slowest_edge),
      report.slowest_link, report.slowest_pairs, report.slowest_pairs == 1 ? "" : "s");
  if (report.batches_run < report.batches)
    out += fmt::format("{} of {} batches of peers were run; the others count alike\n",
                       report.batches_run, report.batches);
  if (report.uplinks > 0)
    out += fmt::format(
        "links above the ToR switches: {}; in use: {}; asked for more than they "
        "carry: {}\n",
        grouped(report.uplinks), grouped(report.uplinks_used), grouped(report.uplinks_crowded));
  return out;
}

Json bench_json(const BenchOptions& options, const Bench& bench) {
  const RingReport& report = bench.report;
  Json rows = Json::array();
  for (const Row& row : bench.rows)
    rows.push_back({{"bytes", row.bytes},
                    {"time_s", row.time_s},
                    {"algbw_bytes_per_s", row.rate},
                    {"algorithm", row.algorithm},
                    {"busbw_bytes_per_s", row.bus}});
  Json out{{"schema", "trainyard-net-bench-1"},
           {"cluster", bench.job.name},
           {"op", options.op},
           {"model", options.model},
           {"seed", bench.job.seed},
           {"gpus", bench.layout.gpus},
           {"nodes", bench.layout.nodes()},
           {"groups", bench.layout.groups},
           {"sizes", rows}};
  if (options.model == "flow")
    out["flows"] = {{"count", report.flows},
                    {"pattern", pattern_name(report.pattern)},
                    {"slowest_fraction", report.slowest_edge},
                    {"slowest_link", report.slowest_link},
                    {"slowest_link_queue_pairs", report.slowest_pairs},
                    {"uplinks", report.uplinks},
                    {"uplinks_used", report.uplinks_used},
                    {"uplinks_crowded", report.uplinks_crowded}};
  return out;
}

// `--gpus` counts one group; the cluster needs as many nodes as all of them.
Job load_bench(const BenchOptions& options) {
  NetInputs net = options.net;
  net.gpus = 0;
  Job job = load_net(net);
  if (options.net.gpus == 0) return job;
  const std::int64_t gpus = job.cluster.node.gpus;
  const std::int64_t per_node = options.per_node > 0 ? options.per_node : gpus;
  const std::int64_t shared =
      std::max<std::int64_t>(1, std::min(options.concurrent, gpus / per_node));
  const std::int64_t blocks = (options.concurrent + shared - 1) / shared;
  net.gpus = options.net.gpus / per_node * blocks * gpus;
  return load_net(net);
}

int bench(const BenchOptions& options) {
  if (options.model != "flow" && !options.links.empty())
    throw ConfigError(fmt::format("--link: model {} has no links; use flow", options.model));
  Output output(options.net.inputs, "net-bench");
  const BenchOp& op = bench_op(options.op);
  if (options.algorithm != "auto" && options.algorithm != "ring" && options.algorithm != "tree")
    throw ConfigError(fmt::format("--algorithm {}: valid: auto, ring, tree", options.algorithm));
  if (options.algorithm == "tree" && op.op != Op::all_reduce)
    throw ConfigError(fmt::format("--algorithm tree: only all_reduce, not {}", options.op));
  if (options.algorithm == "ring" && op.op == Op::all_to_all)
    throw ConfigError("--algorithm ring: all_to_all goes from pair to pair");
  const std::vector<std::int64_t> sizes = sizes_of(options.sizes);
  Bench bench;
  bench.job = load_bench(options);
  if (options.model != "flow") bench.job.network.model = network_model_info(options.model).name;
  bench.by_flows = network_model_info(options.model).contention;
  if (bench.by_flows && options.model != "flow" && op.op == Op::all_to_all)
    throw ConfigError(fmt::format("--op all_to_all: not by model {}; use flow", options.model));
  bench.layout = layout_of(options, bench.job);
  time_collectives(options, op, sizes, bench);
  output.write(bench_json(options, bench), bench_text(options, bench));
  return 0;
}

}  // namespace

void add_net_bench(CLI::App& net, Action& action) {
  CLI::App* command =
      net.add_subcommand("bench", "Time collectives over the fabric, as nccl-tests");
  auto options = std::make_shared<BenchOptions>();
  add_net_inputs(*command, options->net);
  command
      ->add_option("--op", options->op,
                   "all_reduce, all_gather, reduce_scatter, broadcast or all_to_all")
      ->capture_default_str();
  command->add_option("--sizes", options->sizes, "FIRST:LAST, doubling; K, M and G are 1,024 each")
      ->capture_default_str();
  command
      ->add_option("--algorithm", options->algorithm,
                   "ring, tree, or auto: the faster for each size, as NCCL takes it")
      ->capture_default_str();
  command
      ->add_option("--model", options->model,
                   "flow (every edge a flow), simgrid, packet (few GPUs), ideal or analytic")
      ->capture_default_str();
  command->add_option("--per-node", options->per_node, "GPUs of a node in one group; default all")
      ->check(CLI::PositiveNumber);
  command->add_option("--concurrent", options->concurrent, "Groups that run at the same moment")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_flag("--shuffled", options->shuffled, "Nodes in random order, not as they stand");
  command
      ->add_option("--link", options->links,
                   "LINK=FRACTION of its rate, such as tor_up:3:5=0 (down); repeatable")
      ->allow_extra_args(false);
  command->callback([&action, options] { action = [options] { return bench(*options); }; });
}

}  // namespace trainyard
