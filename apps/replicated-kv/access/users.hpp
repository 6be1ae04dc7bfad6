// All users of a service. They are a part of the replicated state: all servers change them by the same events
// in the same order (decision 105). One thread uses them.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "apps/replicated-kv/access/user.hpp"

namespace rdmc::kv {

class Users {
 public:
  static constexpr std::string_view kDefault = "default";
  static constexpr std::uint64_t kDefaultNumber = 1;
  /// The limits of the memory that users need.
  static constexpr std::size_t kMostUsers = 10'000, kMostUserBytes = 1 << 20, kMostNameBytes = 1024;

  /// The user "default" may do everything without a password.
  Users();
  Users(Users&&) = default;
  Users& operator=(Users&&) = default;

  /// All users, by name.
  const std::map<std::string, User, std::less<>>& all() const { return users_; }
  const User* find(std::string_view name) const;
  const User* find(std::uint64_t number) const;
  const User& default_user() const { return *find(kDefaultNumber); }
  /// A client is the default user without having said so.
  bool is_open() const { return default_user().is_enabled() && default_user().needs_no_password(); }
  /// Nothing needs to be checked: there is only the default user, and it may do everything.
  bool permit_everything() const { return permit_everything_; }

  /// Applies all rules (with_digests()), or none of them. Makes the user if there is none. Returns the text
  /// of an error otherwise.
  std::expected<void, std::string> set(std::string_view name, std::span<const std::string_view> rules);
  /// Returns false if there is no such user. The default user stays.
  bool remove(std::string_view name);
  /// Takes the users of another object instead of these ones, with new numbers. The default user keeps its
  /// number.
  void replace(const Users& others);
  /// New users may use all channels (the parameter acl-pubsub-default).
  bool permits_new_users_all_channels() const { return all_channels_; }
  void permit_new_users_all_channels(bool value) { all_channels_ = value; }

  /// The servers have agreed on these users. Until then, each server has those of its own command line.
  bool are_agreed() const { return id_ != 0; }
  /// The servers agree now. `random` is an agreed number. It tells the users of a service from those of
  /// another service that has the same numbers for its users.
  void agree(std::uint64_t random) { id_ = random | 1; }
  std::uint64_t id() const { return id_; }

  void save(std::vector<std::byte>& out) const;
  /// Returns false if the bytes are wrong.
  bool load(VarintReader& in);

 private:
  friend class AclFileParser;
  User& make(std::string_view name);
  User& add(User user);
  void update();

  std::map<std::string, User, std::less<>> users_;
  std::unordered_map<std::uint64_t, const User*> by_number_;
  std::uint64_t next_number_ = kDefaultNumber, id_ = 0;
  bool all_channels_ = false, permit_everything_ = false;
};

}  // namespace rdmc::kv
