#include "backends/common/launch/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::string_view kOwnName = "trainyard: ";

bool same_file(int a, int b) {
  struct stat first, second;
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

int opened(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return fd;
}

}  // namespace

Supervisor::Supervisor(const LaunchOptions& options) : options_(options) {
  queues_.emplace_back(STDERR_FILENO);
  if (options.rank0_stdout_plain || !same_file(STDOUT_FILENO, STDERR_FILENO))
    queues_.emplace_back(STDOUT_FILENO);
  const sigset_t ending = ending_signals();
  signal_fd_ = opened(signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd");
  ends_fd_ = opened(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  sigprocmask(SIG_BLOCK, &ending, &former_mask_);
}

Supervisor::~Supervisor() {
  ranks_.clear();
  close(signal_fd_);
  close(ends_fd_);
  sigprocmask(SIG_SETMASK, &former_mask_, nullptr);
}

int Supervisor::run() {
  start();
  next_look_ = Clock::now();
  while (!all_ended() || !drained()) step();
  const int code = conclude();
  while (!drained()) step();
  return code;
}

void Supervisor::start() {
  WorkerPlace place{.world = options_.processes,
                    .local_world = options_.processes,
                    .store = options_.store,
                    .run_id = options_.run_id};
  for (std::int32_t rank = 0; rank < options_.processes; ++rank) {
    place.rank = place.local_rank = rank;
    Rank& started = ranks_.emplace_back();
    Environment variables = variables_of(place);
    variables.emplace(kSupervised, "1");
    started.process = std::make_unique<ChildProcess>(options_.command, variables, former_mask_);
    epoll_event event{.events = EPOLLIN, .data = {.u32 = static_cast<std::uint32_t>(rank)}};
    opened(epoll_ctl(ends_fd_, EPOLL_CTL_ADD, started.process->ended_fd(), &event), "epoll_ctl");
  }
}

void Supervisor::step() {
  std::vector<pollfd> events;
  wait_for_events(events);
  take_signals();
  take_ends();
  for (int rank = 0; rank < options_.processes; ++rank)
    for (const Source source : {kOut, kErr})
      if (!queue_of(rank, source).full()) read_output(rank, source);
  for (OutputQueue& queue : queues_)
    for (const pollfd& event : events)
      if (event.fd == queue.fd() && event.revents != 0) {
        if ((event.revents & POLLNVAL) != 0)
          queue.give_up();
        else
          queue.write_some();
      }
  if (all_ended()) return;
  look_for_stopped();
  advance_phase();
}

void Supervisor::wait_for_events(std::vector<pollfd>& events) {
  constexpr std::chrono::milliseconds kTick{200};  // for the clocks
  events = {{signal_fd_, POLLIN, 0}, {ends_fd_, POLLIN, 0}};
  for (int rank = 0; rank < options_.processes; ++rank)
    for (const Source source : {kOut, kErr})
      if (ranks_[static_cast<std::size_t>(rank)].open[source] && !queue_of(rank, source).full())
        events.push_back({fd_of(rank, source), POLLIN, 0});
  for (const OutputQueue& queue : queues_)
    if (!queue.empty()) events.push_back({queue.fd(), POLLOUT, 0});
  auto wait = kTick;
  if (phase_ == Phase::own_way || phase_ == Phase::terminated)
    wait = std::clamp(
        std::chrono::duration_cast<std::chrono::milliseconds>(phase_end_ - Clock::now()) +
            std::chrono::milliseconds(1),
        std::chrono::milliseconds(0), kTick);
  if (poll(events.data(), events.size(), static_cast<int>(wait.count())) <= 0) events.clear();
}

void Supervisor::take_signals() {
  signalfd_siginfo info{};
  while (read(signal_fd_, &info, sizeof info) == sizeof info) {
    if (interrupted_by_ != 0 || all_ended()) {  // a second one, or nobody reads the output: now
      phase_ = Phase::killed;
      signal_all(SIGKILL);
      impatient_ = true;
      continue;
    }
    interrupted_by_ = static_cast<int>(info.ssi_signo);
    signal_all(interrupted_by_);
    if (phase_ == Phase::running) {
      phase_ = Phase::own_way;
      phase_end_ = Clock::now() + options_.grace;
    }
  }
}

void Supervisor::take_ends() {
  // epoll hands out descriptors in the order in which they became ready: who ended first is first.
  std::array<epoll_event, 64> ended{};
  const int count = epoll_wait(ends_fd_, ended.data(), static_cast<int>(ended.size()), 0);
  for (int i = 0; i < count; ++i)
    end_rank(static_cast<int>(ended[static_cast<std::size_t>(i)].data.u32));
}

void Supervisor::end_rank(int rank) {
  Rank& ended = ranks_[static_cast<std::size_t>(rank)];
  epoll_ctl(ends_fd_, EPOLL_CTL_DEL, ended.process->ended_fd(), nullptr);
  ended.ending = ended.process->reap();
  for (const Source source : {kOut, kErr}) {
    while (read_output(rank, source)) continue;
    if (!is_plain(rank, source)) forward(rank, source, ended.cutters[source].rest());
    ended.open[source] = false;
  }
  const bool by_us = phase_ >= Phase::terminated || interrupted_by_ != 0;
  if (!ended.ending->failed() || by_us) return;
  failures_.push_back({rank, Clock::now(), stopped_ranks()});
  if (phase_ != Phase::running) return;
  phase_ = Phase::own_way;
  phase_end_ = Clock::now() + options_.grace;
}

bool Supervisor::read_output(int rank, Source source) {
  Rank& from = ranks_[static_cast<std::size_t>(rank)];
  if (!from.open[source]) return false;
  std::array<char, 64 << 10> bytes;
  const ssize_t count = read(fd_of(rank, source), bytes.data(), bytes.size());
  if (count < 0 && errno == EINTR) return true;
  if (count == 0) from.open[source] = false;
  if (count <= 0) return false;
  const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
  if (is_plain(rank, source))
    queue_of(rank, source).add(text);
  else
    forward(rank, source, from.cutters[source].feed(text));
  return true;
}

void Supervisor::forward(int rank, Source source, std::vector<std::string> lines) {
  for (std::string& line : lines) {
    const bool news = source == kOut || repeated_.is_news(rank, line);
    if (news) queue_of(rank, source).add(fmt::format("[rank {}] {}\n", rank, line));
    if (!line.empty()) ranks_[static_cast<std::size_t>(rank)].last_line[source] = std::move(line);
  }
}

void Supervisor::look_for_stopped() {
  const auto now = Clock::now();
  if (now < next_look_) return;
  constexpr std::chrono::milliseconds kLooks{500};
  next_look_ = now + std::min(kLooks, options_.stopped_after / 2);
  for (int rank = 0; rank < options_.processes; ++rank) {
    Rank& r = ranks_[static_cast<std::size_t>(rank)];
    if (r.ending || !r.process->is_stopped()) {
      if (r.stop_reported && !r.ending) say(fmt::format("rank {} goes on", rank));
      r.stopped_since.reset();
      r.stop_reported = false;
      continue;
    }
    if (!r.stopped_since) r.stopped_since = now;
    if (r.stop_reported || now - *r.stopped_since < options_.stopped_after) continue;
    r.stop_reported = true;
    say(
        fmt::format("rank {} (process {}) has been stopped for {:g} s, by SIGSTOP or a debugger; "
                    "kill -CONT {} lets it go on",
                    rank, r.process->pid(),
                    static_cast<double>(options_.stopped_after.count()) / 1e3, r.process->pid()));
  }
}

void Supervisor::advance_phase() {
  if (phase_ == Phase::running || phase_ == Phase::killed) return;
  const bool first = phase_ == Phase::own_way;
  if (Clock::now() < phase_end_ && !(first && only_stopped_are_left())) return;
  phase_ = first ? Phase::terminated : Phase::killed;
  phase_end_ = Clock::now() + options_.grace;
  signal_all(first ? SIGTERM : SIGKILL);
  if (first) signal_all(SIGCONT);  // or those that are stopped would not notice
}

void Supervisor::signal_all(int signal) {
  for (const Rank& rank : ranks_)
    if (!rank.ending) rank.process->signal(signal);
}

void Supervisor::say(const std::string& line) {
  queues_.front().add(fmt::format("{}{}\n", kOwnName, line));
}

bool Supervisor::all_ended() const {
  return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.ending.has_value(); });
}

bool Supervisor::only_stopped_are_left() const {
  return std::ranges::all_of(
      ranks_, [](const Rank& rank) { return rank.ending || rank.process->is_stopped(); });
}

bool Supervisor::drained() const {
  return impatient_ || std::ranges::all_of(queues_, &OutputQueue::empty);
}

int Supervisor::fd_of(int rank, Source source) const {
  const ChildProcess& process = *ranks_[static_cast<std::size_t>(rank)].process;
  return source == kOut ? process.out_fd() : process.err_fd();
}

OutputQueue& Supervisor::queue_of(int rank, Source source) {
  const bool to_out = source == kOut && (!options_.rank0_stdout_plain || rank == 0);
  return to_out ? queues_.back() : queues_.front();
}

bool Supervisor::is_plain(int rank, Source source) const {
  return options_.rank0_stdout_plain && rank == 0 && source == kOut;
}

std::string Supervisor::stopped_ranks() const {
  std::vector<int> stopped;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    const Rank& r = ranks_[static_cast<std::size_t>(rank)];
    if (!r.ending && r.process->is_stopped()) stopped.push_back(rank);
  }
  return stopped.empty() ? "" : fmt::format("; stopped then: rank {}", fmt::join(stopped, ", "));
}

const Supervisor::Failure* Supervisor::first_failure() const {
  // A process killed from outside closes its connections shortly before it counts as ended, so a
  // peer that noticed can be seen to end first. abort() is what a peer may do itself.
  constexpr std::chrono::milliseconds kShortly{200};
  if (failures_.empty()) return nullptr;
  const auto killed = std::ranges::find_if(failures_, [this](const Failure& failure) {
    const int signal = ranks_[static_cast<std::size_t>(failure.rank)].ending->signal;
    return signal != 0 && signal != SIGABRT;
  });
  const auto cause = std::ranges::find_if(failures_, [this](const Failure& failure) {
    return ranks_[static_cast<std::size_t>(failure.rank)].ending->exit_code != kPeerGoneCode;
  });
  const Failure& first = cause != failures_.end() ? *cause : failures_.front();
  return killed != failures_.end() && killed->time - first.time < kShortly ? &*killed : &first;
}

int Supervisor::conclude() {
  constexpr int kDone = 0, kFailed = 1, kBadInput = 2;
  const Failure* first = first_failure();
  if (first == nullptr && interrupted_by_ == 0) return kDone;
  if (repeated_.repeated() > 0)
    say(fmt::format("left out {} lines of standard error that another rank had printed already",
                    repeated_.repeated()));
  if (first == nullptr) {
    say("the run was ended by " + signal_text(interrupted_by_));
    return kFailed;
  }
  const Rank& rank = ranks_[static_cast<std::size_t>(first->rank)];
  const bool refused = rank.ending->signal == 0 && rank.ending->exit_code == kBadInput;
  std::string_view last = rank.last_line[rank.last_line[kErr].empty() ? kOut : kErr];
  if (last.starts_with(kOwnName)) last.remove_prefix(kOwnName.size());  // this line has it already
  const bool tell_last = rank.ending->signal == 0 && !refused && !last.empty();
  say(fmt::format("rank {} {}{}{}", first->rank, rank.ending->text(),
                  tell_last ? fmt::format("; its last line: {}", last) : "", first->stopped));
  return refused ? kBadInput : kFailed;
}

}  // namespace trainyard
