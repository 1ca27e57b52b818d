#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/config/units.h"
#include "core/error.h"
#include "tools/trainyard/net.h"

namespace trainyard {
namespace {

struct NodeOptions {
  Inputs inputs;
  std::string file;
};

// An opening tag of NCCL's topology files, which have neither text nor entities between tags.
struct Tag {
  std::string name;
  std::map<std::string, std::string> attributes;
  int depth = 0;  // tags around it
};

class TopologyXml {
 public:
  explicit TopologyXml(const std::string& file) : file_(file) {
    std::ifstream in(file);
    if (!in) throw ConfigError(fmt::format("{}: cannot be read", file));
    std::ostringstream text;
    text << in.rdbuf();
    read(text.str());
    if (tags_.empty() || tags_.front().name != "system")
      throw ConfigError(fmt::format("{}: no <system>; write one with NCCL_TOPO_DUMP_FILE", file));
  }
  const std::vector<Tag>& tags() const { return tags_; }

  // The number that an attribute begins with; ConfigError that names the tag if there is none.
  double number(const Tag& tag, const std::string& key) const {
    const auto found = tag.attributes.find(key);
    if (found != tag.attributes.end()) {
      const std::size_t end = found->second.find(' ');
      if (const auto value = parse_number(found->second.substr(0, end))) return *value;
    }
    throw ConfigError(fmt::format("{}: <{}> without a number {}=\"…\"", file_, tag.name, key));
  }

 private:
  void read(const std::string& text) {
    std::vector<std::string> open;
    for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
      const std::size_t end = text.find('>', at);
      if (end == std::string::npos) throw ConfigError(fmt::format("{}: a tag never ends", file_));
      const std::string inside = text.substr(at + 1, end - at - 1);
      if (inside.empty() || inside[0] == '?' || inside[0] == '!') continue;
      if (inside[0] == '/') {
        if (open.empty() || open.back() != inside.substr(1))
          throw ConfigError(fmt::format("{}: <{}> ends nothing", file_, inside));
        open.pop_back();
        continue;
      }
      tags_.push_back(tag(inside, static_cast<int>(open.size())));
      if (inside.back() != '/') open.push_back(tags_.back().name);
    }
    if (!open.empty()) throw ConfigError(fmt::format("{}: <{}> never ends", file_, open.back()));
  }

  static Tag tag(const std::string& inside, int depth) {
    Tag out{inside.substr(0, inside.find_first_of(" /\n")), {}, depth};
    for (std::size_t equals = inside.find("=\""); equals != std::string::npos;
         equals = inside.find("=\"", equals)) {
      const std::size_t name = inside.find_last_of(" \n\t", equals) + 1;
      const std::size_t end = std::min(inside.find('"', equals + 2), inside.size());
      out.attributes[inside.substr(name, equals - name)] =
          inside.substr(equals + 2, end - equals - 2);
      equals = end;
    }
    return out;
  }

  std::string file_;
  std::vector<Tag> tags_;
};

struct NodeFound {
  std::int32_t gpus = 0, nics = 0, near = 0;  // near: GPUs below a PCIe switch that has a card
  double nvlink_gbs = 0, nic_gbps = 0, pcie_gbs = 0;
};

// GB/s of an NVLink that NCCL counts with (src/graph/topo.h at 5067397), by compute capability.
double nvlink_gbs(double sm) {
  if (sm >= 100) return 40.1;
  if (sm >= 90) return 20.6;
  return sm >= 70 ? 20 : 18;
}

// A PCIe link of the third generation, 8 GT/s and 16 lanes, carries 12 GB/s to NCCL.
double pcie_gbs(double transfers, double lanes) { return 12.0 * transfers / 8 * lanes / 16; }

NodeFound read_node(const TopologyXml& xml) {
  NodeFound out;
  const auto least = [](double& so_far, double now) {
    so_far = so_far == 0 ? now : std::min(so_far, now);
  };
  std::vector<const Tag*> around;     // the tags around the present one
  std::map<const Tag*, int> gpus_of;  // by PCIe switch
  std::map<const Tag*, bool> has_card;
  double links = 0, sm = 0;
  const auto end_gpu = [&] {
    if (links > 0) least(out.nvlink_gbs, links * nvlink_gbs(sm));
    links = 0;
  };
  for (const Tag& tag : xml.tags()) {
    around.resize(static_cast<std::size_t>(tag.depth));
    const Tag* const device = around.empty() ? nullptr : around.back();
    // The PCIe switch above the device's own entry; a card's <net> is inside <nic>.
    const std::size_t up = tag.name == "net" ? 3 : 2;
    const Tag* const bridge = around.size() >= up ? around[around.size() - up] : nullptr;
    if (tag.name == "gpu") {
      end_gpu();
      ++out.gpus;
      sm = xml.number(tag, "sm");
      if (device != nullptr && device->attributes.contains("link_speed"))
        least(out.pcie_gbs,
              pcie_gbs(xml.number(*device, "link_speed"), xml.number(*device, "link_width")));
      ++gpus_of[bridge];
    } else if (tag.name == "nvlink") {
      links += xml.number(tag, "count");
    } else if (tag.name == "net") {
      ++out.nics;
      least(out.nic_gbps, xml.number(tag, "speed") / 1000);
      has_card[bridge] = true;
    }
    around.push_back(&tag);
  }
  end_gpu();
  for (const auto& [bridge, gpus] : gpus_of)
    if (bridge != nullptr && bridge->name == "pci" && has_card[bridge]) out.near += gpus;
  return out;
}

std::string node_text(const NodeOptions& options, const NodeFound& node) {
  return fmt::format(
      "# {}: {} of {} GPUs share a PCIe switch with a card\n[cluster.node]\ngpus = {}\n"
      "nvlink_gbs = {:g}\nnics = {}\nnic_gbps = {:g}\npcie_gbs = {:g}\n",
      options.file, node.near, node.gpus, node.gpus, node.nvlink_gbs, node.nics, node.nic_gbps,
      node.pcie_gbs);
}

int node(const NodeOptions& options) {
  Output output(options.inputs, "net-node");
  const NodeFound found = read_node(TopologyXml(options.file));
  if (found.gpus == 0) throw ConfigError(fmt::format("{}: no <gpu> in it", options.file));
  output.write({{"schema", "trainyard-net-node-1"},
                {"gpus", found.gpus},
                {"gpus_beside_a_card", found.near},
                {"nvlink_gbs", found.nvlink_gbs},
                {"nics", found.nics},
                {"nic_gbps", found.nic_gbps},
                {"pcie_gbs", found.pcie_gbs}},
               node_text(options, found));
  return 0;
}

}  // namespace

void add_net_node(CLI::App& net, Action& action) {
  CLI::App* command = net.add_subcommand(
      "node", "Read a node from NCCL's topology file (NCCL_TOPO_DUMP_FILE); prints its keys");
  auto options = std::make_shared<NodeOptions>();
  command->add_option("file", options->file, "The XML file")->required();
  add_outputs(*command, options->inputs);
  command->callback([&action, options] { action = [options] { return node(*options); }; });
}

}  // namespace trainyard
