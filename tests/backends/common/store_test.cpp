#include "backends/common/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/backends/common/redis_server.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// All bytes, a zero among them.
std::string all_bytes() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  return bytes;
}

void expect_a_store(const std::string& address) {
  const auto store = open_store(address, "run 7/a"), same = open_store(address, "run 7/a");
  EXPECT_EQ(store->get("key"), std::nullopt);
  store->set("key", "one");
  store->set("key", "two");
  EXPECT_EQ(same->get("key"), "two");
  store->set("empty", "");
  EXPECT_EQ(same->get("empty"), "");
  const std::string bytes = all_bytes();
  store->set(bytes.substr(0, 64), bytes);
  EXPECT_EQ(same->get(bytes.substr(0, 64)), bytes);
  EXPECT_EQ(same->get(bytes.substr(0, 63)), std::nullopt);
  EXPECT_EQ(open_store(address, "run 7/b")->get("key"), std::nullopt);
  EXPECT_EQ(open_store(address, "run 7%2Fa")->get("key"), std::nullopt);
}

// Readers meet a key that is rewritten all the time.
void expect_whole_values(const std::string& address) {
  const std::string a(5000, 'a'), b(7000, 'b');
  open_store(address, "race")->set("key", a);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    const auto store = open_store(address, "race");
    for (int i = 0; i < 500; ++i) store->set("key", i % 2 == 0 ? b : a);
    done = true;
  });
  const auto store = open_store(address, "race");
  int wrong = 0;
  while (!done) {
    const auto value = store->get("key");
    wrong += value != a && value != b ? 1 : 0;
  }
  writer.join();
  EXPECT_EQ(wrong, 0);
}

std::string file_address(const TemporaryFolder& folder) {
  return "file:" + (folder / "store/below").string();
}

TEST(FileStore, KeepsAnyBytesApartByRun) {
  const TemporaryFolder folder;
  expect_a_store(file_address(folder));
}

TEST(FileStore, AValueIsNeverReadInHalf) {
  const TemporaryFolder folder;
  expect_whole_values(file_address(folder));
}

TEST(FileStore, LeavesNoPartsBehind) {
  const TemporaryFolder folder;
  const auto store = open_store("file:" + folder.path().string(), "r");
  store->set("a", "1");
  store->set("a", "2");
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "r"))
    names.push_back(entry.path().filename());
  EXPECT_THAT(names, ElementsAre("key-a"));
}

TEST(FileStore, AFolderThatCannotBeMadeIsNamedWithTheReason) {
  const TemporaryFolder folder;
  const std::string file = write_file(folder / "file", "");
  EXPECT_THAT(config_error_of([&] { open_store("file:" + file + "/x", "r"); }),
              AllOf(HasSubstr("file:" + file + "/x/r"), HasSubstr("Not a directory")));
  EXPECT_THAT(config_error_of([] { open_store("file:/proc/none", "r"); }),
              HasSubstr("store file:/proc/none/r: cannot be made: "));
}

TEST(FileStore, AFolderThatTakesNoFilesIsNamedWithTheReason) {
  // Nobody, root included, makes a file there.
  EXPECT_THAT(config_error_of([] { open_store("file:/proc", "self"); }),
              HasSubstr("store file:/proc/self: cannot be written: "));
}

TEST(FileStore, AFolderThatVanishesIsAnErrorOfTheRun) {
  const TemporaryFolder folder;
  const auto store = open_store(file_address(folder), "r");
  std::filesystem::remove_all(folder / "store");
  EXPECT_THROW(store->set("key", "value"), StoreError);
}

TEST(StoreAddress, AnUnknownSchemeIsToldTheValidOnes) {
  for (const char* address : {"etcd://host:1", "host:6379", "file", ""})
    EXPECT_THAT(config_error_of([&] { open_store(address, "r"); }),
                AllOf(HasSubstr(std::string("\"") + address + "\""), HasSubstr("file:/some/dir"),
                      HasSubstr("redis://host:port")));
}

TEST(StoreAddress, ABrokenRedisAddressSaysWhatIsWrong) {
  const auto error = [](const std::string& address) {
    return config_error_of([&] { open_store(address, "r"); });
  };
  EXPECT_THAT(error("redis:host"), HasSubstr("has no //"));
  EXPECT_THAT(error("redis://"), HasSubstr("names no host"));
  EXPECT_THAT(error("redis://:6379"), HasSubstr("names no host"));
  EXPECT_THAT(error("redis://[::1"), HasSubstr("has no ]"));
  for (const char* port : {"", "0", "65536", "63x", "-1", " 1"})
    EXPECT_THAT(error(std::string("redis://localhost:") + port),
                HasSubstr("its port is not a number from 1 to 65535"))
        << port;
}

TEST(StoreWait, ReturnsTheValuesInTheOrderOfTheKeys) {
  const TemporaryFolder folder;
  const auto store = open_store(file_address(folder), "r");
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(30));
    open_store(file_address(folder), "r")->set("b", "2");
  });
  store->set("c", "3");
  store->set("a", "1");
  const std::vector<std::string> keys{"c", "b", "a"};
  EXPECT_THAT(wait_for(*store, keys, milliseconds(10'000)), ElementsAre("3", "2", "1"));
  late.join();
}

TEST(StoreWait, ListsAllMissingKeysWhenTimeIsUp) {
  const TemporaryFolder folder;
  const auto store = open_store(file_address(folder), "r");
  store->set("address/1", "here");
  const std::vector<std::string> keys{"address/0", "address/1", "address/2"};
  try {
    wait_for(*store, keys, milliseconds(20));
    FAIL() << "no StoreTimeout";
  } catch (const StoreTimeout& error) {
    EXPECT_STREQ(error.what(), "not set within 0.02 s: address/0, address/2");
    EXPECT_THAT(error.missing(), ElementsAre("address/0", "address/2"));
  }
}

class RedisStore : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!server_.installed()) GTEST_SKIP() << "redis-server is not installed";
    ASSERT_TRUE(server_.answers());
  }
  RedisServer server_;
};

TEST_F(RedisStore, KeepsAnyBytesApartByRun) { expect_a_store(server_.address()); }

TEST_F(RedisStore, AValueIsNeverReadInHalf) { expect_whole_values(server_.address()); }

TEST_F(RedisStore, AServerThatCameBackIsFoundAgain) {
  const auto store = open_store(server_.address(), "r");
  store->set("key", "value");
  server_.stop();
  EXPECT_THROW(store->get("key"), StoreError);
  server_.start();
  ASSERT_TRUE(server_.answers());
  EXPECT_EQ(store->get("key"), std::nullopt);
}

TEST_F(RedisStore, AServerThatIsNotThereIsNamedWithTheReason) {
  server_.stop();
  EXPECT_EQ(config_error_of([&] { open_store(server_.address(), "r"); }),
            "store " + server_.address() + ": cannot be reached: Connection refused");
}

}  // namespace
}  // namespace trainyard
