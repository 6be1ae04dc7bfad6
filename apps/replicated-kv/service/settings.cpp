#include "apps/replicated-kv/service/settings.hpp"

#include <algorithm>
#include <array>

#include "apps/replicated-kv/commands/arguments.hpp"

namespace rdmc::kv {

std::optional<std::int64_t> size_of(std::string_view text) {
  struct Unit {
    std::string_view name;
    std::int64_t bytes;
  };
  constexpr std::array<Unit, 8> kUnits{{{"kb", 1 << 10},
                                        {"mb", 1 << 20},
                                        {"gb", 1 << 30},
                                        {"k", 1000},
                                        {"m", 1'000'000},
                                        {"g", 1'000'000'000},
                                        {"b", 1},
                                        {"", 1}}};
  for (const Unit& unit : kUnits) {
    if (text.size() < unit.name.size() || !is_word(text.substr(text.size() - unit.name.size()), unit.name))
      continue;
    const auto number = to_integer(text.substr(0, text.size() - unit.name.size()));
    std::int64_t bytes = 0;
    if (!number || *number < 0 || __builtin_mul_overflow(*number, unit.bytes, &bytes)) return std::nullopt;
    return bytes;
  }
  return std::nullopt;
}

namespace {

std::string names_of_policies() {
  std::string names;
  for (const NamedPolicy& policy : kPolicies) names += (names.empty() ? "" : ", ") + std::string(policy.name);
  return names;
}

}  // namespace

Settings::Settings() {
  const auto fixed = [&](std::string_view name, std::string value) {
    settings_[std::string(name)] = {Kind::fixed, std::move(value)};
  };
  fixed("databases", "16");
  fixed("maxclients", "10000");
  fixed("port", "6379");
  fixed("tls-port", "0");
  fixed("appendonly", "no");
  fixed("save", "");
  settings_["proto-max-bulk-len"] = {Kind::size, std::to_string(512 << 20), 1 << 20, 512 << 20};
  settings_["auto-aof-rewrite-min-size"] = {Kind::size, std::to_string(64 << 20), 0, INT64_MAX};
  settings_["acllog-max-len"] = {Kind::number, "128", 0, 100'000};
  settings_["client-query-buffer-limit"] = {Kind::size, std::to_string(1 << 30), 1 << 20, INT64_MAX};
  settings_["maxmemory-clients"] = {Kind::size, std::to_string(1 << 30), 0, INT64_MAX};
  // A reply of more than 1 GB is longer than any value. Subscribers cannot be made to wait.
  settings_["client-output-buffer-limit"] = {Kind::output_limits, ""};
  constexpr std::size_t kMegabyte = 1 << 20;
  output_limits_.normal = {.hard = 1024 * kMegabyte};
  output_limits_.pubsub = {.hard = 32 * kMegabyte, .soft = 8 * kMegabyte, .patience = 60'000};
  settings_["maxmemory"] = {Kind::size, "0", 0, INT64_MAX};
  settings_["maxmemory-policy"] = {Kind::policy, "noeviction"};
  settings_["maxmemory-samples"] = {Kind::number, "5", 1, 64};
  settings_["lfu-log-factor"] = {Kind::number, "10", 0, INT32_MAX};
  settings_["lfu-decay-time"] = {Kind::number, "1", 0, INT32_MAX};
  settings_["slowlog-log-slower-than"] = {Kind::number, "10000", -1, INT64_MAX};
  settings_["slowlog-max-len"] = {Kind::number, "128", 0, 1'000'000};
  settings_["timeout"] = {Kind::number, "0", 0, INT32_MAX};
  settings_["tcp-keepalive"] = {Kind::number, "300", 0, INT32_MAX};
  // From these sizes on, OBJECT ENCODING gives other names. They change nothing else.
  const auto limit = [&](const std::string& name, std::string value, std::int64_t least = 0) {
    settings_[name] = {Kind::size, std::move(value), least, INT64_MAX};
  };
  limit("hash-max-listpack-entries", "512");
  limit("hash-max-listpack-value", "64");
  limit("set-max-intset-entries", "512");
  limit("zset-max-listpack-entries", "128");
  limit("zset-max-listpack-value", "64");
  // These have no effect, and are for clients that set them.
  settings_["list-max-listpack-size"] = {Kind::number, "-2", INT32_MIN, INT32_MAX};
  settings_["list-compress-depth"] = {Kind::number, "0", 0, INT32_MAX};
  limit("hll-sparse-max-bytes", "3000");
  settings_["latency-monitor-threshold"] = {Kind::number, "0", 0, INT64_MAX};
  for (const std::string name :
       {"hash-max-listpack-entries", "hash-max-listpack-value", "list-max-listpack-size",
        "zset-max-listpack-entries", "zset-max-listpack-value"}) {
    std::string old_name = name;
    old_name.replace(name.find("listpack"), std::string_view("listpack").size(), "ziplist");
    settings_[old_name] = {Kind::other_name, name};
  }
}

std::map<std::string, std::string> Settings::matching(std::span<const std::string_view> patterns) const {
  std::map<std::string, std::string> found;
  for (const auto& [name, setting] : settings_)
    if (std::ranges::any_of(patterns,
                            [&](std::string_view pattern) { return matches(to_lower(pattern), name); }))
      found.emplace(name, setting.kind == Kind::other_name      ? at(setting.value)
                          : setting.kind == Kind::output_limits ? output_limits_.text()
                                                                : setting.value);
  return found;
}

Result<void> Settings::set(std::string_view name, std::string_view value) {
  const auto known = settings_.find(to_lower(name));
  if (known == settings_.end())
    return fail(Errc::not_found,
                "Unknown option or number of arguments for CONFIG SET - '" + std::string(name) + "'");
  Setting& setting = known->second;
  if (setting.kind == Kind::other_name) return set(setting.value, value);
  const auto refuse = [&](Errc code, const std::string& why) {
    return fail(code,
                "CONFIG SET failed (possibly related to argument '" + std::string(name) + "') - " + why);
  };
  switch (setting.kind) {
    case Kind::fixed:
      return value == setting.value ? Result<void>()
                                    : refuse(Errc::permission_denied, "can't set immutable config");
    case Kind::number:
    case Kind::size: {
      const auto number = setting.kind == Kind::size ? size_of(value) : to_integer(value);
      if (!number) return refuse(Errc::invalid_argument, "argument couldn't be parsed into an integer");
      if (*number < setting.least || *number > setting.most)
        return refuse(Errc::invalid_argument, "argument must be between " + std::to_string(setting.least) +
                                                  " and " + std::to_string(setting.most) + " inclusive");
      setting.value = std::to_string(*number);
      return {};
    }
    case Kind::yes_or_no:
      if (!is_word(value, "yes") && !is_word(value, "no"))
        return refuse(Errc::invalid_argument, "argument must be 'yes' or 'no'");
      setting.value = to_lower(value);
      return {};
    case Kind::policy:
      if (std::ranges::find(kPolicies, to_lower(value), &NamedPolicy::name) == kPolicies.end())
        return refuse(Errc::invalid_argument,
                      "argument(s) must be one of the following: " + names_of_policies());
      setting.value = to_lower(value);
      return {};
    case Kind::output_limits: {
      if (auto set = output_limits_.set(value); !set) return refuse(Errc::invalid_argument, set.error().what);
      return {};
    }
    case Kind::text: setting.value = value; return {};
    case Kind::other_name: break;
  }
  return {};
}

bool Settings::is_of_users(std::string_view name) {
  return is_word(name, "requirepass") || is_word(name, "acl-pubsub-default");
}

bool Settings::is_of_memory_limit(std::string_view name) {
  return is_word(name, "maxmemory") || is_word(name, "maxmemory-policy");
}

MemoryLimit Settings::memory_limit() const {
  const auto policy = std::ranges::find(kPolicies, at("maxmemory-policy"), &NamedPolicy::name);
  return {.most = static_cast<std::size_t>(number("maxmemory")),
          .policy = policy->policy,
          .only_with_deadline = policy->only_with_deadline,
          .is_set = true};
}

void Settings::show(const MemoryLimit& limit) {
  settings_["maxmemory"].value = std::to_string(limit.most);
  for (const NamedPolicy& policy : kPolicies)
    if (policy.policy == limit.policy && policy.only_with_deadline == limit.only_with_deadline)
      settings_["maxmemory-policy"].value = policy.name;
}

void Settings::fix(std::string_view name, std::string value) {
  settings_[std::string(name)] = {Kind::fixed, std::move(value)};
}

const std::string& Settings::at(std::string_view name) const {
  return settings_.find(name)->second.value;
}

EncodingLimits Settings::encoding_limits() const {
  const auto limit = [&](std::string_view name) { return static_cast<std::size_t>(number(name)); };
  return {.hash_entries = limit("hash-max-listpack-entries"),
          .hash_bytes = limit("hash-max-listpack-value"),
          .sorted_set_entries = limit("zset-max-listpack-entries"),
          .sorted_set_bytes = limit("zset-max-listpack-value"),
          .integers = limit("set-max-intset-entries")};
}

std::int64_t Settings::number(std::string_view name) const {
  return to_integer(at(name)).value_or(0);
}

}  // namespace rdmc::kv
