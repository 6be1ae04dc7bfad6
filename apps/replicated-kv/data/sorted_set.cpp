#include "apps/replicated-kv/data/sorted_set.hpp"

#include <string>

#include "apps/replicated-kv/data/saved.hpp"

namespace rdmc::kv {

std::unique_ptr<Collection> SortedSet::copy() const {
  auto copied = std::make_unique<SortedSet>(*shared_);
  if (large_) {
    copied->grow();
    for (std::size_t i = 0; i < size(); ++i) copied->set(at_position(i).name, at_position(i).score);
  } else {
    copied->packed_ = packed_.copy(memory());
  }
  copied->is_large_ = is_large_;
  return copied;
}

/// The members of a large one are saved by position.
void SortedSet::save(std::vector<std::byte>& out) const {
  put_varint(out, is_large_);
  put_varint(out, large_ != nullptr);
  put_varint(out, size());
  const auto put = [&](const Member& member) {
    put_real(out, member.score);
    put_bytes(out, member.name);
  };
  if (large_)
    for (std::size_t i = 0; i < size(); ++i) put(at_position(i));
  else
    visit(0, size(), false, put);
}

bool SortedSet::load(VarintReader& in) {
  const bool is_large = in.number(1) != 0;
  if (in.number(1) != 0) grow();
  for (auto count = in.count(); count > 0 && in.is_good(); --count) {
    const double score = take_real(in);
    const std::string_view name = take_text(in);
    if (!in.is_good() || score != score || !set(name, score)) return false;
  }
  is_large_ = is_large;
  return in.is_good();
}

std::size_t SortedSet::offset_of(std::string_view name) const {
  std::size_t at = 0;
  while (at < packed_.end() && packed_.at(at).substr(sizeof(double)) != name) at = packed_.next(at);
  return at;
}

void SortedSet::insert_packed(std::string_view name, double score) {
  std::size_t at = 0;
  while (at < packed_.end() && is_before(unpack(packed_.at(at)), {score, name})) at = packed_.next(at);
  std::string element(sizeof(double), '\0');
  std::memcpy(element.data(), &score, sizeof(double));
  element += name;
  packed_.insert(memory(), at, element);
}

void SortedSet::grow() {
  auto large = std::make_unique<Large>(memory(), shared_->seed);
  visit(0, size(), false, [&](const Member& member) {
    Entry* const entry = large->members.insert(member.name).first;
    entry->value = member.score;
    large->order.insert({member.score, entry});
  });
  packed_.clear(memory());
  large_ = std::move(large);
}

std::optional<double> SortedSet::score(std::string_view name) const {
  if (large_) {
    const Entry* const entry = large_->members.find(name);
    return entry == nullptr ? std::nullopt : std::optional(entry->value);
  }
  const std::size_t at = offset_of(name);
  if (at == packed_.end()) return std::nullopt;
  return unpack(packed_.at(at)).score;
}

bool SortedSet::set(std::string_view name, double score) {
  if (score == 0) score = 0;  // There is no negative zero here.
  if (name.size() > limits().sorted_set_bytes) is_large_ = true;
  if (!large_) {
    const std::size_t at = offset_of(name);
    if (at != packed_.end()) {
      packed_.erase(memory(), at);
      insert_packed(name, score);
      return false;
    }
    if (size() < kMostPacked && name.size() <= kMostPackedBytes)
      insert_packed(name, score);
    else
      grow();
  }
  bool is_new = true;
  if (large_) {
    const auto [entry, was_added] = large_->members.insert(name);
    is_new = was_added;
    if (!is_new && entry->value == score) return false;
    if (!is_new) large_->order.erase({entry->value, entry});
    entry->value = score;
    large_->order.insert({score, entry});
  }
  if (size() > limits().sorted_set_entries) is_large_ = true;
  return is_new;
}

bool SortedSet::erase(std::string_view name) {
  if (large_) {
    Entry* const entry = large_->members.find(name);
    if (entry == nullptr) return false;
    large_->order.erase({entry->value, entry});
    large_->members.erase(*entry);
    return true;
  }
  const std::size_t at = offset_of(name);
  if (at == packed_.end()) return false;
  packed_.erase(memory(), at);
  return true;
}

std::optional<std::size_t> SortedSet::rank(std::string_view name) const {
  const auto known = score(name);
  if (!known) return std::nullopt;
  return count_before([&](const Member& member) { return is_before(member, {*known, name}); });
}

SortedSet::Member SortedSet::at(std::size_t rank) const {
  return large_ ? member_of(large_->order.at(rank)) : unpack(packed_.at(packed_.offset_of(rank)));
}

}  // namespace rdmc::kv
