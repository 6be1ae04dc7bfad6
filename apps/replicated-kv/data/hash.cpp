#include "apps/replicated-kv/data/hash.hpp"

#include <algorithm>

#include "apps/replicated-kv/data/saved.hpp"

namespace rdmc::kv {

std::unique_ptr<Collection> Hash::copy() const {
  auto copied = std::make_unique<Hash>(*shared_);
  if (fields_) copied->grow();
  copied->packed_ = packed_.copy(memory());
  if (fields_) visit([&](const Field& field) { copied->set(field.name, field.value); });
  copied->is_large_ = is_large_;
  return copied;
}

void Hash::save(std::vector<std::byte>& out) const {
  put_varint(out, is_large_);
  put_varint(out, fields_ != nullptr);
  put_varint(out, size());
  visit([&](const Field& field) {
    put_bytes(out, field.name);
    put_bytes(out, field.value);
  });
}

bool Hash::load(VarintReader& in) {
  const bool is_large = in.number(1) != 0;
  if (in.number(1) != 0) grow();
  for (auto count = in.count(); count > 0 && in.is_good(); --count) {
    const std::string_view name = take_text(in), value = take_text(in);
    if (!set(name, value)) return false;
  }
  is_large_ = is_large;
  return in.is_good();
}

std::size_t Hash::offset_of(std::string_view name) const {
  std::size_t at = 0;
  while (at < packed_.end() && packed_.at(at) != name) at = packed_.next(packed_.next(at));
  return at;
}

std::optional<std::string_view> Hash::find(std::string_view name) const {
  if (fields_) {
    const auto* const entry = fields_->find(name);
    return entry == nullptr ? std::nullopt : std::optional<std::string_view>(entry->value);
  }
  const std::size_t at = offset_of(name);
  if (at == packed_.end()) return std::nullopt;
  return packed_.at(packed_.next(at));
}

void Hash::grow() {
  auto fields = std::make_unique<Dictionary<Text>>(memory(), shared_->seed);
  visit([&](const Field& field) { fields->insert(field.name).first->value.assign(memory(), field.value); });
  packed_.clear(memory());
  fields_ = std::move(fields);
}

bool Hash::set(std::string_view name, std::string_view value) {
  const std::size_t longest = std::max(name.size(), value.size());
  if (longest > limits().hash_bytes) is_large_ = true;
  bool is_new = false;
  if (!fields_) {
    const std::size_t at = offset_of(name);
    is_new = at == packed_.end();
    if (longest > kMostPackedBytes || (is_new && size() == kMostPacked)) {
      grow();
    } else if (is_new) {
      packed_.append(memory(), name);
      packed_.append(memory(), value);
    } else {
      packed_.replace(memory(), packed_.next(at), value);
    }
  }
  if (fields_) {
    const auto [entry, was_added] = fields_->insert(name);
    entry->value.assign(memory(), value);
    is_new = was_added;
  }
  if (size() > limits().hash_entries) is_large_ = true;
  return is_new;
}

bool Hash::erase(std::string_view name) {
  if (fields_) {
    auto* const entry = fields_->find(name);
    if (entry != nullptr) fields_->erase(*entry);
    return entry != nullptr;
  }
  const std::size_t at = offset_of(name);
  if (at == packed_.end()) return false;
  packed_.erase(memory(), at, 2);
  return true;
}

Hash::Field Hash::at(std::size_t position) const {
  if (fields_) return {fields_->at(position).key(), fields_->at(position).value};
  const std::size_t at = packed_.offset_of(2 * position);
  return {packed_.at(at), packed_.at(packed_.next(at))};
}

}  // namespace rdmc::kv
