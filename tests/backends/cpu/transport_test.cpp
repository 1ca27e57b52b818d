#include "backends/cpu/transport.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "backends/cpu/collectives.h"
#include "backends/cpu/exchange.h"
#include "backends/cpu/transfers.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint8_t kChannel = 3;

// Ranks of a data or a pipeline axis, as threads; each does `work` and leaves the text of what
// stopped it.
class RankThreads {
 public:
  RankThreads(Axis axis, std::int32_t ranks, TransportOptions options = {}) : options_(options) {
    std::array<std::int32_t, kAxes> sizes{1, 1, 1, 1, 1};
    sizes[static_cast<std::size_t>(axis)] = ranks;
    mesh_ = Mesh(sizes, {Axis::tensor, Axis::context, Axis::expert, Axis::data, Axis::pipeline});
  }

  std::vector<std::string> run(const std::function<void(Transport&)>& work) {
    std::vector<std::string> ends(static_cast<std::size_t>(mesh_.size()));
    std::vector<std::thread> threads;
    for (std::int32_t r = 0; r < mesh_.size(); ++r)
      threads.emplace_back([&, r] { ends[static_cast<std::size_t>(r)] = rank(r, work); });
    for (std::thread& thread : threads) thread.join();
    return ends;
  }
  std::string folder() const { return folder_.path().string(); }

 private:
  std::string rank(std::int32_t r, const std::function<void(Transport&)>& work) {
    const auto store = open_store("file:" + folder(), "run");
    Transport transport(RankId(r), options_);
    std::string end;
    try {
      transport.connect(mesh_, store.get());
      work(transport);
    } catch (const PeerError& error) {
      end = error.what();
    }
    transport.close();
    return end;
  }

  TemporaryFolder folder_;
  TransportOptions options_;
  Mesh mesh_;
};

void open_world(Transport& transport) { transport.open(transport.links(Group::world, kChannel)); }

template <class T>
Matrix matrix(std::vector<T>& values, DType dtype = DType::fp32) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {values.data(), 1, size, size, dtype};
}

// Sums differ with their order: (1e8 + 1) - 1e8 is 0 in fp32, (1e8 - 1e8) + 1 is 1.
std::vector<float> terms(std::int64_t rank, std::size_t size) {
  constexpr std::array kTerms{1e8F, 1.0F, -1e8F, 3.0F};
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i)
    values[i] = kTerms[static_cast<std::size_t>(rank) % 4] + static_cast<float>(i % 7);
  return values;
}

std::vector<float> sums_in_member_order(std::int64_t ranks, std::size_t size) {
  std::vector<float> sums = terms(0, size);
  for (std::int64_t r = 1; r < ranks; ++r) {
    const std::vector<float> next = terms(r, size);
    for (std::size_t i = 0; i < size; ++i) sums[i] += next[i];
  }
  return sums;
}

void expect_sums(const TransportOptions& options, std::int32_t ranks) {
  RankThreads world(Axis::data, ranks, options);
  const auto ends = world.run([&](Transport& transport) {
    open_world(transport);
    Collectives collectives(transport, kChannel);
    for (const std::size_t size : {1UL, 1000UL, 5001UL, 300'003UL}) {  // one exchange, or two
      std::vector<float> values = terms(index(transport.rank()), size);
      collectives.all_reduce(Group::data, matrix(values), Reduction::sum, {});
      EXPECT_EQ(values, sums_in_member_order(ranks, size));
    }
  });
  EXPECT_THAT(ends, Each(""));
}

TEST(ThreadTransport, SumsAreTakenInMemberOrderOnOneHost) { expect_sums({}, 4); }

TEST(ThreadTransport, SumsAreTakenInMemberOrderOverANetwork) {
  expect_sums({milliseconds(20'000), false, "lo"}, 3);
}

TEST(ThreadTransport, MessagesBeyondAllBuffersPassEachOther) {
  RankThreads world(Axis::data, 3);
  const auto ends = world.run([](Transport& transport) {
    open_world(transport);
    constexpr std::size_t kBytes = 8 << 20;
    const auto own = static_cast<std::size_t>(index(transport.rank()));
    std::vector<std::vector<std::byte>> from(3, std::vector<std::byte>(kBytes));
    const std::vector<std::byte> mine(kBytes, std::byte(own));
    Exchange exchange(transport, expect_same_call);
    for (const Link& link : transport.links(Group::data, kChannel)) {
      exchange.send(link, {}, mine);
      exchange.receive(link, {}, from[static_cast<std::size_t>(index(link.peer))]);
    }
    exchange.wait();
    from[own] = mine;
    for (std::size_t r = 0; r < 3; ++r)
      EXPECT_TRUE(from[r] == std::vector<std::byte>(kBytes, std::byte(r)));
  });
  EXPECT_THAT(ends, Each(""));
}

// Rank 0 asks for `first`, rank 1 for `second`, each given the others' channel.
std::vector<std::string> differing(const std::function<void(Collectives&)>& first,
                                   const std::function<void(Collectives&)>& second) {
  RankThreads world(Axis::data, 2);
  return world.run([&](Transport& transport) {
    open_world(transport);
    Collectives collectives(transport, kChannel);
    (index(transport.rank()) == 0 ? first : second)(collectives);
  });
}

std::function<void(Collectives&)> all_reduce(std::size_t elements, DType dtype, std::uint32_t instr,
                                             Reduction reduction = Reduction::sum) {
  return [=](Collectives& collectives) {
    std::vector<std::byte> values(elements * static_cast<std::size_t>(size_of(dtype)));
    const auto columns = static_cast<std::int64_t>(elements);
    CallHeader call;
    call.instr = instr;
    collectives.all_reduce(Group::data, {values.data(), 1, columns, columns, dtype}, reduction,
                           call);
  };
}

// One of two ranks names both sides; the other may only see that the first has gone.
void expect_named(const std::vector<std::string>& ends, const std::string& first,
                  const std::string& second) {
  const auto names_both = [&](const std::string& end) {
    return end.find("the ranks' calls differ: rank ") == 0 &&
           end.find("rank 0 is in " + first) != std::string::npos &&
           end.find("rank 1 is in " + second) != std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(ends, names_both)) << ends[0] << "\n" << ends[1];
}

TEST(ThreadTransport, CallsOfDifferentSizeAreNamedOnBothSides) {
  expect_named(
      differing(all_reduce(256, DType::fp32, 17), all_reduce(100'000, DType::fp32, 18)),
      "all_reduce of 1024 bytes of fp32 (sum) over data, call 0, instruction 17 of step 0",
      "all_reduce of 400000 bytes of fp32 (sum) over data, call 0, instruction 18 of step 0");
}

TEST(ThreadTransport, CallsOfDifferentTypeOrReductionAreNamedOnBothSides) {
  expect_named(differing(all_reduce(256, DType::fp32, 1), all_reduce(512, DType::bf16, 1)),
               "all_reduce of 1024 bytes of fp32", "all_reduce of 1024 bytes of bf16");
  expect_named(
      differing(all_reduce(256, DType::fp32, 1), all_reduce(256, DType::fp32, 1, Reduction::max)),
      "all_reduce of 1024 bytes of fp32 (sum)", "all_reduce of 1024 bytes of fp32 (max)");
}

TEST(ThreadTransport, CallsOfDifferentKindAreNamedOnBothSides) {
  const auto gather = [](Collectives& collectives) {
    std::vector<float> shard(128), full(256);
    const std::array operands{matrix(shard), matrix(full)};
    Instr instr;
    instr.op = Op::all_gather;
    instr.group = Group::data;
    instr.bytes = {1024};
    collectives.run(instr, operands, {});
  };
  expect_named(differing(all_reduce(256, DType::fp32, 5), gather), "all_reduce of 1024 bytes",
               "all_gather of 1024 bytes of fp32 over data");
}

// Rank 0 sends forward what rank 1 receives.
std::vector<std::string> sent_forward(std::int64_t sent, std::uint32_t sent_tag,
                                      std::int64_t received, std::uint32_t received_tag) {
  RankThreads stages(Axis::pipeline, 2);
  return stages.run([&](Transport& transport) {
    const bool sends = index(transport.rank()) == 0;
    Instr instr;
    instr.op = sends ? Op::send : Op::recv;
    instr.group = Group::pipeline;
    instr.peer = sends ? 1 : -1;
    instr.what = sends ? sent_tag : received_tag;
    instr.bytes = {4 * (sends ? sent : received)};
    std::vector<float> values(static_cast<std::size_t>(sends ? sent : received), sends ? 7.0F : 0);
    const std::array links{transfer_link(transport, instr)};
    transport.open(links);
    const std::array ends{TransferEnd{&instr, matrix(values), {}}};
    transfer(transport, ends);
    EXPECT_THAT(values, Each(7.0F));
  });
}

TEST(ThreadTransport, TransfersArriveOrNameBothEnds) {
  EXPECT_THAT(sent_forward(1000, 4, 1000, 4), Each(""));
  EXPECT_THAT(sent_forward(1000, 4, 1000, 5)[1],
              AllOf(HasSubstr("rank 1 is in recv of 4000 bytes of fp32 over pipeline, tag 5"),
                    HasSubstr("rank 0 is in send of 4000 bytes of fp32 over pipeline, tag 4")));
  EXPECT_THAT(sent_forward(1000, 4, 2000, 4)[1],
              AllOf(HasSubstr("recv of 8000 bytes"), HasSubstr("send of 4000 bytes")));
}

TEST(ThreadTransport, ARankThatDoesNotConnectIsNamed) {
  RankThreads world(Axis::data, 3, {milliseconds(200), true, ""});
  const auto ends = world.run([](Transport& transport) {
    if (index(transport.rank()) == 0) return std::this_thread::sleep_for(milliseconds(400));
    open_world(transport);
  });
  EXPECT_THAT(ends, ElementsAre("", "rank 0 did not connect within 0.2 s",
                                "rank 0 did not connect within 0.2 s"));
}

TEST(ThreadTransport, ASilentRankIsNamed) {
  RankThreads world(Axis::data, 3, {milliseconds(200), true, ""});
  const auto ends = world.run([](Transport& transport) {
    open_world(transport);
    if (index(transport.rank()) == 1) return std::this_thread::sleep_for(milliseconds(400));
    std::array<double, 1> value{1};
    Collectives(transport, kChannel).sum(Group::world, value, {});
  });
  EXPECT_THAT(ends, ElementsAre("rank 1 did not answer within 0.2 s", "",
                                "rank 1 did not answer within 0.2 s"));
}

TEST(ThreadTransport, ClosingWakesWhoeverWaitsHereAndThere) {
  RankThreads world(Axis::data, 2);
  const auto ends = world.run([](Transport& transport) {
    open_world(transport);
    std::thread closer;
    if (index(transport.rank()) == 0)
      closer = std::thread([&] {
        std::this_thread::sleep_for(milliseconds(50));
        transport.close();
      });
    CallHeader header;
    Exchange exchange(transport, expect_same_call);
    exchange.receive(transport.links(Group::world, kChannel)[0], header, {});
    try {
      exchange.wait();
    } catch (...) {
      if (closer.joinable()) closer.join();
      throw;
    }
  });
  EXPECT_THAT(ends, ElementsAre("rank 1 closed the connection", "rank 0 closed the connection"));
}

TEST(ThreadTransport, StrangersAreNotTakenForRanks) {
  RankThreads world(Axis::data, 2, {milliseconds(20'000), false, "lo"});
  const auto ends = world.run([&](Transport& transport) {
    const SteadyTime soon = SteadyTime::clock::now() + milliseconds(10'000);
    if (index(transport.rank()) == 0) {
      const auto store = open_store("file:" + world.folder(), "run");
      const std::array keys{std::string("address/1")};
      const Socket stranger = connect_to(wait_for(*store, keys, milliseconds(10'000))[0], soon);
      const std::string hello(200, 'x');
      EXPECT_TRUE(write_whole(stranger, hello.data(), hello.size(), soon));
    }
    open_world(transport);
    std::array<double, 1> value{1};
    Collectives(transport, kChannel).sum(Group::world, value, {});
    EXPECT_EQ(value[0], 2);
  });
  EXPECT_THAT(ends, Each(""));
}

TEST(Transport, RefusesAnInterfaceThatIsNotThere) {
  EXPECT_EQ(config_error_of([] { listen_on_network("nowhere0"); }),
            "network interface nowhere0 cannot be used: there is no such interface");
}

}  // namespace
}  // namespace trainyard
