// This file has the part of Service that keeps the limit for the memory of keys and values (decision 106).
// All servers measure this memory alike, and refuse commands at the same point. The main chooses the keys
// that are evicted, and names them in an event.
#include <algorithm>

#include "apps/replicated-kv/access/acl_command.hpp"
#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/limits.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

void Service::set_limit(const MemoryLimit& limit) {
  databases_->set_limit(limit);
  settings_.show(limit);
}

void Service::set_memory_limit(std::string_view most, std::string_view policy) {
  static_cast<void>(settings_.set("maxmemory", most));
  static_cast<void>(settings_.set("maxmemory-policy", policy));
  own_limit_ = settings_.memory_limit();
  apply_settings();
}

/// Says in the log that the limit of the command line does not count, as soon as this is known.
void Service::look_at_own_limit() {
  const MemoryLimit& limit = databases_->limit();
  if (!own_limit_ || !limit.is_set) return;
  if (limit != *std::exchange(own_limit_, std::nullopt))
    warnings_.push_back(
        "--maxmemory and --maxmemory-policy have no effect, because the data has a limit "
        "already: " +
        settings_.at("maxmemory") + " bytes, " + settings_.at("maxmemory-policy") +
        ". CONFIG SET changes it");
}

bool Service::refuses(const Command& command, ReplyWriter& reply) {
  if (!command.has(flag::kGrows) || !databases_->is_out_of_memory()) return false;
  reject(command, kOutOfMemory, reply);
  return true;
}

/// The keys that must go, as far as one event may remove them.
std::vector<Victims::Victim> Service::choose_victims() {
  const std::size_t keys = databases_->keys();
  if (!databases_->is_over_limit() || keys == 0 || databases_->evictable() == 0) return {};
  const std::size_t used = databases_->memory().used(), excess = used - databases_->limit().most;
  const std::size_t count = std::min(excess / std::max<std::size_t>(used / keys, 1) + 1, kMostEvicted);
  return victims_.choose(*databases_, count, static_cast<std::size_t>(settings_.number("maxmemory-samples")));
}

/// For a server that is alone: keys go before the command that would exceed the limit even more.
void Service::make_room() {
  for (std::size_t removed = 0; removed < kMostEvicted && databases_->is_over_limit();) {
    const auto victims = choose_victims();
    if (victims.empty()) return;
    for (const Victims::Victim& victim : victims) databases_->evict(victim.database, victim.key);
    removed += victims.size();
  }
}

/// The main says which keys go. It chooses again when this event was executed.
void Service::order_evictions() {
  if (!may_submit_as_main() || is_evicting_) return;
  const auto victims = choose_victims();
  if (victims.empty()) return;
  is_evicting_ = true;
  Bytes& batch = batch_for(0, EntryKind::evict);
  put_varint(batch, victims.size());
  for (const Victims::Victim& victim : victims) {
    put_varint(batch, victim.database);
    put_bytes(batch, victim.key);
  }
}

/// A new state has no decision about a limit. The main then proposes the limit of its command line, or the
/// one of the state that was lost, or no limit. Otherwise, the options of a later main would limit a service
/// that has begun without a limit.
void Service::propose_limit() {
  if (!may_submit_as_main() || databases_->limit().is_set || has_proposed_limit_) return;
  has_proposed_limit_ = true;
  put_limit(batch_for(0, EntryKind::first_limit), settings_.memory_limit());
}

void Service::execute_eviction(VarintReader& in, std::uint64_t server) {
  for (auto count = in.count(); count > 0 && in.is_good(); --count) {
    const auto number = in.number<std::uint32_t>(Databases::kCount - 1);
    const std::string_view key = take_text(in);
    if (in.is_good()) databases_->evict(number, key);
  }
  if (server == server_) is_evicting_ = false;
}

/// It has no effect if the state has a limit already.
void Service::execute_first_limit(VarintReader& in) {
  const MemoryLimit limit = take_limit(in);
  if (in.is_good() && !databases_->limit().is_set) set_limit(limit);
}

/// Reads of clients of other servers are not executed here, but the main must know which keys are used.
void Service::note_use(const EncodedCommand& read) {
  const MemoryLimit& limit = databases_->limit();
  const bool needs_usage = limit.most != 0 && (limit.policy == MemoryLimit::Policy::least_recent ||
                                               limit.policy == MemoryLimit::Policy::least_frequent);
  if (!needs_usage || !status_.is_main) return;
  const Command* const command = find_command(read.words[0]);
  if (command == nullptr || !command->has(flag::kRead)) return;
  const AclCommand* const described = acl_command_of(read.words);
  if (described == nullptr) return;
  for (const KeyWord& key : key_words(*described, read.words))
    if (Database::Entry* const entry = databases_->at(read.database).find(read.words[key.index], agreed_))
      databases_->use(*entry);
}

/// True while evictions lag behind. Then requests wait, and are not refused.
bool Service::must_wait_for_evictions(const Command& command) const {
  if (!command.has(flag::kGrows) || !databases_->is_over_limit() || databases_->evictable() == 0)
    return false;
  const std::size_t most = databases_->limit().most;
  return databases_->memory().used() - most > std::max(most / kExcessPart, kLeastExcess);
}

}  // namespace rdmc::kv
