// This file has the part of Service that keeps the limit for the memory of keys and values (decision 106).
// All servers measure this memory alike, and refuse commands at the same point. Which keys are evicted, the
// main decides, and says it in an event.
#include <algorithm>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/limits.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

/// What an event about the limit changes. A proposal has no effect if the state has a limit already.
constexpr std::uint64_t kSetsMost = 1, kSetsPolicy = 2, kIsProposal = 4;

}  // namespace

void Service::set_limit(const MemoryLimit& limit) {
  databases_->set_limit(limit);
  settings_.show(limit);
}

void Service::set_memory_limit(std::string_view most, std::string_view policy) {
  static_cast<void>(settings_.set("maxmemory", most));
  static_cast<void>(settings_.set("maxmemory-policy", policy));
  apply_settings();
}

bool Service::refuses(const Command& command, ReplyWriter& reply) {
  if (!command.has(flag::kGrows) || !databases_->is_out_of_memory()) return false;
  if (!reply.is_muted()) statistics_.rejected(command.name);
  reply.error(kOutOfMemory);
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

/// The state begins without a limit. The main then proposes the one of its command line, or the one of the
/// state that was lost.
void Service::propose_limit() {
  const MemoryLimit wanted = settings_.memory_limit();
  const bool is_usual = wanted.most == 0 && wanted.policy == MemoryLimit::Policy::none;
  if (!may_submit_as_main() || databases_->limit().is_set || has_proposed_limit_ || is_usual) return;
  has_proposed_limit_ = true;
  Bytes& batch = batch_for(0, EntryKind::limit);
  put_varint(batch, kSetsMost | kSetsPolicy | kIsProposal);
  put_limit(batch, wanted);
}

void Service::execute_eviction(VarintReader& in, std::uint64_t server) {
  for (auto count = in.count(); count > 0 && in.is_good(); --count) {
    const auto number = in.number<std::uint32_t>(Databases::kCount - 1);
    const std::string_view key = take_text(in);
    if (in.is_good()) databases_->evict(number, key);
  }
  if (server == server_) is_evicting_ = false;
}

void Service::execute_limit(VarintReader& in) {
  const auto what = in.number(kSetsMost | kSetsPolicy | kIsProposal);
  const MemoryLimit named = take_limit(in);
  MemoryLimit limit = databases_->limit();
  if (!in.is_good() || ((what & kIsProposal) != 0 && limit.is_set)) return;
  limit.is_set = true;
  if ((what & kSetsMost) != 0) limit.most = named.most;
  if ((what & kSetsPolicy) != 0) {
    limit.policy = named.policy;
    limit.only_with_deadline = named.only_with_deadline;
  }
  set_limit(limit);
}

/// Reads of clients of other servers are not executed here, but the main must know which keys are used.
void Service::note_use(const EncodedCommand& read) {
  const MemoryLimit& limit = databases_->limit();
  const bool needs_usage = limit.most != 0 && (limit.policy == MemoryLimit::Policy::least_recent ||
                                               limit.policy == MemoryLimit::Policy::least_frequent);
  if (!needs_usage || !status_.is_main) return;
  const Command* const command = find_command(read.words[0]);
  if (command == nullptr || !command->has(flag::kRead)) return;
  for (const std::string_view key : keys_of(*command, read.words))
    if (Database::Entry* const entry = databases_->at(read.database).find(key, agreed_))
      databases_->use(*entry);
}

/// True while evictions lag behind. Then requests wait, and are not refused.
bool Service::must_wait_for_evictions(const Command& command) const {
  if (!command.has(flag::kGrows) || !databases_->is_over_limit() || databases_->evictable() == 0)
    return false;
  const std::size_t most = databases_->limit().most;
  return databases_->memory().used() - most > std::max(most / kExcessPart, kLeastExcess);
}

/// CONFIG SET of parameters that are the same at all servers. They change at the same point everywhere, and
/// the reply leaves then. The other parameters of the command change at this server, at once.
bool Service::run_config_set(Client& client, Arguments words) {
  Settings changed = settings_;
  std::uint64_t what = 0;
  for (std::size_t i = 2; i < words.size(); i += 2) {
    if (const auto set = changed.set(words[i], words[i + 1]); !set)
      return reply_error(client, "ERR " + set.error().what), true;
    what |= is_word(words[i], "maxmemory")          ? kSetsMost
            : is_word(words[i], "maxmemory-policy") ? kSetsPolicy
                                                    : 0;
  }
  const MemoryLimit limit = changed.memory_limit();
  if (!is_alone()) {
    if (has_waited_too_long()) return refuse(client), true;
    if (!is_available() || waiting_bytes_ > kMostWaitingBytes) return false;
    changed.show(databases_->limit());
  }
  settings_ = std::move(changed);
  apply_settings();
  if (is_alone()) return answer(client, "+OK\r\n"), true;
  Bytes& batch = batch_for(client.number, EntryKind::limit);
  put_varint(batch, what);
  put_limit(batch, limit);
  answer_in_batch(client, true);
  return true;
}

}  // namespace rdmc::kv
