// A process of a run that uses the link to rdmc_run directly. It joins the run, and then performs its
// arguments in their order:
//   print=TEXT   prints a line
//   died         waits for the death of another process, and prints its replica and the cause
//   launcher     waits until the link to rdmc_run has ended
//   finish=N     finishes, with N as the number of messages
//   abort=N      aborts the run with exit code N
//   close        ends the link without finishing
//   child        starts this program again, which must not get the key
//   exit=N       exits with code N
// The first argument can also be `refused`: then taking the key must fail.
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

#include "controlplane/launch/key_file.hpp"
#include "lib/replica/run_link.hpp"

namespace {

using namespace rdmc;
using namespace rdmc::replica;

constexpr Duration kPatience = seconds(60);

[[noreturn]] void fail_with(const Error& error) {
  std::fprintf(stderr, "%s\n", error.what.c_str());
  ::_exit(99);
}

/// The events of the link, for which the main thread can wait.
class Events {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    has_news_ = true;
    changed_.notify_one();
  }
  template <typename Wanted>
  Wanted wait_for(RunLink& link) {
    for (;;) {
      for (LinkEvent& event : link.take_events()) waiting_.push_back(std::move(event));
      while (!waiting_.empty()) {
        const LinkEvent event = std::move(waiting_.front());
        waiting_.pop_front();
        if (const auto* const wanted = std::get_if<Wanted>(&event.what)) return *wanted;
      }
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return has_news_; });
      has_news_ = false;
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_news_ = false;
  std::deque<LinkEvent> waiting_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto assignment = assignment_of(control::environment());
  if (!assignment) fail_with(assignment.error());
  if (!*assignment) fail_with({Errc::not_found, "rdmc_run has not started this process"});
  const auto key = take_key((*assignment)->key_descriptor);
  if (argc > 1 && std::string_view(argv[1]) == "refused") return key ? 1 : 0;
  if (!key) fail_with(key.error());
  peer::Context context;
  Events events;
  auto link = RunLink::open(**assignment, *key, context, [&] { events.ring(); });
  if (!link) fail_with(link.error());
  const auto port = static_cast<std::uint16_t>(1000 + value_of((*assignment)->process()));
  if (const auto started = (*link)->join(Address::ipv4(127, 0, 0, 1, port), kPatience); !started)
    fail_with(started.error());
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], value = word.substr(std::min(word.find('='), word.size() - 1) + 1);
    if (word.starts_with("print=")) std::printf("%s\n", value.c_str());
    if (word == "died") {
      const Died died = events.wait_for<Died>(**link);
      std::printf("%s: %s\n", to_string((*assignment)->layout.replica(died.process)).c_str(),
                  died.cause.c_str());
    }
    if (word == "launcher") events.wait_for<LauncherLost>(**link);
    if (word.starts_with("finish="))
      if (const auto done = (*link)->finish({.messages = std::stoull(value)}, kPatience); !done)
        fail_with(done.error());
    if (word.starts_with("abort=")) (*link)->abort(std::stoi(value), kPatience);
    if (word == "close") link->reset();
    if (word == "child" && std::system((std::string(argv[0]) + " refused").c_str()) != 0)
      fail_with({Errc::invalid_argument, "a program of this process has got the key"});
    std::fflush(stdout);
    if (word.starts_with("exit=")) ::_exit(std::stoi(value));
  }
  return 0;
}
