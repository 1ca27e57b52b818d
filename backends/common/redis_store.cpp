#include <fmt/core.h>
#include <hiredis/hiredis.h>
#include <sys/time.h>

#include <cerrno>
#include <charconv>

#include "backends/common/patience.h"
#include "backends/common/store_kinds.h"
#include "core/error.h"

namespace trainyard {
namespace {

struct FreeContext {
  void operator()(redisContext* context) const { ::redisFree(context); }
};
struct FreeReply {
  void operator()(redisReply* reply) const { ::freeReplyObject(reply); }
};
using Context = std::unique_ptr<redisContext, FreeContext>;
using Reply = std::unique_ptr<redisReply, FreeReply>;

constexpr int kDefaultPort = 6379;
constexpr const char* kKeepSeconds = "604800";  // a week: nobody clears what dead runs left

struct Address {
  std::string host;
  int port = kDefaultPort;
};

// "//host", "//host:port", "//[IPv6]:port".
Address parse(std::string_view place) {
  const auto refuse = [&](const char* why) {
    throw ConfigError(fmt::format("store \"redis:{}\": {}; valid: redis://host:port", place, why));
  };
  if (!place.starts_with("//")) refuse("has no // before its host");
  const std::string_view rest = place.substr(2);
  const bool bracket = rest.starts_with('[');
  const std::size_t end = bracket ? rest.find(']') : rest.find(':');
  if (bracket && end == std::string_view::npos) refuse("has no ] after its host");
  Address address{std::string(rest.substr(bracket ? 1 : 0, end - (bracket ? 1 : 0)))};
  if (address.host.empty()) refuse("names no host");
  std::string_view port = end == std::string_view::npos ? "" : rest.substr(end + (bracket ? 1 : 0));
  if (port.empty()) return address;
  port.remove_prefix(1);
  const auto [stop, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || stop != port.data() + port.size() || address.port < 1 ||
      address.port > 65535)
    refuse("its port is not a number from 1 to 65535");
  return address;
}

class RedisStore final : public Store {
 public:
  RedisStore(std::string_view place, std::string_view run_id, std::chrono::milliseconds patience)
      : name_(fmt::format("store redis:{}", place)),
        address_(parse(place)),
        patience_(patience),
        prefix_(fmt::format("trainyard/{}/", escaped(run_id))) {
    try {
      connect();
      command("PING");
    } catch (const StoreError& error) {
      throw ConfigError(error.what());
    }
  }

  void set(std::string_view key, std::string_view value) override {
    const std::string full = prefix_ + std::string(key);
    command("SET %b %b EX %s", full.data(), full.size(), value.data(), value.size(), kKeepSeconds);
  }

  std::optional<std::string> get(std::string_view key) override {
    const std::string full = prefix_ + std::string(key);
    const Reply reply = command("GET %b", full.data(), full.size());
    if (reply->type == REDIS_REPLY_NIL) return std::nullopt;
    return std::string(reply->str, static_cast<std::size_t>(reply->len));
  }

 private:
  void connect() {
    const timeval patience{patience_.count() / 1000, patience_.count() % 1000 * 1000};
    context_.reset(::redisConnectWithTimeout(address_.host.c_str(), address_.port, patience));
    if (!context_) throw StoreError(name_ + ": cannot be reached: no memory");
    if (context_->err != 0) fail("cannot be reached", context_->errstr);
    ::redisSetTimeout(context_.get(), patience);
  }

  // Both commands may be sent twice, so a connection that broke between two calls is made again.
  template <class... Args>
  Reply command(const char* format, Args... args) {
    Reply reply(static_cast<redisReply*>(::redisCommand(context_.get(), format, args...)));
    if (!reply && !is_silent()) {
      connect();
      reply.reset(static_cast<redisReply*>(::redisCommand(context_.get(), format, args...)));
    }
    if (!reply) fail_without_reply();
    if (reply->type == REDIS_REPLY_ERROR) fail("refuses", reply->str);
    return reply;
  }

  // After a command without reply: hiredis passes on what the system calls a time that is over.
  bool is_silent() const { return context_->err == REDIS_ERR_IO && errno == EAGAIN; }

  [[noreturn]] void fail_without_reply() const {
    if (is_silent())
      throw StoreError(
          fmt::format("{}: did not answer within {:g} s", name_, in_seconds(patience_)));
    const bool other_service = context_->err == REDIS_ERR_PROTOCOL;
    fail(other_service ? "is no Redis server" : "does not answer", context_->errstr);
  }

  [[noreturn]] void fail(const char* what, const char* why) const {
    throw StoreError(fmt::format("{}: {}: {}", name_, what, why));
  }

  std::string name_;
  Address address_;
  std::chrono::milliseconds patience_;
  std::string prefix_;
  Context context_;
};

}  // namespace

std::unique_ptr<Store> open_redis_store(std::string_view place, std::string_view run_id,
                                        std::chrono::milliseconds patience) {
  return std::make_unique<RedisStore>(place, run_id, patience);
}

}  // namespace trainyard
