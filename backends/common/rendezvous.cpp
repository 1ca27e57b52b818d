#include "backends/common/rendezvous.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <sstream>
#include <stdexcept>

#include "backends/common/patience.h"

namespace trainyard {

namespace {

constexpr char kSeparator = '\n';  // no part of an arrival has it

std::string text_of(const Arrival& arrival) {
  return fmt::format("{}{}{}{}{}", arrival.program, kSeparator, fmt::join(arrival.processors, " "),
                     kSeparator, arrival.host);
}

Arrival arrival_in(const std::string& text) {
  std::istringstream in(text);
  Arrival arrival;
  std::string processors;
  if (!std::getline(in, arrival.program, kSeparator) || !std::getline(in, processors, kSeparator) ||
      !std::getline(in, arrival.host, kSeparator))
    throw std::runtime_error("the store holds a value that no rank of this run wrote");
  std::istringstream numbers(processors);
  for (std::int32_t p = 0; numbers >> p;) arrival.processors.push_back(p);
  return arrival;
}

}  // namespace

std::string host_identity() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  std::array<char, PATH_MAX> network{};
  const auto length = readlink("/proc/self/ns/net", network.data(), network.size() - 1);
  return fmt::format("{} {}", name.data(),
                     length > 0 ? std::string_view(network.data(), length) : std::string_view());
}

std::vector<Arrival> meet(Store& store, RankId rank, std::int32_t ranks, const Arrival& own,
                          std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (std::int32_t r = 0; r < ranks; ++r) keys.push_back(fmt::format("rank/{}", r));
  store.set(keys[static_cast<std::size_t>(index(rank))], text_of(own));
  std::vector<std::string> values;
  try {
    values = wait_for(store, keys, timeout);
  } catch (const StoreTimeout& late) {
    std::vector<std::string> missing = late.missing();
    for (std::string& name : missing) name[name.find('/')] = ' ';
    throw StoreTimeout(fmt::format("{} of {} came, but told of no program within {:g} s",
                                   fmt::join(missing, ", "), ranks, in_seconds(timeout)),
                       missing);
  }
  std::vector<Arrival> arrivals;
  for (const std::string& value : values) arrivals.push_back(arrival_in(value));
  return arrivals;
}

}  // namespace trainyard
