#include "backends/common/session.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "backends/common/rendezvous.h"
#include "tests/backends/common/redis_server.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using std::chrono::milliseconds;

using ::testing::ElementsAre;

constexpr milliseconds kLong{20'000};

WorkerPlace place_of(const std::string& address, int rank, int world) {
  WorkerPlace place;
  place.rank = rank;
  place.world = world;
  place.store = address;
  place.run_id = "job-7";
  return place;
}

// Ranks 0 to world-1 meet, each in a thread, and return what rank 0 left for each.
std::vector<std::string> greetings(const std::string& address, int world, const std::string& text) {
  std::vector<std::string> heard(static_cast<std::size_t>(world));
  std::vector<std::thread> ranks;
  for (int rank = world - 1; rank >= 0; --rank)
    ranks.emplace_back([&, rank] {
      const auto store = open_session(place_of(address, rank, world), kLong);
      if (rank == 0) store->set("greeting", text);
      const std::vector<std::string> keys{"greeting"};
      heard[static_cast<std::size_t>(rank)] = wait_for(*store, keys, kLong)[0];
    });
  for (std::thread& rank : ranks) rank.join();
  return heard;
}

// Every rank that does not come, as the others are told.
std::set<std::string> told(const std::string& address, int world, const std::vector<int>& present) {
  std::set<std::string> texts;
  std::mutex mutex;
  std::vector<std::thread> ranks;
  for (const int rank : present)
    ranks.emplace_back([&, rank] {
      try {
        open_session(place_of(address, rank, world), milliseconds(rank == 0 ? 500 : 1500));
      } catch (const StoreTimeout& late) {
        const std::lock_guard lock(mutex);
        texts.insert(fmt::format("{}", fmt::join(late.missing(), ", ")));
      }
    });
  for (std::thread& rank : ranks) rank.join();
  return texts;
}

TEST(Session, OneRankMeetsNobody) {
  const TemporaryFolder folder;
  EXPECT_THAT(greetings("file:" + folder.path().string(), 1, "hi"), ElementsAre("hi"));
}

TEST(Session, AllRanksShareOnePartOfTheStore) {
  const TemporaryFolder folder;
  EXPECT_EQ(greetings("file:" + folder.path().string(), 16, "hi"),
            std::vector<std::string>(16, "hi"));
}

TEST(Session, WhatAnEarlierRunLeftIsNotSeen) {
  const TemporaryFolder folder;
  const std::string address = "file:" + folder.path().string();
  for (const std::string text : {"first", "second", "third"})
    EXPECT_EQ(greetings(address, 4, text), std::vector<std::string>(4, text));
}

TEST(Session, RanksThatDoNotComeAreNamedByAllOthers) {
  const TemporaryFolder folder;
  EXPECT_THAT(told("file:" + folder.path().string(), 5, {0, 2, 4}), ElementsAre("rank 1, rank 3"));
}

TEST(Session, RankZeroIsNamedWhenItDoesNotCome) {
  const TemporaryFolder folder;
  EXPECT_THAT(told("file:" + folder.path().string(), 3, {1, 2}), ElementsAre("rank 0"));
}

TEST(Session, RanksOfAKilledRunDoNotStandInForTheNext) {
  const TemporaryFolder folder;
  const std::string address = "file:" + folder.path().string();
  greetings(address, 3, "hi");
  EXPECT_THAT(told(address, 3, {0, 1}), ElementsAre("rank 2"));
  EXPECT_THAT(told(address, 3, {1, 2}), ElementsAre("rank 0"));
}

TEST(Session, TheErrorNamesRunAndAddress) {
  const TemporaryFolder folder;
  const std::string address = "file:" + folder.path().string();
  try {
    open_session(place_of(address, 1, 2), milliseconds(10));
    FAIL() << "no StoreTimeout";
  } catch (const StoreTimeout& late) {
    EXPECT_EQ(late.what(),
              "run job-7 at store " + address + ": rank 0 of 2 did not come within 0.01 s");
  }
}

TEST(Rendezvous, RanksThatPlannedNothingAreNamed) {
  const TemporaryFolder folder;
  const auto store = open_store("file:" + folder.path().string(), "r");
  try {
    meet(*store, RankId(1), 3, {"host", "program", {}}, milliseconds(10));
    FAIL() << "no StoreTimeout";
  } catch (const StoreTimeout& late) {
    EXPECT_STREQ(late.what(), "rank 0, rank 2 of 3 came, but told of no program within 0.01 s");
  }
}

TEST(Session, RanksMeetByWayOfRedis) {
  const RedisServer server;
  if (!server.installed()) GTEST_SKIP() << "redis-server is not installed";
  ASSERT_TRUE(server.answers());
  for (const std::string text : {"first", "second"})
    EXPECT_EQ(greetings(server.address(), 8, text), std::vector<std::string>(8, text));
}

}  // namespace
}  // namespace trainyard
