#include "backends/common/session.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "backends/common/patience.h"
#include "core/error.h"

namespace trainyard {
namespace {

using Milliseconds = std::chrono::milliseconds;

// Names nothing but this attempt to meet, and so must differ from that of any other process: the
// one place for true randomness. It reaches no output.
std::string fresh_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

class PartOfStore final : public Store {
 public:
  PartOfStore(std::unique_ptr<Store> whole, const std::string& name)
      : whole_(std::move(whole)), prefix_(name + "/") {}
  void set(std::string_view key, std::string_view value) override {
    whole_->set(prefix_ + std::string(key), value);
  }
  std::optional<std::string> get(std::string_view key) override {
    return whole_->get(prefix_ + std::string(key));
  }

 private:
  std::unique_ptr<Store> whole_;
  std::string prefix_;
};

// Rank 0 names the session; every other rank says hello with a fresh name of its own and is told
// the session in answer to that name, so a hello or an answer of a dead run misleads nobody.
class Gathering {
 public:
  Gathering(Store& store, int rank, int world, Milliseconds timeout)
      : store_(store), rank_(rank), world_(world), timeout_(timeout), patience_(timeout) {}

  std::string run() { return rank_ == 0 ? receive_all() : join(); }

 private:
  static std::string hello(int rank) { return fmt::format("hello/{}", rank); }
  static std::string welcome(int rank) { return fmt::format("welcome/{}", rank); }
  static std::string here(const std::string& session, int rank) {
    return fmt::format("{}/here/{}", session, rank);
  }
  static std::string everybody(const std::string& session) { return session + "/everybody"; }

  std::string receive_all() {
    const std::string session = fresh_name();
    std::vector<int> absent;
    for (int rank = 1; rank < world_; ++rank) absent.push_back(rank);
    std::vector<std::string> answered(static_cast<std::size_t>(world_));
    while (true) {
      const bool last = patience_.ended();
      std::erase_if(absent, [&](int rank) {
        if (store_.get(here(session, rank))) return true;
        const std::string name = store_.get(hello(rank)).value_or("");
        if (name != answered[static_cast<std::size_t>(rank)])
          store_.set(welcome(rank), name + " " + session);
        answered[static_cast<std::size_t>(rank)] = name;
        return false;
      });
      if (absent.empty()) break;
      if (last) give_up(absent);
      patience_.rest();
    }
    store_.set(everybody(session), "");
    return session;
  }

  std::string join() {
    const std::string name = fresh_name();
    store_.set(hello(rank_), name);
    std::string session;
    while (session.empty()) {
      const bool last = patience_.ended();
      const std::string answer = store_.get(welcome(rank_)).value_or("");
      if (answer.starts_with(name + " "))
        session = answer.substr(name.size() + 1);
      else if (last)
        give_up({0});
      else
        patience_.rest();
    }
    store_.set(here(session, rank_), "");
    while (!store_.get(everybody(session))) {
      if (patience_.ended()) give_up(absent_from(session));
      patience_.rest();
    }
    return session;
  }

  std::vector<int> absent_from(const std::string& session) {
    std::vector<int> absent;
    for (int rank = 1; rank < world_; ++rank)
      if (!store_.get(here(session, rank))) absent.push_back(rank);
    return absent.empty() ? std::vector{0} : absent;
  }

  [[noreturn]] void give_up(const std::vector<int>& absent) const {
    std::vector<std::string> names;
    for (const int rank : absent) names.push_back(fmt::format("rank {}", rank));
    throw StoreTimeout(fmt::format("{} of {} did not come within {:g} s", fmt::join(names, ", "),
                                   world_, in_seconds(timeout_)),
                       names);
  }

  Store& store_;
  int rank_, world_;
  Milliseconds timeout_;
  Patience patience_;
};

}  // namespace

WorkerPlace with_store(WorkerPlace place, const std::string& store) {
  const bool one_host = place.local_world == place.world;
  std::vector<std::string> violations;
  if (!store.empty()) place.store = store;
  if (place.store.empty() && one_host)
    place.store = fmt::format("file:{}/trainyard-{}",
                              std::filesystem::temp_directory_path().string(), ::getuid());
  else if (place.store.empty())
    violations.push_back(fmt::format(
        "the {} ranks are on several hosts ({} on this one) and have no store to meet in: give "
        "--store or TRAINYARD_STORE; valid: redis://host:port, file:/dir/that/all/hosts/share",
        place.world, place.local_world));
  if (place.run_id.empty() && one_host)
    place.run_id = fmt::format("parent-{}", ::getppid());
  else if (place.run_id.empty())
    violations.push_back(
        "the launcher gives the run no id: set TRAINYARD_RUN_ID to a text that no other run has");
  if (!violations.empty()) throw ConfigError(std::move(violations));
  return place;
}

std::unique_ptr<Store> open_session(const WorkerPlace& place, Milliseconds timeout) {
  check(place.rank >= 0 && place.rank < place.world, "rank {} of {}", place.rank, place.world);
  constexpr Milliseconds kLongestSilence{10'000};  // of a store, however long ranks may take
  std::unique_ptr<Store> store =
      open_store(place.store, place.run_id, std::min(timeout, kLongestSilence));
  try {
    const std::string session = Gathering(*store, place.rank, place.world, timeout).run();
    return std::make_unique<PartOfStore>(std::move(store), session);
  } catch (const StoreTimeout& late) {
    throw StoreTimeout(
        fmt::format("run {} at store {}: {}", place.run_id, place.store, late.what()),
        late.missing());
  }
}

}  // namespace trainyard
