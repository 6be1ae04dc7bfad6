#include "apps/replicated-kv/access/users.hpp"

#include <array>

#include "apps/replicated-kv/data/saved.hpp"

namespace rdmc::kv {

namespace {

/// The rules of the default user of a new service.
constexpr std::array<std::string_view, 5> kDefaultRules = {"+@all", "~*", "&*", "on", "nopass"};

}  // namespace

Users::Users() {
  User& user = make(kDefault);
  for (const std::string_view rule : kDefaultRules) static_cast<void>(user.apply(rule, false));
  update();
}

const User* Users::find(std::string_view name) const {
  const auto known = users_.find(name);
  return known == users_.end() ? nullptr : &known->second;
}

const User* Users::find(std::uint64_t number) const {
  const auto known = by_number_.find(number);
  return known == by_number_.end() ? nullptr : known->second;
}

User& Users::make(std::string_view name) {
  return add(User(std::string(name), name == kDefault ? kDefaultNumber : ++next_number_, all_channels_));
}

User& Users::add(User user) {
  if (const User* const old = find(user.name())) by_number_.erase(old->number());
  const auto [added, is_new] = users_.insert_or_assign(user.name(), std::move(user));
  by_number_[added->second.number()] = &added->second;
  return added->second;
}

void Users::update() {
  permit_everything_ = users_.size() == 1 && default_user().permits_everything() && is_open();
}

std::expected<void, std::string> Users::set(std::string_view name, std::span<const std::string_view> rules) {
  if (name.size() > kMostNameBytes)
    return std::unexpected("The name of a user may have at most " + std::to_string(kMostNameBytes) +
                           " bytes");
  const auto known = users_.find(name);
  User changed = known == users_.end() ? User(std::string(name), 0, all_channels_) : known->second;
  for (const std::string_view rule : rules)
    if (const auto applied = changed.apply(rule, all_channels_); !applied)
      return std::unexpected("Error in ACL SETUSER modifier '" + std::string(rule) +
                             "': " + std::string(text_of(applied.error())));
  if (changed.bytes() > kMostUserBytes)
    return std::unexpected("The rules of a user may have at most " + std::to_string(kMostUserBytes) +
                           " bytes");
  if (known == users_.end() && users_.size() >= kMostUsers)
    return std::unexpected("There may be at most " + std::to_string(kMostUsers) + " users");
  (known == users_.end() ? make(name) : known->second).take_rules(changed);
  update();
  return {};
}

bool Users::remove(std::string_view name) {
  const auto known = users_.find(name);
  if (known == users_.end() || name == kDefault) return false;
  by_number_.erase(known->second.number());
  users_.erase(known);
  update();
  return true;
}

void Users::replace(const Users& others) {
  users_.clear();
  by_number_.clear();
  for (const auto& [name, user] : others.users_) make(name).take_rules(user);
  update();
}

void Users::save(std::vector<std::byte>& out) const {
  put_varint(out, id_);
  put_varint(out, next_number_);
  put_varint(out, all_channels_);
  put_varint(out, users_.size());
  for (const auto& [name, user] : users_) user.save(out);
}

bool Users::load(VarintReader& in) {
  users_.clear();
  by_number_.clear();
  id_ = in.number();
  next_number_ = in.number();
  all_channels_ = in.number(1) != 0;
  for (auto count = in.count(kMostUsers); count > 0 && in.is_good(); --count) add(User::load(in));
  const bool is_good = in.is_good() && find(kDefaultNumber) != nullptr && users_.size() == by_number_.size();
  if (!is_good) *this = Users();
  update();
  return is_good;
}

}  // namespace rdmc::kv
