// CONFIG SET of parameters that are the same at all servers. The command is executed in the order of events,
// so the parameters change at the same point everywhere. Other parameters that it names change only at the
// server of the client.
#include <algorithm>

#include "apps/replicated-kv/access/password.hpp"
#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

/// The settings after CONFIG SET, without the parameters of the users. Errors: those of Settings::set().
Result<Settings> Service::changed_settings(Arguments words) const {
  Settings changed = settings_;
  for (std::size_t i = 2; i < words.size(); i += 2)
    if (!Settings::is_of_users(words[i]))
      if (const auto set = changed.set(words[i], words[i + 1]); !set) return std::unexpected(set.error());
  return changed;
}

/// The words of CONFIG SET with the digest of the password, or the text of an error. Everything is checked
/// here, so that nothing fails when the servers execute the command.
std::expected<std::optional<std::vector<std::string>>, std::string> Service::checked_config_set(
    Arguments words) const {
  if (const auto changed = changed_settings(words); !changed)
    return std::unexpected("ERR " + changed.error().what);
  std::vector<std::string> checked(words.begin(), words.end());
  for (std::size_t i = 2; i < words.size(); i += 2) {
    const std::string_view value = words[i + 1];
    if (is_word(words[i], "requirepass")) {
      if (!value.empty()) checked[i + 1] = digest_of(value);
    } else if (Settings::is_of_users(words[i]) && !is_word(value, "allchannels") &&
               !is_word(value, "resetchannels")) {
      return std::unexpected("ERR CONFIG SET failed (possibly related to argument '" + std::string(words[i]) +
                             "') - argument(s) must be one of the following: allchannels, resetchannels");
    }
  }
  return checked;
}

/// Every server executes this, with the same result. `client` is null at the servers that are not its own.
void Service::change_parameters(Arguments words, Client* client, ReplyWriter& reply) {
  Settings agreed;
  agreed.show(databases_->limit());
  bool has_users = false, has_limit = false;
  for (std::size_t i = 2; i + 1 < words.size(); i += 2) {
    const std::string_view name = words[i], value = words[i + 1];
    if (is_word(name, "requirepass")) {
      const std::string rule = value.empty() ? "nopass" : "#" + std::string(value);
      const auto set = users_.set(Users::kDefault, std::to_array<std::string_view>({"resetpass", rule}));
      if (!set) return reply.error("ERR " + set.error());
      has_users = true;
    } else if (Settings::is_of_users(name)) {
      users_.permit_new_users_all_channels(is_word(value, "allchannels"));
      has_users = true;
    } else if (Settings::is_of_memory_limit(name)) {
      static_cast<void>(agreed.set(name, value));
      has_limit = true;
    } else if (client != nullptr) {
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
