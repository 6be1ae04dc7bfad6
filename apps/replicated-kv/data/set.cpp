#include "apps/replicated-kv/data/set.hpp"

#include "apps/replicated-kv/data/saved.hpp"

namespace rdmc::kv {

Set::~Set() {
  integers_.clear(memory());
  packed_.clear(memory());
}

std::size_t Set::size() const {
  switch (form_) {
    case Form::integers: return integers_.size();
    case Form::packed: return packed_.count();
    case Form::dictionary: break;
  }
  return members_->size();
}

std::unique_ptr<Collection> Set::copy() const {
  auto copied = std::make_unique<Set>(*shared_);
  copied->become(form_);
  visit([&](std::string_view member) { return copied->insert(member); });
  copied->is_large_ = is_large_;
  return copied;
}

void Set::save(std::vector<std::byte>& out) const {
  put_varint(out, is_large_);
  put_varint(out, static_cast<std::uint8_t>(form_));
  put_varint(out, size());
  visit([&](std::string_view member) {
    put_bytes(out, member);
    return true;
  });
}

bool Set::load(VarintReader& in) {
  const bool is_large = in.number(1) != 0;
  become(in.number<Form>(static_cast<std::uint64_t>(Form::dictionary)));
  for (auto count = in.count(); count > 0 && in.is_good(); --count)
    if (!insert(take_text(in))) return false;
  is_large_ = is_large;
  return in.is_good();
}

void Set::become(Form form) {
  if (form == form_) return;
  Packed packed;
  auto members =
      form == Form::dictionary ? std::make_unique<Dictionary<Nothing>>(memory(), shared_->seed) : nullptr;
  visit([&](std::string_view member) {
    if (members)
      members->insert(member);
    else
      packed.append(memory(), member);
    return true;
  });
  integers_.clear(memory());
  packed_.clear(memory());
  form_ = form;
  packed_ = std::move(packed);
  members_ = std::move(members);
}

std::size_t Set::offset_of(std::string_view member) const {
  std::size_t at = 0;
  while (at < packed_.end() && packed_.at(at) != member) at = packed_.next(at);
  return at;
}

bool Set::contains(std::string_view member) const {
  switch (form_) {
    case Form::integers: {
      const auto number = to_integer(member);
      return number && integers_.contains(*number);
    }
    case Form::packed: return offset_of(member) != packed_.end();
    case Form::dictionary: break;
  }
  return members_->find(member) != nullptr;
}

bool Set::insert(std::string_view member) {
  const auto number = to_integer(member);
  if (form_ == Form::integers && number) {
    const bool is_new = !integers_.contains(*number);
    if (is_new && size() == kMostIntegers) {
      become(Form::dictionary);
    } else {
      if (is_new) integers_.insert(memory(), *number);
      if (size() > limits().integers) is_large_ = true;
      return is_new;
    }
  }
  if (form_ == Form::packed && offset_of(member) != packed_.end()) return false;
  const bool may_pack = size() < kMostPacked && member.size() <= kMostPackedBytes;
  if (form_ != Form::dictionary) become(may_pack ? Form::packed : Form::dictionary);
  bool is_new = true;
  if (form_ == Form::packed)
    packed_.append(memory(), member);
  else
    is_new = members_->insert(member).second;
  if (!number || size() > limits().integers) is_large_ = true;
  return is_new;
}

bool Set::erase(std::string_view member) {
  switch (form_) {
    case Form::integers: {
      const auto number = to_integer(member);
      return number && integers_.erase(memory(), *number);
    }
    case Form::packed: {
      const std::size_t at = offset_of(member);
      if (at == packed_.end()) return false;
      packed_.erase(memory(), at);
      return true;
    }
    case Form::dictionary: break;
  }
  auto* const entry = members_->find(member);
  if (entry == nullptr) return false;
  members_->erase(*entry);
  return true;
}

std::string_view Set::at(std::size_t position, Digits& digits) const {
  switch (form_) {
    case Form::integers: {
      char* const end =
          std::to_chars(digits.data(), digits.data() + digits.size(), integers_.at(position)).ptr;
      return {digits.data(), end};
    }
    case Form::packed: return packed_.at(packed_.offset_of(position));
    case Form::dictionary: break;
  }
  return members_->at(position).key();
}

}  // namespace rdmc::kv
