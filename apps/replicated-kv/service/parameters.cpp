// CONFIG SET of parameters that are the same at all servers. The command is executed in the order of events,
// so the parameters change at the same point everywhere. Other parameters that it names change only at the
// server of the client.
#include <algorithm>

#include "apps/replicated-kv/access/password.hpp"
#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

Result<void> check_users_parameter(std::string_view name, std::string_view value) {
  if (is_word(name, "requirepass") || is_word(value, "allchannels") || is_word(value, "resetchannels"))
    return {};
  return fail(Errc::invalid_argument, "CONFIG SET failed (possibly related to argument '" +
                                          std::string(name) +
                                          "') - argument(s) must be one of the following: allchannels, "
                                          "resetchannels");
}

}  // namespace

/// The words of CONFIG SET with the digest of the password instead of the password.
std::vector<std::string> Service::config_set_with_digest(Arguments words) {
  std::vector<std::string> changed(words.begin(), words.end());
  for (std::size_t i = 2; i < words.size(); i += 2)
    if (is_word(words[i], "requirepass") && !words[i + 1].empty()) changed[i + 1] = digest_of(words[i + 1]);
  return changed;
}

/// Every server executes this, with the same result. `client` is null at the servers that are not its own.
/// If a value is wrong, nothing changes anywhere. So the values are checked by what all servers know.
void Service::change_parameters(Arguments words, Client* client, ReplyWriter& reply) {
  Settings agreed;
  agreed.show(databases_->limit());
  for (std::size_t i = 2; i + 1 < words.size(); i += 2) {
    const auto set = Settings::is_of_users(words[i]) ? check_users_parameter(words[i], words[i + 1])
                                                     : agreed.set(words[i], words[i + 1]);
    if (!set) return reply.error("ERR " + set.error().what);
  }
  bool has_users = false, has_limit = false;
  for (std::size_t i = 2; i + 1 < words.size(); i += 2) {
    const std::string_view name = words[i], value = words[i + 1];
    has_users = has_users || Settings::is_of_users(name);
    has_limit = has_limit || Settings::is_of_memory_limit(name);
    if (is_word(name, "requirepass")) {
      const std::string rule = value.empty() ? "nopass" : "#" + std::string(value);
      const auto set = users_.set(Users::kDefault, std::to_array<std::string_view>({"resetpass", rule}));
      if (!set) return reply.error("ERR " + set.error());
    } else if (Settings::is_of_users(name)) {
      users_.permit_new_users_all_channels(is_word(value, "allchannels"));
    } else if (!Settings::is_of_memory_limit(name) && client != nullptr) {
      static_cast<void>(settings_.set(name, value));
    }
  }
  if (has_limit) set_limit(agreed.memory_limit());
  apply_settings();
  reply.ok();
  if (has_users) users_have_changed(client);
}

void Service::change_at_all_servers(Arguments words, Client* client, ReplyWriter& reply) {
  is_word(words[0], "config") ? change_parameters(words, client, reply) : change_users(words, client, reply);
}

}  // namespace rdmc::kv
