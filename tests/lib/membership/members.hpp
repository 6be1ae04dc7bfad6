// Members of a membership for tests. Each member has its own Context, as separate processes have. The members
// use a real node of the embedded store. A wait ends when its condition is true. Only a failing test reaches
// the time limit.
#pragma once

#include <spawn.h>
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lib/include/rdmc/membership.hpp"
#include "tests/lib/membership/one_store.hpp"

extern char** environ;

namespace rdmc::testing {

inline constexpr GroupNumber kNumber{7};

inline bool failed_with(const auto& result, Errc code) {
  return !result && result.error().code == code && !result.error().what.empty();
}

inline MembershipOptions options_for(const Address& store, const std::string& name) {
  return {.group = "g",
          .name = name,
          .store = {.nodes = {store}},
          .insecure = true,
          .fabric = "udp",
          .context = make_context()};
}

/// Protects the data that upcalls record on the library's threads. The test's thread can wait for this data.
class Told {
 public:
  template <typename Change>
  void tell(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <typename Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), condition);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// A part in a group. It gives each message its own memory, and records all upcalls.
class Part {
 public:
  Part(Membership& membership, const MemberGroupOptions& options = {})
      : self(membership.id()), group(membership.create_group(kNumber, options, callbacks()).value()) {}

  bool is_in(std::size_t count, MemberId root) {
    return told.wait([&] { return now.members.size() == count && now.root == root; });
  }
  /// Sends the message. Waits as long as send() returns would_block.
  std::uint64_t send(std::vector<std::byte> bytes) {
    const auto& kept = sent.emplace_back(std::move(bytes));
    for (;;) {
      const auto number = group->send(kept);
      if (number) return *number;
      BOOST_TEST_REQUIRE((number.error().code == Errc::would_block), number.error().what);
      const std::uint64_t seen = changes;
      told.wait([&] { return changes != seen || now.root == self; });
    }
  }
  bool has(std::uint64_t count) {
    return told.wait([&] { return delivered.size() + first >= count; });
  }
  /// Returns true if all messages since the member's join were delivered, without gaps.
  bool is_without_gaps() {
    bool without = true;
    told.tell([&] {
      std::uint64_t next = first;
      for (const auto& [number, bytes] : delivered) without = without && number == next++;
    });
    return without;
  }

  Told told;
  GroupView now;
  bool has_room = true;
  std::size_t refused = 0;  // the number of calls of incoming() that gave no memory
  std::uint64_t changes = 0, stable = 0, first = 0;
  std::map<std::uint64_t, std::vector<std::byte>> memory, delivered;
  std::map<MemberId, std::vector<std::vector<std::byte>>> notes;
  std::deque<std::vector<std::byte>> sent;
  std::optional<Error> ended;
  std::optional<Result<void>> closed;
  const MemberId self;
  std::unique_ptr<MemberGroup> group;

 private:
  MemberGroupCallbacks callbacks() {
    MemberGroupCallbacks on;
    on.incoming = [this](std::uint64_t message, std::uint64_t bytes) -> std::optional<std::span<std::byte>> {
      bool is_refused = false;
      told.tell([&] { refused += (is_refused = !has_room) ? 1U : 0U; });
      if (is_refused) return std::nullopt;
      auto& room = memory[message];
      room.resize(bytes);
      return std::span(room);
    };
    on.delivered = [this](std::uint64_t message, std::span<std::byte> bytes) {
      told.tell([&] { delivered[message].assign(bytes.begin(), bytes.end()); });
    };
    on.stable = [this](std::uint64_t count) { told.tell([&] { stable = count; }); };
    on.told = [this](MemberId from, std::span<const std::byte> note) {
      told.tell([&] { notes[from].emplace_back(note.begin(), note.end()); });
    };
    on.continued = [this](const GroupView& view) {
      told.tell([&] {
        // If some messages are missing, this member was the root at that time, or was not in the group.
        if (delivered.empty() || delivered.rbegin()->first + 1 < view.next)
          delivered.clear(), first = view.next;
        now = view;
        ++changes;
      });
    };
    on.ended = [this](const Error& cause) { told.tell([&] { ended = cause; }); };
    return on;
  }
};

/// A member whose upcalls are recorded. It acts as a separate process.
class Process {
 public:
  explicit Process(MembershipOptions options) : membership(Membership::join(options, callbacks()).value()) {}
  Process(const OneStore& store, const std::string& name, Duration lease = {})
      : Process([&] {
          MembershipOptions options = options_for(store.address(), name);
          options.lease = lease;
          return options;
        }()) {}

  MemberId id() const { return membership->id(); }
  bool sees(std::size_t count) {
    return told.wait([&] { return !views.empty() && views.back().members.size() == count; });
  }
  Part& make_part(const MemberGroupOptions& options = {}) {
    part = std::make_unique<Part>(*membership, options);
    return *part;
  }

  Told told;
  std::vector<View> views;
  std::vector<std::pair<MemberId, std::vector<std::byte>>> messages;
  std::optional<View> removed;
  Epoch leases_over{};
  int gained = 0, lost = 0, store_lost = 0, store_found = 0;
  std::optional<Error> node_ended;
  std::vector<UnreachableMember> unreachable;
  std::vector<MemberId> reachable;
  std::vector<Errc> refused;
  std::unique_ptr<Membership> membership;
  std::unique_ptr<Part> part;

 private:
  MembershipCallbacks callbacks() {
    MembershipCallbacks on;
    on.installed = [this](const View& view) { told.tell([&] { views.push_back(view); }); };
    on.removed = [this](const View& view) { told.tell([&] { removed = view; }); };
    on.delivered = [this](MemberId from, std::span<const std::byte> bytes) {
      told.tell([&] { messages.emplace_back(from, std::vector(bytes.begin(), bytes.end())); });
    };
    on.store_lost = [this](const Error&) { told.tell([&] { ++store_lost; }); };
    on.store_node_ended = [this](const Error& cause) { told.tell([&] { node_ended = cause; }); };
    on.store_found = [this] { told.tell([&] { ++store_found; }); };
    on.unreachable = [this](const UnreachableMember& link) {
      told.tell([&] { unreachable.push_back(link); });
    };
    on.reachable = [this](MemberId member) { told.tell([&] { reachable.push_back(member); }); };
    on.refused = [this](const Address&, const Error& cause) {
      told.tell([&] { refused.push_back(cause.code); });
    };
    on.earlier_leases_over = [this](Epoch epoch) { told.tell([&] { leases_over = epoch; }); };
    on.lease_gained = [this] { told.tell([&] { ++gained; }); };
    on.lease_lost = [this] { told.tell([&] { ++lost; }); };
    return on;
  }
};

/// A separate process with a member (see member_process.cpp). kill() kills it, or else the destructor does.
class KilledProcess {
 public:
  explicit KilledProcess(const OneStore& store, std::size_t first_members = 0) {
    std::vector<std::string> words{MEMBER_PROCESS, to_string(store.address()), std::to_string(first_members)};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    BOOST_TEST_REQUIRE(::posix_spawn(&process_, arguments[0], nullptr, nullptr, arguments.data(), environ) ==
                       0);
  }
  ~KilledProcess() { kill(); }
  KilledProcess(const KilledProcess&) = delete;
  KilledProcess& operator=(const KilledProcess&) = delete;

  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(std::exchange(process_, -1), nullptr, 0);
  }
  void stop() { ::kill(process_, SIGSTOP); }
  void go_on() { ::kill(process_, SIGCONT); }
  /// Waits until the process has `count` pidfds. It has a pidfd for each process whose exit it watches.
  /// Returns false if the number is still different after a minute.
  bool watches(std::size_t count) const {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (pidfds() != count && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return pidfds() == count;
  }

 private:
  std::size_t pidfds() const {
    std::size_t count = 0;
    std::error_code unreadable;
    for (const auto& one :
         std::filesystem::directory_iterator("/proc/" + std::to_string(process_) + "/fd", unreadable))
      count += std::filesystem::read_symlink(one, unreadable) == "anon_inode:[pidfd]" ? 1 : 0;
    return count;
  }

  pid_t process_ = -1;
};

}  // namespace rdmc::testing
