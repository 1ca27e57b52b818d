#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "network_models/fabric/fabric.h"

namespace trainyard {
namespace {

struct PartName {
  std::string_view kind;
  std::vector<std::int32_t> numbers;
};

// "core:2:5"; no numbers if one of them is none.
PartName read_part(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  PartName out{text.substr(0, colon), {}};
  std::string_view rest = text.substr(colon);
  while (!rest.empty()) {
    std::int32_t number = 0;
    const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), number);
    const bool ends = end == rest.data() + rest.size() || *end == ':';
    if (error != std::errc() || !ends || number < 0) return {out.kind, {}};
    out.numbers.push_back(number);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  return out;
}

[[noreturn]] void refuse_part(std::string_view text, std::string what) {
  throw ConfigError(fmt::format("switch \"{}\": {}", text, what));
}

}  // namespace

std::vector<LinkId> Fabric::cable(LinkId of) const {
  LinkPlace out = place(of);
  const int kind = static_cast<int>(out.kind);
  out.kind = static_cast<LinkKind>(kind - kind % 2);
  return both(out);
}

// Kinds come in pairs of directions, outwards first.
std::vector<LinkId> Fabric::both(LinkPlace out) const {
  const LinkId first = link(out);
  out.kind = static_cast<LinkKind>(static_cast<int>(out.kind) + 1);
  return {first, link(out)};
}

std::vector<LinkId> Fabric::cable_of_card(std::int32_t node, std::int32_t card) const {
  return both({LinkKind::nic_out, node * node_.nics + card});
}

std::vector<LinkId> Fabric::cables_of_switch(std::string_view text) const {
  const auto [kind, numbers] = read_part(text);
  const std::size_t needed = kind == "core" ? 2 : 1;
  if ((kind != "tor" && kind != "aggregation" && kind != "core") || numbers.size() != needed)
    refuse_part(text, "write tor:NUMBER, aggregation:NUMBER or core:PLANE:PORT, such as tor:3");
  if (kind != "tor" && adaptive_)
    refuse_part(text, "where switches spread packets, all above the ToR switches is one link each");
  const std::int32_t aggregations = pods_ * this->aggregations(), cores = cores_per_plane();
  const std::int32_t number = numbers[0];
  const std::int32_t count = kind == "tor"    ? tors()
                             : kind == "core" ? this->aggregations()
                                              : aggregations;
  if (number >= count || (kind == "core" && numbers[1] >= cores))
    refuse_part(text, fmt::format("the fabric has {} tor, {} aggregation and {} x {} core switches",
                                  tors(), aggregations, this->aggregations(), cores));
  std::vector<LinkId> out;
  const auto add = [&](const LinkPlace& place) {
    for (const LinkId each : both(place)) out.push_back(each);
  };
  if (kind == "core") {
    for (std::int32_t pod = 0; pod < pods_; ++pod)
      add({LinkKind::core_up, pod * tor_ports_ + number, numbers[1]});
  } else if (kind == "aggregation") {
    const std::int32_t pod = number / tor_ports_, plane = number % tor_ports_;
    for (std::int32_t tor = pod * tors_per_pod();
         tor < std::min((pod + 1) * tors_per_pod(), tors()); ++tor)
      add({LinkKind::tor_up, tor, plane});
    for (std::int32_t port = 0; port < cores; ++port) add({LinkKind::core_up, number, port});
  } else {
    const std::int32_t set = number / rails_;
    const std::int32_t last = std::min((set + 1) * nodes_per_tor_, nodes_);
    for (std::int32_t node = set * nodes_per_tor_; node < last; ++node)
      for (std::int32_t card = number % rails_; card < node_.nics; card += rails_)
        add({LinkKind::nic_out, node * node_.nics + card});
    for (std::int32_t port = 0; tor_sets_ > 1 && port < tor_ports_; ++port)
      add({LinkKind::tor_up, number, port});
  }
  return out;
}

}  // namespace trainyard
