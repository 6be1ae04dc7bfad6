#include "apps/control/member.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "apps/control/metrics.hpp"
#include "apps/control/view_json.hpp"
#include "apps/program/metrics_server.hpp"
#include "controlplane/connect/identity_watch.hpp"
#include "controlplane/membership/membership.hpp"
#include "dataplane/base/bytes.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::control_app {
namespace {

/// The time that the other members have to agree on a view without this member when it leaves.
constexpr int kLeaveWithinMs = 2000;
/// The length of a beat. A beat consists of the epoch and a number that grows. It is sent to all other
/// members, and written into their windows at this member's rank.
constexpr std::size_t kBeatBytes = 16;

class Member {
 public:
  Member(StoreSession& session, const MemberOptions& options, Printer& printer)
      : session_(session), options_(options), printer_(printer) {}

  Result<bool> run(int signals) {
    auto listen = parse_address(options_.listen, 0);
    if (!listen) return std::unexpected(listen.error());
    auto security = control::security_of(options_.identity);
    if (!security) return std::unexpected(security.error());
    auto peers = peer::Peers::create(session_.loop(), {.security = *security});
    if (!peers) return std::unexpected(peers.error());
    auto joined = membership::Membership::join(
        *peers, session_.store(),
        {.group = options_.group,
         .name = options_.name,
         .listen = *listen,
         .fabric = options_.fabric,
         .window_bytes = static_cast<std::uint32_t>(kBeatBytes * view::kMaxMembers),
         .encrypt = options_.encrypt,
         .lease = milliseconds(options_.lease_ms)},
        {.installed = [this](const view::View& view) { on_installed(view); },
         .removed = [this](const view::View& view) { on_removed(view); },
         .delivered = [this](view::MemberId from,
                             std::span<const std::byte> bytes) { on_delivered(from, bytes); },
         .store_lost =
             [this](const Error& cause) {
               say("store_lost", {{"cause", cause.what}});
             },
         .store_found = [this] { say("store_found"); },
         .unreachable = [this](const view::Unreachable& link) { on_unreachable(link); },
         .reachable = [this](view::MemberId member) { say("reachable", named(member)); },
         .earlier_leases_over =
             [this](Epoch epoch) {
               say("earlier_leases_over", {{"epoch", value_of(epoch)}});
             },
         .lease_gained = [this] { say("lease_gained"); },
         .lease_lost = [this] { say("lease_lost"); },
         .agreed =
             [this](const view::View& view) {
               say("agreed", {{"epoch", value_of(view.epoch)}});
             },
         .refused =
             [this](const Address& process, const Error& cause) {
               say("refused", {{"address", to_string(process)}, {"cause", cause.what}});
             }});
    if (!joined) return std::unexpected(joined.error());
    const control::IdentityWatch identity(session_.loop(), *security, [this](const Result<void>& readable) {
      if (readable) return say("identity_found");
      say("identity_lost", {{"cause", readable.error().what}});
    });
    auto metrics = MetricsServer::open(session_.loop(), options_.metrics,
                                       [group = options_.group, &membership = **joined, &identity] {
                                         return exposition(group, membership, identity);
                                       });
    if (!metrics) return std::unexpected(metrics.error());
    session_.loop().call([&] {
      membership_ = joined->get();
      const view::Member& self = membership_->view().self();
      say("joining", {{"group", options_.group},
                      {"id", id_text(self.id)},
                      {"address", to_string(self.address)},
                      {"fabric", membership_->fabric()},
                      {"reason", membership_->fabric_reason()}});
      if (*metrics) say("metrics", {{"address", to_string((*metrics)->address())}});
      beat();
    });
    const bool asked = !wait(signals, -1);
    if (asked) {
      session_.loop().call([&] { membership_->leave(); });
      wait(-1, kLeaveWithinMs);
    }
    session_.loop().call([&] {
      const membership::Counters counters = membership_->counters();
      say("end", {{"delivered", counters.delivered},
                  {"fenced", counters.fenced},
                  {"packets_refused", counters.packets_refused},
                  {"deaths_seen", counters.deaths_seen},
                  {"paths_failed", counters.paths_failed},
                  {"longest_absence_us", membership_->view().counters().longest_absence.ns / 1000},
                  {"visible", visible_}});
      timer_ = {};
      membership_ = nullptr;
    });
    metrics->reset();
    joined->reset();
    return !asked;
  }

 private:
  /// Returns true if this member was removed, and false after a signal or the time limit.
  bool wait(int signals, int limit_ms) const {
    pollfd events[] = {{removed_.get(), POLLIN, 0}, {signals, POLLIN, 0}};
    while (::poll(events, 2, limit_ms) < 0) {
    }
    return events[0].revents != 0;
  }

  void say(const char* event, const Json& more = Json::object()) {
    Json json{{"event", event}, {"us", monotonic_now().ns / 1000}};
    json.update(more);
    if (const std::uint64_t dropped = printer_.dropped(); dropped > 0) json["lines_dropped"] = dropped;
    printer_.print(options_.json ? STDOUT_FILENO : STDERR_FILENO, json_line(json));
  }

  void on_installed(const view::View& view) {
    view_ = view;
    heard_ = false;
    say("installed", json_of(options_.group, view));
    // If all members sent at once, they would delay each other's installation. Only the two oldest members
    // send, so that every member receives from at least one other member.
    const auto oldest = std::span(view.members).first(std::min<std::size_t>(2, view.members.size()));
    if (membership_ == nullptr) return;
    const view::MemberId self = membership_->view().self().id;
    if (std::ranges::any_of(oldest, [&](const view::Member& one) { return one.id == self; })) beat();
  }
  void on_removed(const view::View& view) {
    say("removed", {{"epoch", value_of(view.epoch)}});
    ::eventfd_write(removed_.get(), 1);
  }
  void on_delivered(view::MemberId from, std::span<const std::byte> bytes) {
    if (bytes.size() != kBeatBytes) return;
    if (Epoch{load_be<std::uint64_t>(bytes.data())} != view_.epoch || !view_.contains(from))
      return make_visible("a message", load_be<std::uint64_t>(bytes.data()));
    if (!std::exchange(heard_, true))
      say("first_delivery", {{"epoch", value_of(view_.epoch)}, {"from", id_text(from)}});
  }

  Json named(view::MemberId id) const {
    const view::Member* const member = view_.find(id);
    return {{"id", id_text(id)}, {"name", member == nullptr ? "" : member->name}};
  }
  void on_unreachable(const view::Unreachable& link) {
    Json json = named(link.member);
    json["heard"] = link.heard;
    json["hears_us"] = link.hears_us;
    say("unreachable", json);
  }

  /// Sends a beat, writes it into the windows of the others, and checks what the others have written.
  void beat() {
    std::array<std::byte, kBeatBytes> bytes;
    store_be(&bytes[0], value_of(view_.epoch));
    store_be(&bytes[8], ++beats_);
    const auto self = std::ranges::find(view_.members, membership_->view().self().id, &view::Member::id);
    if (self != view_.members.end() && options_.beat_ms > 0) {
      const auto rank = static_cast<std::uint64_t>(self - view_.members.begin());
      static_cast<void>(membership_->broadcast(bytes));
      static_cast<void>(membership_->write(rank * kBeatBytes, bytes));
    }
    look_at_window();
    if (options_.beat_ms > 0)
      timer_ = session_.loop().after(milliseconds(options_.beat_ms), [this] {
        if (membership_ != nullptr) beat();
      });
  }

  void look_at_window() {
    const auto window = membership_->window();
    for (std::size_t at = 0; at + kBeatBytes <= window.size(); at += kBeatBytes) {
      const auto epoch = load_be<std::uint64_t>(&window[at]);
      if (epoch != 0 && epoch != value_of(view_.epoch)) make_visible("a write", epoch);
      written_ = written_ || epoch != 0;
    }
    if (written_ && !std::exchange(written_told_, true)) say("written_to");
  }

  /// Reports data that must never be visible.
  void make_visible(const char* what, std::uint64_t epoch) {
    if (visible_++ == 0)
      say("visible", {{"what", what}, {"of_epoch", epoch}, {"in_epoch", value_of(view_.epoch)}});
  }

  StoreSession& session_;
  const MemberOptions options_;
  Printer& printer_;
  const Descriptor removed_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  membership::Membership* membership_ = nullptr;
  view::View view_;
  control::Timer timer_;
  std::uint64_t beats_ = 0, visible_ = 0;
  bool heard_ = false, written_ = false, written_told_ = false;
};

}  // namespace

Result<bool> take_part(StoreSession& store, const MemberOptions& options, Printer& printer, int signals) {
  return Member(store, options, printer).run(signals);
}

}  // namespace rdmc::control_app
