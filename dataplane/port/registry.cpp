#include "dataplane/port/registry.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace rdmc::port {
namespace {

std::string why_not(const Driver& driver, const Usability& usability) {
  std::string text(driver.name());
  return text + " cannot be used: " + usability.reason;
}

OpenedPort opened(std::unique_ptr<Port> port, std::string reason) {
  for (const std::string& note : port->info().notes) reason += "; " + note;
  return {std::move(port), std::move(reason)};
}

}  // namespace

Registry::Registry(std::unique_ptr<Driver> fallback) {
  drivers_.push_back(std::move(fallback));
}

void Registry::add(std::unique_ptr<Driver> driver) {
  assert(driver->name() != kAutomatic &&
         std::ranges::none_of(drivers_, [&](const auto& other) { return other->name() == driver->name(); }));
  drivers_.insert(drivers_.end() - 1, std::move(driver));
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> names{std::string(kAutomatic)};
  for (const auto& driver : drivers_) names.emplace_back(driver->name());
  return names;
}

Result<OpenedPort> Registry::open(std::string_view wanted, const PortRequest& request) {
  if (wanted == kAutomatic) return open_best(request);
  const auto found = std::ranges::find(drivers_, wanted, [](const auto& driver) { return driver->name(); });
  if (found == drivers_.end()) {
    std::string known;
    for (const auto& name : names()) known += (known.empty() ? "" : ", ") + name;
    return fail(Errc::not_found, "'" + std::string(wanted) + "' is unknown; there are " + known);
  }
  const Usability usability = (*found)->probe(request);
  if (!usability.usable) {
    const std::string remedy = usability.remedy.empty() ? "" : "; to make it usable: " + usability.remedy;
    return fail(Errc::unsupported, why_not(**found, usability) + remedy);
  }
  auto port = (*found)->open(request);
  if (!port) return std::unexpected(std::move(port.error()));
  return opened(std::move(*port), "asked for");
}

Result<OpenedPort> Registry::open_best(const PortRequest& request) {
  std::string passed_over;
  for (const auto& driver : drivers_) {
    const Usability usability = driver->probe(request);
    const bool fallback = driver == drivers_.back();
    std::string refusal;
    if (usability.usable || fallback) {
      auto port = driver->open(request);
      if (port) return opened(std::move(*port), passed_over.empty() ? usability.reason : passed_over);
      if (fallback)
        return fail(port.error().code,
                    port.error().what + (passed_over.empty() ? "" : "; before it: " + passed_over));
      refusal = std::string(driver->name()) + " failed: " + port.error().what;
    } else {
      refusal = why_not(*driver, usability);
    }
    passed_over += (passed_over.empty() ? "" : "; ") + refusal;
  }
  std::unreachable();  // The loop returns at the fallback, which is the last driver.
}

}  // namespace rdmc::port
