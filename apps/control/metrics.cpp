#include "apps/control/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/control/view_json.hpp"

namespace rdmc::control_app {
namespace {

std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text;
}

class Exposition {
 public:
  explicit Exposition(const std::string& group) : group_(escaped(group)) {}

  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void sample(double value, const std::string& labels = {}) {
    text_ += fmt::format("{}{{group=\"{}\"{}}} {}\n", name_, group_, labels, value);
  }
  void gauge(const char* name, const char* help, double value) {
    family(name, "gauge", help);
    sample(value);
  }
  void counter(const char* name, const char* help, std::uint64_t value) {
    family(name, "counter", help);
    sample(static_cast<double>(value));
  }
  std::string take() { return std::move(text_); }

 private:
  const std::string group_;
  std::string name_, text_;
};

}  // namespace

std::string exposition(const std::string& group, const membership::Membership& membership) {
  const view::FailureView& core = membership.view();
  const view::FailureView::Counters& views = core.counters();
  const membership::Counters links = membership.counters();
  const bool member = core.state() == view::FailureView::State::member;
  Exposition to(group);
  to.gauge("rdmc_view_epoch", "Epoch of the newest view that is known to be agreed",
           static_cast<double>(value_of(core.view().epoch)));
  to.gauge("rdmc_view_members", "Members of that view", static_cast<double>(core.view().members.size()));
  to.gauge("rdmc_view_is_member", "1 while this process is in it", member ? 1 : 0);
  to.gauge("rdmc_store_up", "0 while the store does not answer and the view cannot change",
           core.store_reachable() ? 1 : 0);
  to.family("rdmc_member_suspicion", "gauge", "Suspicion level (phi) of each other member, at most 300");
  for (const view::Member& one : core.view().members)
    if (one.id != core.self().id)
      to.sample(std::max(0.0, core.level(one.id)),
                fmt::format(",member=\"{}\",name=\"{}\"", id_text(one.id), escaped(one.name)));
  to.counter("rdmc_view_changes_total", "Views that this process has installed", links.installed);
  to.counter("rdmc_view_proposals_total", "Views that it has proposed", views.proposals);
  to.counter("rdmc_view_conflicts_total", "Proposals that another one had come before", views.conflicts);
  to.counter("rdmc_suspicions_total", "Members that it ceased to hear", views.suspicions);
  to.counter("rdmc_deaths_seen_total", "Deaths that an operating system has told of", links.deaths_seen);
  to.counter("rdmc_store_failures_total", "Requests that the store has not answered", views.store_failures);
  to.counter("rdmc_connections_refused_total", "Control connections that were refused", links.refused);
  to.counter("rdmc_data_paths_refused_total", "Processes of which one side encrypts and the other does not",
             links.mismatched);
  to.counter("rdmc_messages_fenced_total", "Messages of an epoch that was over", links.fenced);
  to.counter("rdmc_packets_refused_total", "Packets of nobody that we are connected to",
             links.packets_refused);
  return to.take();
}

}  // namespace rdmc::control_app
