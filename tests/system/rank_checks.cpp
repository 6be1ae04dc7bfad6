// A rank program that tests the library from inside: `rdmc_run -n N -r 1 rank_checks SCENARIO [FILE]`. Every
// rank checks what it receives, and ends with exit status 1 after the first wrong result. Rank 0 prints
// "right".
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <rdmc/replica.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace rdmc::replica;
using rdmc::Errc;

Job* the_job = nullptr;

void require(bool is_right, const char* what) {
  if (is_right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::exit(1);
}

template <typename Value>
Value need(rdmc::Result<Value> result) {
  if (!result) std::fprintf(stderr, "error: %s\n", result.error().what.c_str());
  require(result.has_value(), "a call has failed");
  if constexpr (!std::is_void_v<Value>) return std::move(*result);
}

template <typename T>
std::span<std::byte> bytes_of(T&& values) {
  return std::as_writable_bytes(std::span(values));
}

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>((seed * 131 + i * 7) >> 3);
  return made;
}

constexpr std::size_t kSizes[] = {0, 1, 1000, 8192, 8193, 100'000, 5 << 20};

/// Every rank sends messages of all sizes to every rank, itself included. The receives are posted in part
/// before the sends, and in part after.
void exchange() {
  Communicator& world = the_job->world();
  for (const bool first : {true, false}) {
    std::vector<std::vector<std::byte>> sent, received;
    std::vector<Request> receives, sends;
    const auto post = [&] {
      for (int from = 0; from < world.size(); ++from)
        for (std::size_t i = 0; i < std::size(kSizes); ++i) {
          received.emplace_back(kSizes[i]);
          receives.push_back(need(world.irecv(received.back(), from, static_cast<int>(i))));
        }
    };
    if (first) post();
    for (int to = 0; to < world.size(); ++to)
      for (std::size_t i = 0; i < std::size(kSizes); ++i) {
        sent.push_back(pattern(kSizes[i], static_cast<std::uint64_t>(world.rank() * 100 + to)));
        sends.push_back(need(world.isend(sent.back(), to, static_cast<int>(i))));
      }
    if (!first) post();
    need(the_job->wait_all(sends));
    need(the_job->wait_all(receives));
    for (int from = 0; from < world.size(); ++from)
      for (std::size_t i = 0; i < std::size(kSizes); ++i)
        require(received[static_cast<std::size_t>(from) * std::size(kSizes) + i] ==
                    pattern(kSizes[i], static_cast<std::uint64_t>(from * 100 + world.rank())),
                "a message arrives as it was sent");
  }
}

/// All messages go in one direction, and are far more than a ring of frames can hold.
void stream() {
  Communicator& world = the_job->world();
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{100}, std::size_t{8192}}) {
    const std::uint64_t count = 2'000'000 / (bytes + 50);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (world.rank() == 0) {
        for (int to = 1; to < world.size(); ++to) need(world.send(pattern(bytes, i), to, 0));
      } else {
        std::vector<std::byte> into(bytes);
        need(world.recv(into, 0, 0));
        require(into == pattern(bytes, i), "a message of a stream");
      }
    }
  }
}

/// Requests that are not complete when their communicator, or the Job, ends.
void abandons() {
  Communicator& world = the_job->world();
  static std::vector<std::byte> never(1000), late(20 << 20);
  std::optional<Communicator> copy = need(world.dup());
  auto request = need(copy->irecv(never, kAnySource, 0));
  copy.reset();
  const auto ended = the_job->wait(request);
  require(!ended && ended.error().code == Errc::cancelled, "a receive of a communicator that has ended");
  // Nobody waits for these long messages, so they are still on their way when the Job ends.
  if (world.rank() == 0)
    for (int from = 1; from < world.size(); ++from) need(world.irecv(late, from, 0));
  else
    need(world.isend(late, 0, 0));
  need(the_job->finish());
  const auto changed = late = std::vector<std::byte>(late.size(), std::byte{0x55});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // A late write would come now.
  require(late == changed, "nothing is written after the end of the Job");
  std::printf("right\n");
  std::fflush(stdout);
  std::_Exit(0);
}

/// One replica is later than all others. They still serve it when they have ended their own part.
void late() {
  Communicator& world = the_job->world();
  need(world.barrier());
  if (world.rank() == 1 && the_job->replica() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
  need(world.barrier());
}

/// A forked process cannot use the Job, and does not disturb it.
void forks() {
  Communicator& world = the_job->world();
  std::uint64_t value = 1;
  need(world.barrier());
  const pid_t child = ::fork();
  if (child == 0) {
    std::uint64_t wrong = 99;
    const auto sent = world.send(bytes_of(std::span(&wrong, 1)), 1 - world.rank(), 0);
    const auto received = world.recv(bytes_of(std::span(&wrong, 1)), kAnySource, 0);
    const bool is_refused = !sent && sent.error().code == Errc::invalid_argument && !received &&
                            received.error().code == Errc::invalid_argument && !the_job->finish();
    std::exit(is_refused ? 0 : 1);  // This runs the destructors of static objects.
  }
  int status = -1;
  require(::waitpid(child, &status, 0) == child && status == 0, "a forked process is refused by name");
  need(world.send(bytes_of(std::span(&value, 1)), 1 - world.rank(), 0));
  value = 0;
  need(world.recv(bytes_of(std::span(&value, 1)), 1 - world.rank(), 0));
  require(value == 1, "a forked process sends nothing");
}

/// Sleeps if this is the replica `replica` of the rank.
void delay(int rank, int replica, int milliseconds) {
  if (the_job->world().rank() == rank && the_job->replica() == replica)
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

/// Ranks 0 and 1 send to each other after the first message that they get, whichever it is. The replicas get
/// the messages in different orders, so each of them might wait for another one.
void choices() {
  Communicator& world = the_job->world();
  std::byte one{1};
  const std::span bytes(&one, 1);
  constexpr int kFirst = 1, kSecond = 2;
  need(world.barrier());
  if (world.rank() > 1) {
    delay(3, 0, 300);
    if (world.rank() < 4) need(world.send(bytes, world.rank() - 2, kSecond));
    return;
  }
  std::byte received[2];
  Request requests[] = {need(world.irecv(std::span(&received[0], 1), kAnySource, kFirst)),
                        need(world.irecv(std::span(&received[1], 1), kAnySource, kSecond))};
  delay(0, 1, 600);
  for (int i = 0; i < 2; ++i) {
    need(the_job->wait_any(requests));
    if (i == 0) need(world.send(bytes, 1 - world.rank(), kFirst));
  }
}

/// Rank 0 gets work from rank 1, and acknowledges it to rank 2. When all work is done, rank 2 ends rank 0. A
/// replica that is late has the work and the end at the same time. It must not see the end first.
void stops() {
  Communicator& world = the_job->world();
  constexpr int kWork = 1, kStop = 2, kDone = 3, kMessages = 50;
  std::byte one{1}, received[2];
  const std::span bytes(&one, 1), stop(&received[0], 1), work(&received[1], 1);
  need(world.barrier());
  if (world.rank() == 1)
    for (int i = 0; i < kMessages; ++i) need(world.send(bytes, 0, kWork));
  if (world.rank() == 2) {
    for (int i = 0; i < kMessages; ++i) need(world.recv(bytes, 0, kDone));
    need(world.send(bytes, 0, kStop));
  }
  if (world.rank() != 0) return;
  delay(0, 0, 300);
  Request requests[] = {need(world.irecv(stop, 2, kStop)), need(world.irecv(work, kAnySource, kWork))};
  int done = 0;
  while (need(the_job->wait_any(requests))->index == 1) {
    ++done;
    need(world.send(bytes, 2, kDone));
    requests[1] = need(world.irecv(work, kAnySource, kWork));
  }
  require(done == kMessages, "the end comes after all work");
}

/// Rank 0 receives from anybody, with waitany and with probe, and answers.
void farm() {
  Communicator& world = the_job->world();
  constexpr int kTasks = 200, kTask = 1, kResult = 2, kEnd = 3;
  if (world.rank() != 0) {
    std::uint64_t value = 0;
    while (true) {
      const auto info = need(world.recv(bytes_of(std::span(&value, 1)), 0, kAnyTag));
      if (info.tag == kEnd) return;
      value = value * value;
      need(world.send(bytes_of(std::span(&value, 1)), 0, kResult));
    }
  }
  if (world.size() == 1) return;
  std::uint64_t next = 0, sum = 0, done = 0;
  const auto give = [&](int to) {
    const std::uint64_t task = next++;
    need(world.send(std::as_bytes(std::span(&task, 1)), to, kTask));
  };
  for (int to = 1; to < world.size() && next < kTasks; ++to) give(to);
  while (done < kTasks) {
    std::uint64_t value = 0;
    const auto waiting = need(world.probe(kAnySource, kResult));
    require(waiting.bytes == sizeof value, "a probe tells the length");
    const auto info = need(world.recv(bytes_of(std::span(&value, 1)), kAnySource, kResult));
    sum += value;
    ++done;
    if (next < kTasks) give(info.source);
  }
  std::uint64_t right = 0;
  for (std::uint64_t i = 0; i < kTasks; ++i) right += i * i;
  require(sum == right, "the sum of the results");
  for (int to = 1; to < world.size(); ++to) need(world.send({}, to, kEnd));
}

void collectives(Communicator& group) {
  const int n = group.size(), me = group.rank();
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{300'000}}) {
    for (int root = 0; root < n; ++root) {
      std::vector<std::uint64_t> values(count, static_cast<std::uint64_t>(me == root ? root + 7 : 0));
      need(group.broadcast(bytes_of(values), root));
      require(std::ranges::count(values, root + 7) == static_cast<long>(count), "a broadcast");
    }
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>(me + 1) * static_cast<double>(i);
    need(group.all_reduce(std::span(values), Operation::sum));
    for (std::size_t i = 0; i < count; ++i)
      require(values[i] == static_cast<double>(i) * n * (n + 1) / 2, "a sum over all ranks");
    std::vector<std::uint32_t> out(static_cast<std::size_t>(n) * count), in(out.size());
    for (int to = 0; to < n; ++to)
      std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(to * static_cast<int>(count)), count,
                  static_cast<std::uint32_t>(me * 1000 + to));
    need(group.all_to_all(bytes_of(out), bytes_of(in)));
    for (int from = 0; from < n; ++from)
      require(in[static_cast<std::size_t>(from) * count] == static_cast<std::uint32_t>(from * 1000 + me),
              "an exchange of all with all");
  }
  std::uint64_t own = 1;
  need(group.scan(std::span(&own, 1), Operation::sum));
  require(own == static_cast<std::uint64_t>(me + 1), "a scan");
  need(group.barrier());
}

void communicators() {
  Communicator& world = the_job->world();
  Communicator copy = need(world.dup());
  // The same tags in two communicators do not mix.
  const int next = (world.rank() + 1) % world.size(),
            before = (world.rank() + world.size() - 1) % world.size();
  int a = world.rank(), b = world.rank() + 1000, from_a = 0, from_b = 0;
  std::vector<Request> requests;
  requests.push_back(need(copy.irecv(bytes_of(std::span(&from_b, 1)), before, 5)));
  requests.push_back(need(world.irecv(bytes_of(std::span(&from_a, 1)), before, 5)));
  requests.push_back(need(world.isend(bytes_of(std::span(&a, 1)), next, 5)));
  requests.push_back(need(copy.isend(bytes_of(std::span(&b, 1)), next, 5)));
  need(the_job->wait_all(requests));
  require(from_a == before && from_b == before + 1000, "messages of two communicators do not mix");
  for (int round = 0; round < 8; ++round) {
    auto half = need(world.split(world.rank() % 2, -world.rank()));
    require(half.has_value(), "each rank gets a half");
    require(half->size() == (world.size() + 1 - world.rank() % 2) / 2, "the size of a half");
    collectives(*half);
    std::vector<int> list;
    for (int rank = world.size() - 1; rank >= 0; rank -= 2) list.push_back(rank);
    auto some = need(world.create(list));
    require(some.has_value() == (std::ranges::count(list, world.rank()) == 1), "who is in the list");
    if (some) require(list[static_cast<std::size_t>(some->rank())] == world.rank(), "the order of the list");
    if (some && round == 0) collectives(*some);
  }
  const auto none = need(world.split(std::nullopt, 0));
  require(!none.has_value(), "who gives no color gets no communicator");
}

void mistakes() {
  Communicator& world = the_job->world();
  std::byte one{};
  const auto refuses = [](const auto& result) {
    return !result.has_value() && result.error().code == Errc::invalid_argument;
  };
  require(refuses(world.send({}, world.size(), 0)), "a rank that is not there");
  require(refuses(world.send({}, kAnySource, 0)), "a send to any rank");
  require(refuses(world.send({}, 0, -5)), "a negative tag");
  require(refuses(world.irecv(std::span(&one, 1), -7, 0)), "a receive from nobody");
  require(refuses(world.broadcast(std::span(&one, 1), world.size())), "a root that is not there");
  std::vector<std::byte> large(100'000);
  for (const std::size_t bytes : {std::size_t{10}, large.size()}) {
    auto receive = need(the_job->self().irecv(std::span(&one, 1), 0, 0));
    need(the_job->self().send(std::span(large).first(bytes), 0, 0));
    require(refuses(the_job->wait(receive)), "a message that is too long");
    if (world.size() < 2) continue;
    if (world.rank() == 0) need(world.send(std::span(large).first(bytes), 1, 9));
    if (world.rank() == 1)
      require(refuses(world.recv(std::span(&one, 1), 0, 9)), "a message that is too long for its receive");
  }
  const auto later = Job::start();
  require(!later && later.error().code == Errc::already_exists, "a process has one Job");
}

/// A file outside of the library, by which ranks tell rank 0 that they are done.
const char* the_file = "";

/// Rank 0 calls no function until the others have sent it their long messages. So a thread of the library
/// must grant the memory for them.
void computes() {
  Communicator& world = the_job->world();
  std::vector<std::byte> into(1 << 20);
  const auto sent = pattern(into.size(), 3);
  if (world.rank() == 0) {
    std::vector<std::vector<std::byte>> buffers(static_cast<std::size_t>(world.size()), into);
    std::vector<Request> requests;
    for (int from = 1; from < world.size(); ++from)
      requests.push_back(need(world.irecv(buffers[static_cast<std::size_t>(from)], from, 0)));
    need(world.barrier());
    const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (static_cast<int>(std::filesystem::file_size(the_file)) < world.size() - 1)
      require(std::chrono::steady_clock::now() < latest, "messages get through during a computation");
    need(the_job->wait_all(requests));
    for (int from = 1; from < world.size(); ++from)
      require(buffers[static_cast<std::size_t>(from)] == sent, "a long message during a computation");
  } else {
    need(world.barrier());
    need(world.send(sent, 0, 0));
    std::ofstream(the_file, std::ios::app) << 'x' << std::flush;
  }
}

/// Every rank prints many lines, and flushes them at other points than their ends.
void prints() {
  Communicator& world = the_job->world();
  static char buffer[1000];
  std::setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  for (int i = 0; i < 4000; ++i) {
    std::printf("rank %d line %d\n", world.rank(), i);
    if (i % 10 == 0) need(world.barrier());
  }
}

/// Rank 0 reads lines, and sends each of them around all ranks before it prints it.
void reads() {
  Communicator& world = the_job->world();
  std::string line;
  while (true) {
    std::uint64_t length = 0;
    if (world.rank() == 0) length = std::getline(std::cin, line) ? line.size() + 1 : 0;
    need(world.broadcast(bytes_of(std::span(&length, 1)), 0));
    if (length == 0) return;
    line.resize(length - 1);
    need(world.broadcast(bytes_of(std::span(line)), 0));
    if (world.rank() == world.size() - 1) std::printf("%s\n", line.c_str());
  }
}

/// Each process writes a file of its own. A replica that was forked must not write into the file of its
/// parent.
void writes() {
  Communicator& world = the_job->world();
  std::FILE* const file = std::tmpfile();
  require(file != nullptr, "a temporary file");
  std::setvbuf(file, nullptr, _IONBF, 0);
  for (int i = 0; i < 3000; ++i) {
    require(std::fwrite(&i, sizeof i, 1, file) == 1, "a write");
    need(world.barrier());
  }
  require(std::ftell(file) == 3000 * static_cast<long>(sizeof(int)), "the offset in the file");
}

/// The program has a thread of its own.
void threads() {
  std::atomic<bool> is_over = false;
  std::thread other([&] { is_over.wait(false); });
  for (int i = 0; i < 20'000; ++i) need(the_job->world().barrier());
  is_over = true;
  is_over.notify_all();
  other.join();
}

/// True at the replica that does not do the same as the others.
bool is_odd_one() {
  return the_job->world().rank() == 1 && the_job->replica() == 1;
}

/// Each rank sends 64 bytes to the next one, again and again. `is_flipped` says in which round a bit of the
/// message is wrong.
template <typename IsFlipped>
void send_around(int rounds, int tag, IsFlipped is_flipped) {
  Communicator& world = the_job->world();
  const int next = (world.rank() + 1) % world.size(),
            before = (world.rank() + world.size() - 1) % world.size();
  std::vector<std::byte> into(64);
  for (int round = 0; round < rounds; ++round) {
    auto sent = pattern(64, static_cast<std::uint64_t>(round));
    if (is_flipped(round)) sent[33] ^= std::byte{0x10};
    need(world.sendrecv(sent, next, tag, into, before, tag));
  }
}

/// A bit of message 7 is wrong at one replica.
void flips() {
  send_around(100, 3, [](int round) { return round == 7 && is_odd_one(); });
}

/// A bit is wrong in all messages of a replica that has replaced another one.
void flips_later() {
  const pid_t first = ::getpid();
  send_around(1'000'000, 3, [&](int) { return ::getpid() != first; });
}

/// A bit of a long message, and of a value in a collective operation, is wrong at one replica.
void flips_long() {
  Communicator& world = the_job->world();
  auto sent = pattern(1 << 20, 1), into = sent;
  if (is_odd_one()) sent.back() ^= std::byte{1};
  const int next = (world.rank() + 1) % world.size(),
            before = (world.rank() + world.size() - 1) % world.size();
  auto receive = need(world.irecv(into, before, 4));
  need(world.send(sent, next, 4));
  need(the_job->wait(receive));
}
void flips_in_collective() {
  std::uint64_t value = is_odd_one() ? 5 : 1;
  need(the_job->world().all_reduce(std::span(&value, 1), Operation::sum));
}

/// Rank 1 sends messages to rank 0 until the last one, whose tag is 4. `bytes` and `tag` are functions of the
/// number of the message.
template <typename Bytes, typename Tag>
void send_down(int count, Bytes bytes, Tag tag) {
  Communicator& world = the_job->world();
  std::vector<std::byte> into(100'000);
  if (world.rank() == 1) {
    for (int i = 0; i < count; ++i) need(world.send(std::span(into).first(bytes(i)), 0, tag(i)));
    need(world.send({}, 0, 4));
  } else if (world.rank() == 0) {
    while (need(world.recv(into, 1, kAnyTag)).tag != 4) {
    }
  }
}
void sends_more() {
  send_down(
      is_odd_one() ? 11 : 10, [](int) { return std::size_t{8}; }, [](int) { return 3; });
}
void sends_more_long() {
  send_down(
      is_odd_one() ? 11 : 10, [](int) { return std::size_t{100'000}; }, [](int) { return 3; });
}
void sends_longer() {
  send_down(
      10, [](int i) { return std::size_t{8} + (i == 5 && is_odd_one() ? 1 : 0); }, [](int) { return 3; });
}
/// The receiver of the message with the wrong tag waits for the right one.
void sends_elsewhere() {
  Communicator& world = the_job->world();
  std::byte one{};
  if (world.rank() == 1) need(world.send(std::span(&one, 1), 0, is_odd_one() ? 6 : 5));
  if (world.rank() == 0) need(world.recv(std::span(&one, 1), 1, 5));
}

/// Rank 0 answers each message at once, in the order of arrival. So the order of its sends differs between
/// two runs, but not the messages to each rank.
void replies() {
  Communicator& world = the_job->world();
  constexpr int kMessages = 15;
  std::uint64_t value = 0;
  const auto bytes = bytes_of(std::span(&value, 1));
  if (world.rank() != 0) {
    for (int i = 0; i < kMessages; ++i) {
      need(world.send(bytes, 0, 1));
      need(world.recv(bytes, 0, 2));
    }
    return;
  }
  for (int i = 0; i < kMessages * (world.size() - 1); ++i)
    need(world.send(bytes, need(world.recv(bytes, kAnySource, 1)).source, 2));
}

/// The content of a message depends on the clock.
void sends_time() {
  Communicator& world = the_job->world();
  auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  if (world.rank() == 1) need(world.send(bytes_of(std::span(&now, 1)), 0, 8));
  if (world.rank() == 0) need(world.recv(bytes_of(std::span(&now, 1)), 1, 8));
}

/// One rank dies in the middle of an exchange.
void dies() {
  Communicator& world = the_job->world();
  need(world.barrier());
  if (world.rank() == world.size() - 1) std::abort();
  std::byte one{};
  const auto received = world.recv(std::span(&one, 1), world.size() - 1, 0);
  require(
      !received && (received.error().code == Errc::peer_failed || received.error().code == Errc::cancelled),
      "a receive from a dead rank fails");
  // If this process ended first, rdmc_run could learn of its end before it learns of the death.
  for (;;) ::pause();
}

}  // namespace

int main(int count, char** arguments) {
  const std::string scenario = count >= 2 ? arguments[1] : "";
  if (count == 3) the_file = arguments[2];
  const std::map<std::string, void (*)()> scenarios{{"exchange", exchange},
                                                    {"farm", farm},
                                                    {"stream", stream},
                                                    {"late", late},
                                                    {"forks", forks},
                                                    {"choices", choices},
                                                    {"stops", stops},
                                                    {"abandons", abandons},
                                                    {"communicators", communicators},
                                                    {"mistakes", mistakes},
                                                    {"computes", computes},
                                                    {"dies", dies},
                                                    {"prints", prints},
                                                    {"reads", reads},
                                                    {"writes", writes},
                                                    {"threads", threads},
                                                    {"replies", replies},
                                                    {"sends_time", sends_time},
                                                    {"flips", flips},
                                                    {"flips_later", flips_later},
                                                    {"flips_long", flips_long},
                                                    {"flips_in_collective", flips_in_collective},
                                                    {"sends_more", sends_more},
                                                    {"sends_more_long", sends_more_long},
                                                    {"sends_longer", sends_longer},
                                                    {"sends_elsewhere", sends_elsewhere},
                                                    {"collectives", [] { collectives(the_job->world()); }},
                                                    {"abort", [] { the_job->abort(42); }}};
  const auto found = scenarios.find(scenario);
  if (found == scenarios.end()) return 2;
  const auto job = need(Job::start());
  the_job = job.get();
  found->second();
  const int rank = job->world().rank();
  need(job->finish());
  if (rank == 0) std::printf("right\n");
}
