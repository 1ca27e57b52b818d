#include "backends/cuda/communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/common/patience.h"
#include "core/error.h"

namespace trainyard {
namespace {

enum Pair : std::size_t {
  forward_to_next,
  backward_from_next,
  forward_from_last,
  backward_to_last
};

// A call on a communicator that does not block comes back before a thread of NCCL's has launched
// it, some tens of microseconds later: whoever slept would issue the next one a millisecond late.
constexpr std::chrono::microseconds kAwake{500};

int nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) throw CudaError("ncclGetVersion failed");
  return version;
}

std::string nccl_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

ncclConfig_t without_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// Pairs of neighbours such that no stage is in two of a round: from the even stages, from the odd
// ones, and around the end of an odd number.
std::int32_t round_of(std::int32_t from, std::int32_t stages) {
  return stages % 2 == 1 && from == stages - 1 ? 2 : from % 2;
}

}  // namespace

template <class F>
void Communicators::each(F f) const {
  for (ncclComm_t comm : pairs_)
    if (comm != nullptr) f(comm);
  for (ncclComm_t comm : groups_)
    if (comm != nullptr) f(comm);
  if (tensor_gradients_ != nullptr) f(tensor_gradients_);
  if (world_ != nullptr) f(world_);
}

Communicators::~Communicators() { close(); }

void Communicators::complete(ncclResult_t result, ncclComm_t comm, const char* call) const {
  const auto awake_until = std::chrono::steady_clock::now() + kAwake;
  for (Patience patience(timeout_); result == ncclInProgress && comm != nullptr;) {
    if (ncclCommGetAsyncError(comm, &result) != ncclSuccess)
      throw CudaError(fmt::format("{}: the communicator is unusable", call));
    if (result != ncclInProgress) break;
    if (patience.ended())
      throw CudaError(fmt::format("{} did not end within {:g} s", call, in_seconds(timeout_)));
    if (std::chrono::steady_clock::now() >= awake_until) patience.rest();
  }
  if (result != ncclSuccess && result != ncclInProgress)
    throw CudaError(
        fmt::format("{}: {} ({})", call, ncclGetErrorString(result), ncclGetLastError(comm)));
}

std::string Communicators::problem() const {
  std::string text;
  each([&](ncclComm_t comm) {
    ncclResult_t state = ncclSuccess;
    if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) state = ncclInternalError;
    if (state != ncclSuccess && state != ncclInProgress && text.empty())
      text = fmt::format("NCCL: {} ({})", ncclGetErrorString(state), ncclGetLastError(comm));
  });
  return text;
}

void Communicators::forget() {
  world_ = tensor_gradients_ = nullptr;
  groups_ = {};
  pairs_ = {};
}

// One that refuses does so for all: what is registered already is not used either.
std::string Communicators::register_memory(std::span<std::byte> memory) {
  std::string problem;
  each([&](ncclComm_t comm) {
    if (!problem.empty() || memory.empty()) return;
    void* handle = nullptr;
    const ncclResult_t result = ncclCommRegister(comm, memory.data(), memory.size(), &handle);
    if (result == ncclSuccess && handle != nullptr)
      registrations_.push_back({comm, handle});
    else
      problem = fmt::format("ncclCommRegister: {} ({})", ncclGetErrorString(result),
                            ncclGetLastError(comm));
  });
  if (!problem.empty()) deregister_memory();
  return problem;
}

// Before a communicator ends, be it by an abort, as its memory may be freed then.
void Communicators::deregister_memory() {
  for (const Registration& r : registrations_) ncclCommDeregister(r.comm, r.handle);
  registrations_.clear();
}

void Communicators::abort() {
  deregister_memory();
  each([](ncclComm_t comm) { ncclCommAbort(comm); });
  forget();
}

// An orderly end needs the peers; whoever does not get it in time leaves without. All begin to end
// before one is waited for: neighbours have theirs in other orders.
void Communicators::close() {
  const bool broken = world_ != nullptr && !problem().empty();
  deregister_memory();
  std::vector<ncclResult_t> states;
  each([&](ncclComm_t comm) {
    states.push_back(broken ? ncclSystemError : ncclCommFinalize(comm));
  });
  Patience patience(timeout_);
  each([&, next = states.begin()](ncclComm_t comm) mutable {
    ncclResult_t state = *next++;
    for (; state == ncclInProgress && !patience.ended(); patience.rest())
      if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) state = ncclSystemError;
    if (state == ncclSuccess)
      ncclCommDestroy(comm);
    else
      ncclCommAbort(comm);
  });
  forget();
}

// The first rank makes up the id under which all meet.
void Communicators::meet(const Mesh& mesh, Store& store) {
  const std::string key = fmt::format("nccl/{}", connections_++);
  ncclUniqueId id{};
  const int version = nccl_version();
  if (index(rank_) == 0) {
    if (ncclGetUniqueId(&id) != ncclSuccess) throw CudaError("ncclGetUniqueId failed");
    store.set(key,
              fmt::format("{} {}", version, std::string_view(id.internal, sizeof id.internal)));
  } else {
    const std::string value = wait_for(store, std::span(&key, 1), timeout_).front();
    const std::size_t space = value.find(' ');
    const int first = std::stoi(value.substr(0, space));
    if (first != version)
      throw ConfigError(fmt::format("rank 0 has NCCL {}, rank {} has {}: all must have the same",
                                    nccl_text(first), index(rank_), nccl_text(version)));
    check(value.size() == space + 1 + sizeof id.internal, "an NCCL id of {} bytes", value.size());
    std::memcpy(id.internal, value.data() + space + 1, sizeof id.internal);
  }
  ncclConfig_t config = without_blocking();
  const ncclResult_t result =
      ncclCommInitRankConfig(&world_, mesh.size(), id, static_cast<int>(index(rank_)), &config);
  complete(result, world_, "connecting all ranks by NCCL");
}

ncclComm_t Communicators::split(int color, int key, const std::string& name) {
  ncclComm_t comm = nullptr;
  ncclConfig_t config = without_blocking();
  const std::string call = fmt::format("connecting the {} by NCCL", name);
  // The new communicator is there before it is ready; the old one is ready once all have split.
  const ncclResult_t result = ncclCommSplit(world_, color, key, &comm, &config);
  try {
    complete(result, world_, call.c_str());
    if (comm != nullptr) complete(ncclInProgress, comm, call.c_str());
  } catch (...) {
    if (comm != nullptr) ncclCommAbort(comm);
    throw;
  }
  return comm;
}

void Communicators::split_groups(const Mesh& mesh) {
  for (int g = 0; g < kGroups; ++g) {
    const auto group = static_cast<Group>(g);
    const std::vector<RankId> members = mesh.members(group, rank_);
    const auto own = std::ranges::find(members, rank_);
    sizes_[at(group)] = own == members.end() ? 1 : static_cast<std::int32_t>(members.size());
    places_[at(group)] =
        own == members.end() ? 0 : static_cast<std::int32_t>(own - members.begin());
    // No collective is among stages one after another; transfers have pairs of their own.
    if (group == Group::pipeline || mesh.size(group) < 2) continue;
    const bool alone = sizes_[at(group)] < 2;
    const auto color = static_cast<int>(index(alone ? rank_ : *std::ranges::min_element(members)));
    const auto own_group = [&] {
      return split(alone ? NCCL_SPLIT_NOCOLOR : color, places_[at(group)],
                   fmt::format("{} group", group_name(group)));
    };
    groups_[at(group)] = own_group();
    if (group == Group::tensor) tensor_gradients_ = own_group();
  }
}

void Communicators::split_pairs(const Mesh& mesh) {
  const std::int32_t stages = mesh.size(Axis::pipeline);
  if (stages < 2) return;
  const std::int32_t stage = mesh.coord(rank_)[Axis::pipeline];
  const std::int32_t before = (stage + stages - 1) % stages;
  for (std::int32_t round = 0; round < 2 + stages % 2; ++round) {
    const bool first = round_of(stage, stages) == round, second = round_of(before, stages) == round;
    const RankId from = first ? rank_ : mesh.neighbour(rank_, Axis::pipeline, -1);
    const int color = first || second ? static_cast<int>(index(from)) : NCCL_SPLIT_NOCOLOR;
    const std::string name = first ? fmt::format("stages {} and {}", stage, (stage + 1) % stages)
                                   : fmt::format("stages {} and {}", before, stage);
    ncclComm_t activations = split(color, first ? 0 : 1, name);
    ncclComm_t gradients = split(color, first ? 0 : 1, name);
    if (!first && !second) continue;
    pairs_[first ? forward_to_next : forward_from_last] = activations;
    pairs_[first ? backward_from_next : backward_to_last] = gradients;
  }
}

void Communicators::connect(const Mesh& mesh, Store* store) {
  close();
  sizes_.fill(1);
  places_.fill(0);
  if (mesh.size() == 1) return;
  check(store != nullptr, "{} ranks have no store to meet in", mesh.size());
  meet(mesh, *store);
  split_groups(mesh);
  split_pairs(mesh);
}

Communicators::End Communicators::end(const Instr& transfer) const {
  const bool sends = transfer.op == Op::send, next = transfer.peer > 0;
  check(transfer.peer == 1 || transfer.peer == -1, "a transfer over {} stages", transfer.peer);
  const std::size_t pair = next ? (sends ? forward_to_next : backward_from_next)
                                : (sends ? backward_to_last : forward_from_last);
  check(pairs_[pair] != nullptr, "rank {} has no neighbour {}", index(rank_), transfer.peer);
  return {pairs_[pair], next ? 1 : 0, pair};
}

}  // namespace trainyard
