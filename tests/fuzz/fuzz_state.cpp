// Fuzzes what the replicas of a state send to each other: as bytes, and as messages to a replica whose group
// and membership also do as the input says.
#include <array>
#include <memory>
#include <set>

#include "lib/state/agreed_input.hpp"
#include "tests/fuzz/input.hpp"

using namespace rdmc;
using namespace rdmc::fuzz;

namespace {

void batch(fuzz::Bytes bytes) {
  const auto read = state::decode_batch(bytes);
  if (refused(read)) return;
  require(state::decode_batch(state::encode(*read)) == *read);
}

void note(fuzz::Bytes bytes) {
  const auto read = state::decode_note(bytes);
  if (refused(read)) return;
  require(state::decode_note(state::encode(*read)) == *read);
}

void snapshot_head(fuzz::Bytes bytes) {
  const auto read = state::decode_snapshot_head(bytes);
  if (refused(read)) return;
  require(state::decode_snapshot_head(state::encode(*read)) == *read);
}

/// A group that takes everything, or nothing.
struct Group final : state::Outlet {
  Result<std::uint64_t> send(std::shared_ptr<const state::Bytes> message) override {
    if (is_full) return fail(Errc::would_block, "full");
    require(state::decode_batch(*message).has_value());
    return sent++;
  }
  Result<void> tell_main(const state::Bytes& told) override {
    if (is_full) return fail(Errc::would_block, "full");
    require(told.size() <= kMostNote && state::decode_note(told).has_value());
    return {};
  }
  void hand_over(MemberId) override {}
  void remove(MemberId) override {}
  bool has_space() const override { return true; }
  bool is_open(std::uint64_t) const override { return true; }

  bool is_full = false;
  std::uint64_t sent = 0;
};

/// Checks what the application learns.
struct Application {
  void operator()(const OrderedEvent& event) {
    require(event.position >= next && event.time >= time && event.bytes.size() <= state::kMostEventBytes);
    next = event.position + 1;
    time = event.time;
  }
  void operator()(const StableEvents& stable) {
    require(stable.position > committed);
    committed = stable.position;
  }
  void operator()(const ReplicaStatus&) {}
  void operator()(const state::Save& save) {
    require(state::decode_snapshot_head(*save.head).has_value() && saves.insert(save.serial).second);
  }
  void operator()(const state::SaveOver& over) { require(saves.erase(over.serial) == 1); }
  void operator()(const state::Load& load) {
    next = 0;
    serial = load.serial;
  }
  void operator()(const state::Fault& fault) {
    require(!has_failed && !fault.cause.what.empty());
    has_failed = true;
  }

  std::uint64_t next = 0, committed = 0, serial = 0;
  std::int64_t time = 0;
  std::set<std::uint64_t> saves;
  bool has_failed = false;
};

std::vector<MemberId> members_in(Input& input) {
  std::vector<MemberId> members;
  const unsigned present = input.next();
  for (unsigned i = 0; i < 4; ++i)
    if (i == 0 || (present >> i & 1) != 0) members.push_back(MemberId{i + 1});
  return members;
}

void replica(fuzz::Bytes bytes) {
  Input input(bytes);
  Group group;
  state::AgreedInput core(
      {.member = MemberId{1}, .id = state::ReplicaId{1}, .least_replicas = input.next() % 3U}, group);
  Application application;
  std::uint64_t number = 0, epoch = 0, view = 0;
  while (!input.empty()) {
    switch (input.next() % 10) {
      case 0: {
        const auto members = members_in(input);
        const GroupView next{.epoch = ++epoch,
                             .members = members,
                             .root = members[input.next() % members.size()],
                             .next = std::max(number, group.sent)};
        number = group.sent = next.next;
        core.on_continued(next);
        break;
      }
      case 1: {
        const auto message = input.take(input.next());
        core.on_message(number, std::make_shared<const state::Bytes>(message.begin(), message.end()));
        group.sent = ++number;
        break;
      }
      case 2: core.on_stable(input.next()); break;
      case 3: core.on_note(MemberId{input.next() % 5U}, input.take(input.next())); break;
      case 4: {
        View next{.epoch = Epoch{++view}, .members = {}};
        for (const MemberId member : members_in(input)) next.members.push_back({.id = member});
        core.on_view(next);
        break;
      }
      case 5: core.on_leases_over(Epoch{input.next()}); break;
      case 6: static_cast<void>(core.submit(input.take(input.next()))); break;
      case 7:
        if (const auto head = state::decode_snapshot_head(input.take(input.next())))
          static_cast<void>(core.loaded(application.serial, *head));
        break;
      case 8: core.load_failed(application.serial); break;
      default: group.is_full = !group.is_full;
    }
    core.order(input.next(), input.next32());
    std::vector<state::Change> changes;
    core.take_changes(changes);
    for (const state::Change& change : changes) std::visit(application, change);
    require(!core.may_commit() || !application.has_failed);
  }
}

constexpr std::array kReaders{batch, note, snapshot_head, replica};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return read_by_first_byte(kReaders, data, size);
}
