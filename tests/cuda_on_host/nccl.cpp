#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <random>

#include "tests/cuda_on_host/machine.h"
#include "tests/cuda_on_host/nccl_comm.h"
#include "tests/cuda_on_host/nccl_links.h"
#include "tests/cuda_on_host/nccl_sums.h"
#include "tests/cuda_on_host/runtime.h"
#include "tests/cuda_on_host/stream.h"

using namespace trainyard::cuda_on_host;

namespace trainyard::cuda_on_host {
namespace {

enum CallKind { all_reduce = 1, all_gather, reduce_scatter, broadcast, transfer };

// What is to become of a call.
enum class Fate : std::uint8_t { usual, fails, hangs };

// Whether the countdown ends with this call.
bool counts_down(int& calls) { return calls > 0 && --calls == 0; }

Fate next_fate() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Machine& m = machine();
  if (m.faulty_device >= 0 && m.faulty_device != current_device()) return Fate::usual;
  if (counts_down(m.failing_call)) return Fate::fails;
  return counts_down(m.hanging_call) ? Fate::hangs : Fate::usual;
}

struct Memory {
  const void* at;
  std::size_t bytes;
};

// Puts a call, with the memory it works on, on a stream. After an error it holds up the stream
// until the communicator is aborted, as NCCL's kernels do; memory that is no GPU's fails the
// device. It comes back before it is launched.
ncclResult_t put(ncclComm_t comm, cudaStream_t stream, std::initializer_list<Memory> memory,
                 std::function<void(Links&)> call) {
  if (comm->links->state() == ncclInProgress || comm->launching > 0) return ncclInvalidUsage;
  const bool there = std::ranges::all_of(
      memory, [](const Memory& m) { return m.bytes == 0 || is_device_memory(m.at, m.bytes); });
  enqueue(stream, [links = comm->links, there, fate = next_fate(), call = std::move(call)] {
    if (!there) throw std::runtime_error("NCCL: not all in one piece of device memory");
    const Links::Turn turn(*links);
    if (fate == Fate::fails) links->fail(ncclSystemError, "the test wants this call to fail");
    if (fate != Fate::usual) return links->wait_for_abort();
    try {
      call(*links);
    } catch (const LinkError& error) {
      links->fail(error.result(), error.what());
      links->wait_for_abort();
    } catch (const Aborted&) {
      return;
    }
  });
  comm->launching = machine().launch_polls;
  return comm->launching > 0 ? ncclInProgress : ncclSuccess;
}

std::span<const std::byte> part(const void* at, std::size_t bytes) {
  return {static_cast<const std::byte*>(at), bytes};
}
std::span<std::byte> space(void* at, std::size_t bytes) {
  return {static_cast<std::byte*>(at), bytes};
}

using Parts = std::vector<Links::Part>;
using Spaces = std::vector<Links::Space>;

// What all members send this one, one after another, and its own among them.
struct Gathered {
  Gathered(Links& links, std::size_t each) : bytes(static_cast<std::size_t>(links.size()) * each) {
    for (int m = 0; m < links.size(); ++m)
      spaces.push_back(std::span(bytes).subspan(static_cast<std::size_t>(m) * each, each));
  }
  std::vector<std::byte> bytes;
  Spaces spaces;
};

// Starts in a thread of its own what makes a communicator usable.
void start(ncclComm* comm, std::function<void()> work) {
  comm->starting = std::thread([links = comm->links, work = std::move(work)] {
    try {
      work();
      links->set_state(ncclSuccess);
    } catch (const LinkError& error) {
      links->fail(error.result(), error.what());
    } catch (const Aborted&) {
      links->fail(ncclInternalError, "aborted");
    }
  });
}

void end(ncclComm_t comm) {
  expect_deregistered(comm);
  comm->links->abort();
  if (comm->starting.joinable()) comm->starting.join();
  delete comm;
}

}  // namespace
}  // namespace trainyard::cuda_on_host

ncclResult_t ncclGetVersion(int* version) {
  *version = machine().nccl;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr std::array kTexts{"no error",
                              "unhandled cuda error",
                              "unhandled system error",
                              "internal error",
                              "invalid argument",
                              "invalid usage",
                              "remote process exited or there was a network error",
                              "NCCL operation in progress"};
  return kTexts.at(static_cast<std::size_t>(result));
}

const char* ncclGetLastError(ncclComm_t comm) {
  thread_local std::string text;
  text = comm == nullptr ? "" : comm->links->problem();
  return text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  std::memset(id, 0, sizeof *id);
  const std::string text = "nccl-" + std::to_string(getpid()) + "-" + std::to_string(random()) +
                           std::to_string(random());
  std::memcpy(id->internal, text.data(), text.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  *comm = new ncclComm{std::make_shared<Links>(id.internal, rank, ranks), {}, 0};
  start(*comm, [links = (*comm)->links] { links->connect(); });
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  *made = nullptr;
  const std::shared_ptr<Links> parent = comm->links;
  if (parent->state() != ncclSuccess) return ncclInvalidUsage;
  if (comm->starting.joinable()) comm->starting.join();
  parent->set_state(ncclInProgress);
  // Who goes where is exchanged at once: members of a test are not far from each other.
  struct Choice {
    int color, key, rank;
  };
  std::vector<Choice> all(static_cast<std::size_t>(parent->size()));
  Choice own{color, key, parent->rank()};
  try {
    Spaces spaces;
    for (Choice& c : all) spaces.push_back(std::as_writable_bytes(std::span(&c, 1)));
    parent->exchange(Parts(all.size(), std::as_bytes(std::span(&own, 1))), spaces);
  } catch (const LinkError& error) {
    parent->fail(error.result(), error.what());
    return error.result();
  } catch (const Aborted&) {
    return ncclInternalError;
  }
  all[static_cast<std::size_t>(parent->rank())] = own;
  parent->set_state(ncclSuccess);
  const std::string name =
      parent->name() + "/" + std::to_string(parent->next_split()) + "." + std::to_string(color);
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  std::erase_if(all, [color](const Choice& c) { return c.color != color; });
  std::ranges::stable_sort(all, {}, &Choice::key);
  const auto place = std::ranges::find(all, own.rank, &Choice::rank) - all.begin();
  *made = new ncclComm{
      std::make_shared<Links>(name, static_cast<int>(place), static_cast<int>(all.size())), {}, 0};
  start(*made, [links = (*made)->links] { links->connect(); });
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = comm->links->state();
  if (*state == ncclSuccess && comm->launching > 0) {
    --comm->launching;
    *state = ncclInProgress;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return comm->launching > 0 ? ncclInvalidUsage : comm->links->state();
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  end(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  end(comm);
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const CallName name{all_reduce, type, op, 0, count, comm->links->next_number()};
  const std::size_t bytes = count * size_of(type);
  return put(comm, stream, {{from, bytes}, {to, bytes}}, [=](Links& links) {
    const auto own = part(from, bytes);
    const auto result = space(to, bytes);
    links.agree(name);
    Gathered all(links, bytes);
    links.exchange(Parts(static_cast<std::size_t>(links.size()), own), all.spaces);
    std::ranges::copy(own, all.spaces[static_cast<std::size_t>(links.rank())].begin());
    reduce(all.spaces, type, op, result);
  });
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const CallName name{reduce_scatter, type, op, 0, count, comm->links->next_number()};
  const std::size_t bytes = count * size_of(type);
  const std::size_t all_bytes = bytes * static_cast<std::size_t>(comm->links->size());
  return put(comm, stream, {{from, all_bytes}, {to, bytes}}, [=](Links& links) {
    const auto own = static_cast<std::size_t>(links.rank());
    const auto whole = part(from, all_bytes);
    const auto result = space(to, bytes);
    links.agree(name);
    Parts parts;
    for (int m = 0; m < links.size(); ++m)
      parts.push_back(whole.subspan(static_cast<std::size_t>(m) * bytes, bytes));
    Gathered all(links, bytes);
    links.exchange(parts, all.spaces);
    std::ranges::copy(parts[own], all.spaces[own].begin());
    reduce(all.spaces, type, op, result);
  });
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const CallName name{all_gather, type, 0, 0, count, comm->links->next_number()};
  const std::size_t bytes = count * size_of(type);
  const std::size_t all_bytes = bytes * static_cast<std::size_t>(comm->links->size());
  return put(comm, stream, {{from, bytes}, {to, all_bytes}}, [=](Links& links) {
    const auto own = static_cast<std::size_t>(links.rank());
    const auto mine = part(from, bytes);
    const auto whole = space(to, all_bytes);
    links.agree(name);
    Spaces spaces;
    for (int m = 0; m < links.size(); ++m)
      spaces.push_back(whole.subspan(static_cast<std::size_t>(m) * bytes, bytes));
    links.exchange(Parts(spaces.size(), mine), spaces);
    if (bytes > 0) std::memmove(spaces[own].data(), mine.data(), bytes);
  });
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  const CallName name{broadcast, type, 0, root, count, comm->links->next_number()};
  const std::size_t bytes = count * size_of(type);
  const void* const own = comm->links->rank() == root ? from : to;
  return put(comm, stream, {{own, bytes}}, [=](Links& links) {
    links.agree(name);
    Parts parts(static_cast<std::size_t>(links.size()));
    Spaces spaces(parts.size());
    if (links.rank() == root)
      parts.assign(parts.size(), part(from, bytes));
    else
      spaces[static_cast<std::size_t>(root)] = space(to, bytes);
    links.exchange(parts, spaces);
    if (links.rank() == root && from != to && bytes > 0) std::memcpy(to, from, bytes);
  });
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  const CallName name{transfer, type, 0, 0, count, comm->links->next_number()};
  const std::size_t bytes = count * size_of(type);
  return put(comm, stream, {{from, bytes}},
             [=](Links& links) { links.send(peer, name, part(from, bytes)); });
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const CallName name{transfer, type, 0, 0, count, comm->links->next_number()};
  const std::size_t bytes = count * size_of(type);
  return put(comm, stream, {{to, bytes}},
             [=](Links& links) { links.receive(peer, name, space(to, bytes)); });
}
