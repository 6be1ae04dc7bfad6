// Fuzzes the messages of a rank program, without and with replicas: a peer sends arbitrary records and writes
// to a Messenger, while the program sends, receives and cancels, and peers die. The target checks that:
// - everything that a peer must not send is refused, and nothing is written outside of granted memory,
// - a request has a result exactly when it is complete,
// - after the loss of all peers, no memory is exposed, and every request that names a peer has ended.
#include <array>
#include <map>
#include <vector>

#include "lib/replica/messenger.hpp"
#include "tests/fuzz/play.hpp"

using namespace rdmc;
using namespace rdmc::fuzz;
using namespace rdmc::replica;

namespace {

constexpr std::uint32_t kRanks = 3;
constexpr ContextId kWorld{1};
/// The protocols and degrees that the first byte of an input selects.
struct Choice {
  const char* protocol;
  std::uint32_t degree;
  bool is_strict;
};
constexpr Choice kChoices[] = {{"sdr", 1, false}, {"sdr", 2, false}, {"sdr", 3, true}, {"mirror", 2, false}};

class Play final : public Carrier {
 public:
  explicit Play(std::uint8_t how) : is_tight_(how % 2 == 1), choice_(kChoices[how / 2 % 4]) {
    messenger_.add_context(kWorld, {Rank{0}, Rank{1}, Rank{2}}, 0);
  }

  void step(Input& input) {
    const ProcessId peer{1U + input.next() % (processes() - 1)};
    if (is_dead_[value_of(peer)]) return;
    switch (input.next() % 12) {
      case 0: return hear(peer, messenger_.on_records(peer, input.take(input.next())));
      case 1:
      case 2: return hear_record(peer, input);
      case 3: {
        const std::uint32_t arrival = input.next() % 4;
        return hear(peer, messenger_.on_write_arrived(peer, arrival, input.next32() % 20'000));
      }
      case 4: return messenger_.on_written(peer, input.next() % 4);
      case 5: return messenger_.on_room(peer);
      case 6:
        return begin(messenger_.send(kWorld, std::span(memory_).first(length(input)),
                                     static_cast<std::uint32_t>(input.next() % kRanks), tag(input)));
      case 7:
        return begin(messenger_.receive(kWorld, std::span(into_).first(length(input)),
                                        static_cast<std::int32_t>(input.next() % 4) - 1, tag(input)));
      case 8: return end_one(input);
      case 9: return messenger_.send_deferred();
      case 10:
        if (input.next() % 8 == 0) lose(peer, {Errc::peer_failed, "the peer is dead"});
        return;
      default:
        static_cast<void>(
            messenger_.probe(kWorld, static_cast<std::int32_t>(input.next() % 4) - 1, tag(input)));
    }
  }

  void finish() {
    for (std::uint32_t peer = 1; peer < processes(); ++peer)
      lose(ProcessId{peer}, {Errc::peer_failed, "the peer is gone"});
    for (const RequestId request : requests_) {
      if (messenger_.is_complete(request))
        static_cast<void>(messenger_.take(request));
      else
        require(!messenger_.cancel(request));  // A receive from any source, or a message to itself.
    }
    require(exposed_.empty());
  }

  std::span<std::byte> room(ProcessId, std::size_t least) override {
    if (is_tight_ && ++calls_ % 3 == 0) return {};
    frame_.resize(least);
    return frame_;
  }
  void fill(ProcessId, std::size_t bytes) override {
    RecordReader reader(std::span<const std::byte>(frame_).first(bytes));
    while (!reader.done()) require(reader.next().has_value());
  }
  bool can_write(ProcessId) override { return !is_tight_ || ++calls_ % 2 == 0; }
  void write(ProcessId, const Write& write) override { require(write.bytes.size() <= memory_.size()); }
  Result<Exposed> expose(ProcessId, std::span<std::byte> memory, std::size_t) override {
    require(!memory.empty() && memory.data() >= into_.data() &&
            memory.data() + memory.size() <= into_.data() + into_.size());
    if (is_tight_ && ++calls_ % 5 == 0) return fail(Errc::resource_limit, "no region");
    exposed_.emplace(++handle_, memory);
    return Exposed{.handle = handle_};
  }
  void withdraw(std::uint64_t handle) override { require(exposed_.erase(handle) == 1); }

 private:
  /// The driver treats a peer that breaks the protocol as failed.
  void hear(ProcessId peer, const Result<void>& handled) {
    if (refused(handled)) lose(peer, handled.error());
  }
  void lose(ProcessId peer, const Error& cause) {
    is_dead_[value_of(peer)] = true;
    messenger_.on_failed(peer, cause);
  }
  std::uint32_t processes() const { return kRanks * choice_.degree; }

  void hear_record(ProcessId peer, Input& input) {
    const Envelope envelope{.context = ContextId{input.next() % 3U},
                            .source = input.next() % 8 == 0 ? input.next() : value_of(peer) / choice_.degree,
                            .tag = tag(input),
                            .sequence = next_[value_of(peer)]};
    if (input.next() % 4 != 0) ++next_[value_of(peer)];
    const Sight sight{.channel = {.context = ContextId{input.next() % 3U},
                                  .rank = Rank{input.next() % 4U},
                                  .tag = tag(input)},
                      .sequence = input.next() % 8U};
    const Record records[] = {
        Eager{envelope, std::span<const std::byte>(memory_).first(input.next())},
        Announcement{.envelope = envelope, .transfer = input.next(), .bytes = input.next32() % 40'000},
        Grant{.transfer = input.next() % 4U, .arrival = input.next(), .bytes = input.next32() % 40'000},
        Consumed{input.next32() % 20'000},
        Acknowledgement{
            .context = sight.channel.context, .tag = sight.channel.tag, .sequence = sight.sequence},
        Question{sight},
        Sighting{sight},
        Chase{.sight = sight, .origin = input.next() % 8U, .number = input.next()}};
    const Record& record = records[input.next() % std::size(records)];
    std::vector<std::byte> frame(encoded_bytes(record));
    encode(record, frame);
    hear(peer, messenger_.on_records(peer, frame));
  }

  void begin(RequestId request) { requests_.push_back(request); }

  void end_one(Input& input) {
    if (requests_.empty()) return;
    const std::size_t index = input.next() % requests_.size();
    const RequestId request = requests_[index];
    if (messenger_.is_complete(request)) {
      static_cast<void>(messenger_.take(request));
    } else {
      for (std::uint32_t lost = 0; const auto peer = messenger_.cancel(request); ++lost) {
        require(*peer != ProcessId{0} && value_of(*peer) < processes() && lost < processes());
        lose(*peer, {Errc::cancelled, "a request was cancelled"});
      }
    }
    requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  static std::int32_t tag(Input& input) { return input.next() % 3; }
  std::size_t length(Input& input) {
    return input.next() % 2 == 0 ? input.next() : input.next32() % memory_.size();
  }

  const bool is_tight_;
  const Choice choice_;
  std::array<bool, 9> is_dead_{};
  std::array<std::uint32_t, 9> next_{};  ///< the next number in a message of each peer
  std::uint32_t calls_ = 0;
  std::uint64_t handle_ = 0;
  std::vector<std::byte> memory_ = std::vector<std::byte>(40'000, std::byte{5}), into_ = memory_, frame_;
  std::map<std::uint64_t, std::span<std::byte>> exposed_;
  std::vector<RequestId> requests_;
  Messenger messenger_{
      *this,
      *make_protocol(choice_.protocol, *Layout::uniform(kRanks, choice_.degree), ReplicaId()),
      {.is_strict = choice_.is_strict}};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return play<Play>(data, size);
}
