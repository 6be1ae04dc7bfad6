#include "apps/replicated-kv/data/list.hpp"

#include <algorithm>

#include "apps/replicated-kv/data/saved.hpp"

namespace rdmc::kv {

List::~List() {
  for (Packed& chunk : chunks_) chunk.clear(memory());
}

std::unique_ptr<Collection> List::copy() const {
  auto copied = std::make_unique<List>(*shared_);
  copied->chunks_.reserve(chunks_.size() - first_);
  for (std::size_t i = first_; i < chunks_.size(); ++i) copied->chunks_.push_back(chunks_[i].copy(memory()));
  copied->size_ = size_;
  return copied;
}

void List::save(std::vector<std::byte>& out) const {
  put_varint(out, size_);
  for (Place at = begin(); at != end(); at = next(at)) put_bytes(out, this->at(at));
}

bool List::load(VarintReader& in) {
  for (auto count = in.count(); count > 0 && in.is_good(); --count) push(End::back, take_text(in));
  return in.is_good();
}

bool List::has_room(std::size_t chunk, std::string_view bytes) const {
  return chunks_[chunk].bytes() + Packed::bytes_for(bytes.size()) <= kChunkBytes;
}

void List::add_chunk(std::size_t at) {
  if (at == first_ && first_ > 0) {
    --first_;
    return;
  }
  if (at != 0 || chunks_.empty()) {
    chunks_.emplace(chunks_.begin() + static_cast<std::ptrdiff_t>(at));
    return;
  }
  // There is no room at the front. Room for half as many chunks makes the cost of many insertions small.
  const std::size_t room = 1 + chunks_.size() / 2;
  std::vector<Packed> larger(room + chunks_.size());
  std::ranges::move(chunks_, larger.begin() + static_cast<std::ptrdiff_t>(room));
  chunks_ = std::move(larger);
  first_ = room - 1;
}

void List::remove_chunk(std::size_t at) {
  chunks_[at].clear(memory());
  if (at == first_) {
    ++first_;
    // The empty chunks at the front are removed when they are more than half of all.
    if (first_ > 1 && first_ * 2 > chunks_.size()) {
      chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
  } else {
    chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

void List::push(End end, std::string_view bytes) {
  insert(end == End::front ? begin() : this->end(), bytes);
}

std::string List::pop(End end) {
  const Place place = end == End::front ? begin() : previous(this->end());
  std::string bytes(at(place));
  erase(place);
  return bytes;
}

List::Place List::place_of(std::size_t index) const {
  if (index == size_) return end();
  if (index < size_ / 2) {
    std::size_t chunk = first_;
    for (; index >= chunks_[chunk].count(); ++chunk) index -= chunks_[chunk].count();
    return {chunk, chunks_[chunk].offset_of(index)};
  }
  std::size_t chunk = chunks_.size() - 1, after = size_ - index;
  for (; after > chunks_[chunk].count(); --chunk) after -= chunks_[chunk].count();
  return {chunk, chunks_[chunk].offset_of(chunks_[chunk].count() - after)};
}

List::Place List::next(const Place& place) const {
  const std::size_t offset = chunks_[place.chunk].next(place.offset);
  return offset == chunks_[place.chunk].end() ? Place{place.chunk + 1, 0} : Place{place.chunk, offset};
}

List::Place List::previous(const Place& place) const {
  const std::size_t chunk = place.offset == 0 ? place.chunk - 1 : place.chunk;
  return {chunk, chunks_[chunk].previous(place.offset == 0 ? chunks_[chunk].end() : place.offset)};
}

void List::split(const Place& place) {
  add_chunk(place.chunk + 1);
  Packed &from = chunks_[place.chunk], &to = chunks_[place.chunk + 1];
  std::size_t moved = 0;
  for (std::size_t at = place.offset; at < from.end(); at = from.next(at), ++moved)
    to.append(memory(), from.at(at));
  from.erase(memory(), place.offset, moved);
}

void List::insert(const Place& place, std::string_view bytes) {
  ++size_;
  Place at = place;
  if (at.offset == 0 && at.chunk > first_ && (at.chunk == chunks_.size() || !has_room(at.chunk, bytes)))
    at = {at.chunk - 1, chunks_[at.chunk - 1].end()};
  if (at.chunk < chunks_.size() && has_room(at.chunk, bytes))
    return chunks_[at.chunk].insert(memory(), at.offset, bytes);
  if (at.chunk < chunks_.size() && at.offset != 0) {
    if (at.offset != chunks_[at.chunk].end()) split(at);
    ++at.chunk;
  }
  const bool is_front = at.chunk == first_;
  add_chunk(at.chunk);
  chunks_[is_front ? first_ : at.chunk].append(memory(), bytes);
}

void List::replace(const Place& place, std::string_view bytes) {
  const Packed& chunk = chunks_[place.chunk];
  if (chunk.count() == 1 ||
      chunk.bytes() - (chunk.next(place.offset) - place.offset) + Packed::bytes_for(bytes.size()) <=
          kChunkBytes)
    return chunks_[place.chunk].replace(memory(), place.offset, bytes);
  const Place after = erase(place);
  insert(after, bytes);
}

List::Place List::erase(const Place& place, std::size_t count) {
  Place at = place;
  while (count > 0 && at.chunk < chunks_.size()) {
    Packed& chunk = chunks_[at.chunk];
    std::size_t here = 0, end = at.offset;
    for (; here < count && end < chunk.end(); ++here) end = chunk.next(end);
    const bool is_end = end == chunk.end();
    count -= here;
    size_ -= here;
    if (at.offset == 0 && is_end) {
      // The next chunk takes its index, or the chunks begin later, or all of them move to the front.
      const bool was_first = at.chunk == first_;
      remove_chunk(at.chunk);
      if (was_first) at.chunk = first_;
      continue;
    }
    chunk.erase(memory(), at.offset, here);
    if (is_end) at = {at.chunk + 1, 0};
  }
  return at;
}

}  // namespace rdmc::kv
