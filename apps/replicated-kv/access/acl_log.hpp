// The log of requests that were denied, and of wrong passwords, at one server (Redis 7.0, "ACL LOG"). It is
// no part of the replicated state. One thread uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "apps/replicated-kv/data/database.hpp"

namespace rdmc::kv {

class AclLog {
 public:
  enum class Reason : std::uint8_t { command, key, channel, auth };
  enum class Context : std::uint8_t { toplevel, multi };
  struct Entry {
    Reason reason;
    Context context;
    std::string object;  ///< the command, key or channel
    std::string user;
    Milliseconds time;   ///< of the last event
    std::string client;  ///< a description of the client of the last event
    std::uint64_t count = 1;
  };
  /// Longer names of objects and users are cut.
  static constexpr std::size_t kMostNameBytes = 1024;

  /// Counts an event that is like a recent one at the entry of that one. At most `most` entries are kept.
  void add(Entry entry, std::size_t most);
  void clear() { entries_.clear(); }
  /// The newest one is the first one.
  const std::deque<Entry>& entries() const { return entries_; }

 private:
  std::deque<Entry> entries_;
};

}  // namespace rdmc::kv
