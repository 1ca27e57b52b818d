#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/config/job.h"
#include "core/config/nearest.h"
#include "core/config/units.h"
#include "core/config/value.h"
#include "core/error.h"

namespace trainyard {
namespace {

// The words each kind takes; those in `needed` must be there.
struct Grammar {
  std::string_view name;
  Fault::Kind kind;
  std::vector<std::string> words, needed;
};

const std::vector<Grammar>& grammars() {
  static const std::vector<Grammar> table{
      {"slow", Fault::Kind::slow, {"rank", "node", "at", "for", "factor"}, {"factor"}},
      {"late", Fault::Kind::late, {"rank", "at"}, {"rank", "at"}},
      {"jitter", Fault::Kind::jitter, {"sigma"}, {"sigma"}},
      {"link_slow", Fault::Kind::link_slow, {"link", "at", "for", "factor"}, {"link", "factor"}},
      {"link_down", Fault::Kind::link_down, {"link", "at", "for", "converge"}, {"link"}},
      {"flap",
       Fault::Kind::flap,
       {"link", "at", "down", "up", "cycles", "converge"},
       {"link", "down"}},
      {"switch_down", Fault::Kind::switch_down, {"switch", "at", "for", "converge"}, {"switch"}},
      {"nic_down",
       Fault::Kind::nic_down,
       {"node", "nic", "at", "for", "converge"},
       {"node", "nic"}},
      {"loss", Fault::Kind::loss, {"link", "at", "for", "rate"}, {"link", "rate"}},
  };
  return table;
}

[[noreturn]] void refuse(std::string_view line, std::string what) {
  throw ConfigError(fmt::format("fault \"{}\": {}", printable(line), what));
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

const Grammar& grammar_of(std::string_view line, std::string_view word) {
  std::vector<std::string> names;
  for (const Grammar& each : grammars()) {
    if (each.name == word) return each;
    names.emplace_back(each.name);
  }
  refuse(line, fmt::format("no kind \"{}\"; valid: {}{}", printable(word), fmt::join(names, ", "),
                           did_you_mean(word, names)));
}

// Reads "word=value" into the fault; false if the value does not fit the word.
bool assign(std::string_view word, std::string_view value, Fault& fault) {
  const auto integer = [value](std::int32_t& out) {
    const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    return error == std::errc() && rest == value.data() + value.size() && out >= 0;
  };
  const auto number = [value](double& out, double least) {
    const auto parsed = parse_number(value);
    return parsed && (out = *parsed) >= least && out <= 1e9;
  };
  const auto time = [value](Time& out) {
    const auto parsed = parse_time(value);
    return parsed && (out = *parsed, true);
  };
  if (word == "rank") return integer(fault.rank);
  if (word == "node") return integer(fault.node);
  if (word == "at") return time(fault.at);
  if (word == "for") return time(fault.lasts);
  if (word == "converge") return time(fault.converge);
  if (word == "down") return time(fault.down) && fault.down.value > 0;
  if (word == "up") return time(fault.up);
  if (word == "nic") return integer(fault.nic);
  if (word == "cycles") return integer(fault.cycles) && fault.cycles > 0;
  if (word == "rate") return number(fault.rate, 0) && fault.rate < 1;
  if (word == "link" || word == "switch") return !(fault.part = value).empty();
  if (word == "sigma") return number(fault.sigma, 0);
  return number(fault.factor, 1e-3);  // "factor"
}

std::string_view expected(std::string_view word) {
  if (word == "rank" || word == "node" || word == "nic") return "an index from 0, such as 7";
  if (word == "link") return "a link of the fabric, such as tor_up:3:5";
  if (word == "switch") return "a switch, such as tor:3, aggregation:17 or core:2:5";
  if (word == "cycles") return "a count from 1, such as 3";
  if (word == "rate") return "a part of all packets below 1, such as 1e-4";
  if (word == "at" || word == "for" || word == "converge" || word == "up" || word == "down")
    return "a time with unit, such as 30s or 250us";
  return word == "sigma" ? "a number from 0, such as 0.02" : "a number above 0, such as 1.1";
}

}  // namespace

Fault parse_fault(std::string_view line) {
  const auto words = split(line);
  if (words.empty()) refuse(line, "is empty; write for example \"slow rank=7 factor=1.1\"");
  const Grammar& grammar = grammar_of(line, words[0]);
  Fault fault;
  fault.kind = grammar.kind;
  std::vector<std::string> seen;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = std::min(words[i].find('='), words[i].size());
    const std::string word(words[i].substr(0, equals));
    if (std::find(grammar.words.begin(), grammar.words.end(), word) == grammar.words.end())
      refuse(line,
             fmt::format("{} does not take \"{}\"; valid: {}{}", grammar.name, printable(word),
                         fmt::join(grammar.words, ", "), did_you_mean(word, grammar.words)));
    if (std::find(seen.begin(), seen.end(), word) != seen.end())
      refuse(line, fmt::format("{} is given twice", word));
    seen.push_back(word);
    const std::string_view value =
        equals < words[i].size() ? words[i].substr(equals + 1) : std::string_view();
    if (!assign(word, value, fault))
      refuse(line, fmt::format("{}=\"{}\" is not {}", word, printable(value), expected(word)));
  }
  for (const std::string& word : grammar.needed)
    if (std::find(seen.begin(), seen.end(), word) == seen.end())
      refuse(line, fmt::format("{} needs {}={}", grammar.name, word, expected(word)));
  if (fault.kind == Fault::Kind::slow && (fault.rank < 0) == (fault.node < 0))
    refuse(line, "slow needs one of rank=… and node=…");
  return fault;
}

std::string fault_problem(const Fault& fault, const Job& job) {
  if (fault.rank >= job.gpus())
    return fmt::format("rank {} does not exist; legal: 0 to {}", fault.rank, job.gpus() - 1);
  if (fault.node >= job.cluster.nodes)
    return fmt::format("node {} does not exist; legal: 0 to {}", fault.node, job.cluster.nodes - 1);
  if (fault.kind == Fault::Kind::nic_down && fault.nic >= job.cluster.node.nics)
    return fmt::format("nic {} does not exist; legal: 0 to {}", fault.nic,
                       job.cluster.node.nics - 1);
  const std::string& model = job.network.model;
  if (fault.of_fabric() && model != "flow" && model != "simgrid" && model != "packet")
    return fmt::format("network.model \"{}\" has no link \"{}\"; legal: \"flow\", \"packet\"",
                       model, printable(fault.part));
  return "";
}

}  // namespace trainyard
